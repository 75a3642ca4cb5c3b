/**
 * Shortcuts in the format of the settings (`Control+Shift+Space`), as pressed keys, and for
 * display: symbols on a Mac, words elsewhere.
 */

/** Modifiers in the order of macOS. */
const MODIFIERS = ["Control", "Alt", "Shift", "Super"] as const;
type Modifier = (typeof MODIFIERS)[number];

const ALIASES: Record<string, Modifier> = {
  control: "Control", ctrl: "Control", alt: "Alt", option: "Alt", shift: "Shift",
  super: "Super", cmd: "Super", command: "Super", meta: "Super",
};
const MAC: Record<string, string> = {
  Control: "⌃", Alt: "⌥", Shift: "⇧", Super: "⌘", Space: "Space", Enter: "↩", Tab: "⇥",
  Escape: "⎋", Backspace: "⌫", Delete: "⌦",
};
const WORDS: Record<string, string> = {
  Control: "Ctrl", Escape: "Esc", Delete: "Del",
};
const SIGNS: Record<string, string> = {
  ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Comma: ",", Period: ".",
  Slash: "/", Backslash: "\\", Semicolon: ";", Quote: "'", BracketLeft: "[", BracketRight: "]",
  Minus: "-", Equal: "=", Plus: "+", Backquote: "`",
};
const MODIFIER_CODES = /^(Control|Alt|Shift|Meta|OS)(Left|Right)?$|^(CapsLock|Fn|AltGraph)$/;

/** The relevant part of a key event. */
export interface Pressed {
  code: string;
  ctrlKey: boolean;
  altKey: boolean;
  shiftKey: boolean;
  metaKey: boolean;
}

export function heldModifiers(pressed: Pressed): Modifier[] {
  const held = {
    Control: pressed.ctrlKey, Alt: pressed.altKey, Shift: pressed.shiftKey, Super: pressed.metaKey,
  };
  return MODIFIERS.filter((modifier) => held[modifier]);
}

/** Returns true if only modifiers are pressed so far. */
export function isModifier(code: string): boolean {
  return MODIFIER_CODES.test(code);
}

/**
 * Returns the shortcut in the format of the settings, or why it is not valid: a global shortcut
 * needs a modifier other than Shift, or nobody could type that letter anymore. Function keys need
 * none.
 */
export function shortcutOf(pressed: Pressed): { shortcut: string } | { problem: "no_modifier" } {
  const held = heldModifiers(pressed);
  const key = pressed.code.replace(/^(Key|Digit)/, "");
  const isFunctionKey = /^F([1-9]|1\d|2[0-4])$/.test(key);
  if (!isFunctionKey && held.every((modifier) => modifier === "Shift")) {
    return { problem: "no_modifier" };
  }
  return { shortcut: [...held, key].join("+") };
}

/** Returns the keys of a shortcut for display. An empty shortcut has none. */
export function keysOf(shortcut: string, platform: string): string[] {
  const isMac = platform === "macos";
  const parts = shortcut.split("+").map((part) => part.trim()).filter(Boolean);
  const words = parts.map((part) => {
    const lower = part.toLowerCase();
    if (/^(cmdorctrl|commandorcontrol|mod)/.test(lower)) return isMac ? "Super" : "Control";
    return ALIASES[lower] ?? plainKey(part);
  });
  const place = (word: string) => {
    const found = MODIFIERS.indexOf(word as Modifier);
    return found < 0 ? MODIFIERS.length : found;
  };
  return words
    .sort((a, b) => place(a) - place(b))
    .map((word) => SIGNS[word] ?? (isMac ? MAC[word] : WORDS[word]) ?? word);
}

/** Returns the shortcut as text: `⌥Space`, `Ctrl+Space`. */
export function shortcutText(shortcut: string, platform: string): string {
  const keys = keysOf(shortcut, platform);
  if (platform !== "macos") return keys.join("+");
  return keys.reduce((text, key) => text + (key.length > 1 && text ? " " : "") + key, "");
}

function plainKey(part: string): string {
  const key = part.replace(/^(Key|Digit)(?=.$)/i, "");
  return key.length === 1 ? key.toUpperCase() : key.charAt(0).toUpperCase() + key.slice(1);
}
