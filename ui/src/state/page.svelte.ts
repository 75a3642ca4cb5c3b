/**
 * What is open on the chat page, one of each kind at a time. It is global, so components need not
 * pass it.
 */
import { ipc } from "../ipc";
import { attempt } from "./app.svelte";

class Page {
  /** The address of a clicked link: shown before it is opened. */
  link = $state<string | null>(null);
  /** The history next to or over the chat. */
  isHistoryShown = $state(false);
  /** The sheet with the status and the active limits. */
  isStatusShown = $state(false);
  areShortcutsShown = $state(false);
  /** The page is in an ordinary window, with a title bar, and not in a panel. */
  isInWindow = $state(false);
  /** The window has room for the history next to the chat. */
  isWide = $state(false);

  openSettings(pane: string | null = null): void {
    attempt(ipc.showWindow("settings", null, pane));
  }
}

export const page = new Page();
