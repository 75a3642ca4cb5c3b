/** Key handling of the quick prompt, as a pure function for tests. */
import { isPressed, OFFER_KEY } from "../state/shortcuts";

export type Action =
  | "ask" | "open_chat" | "hide" | "stop" | "selection" | "clipboard" | "remove_attachment" | "remove_route" | "new" | "help"
  | "copy" | "insert" | "replace" | "pin" | "model" | "use_offer" | "older" | "newer" | "next" | "previous" | "complete" | "choose" | "close_list";

/** The state that decides, apart from the key. */
export interface Context {
  isMac: boolean;
  isListOpen: boolean;
  text: string;
  isWriting: boolean;
  hasAttachment: boolean;
  /** A chip shows the route of the question. */
  hasRoute: boolean;
  /** Another model is offered. */
  hasOffer: boolean;
  /** Text is selected, in the input or in the response. */
  hasSelection: boolean;
}

export function actionOf(event: KeyboardEvent, context: Context): Action | null {
  const is = (keys: string) => isPressed(event, keys, context.isMac);
  if (context.isListOpen) {
    if (is("ArrowDown")) return "next";
    if (is("ArrowUp")) return "previous";
    if (is("Tab")) return "complete";
    if (is("Enter")) return "choose";
    if (is("Escape")) return "close_list";
  }
  if (is("Mod+Enter")) return "open_chat";
  if (is("Escape") && context.hasRoute) return "remove_route";
  if (is("Escape") || is("Mod+W")) return "hide";
  if (is("Mod+.")) return "stop";
  if (is("Mod+E")) return "selection";
  if (is("Mod+Shift+V")) return "clipboard";
  if (is("Mod+N")) return "new";
  if (is("Mod+/")) return "help";
  if (is("Mod+I")) return "insert";
  if (is("Mod+R")) return "replace";
  if (is("Mod+Shift+P")) return "pin";
  if (is("Mod+Shift+M")) return "model";
  if (is(OFFER_KEY) && context.hasOffer) return "use_offer";
  // If text is selected, the key copies it as usual.
  if (is("Mod+C") && !context.hasSelection) return "copy";
  // Elsewhere Enter presses the focused button, and arrows scroll.
  if (!(event.target instanceof HTMLTextAreaElement)) return null;
  if (is("Enter")) return context.isWriting ? null : "ask";
  if (is("Backspace") && context.text === "" && context.hasAttachment) return "remove_attachment";
  if (is("ArrowUp") && isAtStart(event.target)) return "older";
  if (is("ArrowDown") && isAtEnd(event.target)) return "newer";
  return null;
}

/** Returns true if text is selected, in the input or on the page. */
export function hasSelection(): boolean {
  const { activeElement } = document;
  const isInField = activeElement instanceof HTMLTextAreaElement &&
    activeElement.selectionStart !== activeElement.selectionEnd;
  return isInField || getSelection()?.isCollapsed === false;
}

function isAtStart(area: HTMLTextAreaElement): boolean {
  return !area.value.slice(0, area.selectionStart).includes("\n");
}

function isAtEnd(area: HTMLTextAreaElement): boolean {
  return !area.value.slice(area.selectionEnd).includes("\n");
}
