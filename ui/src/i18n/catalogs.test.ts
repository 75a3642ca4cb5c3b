/**
 * Checks that pages use every text, that every language has it with the same placeholders, and that
 * none is accidentally English.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { AREAS, catalog, LANGUAGES, type Area, type Entry, type Language } from "./catalogs";
import same from "./same-as-english.json";

const others = Object.keys(LANGUAGES).filter((language) => language !== "en") as Language[];

function texts(entry: Entry): string[] {
  return typeof entry === "string" ? [entry] : Object.values(entry);
}

function places(text: string): string[] {
  return [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]!);
}

/** Placeholders in any of an entry's texts; a singular may omit its number. */
function allPlaces(entry: Entry): string[] {
  return [...new Set(texts(entry).flatMap(places))].sort();
}

/** Texts that are the same in all languages: names, symbols, placeholders. */
function isMark(text: string): boolean {
  return !/\p{L}{2,}/u.test(text.replace(/\{\w+\}|Transom/g, ""));
}

const folder = join(import.meta.dirname, "..");
const code = readdirSync(folder, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.(ts|svelte)$/.test(name) && !name.endsWith(".test.ts"))
  .map((name) => readFileSync(join(folder, name), "utf8"))
  .join("\n");

/** Starts of keys that end in a code of the app, or in the name of a source. */
const CODED = [
  "chat.notice.", "chat.storage.", "models.catalog_error.", "models.hub_error.", "models.model_error.", "prompt.",
];

it("has no text that no page uses", () => {
  // The constant start and end of each key that a page completes.
  const templates = [...code.matchAll(/`(\w+\.[^`\n$]*)\$\{[^`\n]*?\}([^`\n{}]*)`/g)]
    .map((found) => [found[1]!, found[2]!] as const)
    .filter(([start, end]) => !/^\w+\.$/.test(start) || end !== "");
  const isUsed = (key: string) => code.includes(`"${key}"`)
    || CODED.some((start) => key.startsWith(start))
    || templates.some(([start, end]) => key.startsWith(start) && key.endsWith(end));
  const keys = AREAS.filter((area) => area !== "tray")
    .flatMap((area) => Object.keys(catalog("en", area)).map((key) => `${area}.${key}`));
  expect(keys.filter((key) => !isUsed(key))).toEqual([]);
});

describe.each(others)("%s", (language) => {
  it.each(AREAS)("has exactly the texts of %s", (area) => {
    const keys = Object.keys(catalog("en", area)).sort();
    expect(Object.keys(catalog(language, area)).sort()).toEqual(keys);
  });

  it.each(AREAS)("has the same placeholders in %s", (area) => {
    const found = compare(language, area, allPlaces);
    expect(found.theirs).toEqual(found.english);
  });

  it.each(AREAS)("has a text for each of its plural forms in %s", (area) => {
    const categories = new Intl.PluralRules(language).resolvedOptions().pluralCategories;
    for (const [key, entry] of Object.entries(catalog(language, area))) {
      const isPlural = typeof catalog("en", area)[key] !== "string";
      expect(typeof entry === "string", `${area}.${key}`).toBe(!isPlural);
      if (typeof entry === "string") continue;
      // French and Spanish use "many" from a million on, which `other` covers.
      const needed = categories.filter((category) => category !== "many");
      expect(Object.keys(entry).sort(), `${area}.${key}`).toEqual([...needed].sort());
    }
  });

  it.each(AREAS)("has no English text in %s that is not listed as equal", (area) => {
    const allowed: string[] = (same as Record<string, string[]>)[language] ?? [];
    const untranslated = Object.entries(catalog(language, area))
      .filter(([key, entry]) => {
        const english = catalog("en", area)[key];
        return english !== undefined && texts(entry).join() === texts(english).join();
      })
      .filter(([key, entry]) => !texts(entry).every(isMark) && !allowed.includes(`${area}.${key}`))
      .map(([key]) => `${area}.${key}`);
    expect(untranslated).toEqual([]);
  });

  it("lists only equal texts as equal", () => {
    for (const path of (same as Record<string, string[]>)[language] ?? []) {
      const dot = path.indexOf(".");
      const [area, key] = [path.slice(0, dot) as Area, path.slice(dot + 1)];
      expect(catalog(language, area)[key], path).toEqual(catalog("en", area)[key]);
      expect(catalog("en", area)[key], path).toBeDefined();
    }
  });
});

function compare(language: Language, area: Area, of: (entry: Entry) => unknown) {
  const entries = Object.entries(catalog("en", area));
  const theirs = catalog(language, area);
  return {
    english: Object.fromEntries(entries.map(([key, entry]) => [key, of(entry)])),
    theirs: Object.fromEntries(entries.map(([key]) => [key, of(theirs[key] ?? "")])),
  };
}
