import { afterEach, describe, expect, it, vi } from "vitest";
import { Composer, isLongPaste, LONG_PASTE_CHARS } from "./composer.svelte";
import { called, expand, fill, matching, unknownCall } from "./prompts.svelte";
import { isPressed } from "./shortcuts";

function storage() {
  const kept = new Map<string, string>();
  return {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  };
}

function page(text: string, name: string | null = null) {
  return { name, text };
}

afterEach(() => void vi.useRealTimers());

describe("drafts", () => {
  it("belong to their conversation and survive the page", () => {
    const disk = storage();
    const composer = new Composer(disk);
    composer.text = "for nobody yet";
    composer.switchTo(7);
    expect(composer.text).toBe("");
    composer.text = "for seven";
    composer.attach(page("a page"));
    composer.save();
    const again = new Composer(disk);
    expect(again.text).toBe("for nobody yet");
    again.switchTo(7);
    expect([again.text, again.attachments]).toEqual(["for seven", [page("a page")]]);
  });

  it("of a temporary chat are never stored, and are gone when it is left", () => {
    const disk = storage();
    const composer = new Composer(disk);
    composer.switchTo(null, true);
    composer.text = "secret";
    composer.attach(page("a secret page"));
    expect(disk.getItem("transom.drafts")).not.toContain("secret");
    composer.switchTo(7);
    expect(composer.text).toBe("");
    composer.switchTo(null, true);
    expect([composer.text, composer.attachments]).toEqual(["", []]);
    expect(disk.getItem("transom.drafts")).not.toContain("secret");
  });

  it("are deleted with their conversation", () => {
    const disk = storage();
    const composer = new Composer(disk);
    composer.switchTo(7);
    composer.text = "secret";
    composer.attach(page("a secret page"));
    composer.switchTo(null);
    composer.forget(7);
    expect(disk.getItem("transom.drafts")).not.toContain("secret");
  });

  it("are deleted with a conversation that is shown, or whose message is being sent", () => {
    const disk = storage();
    const composer = new Composer(disk);
    composer.switchTo(7);
    composer.text = "secret";
    composer.save();
    composer.forget(7);
    composer.switchTo(null);
    expect([composer.text, disk.getItem("transom.drafts")]).toEqual(["", "[]"]);
    composer.switchTo(8);
    composer.text = "secret";
    composer.take();
    composer.forget(8);
    composer.sent(false);
    composer.switchTo(null);
    expect([composer.text, disk.getItem("transom.drafts")]).toEqual(["", "[]"]);
  });

  it("are deleted with the history, including the current one", () => {
    const disk = storage();
    const composer = new Composer(disk);
    composer.text = "secret";
    composer.switchTo(7);
    composer.attach(page("a secret page"));
    composer.take();
    composer.text = "more secret";
    composer.forgetAll();
    composer.sent(false);
    composer.switchTo(null);
    expect([composer.text, composer.attachments, disk.getItem("transom.drafts")]).toEqual(["", [], "[]"]);
  });

  it("return to their conversation when they are refused", () => {
    const composer = new Composer(storage());
    composer.switchTo(7);
    composer.text = "for seven";
    composer.take();
    composer.switchTo(8);
    composer.text = "for eight";
    composer.sent(false);
    expect(composer.text).toBe("for eight");
    composer.switchTo(7);
    expect(composer.text).toBe("for seven");
    composer.take();
    composer.text = "typed meanwhile";
    composer.sent(false);
    expect(composer.text).toBe("for seven\n\ntyped meanwhile");
  });

  it("of a sent question do not stay with the next new chat", () => {
    const composer = new Composer(storage());
    composer.text = "Hello?";
    composer.save();
    composer.take();
    composer.assignDraft(7);
    composer.sent(true);
    composer.switchTo(null);
    expect(composer.text).toBe("");
  });

  it("keep the text if there is no space for the attachment", () => {
    const disk = storage();
    const small = { ...disk, setItem(key: string, value: string) {
      if (value.length > 200) throw new DOMException("full", "QuotaExceededError");
      disk.setItem(key, value);
    } };
    const composer = new Composer(small);
    composer.text = "Sum it up";
    composer.attach(page("page ".repeat(100)));
    expect(disk.getItem("transom.drafts")).toContain("Sum it up");
    composer.switchTo(7);
    composer.attach(page("a short one"));
    expect(disk.getItem("transom.drafts")).toContain("a short one");
    expect(composer.attachments).toEqual([page("a short one")]);
  });

  it("get their documents when they are read, also while another draft is shown", () => {
    const disk = storage();
    const composer = new Composer(disk);
    composer.switchTo(7);
    composer.attach(page("first"));
    composer.handleDocument(1, { state: "reading", name: "a.pdf" });
    expect(composer.files.map((file) => file.name)).toEqual(["a.pdf"]);
    composer.switchTo(8);
    expect(composer.files).toEqual([]);
    composer.handleDocument(1, { state: "read", attached: page("second", "a.pdf") });
    expect(composer.attachments).toEqual([]);
    composer.switchTo(7);
    expect(composer.attachments).toEqual([page("first"), page("second", "a.pdf")]);
    composer.detach(composer.attachments[0]!);
    composer.switchTo(8);
    expect(disk.getItem("transom.drafts")).toContain("second");
    expect(disk.getItem("transom.drafts")).not.toContain("first");
  });

  it("get documents that were read while the chat moved to another page", () => {
    const disk = storage();
    const composer = new Composer(disk);
    composer.switchTo(7);
    for (const file of [1, 2]) composer.handleDocument(file, { state: "reading", name: `${file}.pdf` });
    composer.dismissFile(2);
    composer.switchTo(null, true);
    composer.handleDocument(3, { state: "reading", name: "secret.pdf" });
    expect(disk.getItem("transom.reading")).not.toContain("secret");
    const next = new Composer(disk);
    for (const file of [1, 2, 3]) {
      next.handleDocument(file, { state: "read", attached: page("late", `${file}.pdf`) });
    }
    expect(next.attachments).toEqual([]);
    next.switchTo(7);
    expect(next.attachments).toEqual([page("late", "1.pdf")]);
    expect(disk.getItem("transom.reading")).toBe("[]");
  });

  it("do not wait for documents that an earlier app was reading", () => {
    vi.useFakeTimers();
    const disk = storage();
    new Composer(disk).handleDocument(1, { state: "reading", name: "a.pdf" });
    expect(new Composer(disk).files).toHaveLength(1);
    vi.setSystemTime(Date.now() + 120_000);
    expect(new Composer(disk).files).toEqual([]);
  });

  it("keep documents that were chosen while the first question was sent", () => {
    const composer = new Composer(storage());
    composer.text = "Hello?";
    composer.take();
    composer.handleDocument(1, { state: "reading", name: "a.pdf" });
    composer.assignDraft(7);
    composer.sent(true);
    composer.handleDocument(1, { state: "read", attached: page("late", "a.pdf") });
    expect(composer.attachments).toEqual([page("late", "a.pdf")]);
  });

  it("keep the reason why a document can’t be attached, until it is dismissed or the rest is sent", () => {
    const composer = new Composer(storage());
    for (const file of [1, 2]) composer.handleDocument(file, { state: "reading", name: `${file}.pdf` });
    composer.handleDocument(1, { state: "failed", problem: { kind: "encrypted" } });
    expect(composer.files.map((file) => file.problem?.kind)).toEqual(["encrypted", undefined]);
    composer.dismissFile(2);
    composer.handleDocument(2, { state: "read", attached: page("removed while it was read") });
    expect(composer.attachments).toEqual([]);
    composer.text = "Without it";
    composer.take();
    expect(composer.files).toEqual([]);
  });

  it("do not get documents of a temporary chat that was left, or of a deleted one", () => {
    const composer = new Composer(storage());
    composer.switchTo(null, true);
    composer.handleDocument(1, { state: "reading", name: "secret.pdf" });
    composer.switchTo(7);
    composer.handleDocument(2, { state: "reading", name: "more.pdf" });
    composer.forget(7);
    for (const file of [1, 2]) {
      composer.handleDocument(file, { state: "read", attached: page("secret", "secret.pdf") });
    }
    expect(composer.attachments).toEqual([]);
    composer.switchTo(null, true);
    expect([composer.attachments, composer.files]).toEqual([[], []]);
  });

  it("that are unreadable count as empty", () => {
    for (const text of ["{", "{}"]) {
      const composer = new Composer({ getItem: () => text, setItem() {} });
      expect([composer.text, composer.files]).toEqual(["", []]);
    }
  });
});

describe("a pasted text", () => {
  it("becomes an attachment if it is long", () => {
    expect(isLongPaste("short")).toBe(false);
    expect(isLongPaste("x".repeat(LONG_PASTE_CHARS + 1))).toBe(true);
    expect(isLongPaste("line\n".repeat(40))).toBe(true);
    expect(isLongPaste("\n".repeat(40))).toBe(false);
  });
});

describe("saved prompts", () => {
  const all = [{ name: "fix", text: "Fix:\n{text}" }, { name: "plan", text: "Make a plan." }];

  it("are suggested by the letters after the slash", () => {
    expect(matching("/f", all)?.map((prompt) => prompt.name)).toEqual(["fix"]);
    expect(matching("/", all)).toHaveLength(2);
    expect(matching("half / half", all)).toBeNull();
    expect(matching("/fix me", all)).toBeNull();
  });

  it("use the text after their name", () => {
    expect(expand("/fix teh cat", all)).toBe("Fix:\nteh cat");
    expect(expand("/plan a party", all)).toBe("Make a plan.\n\na party");
    expect(expand("/etc/hosts", all)).toBeNull();
    expect(fill(all[1]!, "")).toBe("Make a plan.");
  });

  it("insert text unchanged, including dollar signs", () => {
    const text = "$$5$$ and $& and $` and $'";
    expect(fill(all[0]!, text)).toBe(`Fix:\n${text}`);
  });

  it("are found in British and in American spelling", () => {
    const prompts = [{ name: "summarize", text: "Sum up: {text}" }, { name: "organise", text: "Sort: {text}" }];
    for (const line of ["/summarise", "/summarize", "/Summarise", "/organize", "/organise"]) {
      expect(called(line, prompts), line).not.toBeNull();
      expect(matching(line, prompts), line).toHaveLength(1);
    }
    expect(expand("/summarise this", prompts)).toBe("Sum up: this");
  });

  it("that do not exist are distinguished from paths and texts", () => {
    expect(unknownCall("/sumary this", all)).toBe("sumary");
    expect(unknownCall("/sumary", all)).toBe("sumary");
    for (const text of ["/fix this", "/etc/hosts is empty", "either/or", "/", "a /sumary"]) {
      expect(unknownCall(text, all), text).toBeNull();
    }
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
