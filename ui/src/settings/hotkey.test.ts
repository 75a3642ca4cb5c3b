import { describe, expect, it } from "vitest";
import { keysOf, shortcutOf, shortcutText, type Pressed } from "./hotkey";

function pressed(code: string, ...held: ("ctrl" | "alt" | "shift" | "meta")[]): Pressed {
  return {
    code, ctrlKey: held.includes("ctrl"), altKey: held.includes("alt"),
    shiftKey: held.includes("shift"), metaKey: held.includes("meta"),
  };
}

describe("a shortcut", () => {
  it("is stored by key code, so that it is the same on every keyboard", () => {
    expect(shortcutOf(pressed("Space", "alt"))).toEqual({ shortcut: "Alt+Space" });
    expect(shortcutOf(pressed("KeyK", "ctrl", "shift"))).toEqual({ shortcut: "Control+Shift+K" });
    expect(shortcutOf(pressed("Digit1", "meta"))).toEqual({ shortcut: "Super+1" });
    expect(shortcutOf(pressed("F5"))).toEqual({ shortcut: "F5" });
  });

  it("needs a modifier other than Shift", () => {
    expect(shortcutOf(pressed("KeyK"))).toEqual({ problem: "no_modifier" });
    expect(shortcutOf(pressed("KeyK", "shift"))).toEqual({ problem: "no_modifier" });
  });

  it("is shown with symbols on a Mac, in the order of macOS", () => {
    expect(shortcutText("Super+Shift+Alt+Control+K", "macos")).toBe("⌃⌥⇧⌘K");
    expect(shortcutText("Alt+Space", "macos")).toBe("⌥ Space");
    expect(keysOf("Mod+Enter", "macos")).toEqual(["⌘", "↩"]);
  });

  it("is shown with words elsewhere", () => {
    expect(shortcutText("Control+Space", "linux")).toBe("Ctrl+Space");
    expect(keysOf("Mod+Enter", "linux")).toEqual(["Ctrl", "Enter"]);
    expect(keysOf("ctrl+alt+keyt", "linux")).toEqual(["Ctrl", "Alt", "T"]);
  });

  it("without keys is empty", () => {
    expect(keysOf("", "macos")).toEqual([]);
  });
});
