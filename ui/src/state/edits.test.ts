import { describe, expect, it } from "vitest";
import { Edits } from "./edits";

const KEY = "transom.edits";

function storage() {
  const kept = new Map<string, string>();
  return {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  };
}

describe("unsaved changes of messages", () => {
  it("survive the page, one per conversation", () => {
    const disk = storage();
    const edits = new Edits(disk);
    edits.keep(7, { message: 70, text: "first" });
    edits.keep(7, { message: 71, text: "second" });
    edits.keep(8, { message: 80, text: "other" });
    const again = new Edits(disk);
    expect(again.of(7)).toEqual({ message: 71, text: "second" });
    expect(again.of(8)).toEqual({ message: 80, text: "other" });
    expect(again.of(9)).toBeUndefined();
  });

  it("are deleted with their conversation, and put back with it", () => {
    const disk = storage();
    const edits = new Edits(disk);
    edits.keep(7, { message: 70, text: "secret" });
    const edit = edits.forget(7)!;
    expect(disk.getItem(KEY)).toBe("[]");
    edits.keep(7, edit);
    expect(edits.of(7)?.text).toBe("secret");
    edits.forgetAll();
    expect(disk.getItem(KEY)).toBe("[]");
  });

  it("of a temporary chat are never stored", () => {
    const disk = storage();
    new Edits(disk).keep(2 ** 50, { message: 2 ** 50, text: "secret" });
    expect(disk.getItem(KEY)).toBeNull();
  });

  it("that can't be read count as none", () => {
    expect(new Edits({ getItem: () => "{", setItem: () => {} }).of(7)).toBeUndefined();
  });
});
