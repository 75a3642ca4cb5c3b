/** The shortcuts of the chat, for the page and for the sheet that lists them. */
import type { Key } from "../i18n";

/** Takes the model that is offered for a message. */
export const OFFER_KEY = "Mod+U";

export interface Shortcut {
  /** `Mod` is Command on a Mac, Control elsewhere. Any of several shortcuts works. */
  keys: string[];
  does: Key;
  /** From the first to the last of its keys. */
  isRange?: boolean;
}

export const chatShortcuts: Shortcut[] = [
  { keys: ["Mod+N"], does: "chat.shortcut.new" },
  { keys: ["Mod+Shift+N"], does: "chat.temporary.new" },
  { keys: ["Enter"], does: "chat.shortcut.send" },
  { keys: ["Shift+Enter"], does: "chat.shortcut.newline" },
  { keys: ["Mod+."], does: "chat.shortcut.stop" },
  { keys: ["ArrowUp"], does: "chat.shortcut.edit_last" },
  { keys: ["Mod+R"], does: "chat.shortcut.regenerate" },
  { keys: ["Mod+Shift+C"], does: "chat.shortcut.copy_answer" },
  { keys: ["Mod+P"], does: "chat.shortcut.print" },
  { keys: ["/"], does: "chat.shortcut.prompts" },
  { keys: ["Mod+Shift+M"], does: "chat.shortcut.model" },
  { keys: [OFFER_KEY], does: "chat.shortcut.offer" },
  { keys: ["Mod+Shift+S"], does: "chat.shortcut.history" },
  { keys: ["Mod+F"], does: "chat.shortcut.find" },
  { keys: ["Mod+G", "Mod+Shift+G"], does: "chat.shortcut.find_next" },
  { keys: ["Mod+Shift+F"], does: "chat.shortcut.search" },
  { keys: ["Mod+["], does: "chat.shortcut.previous" },
  { keys: ["Mod+]"], does: "chat.shortcut.next" },
  { keys: ["Mod+End"], does: "chat.shortcut.latest" },
  { keys: ["Mod+Shift+P"], does: "chat.shortcut.pin" },
  { keys: ["Mod+Shift+O"], does: "chat.shortcut.window" },
  { keys: ["Mod+,"], does: "chat.shortcut.settings" },
  { keys: ["Mod+/"], does: "chat.shortcut.help" },
  { keys: ["Escape", "Mod+W"], does: "chat.shortcut.close" },
];

/** Returns a press of `keys`, for an item of the menu bar that does the same. */
export function pressOf(keys: string, isMac: boolean): KeyboardEvent {
  const parts = keys.split("+");
  const isMod = parts.includes("Mod");
  return new KeyboardEvent("keydown", {
    key: parts.at(-1) ?? "", metaKey: isMod && isMac, ctrlKey: isMod && !isMac,
    shiftKey: parts.includes("Shift"), bubbles: true, cancelable: true,
  });
}

/** Returns true if a key press is `keys`, such as `Mod+Shift+S` or `Mod+Plus`. */
export function isPressed(event: KeyboardEvent, keys: string, isMac: boolean): boolean {
  const parts = keys.split("+");
  const name = parts.pop() ?? "";
  const key = name === "Plus" ? "+" : name;
  const wants = (name: string) => parts.includes(name);
  const isMod = isMac ? event.metaKey : event.ctrlKey;
  const isOther = isMac ? event.ctrlKey : event.metaKey;
  // These need Shift on some keyboards.
  const isShiftRight = key === "/" || key === "+" || event.shiftKey === wants("Shift");
  return isMod === wants("Mod") && !isOther && !event.altKey && isShiftRight &&
    event.key.toLowerCase() === key.toLowerCase();
}
