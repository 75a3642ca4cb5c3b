/** The shortcuts of the chat, for the page and for the sheet that lists them. */
import type { Key } from "../i18n";

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
  { keys: ["/"], does: "chat.shortcut.prompts" },
  { keys: ["Mod+Shift+M"], does: "chat.shortcut.model" },
  { keys: ["Mod+Shift+S"], does: "chat.shortcut.history" },
  { keys: ["Mod+F"], does: "chat.shortcut.search" },
  { keys: ["Mod+["], does: "chat.shortcut.previous" },
  { keys: ["Mod+]"], does: "chat.shortcut.next" },
  { keys: ["Mod+End"], does: "chat.shortcut.latest" },
  { keys: ["Mod+Shift+P"], does: "chat.shortcut.pin" },
  { keys: ["Mod+,"], does: "chat.shortcut.settings" },
  { keys: ["Mod+/"], does: "chat.shortcut.help" },
  { keys: ["Escape", "Mod+W"], does: "chat.shortcut.close" },
];

/** Returns true if a key press is `keys`, such as `Mod+Shift+S`. */
export function isPressed(event: KeyboardEvent, keys: string, isMac: boolean): boolean {
  const parts = keys.split("+");
  const key = parts.pop() || "+";
  const wants = (name: string) => parts.includes(name);
  const isMod = isMac ? event.metaKey : event.ctrlKey;
  const isOther = isMac ? event.ctrlKey : event.metaKey;
  // "/" needs Shift on some keyboards.
  const isShiftRight = key === "/" || event.shiftKey === wants("Shift");
  return isMod === wants("Mod") && !isOther && !event.altKey && isShiftRight &&
    event.key.toLowerCase() === key.toLowerCase();
}
