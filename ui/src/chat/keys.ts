/** The shortcuts of the chat window. Fields and lists handle their own keys. */
import { ipc } from "../ipc";
import { app, attempt } from "../state/app.svelte";
import { copyText } from "../state/clipboard.svelte";
import { find } from "../state/find.svelte";
import { page } from "../state/page.svelte";
import { printing } from "../state/printing.svelte";
import { isPressed } from "../state/shortcuts";
import { transcript } from "../state/transcript.svelte";

export interface ChatActions {
  begin: () => void;
  beginTemporary: () => void;
  neighbor: (by: number) => void;
  focus: () => void;
}

export function chatKeys(actions: ChatActions): (event: KeyboardEvent) => void {
  const table: [string, () => void][] = [
    ["Mod+N", actions.begin],
    ["Mod+Shift+N", actions.beginTemporary],
    ["Mod+.", () => void transcript.stop()],
    ["Mod+R", regenerate],
    ["Mod+Shift+C", copyAnswer],
    ["Mod+P", print],
    ["Mod+Shift+S", toggleHistory],
    ["Mod+F", openFind],
    ["Mod+G", () => findNext(1)],
    ["Mod+Shift+G", () => findNext(-1)],
    ["Mod+Shift+F", search],
    ["Mod+[", () => actions.neighbor(-1)],
    ["Mod+]", () => actions.neighbor(1)],
    ["Mod+End", () => (transcript.jumps += 1)],
    ["Mod+Shift+M", openModelMenu],
    ["Mod+Shift+P", pin],
    ["Mod+Shift+O", changeForm],
    ["Mod+,", () => page.openSettings()],
    ["Mod+/", () => (page.areShortcutsShown = true)],
    ["Mod+W", () => void ipc.hideWindow()],
  ];

  function toggleHistory() {
    page.isHistoryShown = !page.isHistoryShown;
    if (page.isHistoryShown) search();
    else actions.focus();
  }

  /**
   * Esc closes things and does not stop a response, as in the quick prompt. An ordinary window stays
   * open.
   */
  function escape() {
    if (page.isHistoryShown && !page.isWide) toggleHistory();
    else if (find.isShown && transcript.heads.length > 0) closeFind();
    else if (!page.isInWindow) void ipc.hideWindow();
  }

  function closeFind() {
    find.close();
    actions.focus();
  }

  return (event) => {
    if (event.isComposing || event.defaultPrevented) return;
    const found = table.find(([keys]) => isPressed(event, keys, app.isMac));
    if (found) found[1]();
    else if (event.key === "Escape") escape();
    else return;
    event.preventDefault();
  };
}

/** Opens the menu with the model of the chat, at the composer. */
export function openModelMenu(): void {
  document.querySelector<HTMLElement>("[data-model-menu]")?.click();
}

/** Opens the panel with the settings of the chat. */
export function openChatSettings(): void {
  document.querySelector<HTMLElement>("[data-chat-settings] button")?.click();
}

/** Chooses an ordinary window for the chat, or the popover. The app then asks the page to move. */
export function changeForm(): void {
  attempt(ipc.updateSettings({ general: { chat_in_window: !page.isInWindow } }));
}

function lastAnswer() {
  const last = transcript.heads.findLast((head) => head.speaker === "assistant");
  return last && (transcript.views.get(last.id) ?? transcript.answers.get(last.id)?.message ?? null);
}

function regenerate() {
  const last = transcript.heads.at(-1);
  if (last?.speaker === "assistant" && !transcript.writing) void transcript.regenerate(last.id);
}

function copyAnswer() {
  const answer = lastAnswer();
  if (answer?.text) void copyText(answer.text);
}

function print() {
  if (transcript.conversation) attempt(printing.start(transcript.conversation.id));
}

/** There is nothing to find in an empty chat, so its key searches all of them. */
function openFind() {
  if (transcript.heads.length === 0) return search();
  find.isShown = true;
  setTimeout(() => {
    const field = document.querySelector<HTMLInputElement>("[data-find]");
    field?.focus();
    field?.select();
  });
}

function findNext(by: number) {
  if (find.isShown) find.go(by);
  else openFind();
}

function search() {
  page.isHistoryShown = true;
  setTimeout(() => document.querySelector<HTMLInputElement>("[data-search]")?.select());
}

function pin() {
  const isPinned = app.settings?.general.pin_chat ?? false;
  attempt(ipc.updateSettings({ general: { pin_chat: !isPinned } }));
}
