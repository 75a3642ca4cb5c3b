import { describe, expect, it } from "vitest";
import { Composer, isLongPaste, LONG_PASTE_CHARS } from "./composer.svelte";
import { expand, fill, matching } from "./prompts.svelte";
import { isPressed } from "./shortcuts";

function storage() {
  const kept = new Map<string, string>();
  return {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  };
}

describe("drafts", () => {
  it("stay with their conversation and outlive the page", () => {
    const disk = storage();
    const composer = new Composer(disk);
    composer.text = "for nobody yet";
    composer.switchTo(7);
    expect(composer.text).toBe("");
    composer.text = "for seven";
    composer.attach("a page");
    composer.keep();
    const again = new Composer(disk);
    expect(again.text).toBe("for nobody yet");
    again.switchTo(7);
    expect([again.text, again.attachment]).toEqual(["for seven", "a page"]);
  });

  it("go with a conversation that is deleted", () => {
    const disk = storage();
    const composer = new Composer(disk);
    composer.switchTo(7);
    composer.text = "secret";
    composer.switchTo(null);
    composer.forget(7);
    expect(disk.getItem("transom.drafts")).not.toContain("secret");
  });

  it("that cannot be read are none", () => {
    expect(new Composer({ getItem: () => "{", setItem() {} }).text).toBe("");
  });
});

describe("a pasted text", () => {
  it("is put beside the message when it is long", () => {
    expect(isLongPaste("short")).toBe(false);
    expect(isLongPaste("x".repeat(LONG_PASTE_CHARS + 1))).toBe(true);
    expect(isLongPaste("line\n".repeat(40))).toBe(true);
  });
});

describe("saved prompts", () => {
  const all = [{ name: "fix", text: "Fix:\n{text}" }, { name: "plan", text: "Make a plan." }];

  it("are offered by the letters after the slash", () => {
    expect(matching("/f", all)?.map((prompt) => prompt.name)).toEqual(["fix"]);
    expect(matching("/", all)).toHaveLength(2);
    expect(matching("half / half", all)).toBeNull();
    expect(matching("/fix me", all)).toBeNull();
  });

  it("take what follows their name", () => {
    expect(expand("/fix teh cat", all)).toBe("Fix:\nteh cat");
    expect(expand("/plan a party", all)).toBe("Make a plan.\n\na party");
    expect(expand("/etc/hosts", all)).toBeNull();
    expect(fill(all[1]!, "")).toBe("Make a plan.");
  });
});

describe("a shortcut", () => {
  const press = (key: string, more: KeyboardEventInit = {}) => new KeyboardEvent("keydown", { key, ...more });

  it("is Command on a Mac and Control elsewhere", () => {
    expect(isPressed(press("n", { metaKey: true }), "Mod+N", true)).toBe(true);
    expect(isPressed(press("n", { ctrlKey: true }), "Mod+N", true)).toBe(false);
    expect(isPressed(press("n", { ctrlKey: true }), "Mod+N", false)).toBe(true);
    expect(isPressed(press("N", { ctrlKey: true, shiftKey: true }), "Mod+N", false)).toBe(false);
  });
});
