/** What of the chat page is open: one thing of each kind at a time, so components need not pass it. */
import { ipc } from "../ipc";
import { attempt } from "./app.svelte";

class Page {
  /** An address that was clicked: it is shown before it is opened. */
  link = $state<string | null>(null);
  /** The history beside or over the chat. */
  isHistoryShown = $state(false);
  /** The sheet that says what is done now, and why less. */
  isStatusShown = $state(false);
  /** The list of keys. */
  areShortcutsShown = $state(false);
  /** The window has room for the history beside the chat. */
  isWide = $state(false);

  openSettings(pane: string | null = null): void {
    attempt(ipc.showWindow("settings", null, pane));
  }
}

export const page = new Page();
