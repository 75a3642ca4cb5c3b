/**
 * Translates texts: `t("settings.title")`. The compiler checks keys, the parameter `n` selects the
 * plural, and numbers among the parameters are formatted for the language. Components update when
 * the language changes.
 *
 * At startup a page calls `chooseLanguage(settings.general.language, about.languages)`, and again
 * when settings change.
 */
import { catalog, type Area, type Entry, type Key, type Language } from "./catalogs";
import { number } from "./format";
import { language } from "./language.svelte";

export { LANGUAGES, type Key, type Language } from "./catalogs";
export { modelDescription, type Description } from "./descriptions.svelte";
export { bytes, clock, duration, fixed, milliseconds, number, parameters, percent } from "./format";
export { bestLanguage, chooseLanguage, language } from "./language.svelte";

/** Formats the value for `{name}`: text unchanged, numbers for the language. */
export type Params = Record<string, string | number>;

/** Returns the text of `key` in the current language. */
export function t(key: Key, params: Params = {}): string {
  return translate(language(), key, params);
}

/** Returns the text of a key that may not exist, such as that of a code of the app. */
export function textIfAny(key: string, params: Params = {}): string | undefined {
  const [area, name] = parts(key);
  return Object.hasOwn(catalog("en", area), name) ? t(key as Key, params) : undefined;
}

/** Returns the area of a key, and its name there. */
function parts(key: string): [Area, string] {
  const dot = key.indexOf(".");
  return [key.slice(0, dot) as Area, key.slice(dot + 1)];
}

/** Returns the text of `key` in `tongue`. */
export function translate(tongue: Language, key: Key, params: Params = {}): string {
  const [area, name] = parts(key);
  const entry = catalog(tongue, area)[name] ?? catalog("en", area)[name];
  if (entry === undefined) return key;
  return fill(plural(tongue, entry, params), params);
}

function plural(tongue: Language, entry: Entry, params: Params): string {
  if (typeof entry === "string") return entry;
  const n = typeof params.n === "number" ? params.n : 0;
  return entry[rules(tongue).select(n)] ?? entry.other ?? "";
}

function fill(text: string, params: Params): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = params[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? number(value, 2) : value;
  });
}

const pluralRules = new Map<Language, Intl.PluralRules>();

function rules(tongue: Language): Intl.PluralRules {
  let found = pluralRules.get(tongue);
  if (!found) pluralRules.set(tongue, (found = new Intl.PluralRules(tongue)));
  return found;
}
