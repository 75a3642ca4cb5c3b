import { describe, expect, it } from "vitest";
import type { Patch, Settings } from "../ipc";
import { settings } from "../ipc/fake/defaults";
import { choicesFor, hasChoices, joined, merged } from "./patch";

describe("a patch", () => {
  it("changes only what it contains", () => {
    const before = settings();
    const after = merged(before, { general: { pin_chat: true } });
    expect(after.general).toEqual({ ...before.general, pin_chat: true });
    expect(after.behavior).toEqual(before.behavior);
    expect(before.general.pin_chat).toBe(false);
  });

  it("replaces whole lists", () => {
    const after = merged(settings(), { prompts: [{ name: "a", text: "b" }] });
    expect(after.prompts).toEqual([{ name: "a", text: "b" }]);
  });

  it("combined with a later one has the effect of both, in order", () => {
    const first: Patch<Settings> = { general: { pin_chat: true }, behavior: { keep_loaded: true } };
    const both = joined(first, { general: { pin_chat: false, language: "de" } });
    expect(both).toEqual({
      general: { pin_chat: false, language: "de" }, behavior: { keep_loaded: true },
    });
  });

  it("keeps null for the app", () => {
    expect(joined<Settings>({ models: { a: { seed: 3 } } }, { models: { a: null } }))
      .toEqual({ models: { a: null } });
  });
});

describe("the settings of a model", () => {
  it("are complete although settings contain only a part of them", () => {
    const chosen = merged(settings(), { models: { m: { top_k: 5 } } });
    expect(choicesFor(chosen, "m")).toMatchObject({ top_k: 5, kv_cache: "automatic", seed: null });
    expect(hasChoices(choicesFor(chosen, "m"))).toBe(true);
    expect(hasChoices(choicesFor(chosen, "other"))).toBe(false);
  });
});
