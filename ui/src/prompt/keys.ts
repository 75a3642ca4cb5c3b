/** What a key does in the quick prompt. Decided here as a plain function, so that it is tested as one. */
import { isPressed } from "../state/shortcuts";

export type Action =
  | "ask" | "hand_off" | "hide" | "stop" | "selection" | "clipboard" | "drop" | "fresh" | "help"
  | "older" | "newer" | "next" | "previous" | "complete" | "choose" | "close_list";

/** What decides, beside the key. */
export interface Here {
  isMac: boolean;
  /** The list of reusable prompts is open. */
  isListOpen: boolean;
  text: string;
  isWriting: boolean;
  hasTaken: boolean;
}

export function actionOf(event: KeyboardEvent, here: Here): Action | null {
  const is = (keys: string) => isPressed(event, keys, here.isMac);
  if (here.isListOpen) {
    if (is("ArrowDown")) return "next";
    if (is("ArrowUp")) return "previous";
    if (is("Tab")) return "complete";
    if (is("Enter")) return "choose";
    if (is("Escape")) return "close_list";
  }
  if (is("Mod+Enter")) return "hand_off";
  if (is("Escape") || is("Mod+W")) return "hide";
  if (is("Mod+.")) return "stop";
  if (is("Mod+E")) return "selection";
  if (is("Mod+Shift+V")) return "clipboard";
  if (is("Mod+N")) return "fresh";
  // Elsewhere Enter presses the button that has the focus, and arrows scroll.
  if (!(event.target instanceof HTMLTextAreaElement)) return isHelp(event, here) ? "help" : null;
  if (is("Enter")) return here.isWriting ? null : "ask";
  if (is("Backspace") && here.text === "" && here.hasTaken) return "drop";
  if (is("ArrowUp") && isAtStart(event.target)) return "older";
  if (is("ArrowDown") && isAtEnd(event.target)) return "newer";
  return isHelp(event, here) ? "help" : null;
}

/** In an empty line "?" asks for help; in any other it is a question mark. */
function isHelp(event: KeyboardEvent, here: Here): boolean {
  return here.text === "" && isPressed(event, "?", here.isMac);
}

function isAtStart(area: HTMLTextAreaElement): boolean {
  return !area.value.slice(0, area.selectionStart).includes("\n");
}

function isAtEnd(area: HTMLTextAreaElement): boolean {
  return !area.value.slice(area.selectionEnd).includes("\n");
}
