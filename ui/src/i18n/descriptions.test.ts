/** Checks that the descriptions of the built-in catalog are translated, and how they are chosen. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { entries } from "../ipc/fake/catalog";
import { chooseLanguage, LANGUAGES, modelDescription, type Language } from ".";

const catalog = readFileSync(join(import.meta.dirname, "../../../models.toml"), "utf8");
const english = [...catalog.matchAll(/^description = (".*")$/gm)].map((line) => JSON.parse(line[1]!) as string);
const models = catalog.match(/^\[\[model\]\]$/gm) ?? [];
const others = Object.keys(LANGUAGES).filter((language) => language !== "en") as Language[];
const files = import.meta.glob<Record<string, string>>("./*/descriptions.json", {
  eager: true, import: "default",
});

beforeEach(() => chooseLanguage("en"));

it("finds the description of every model", () => {
  expect(models.length).toBeGreaterThan(0);
  expect(english.length).toBe(models.length);
});

it("finds the descriptions of the gallery in the catalog", () => {
  expect(entries().map((entry) => entry.description).filter((text) => !english.includes(text))).toEqual([]);
});

describe.each(others)("%s", (language) => {
  const translations = files[`./${language}/descriptions.json`] ?? {};

  it("translates every description, and no other text", () => {
    expect(Object.keys(translations).sort()).toEqual([...english].sort());
  });

  it("has a text of its own for each", () => {
    const texts = Object.values(translations);
    expect(new Set(texts).size).toBe(texts.length);
    expect(texts.filter((text) => text.trim() === "" || english.includes(text))).toEqual([]);
  });

  it("says the same memory sizes", () => {
    const sizes = (text: string) => [...text.matchAll(/(\d+)\s(?:GB|Go)/g)].map((found) => found[1]);
    for (const [key, text] of Object.entries(translations)) {
      for (const size of sizes(key)) expect(sizes(text), text).toContain(size);
    }
  });
});

describe("a description", () => {
  const first = english[0]!;

  it("is English until its translation is loaded, and follows the language", async () => {
    expect(modelDescription(first)).toEqual({ text: first, lang: "en" });
    for (const language of others) {
      chooseLanguage(language);
      modelDescription(first);
      await vi.waitFor(() => expect(modelDescription(first)).toEqual({
        text: files[`./${language}/descriptions.json`]![first], lang: language }));
    }
    chooseLanguage("en");
    expect(modelDescription(first)).toEqual({ text: first, lang: "en" });
  });

  it("without a translation stays English", async () => {
    chooseLanguage("de");
    await vi.waitFor(() => expect(modelDescription(first).lang).toBe("de"));
    for (const text of [`${first} Changed.`, "", "constructor"]) {
      expect(modelDescription(text)).toEqual({ text, lang: "en" });
    }
  });
});
