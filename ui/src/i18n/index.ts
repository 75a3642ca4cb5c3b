/**
 * Texts for people: `t("settings.title")`. Keys are checked by the compiler, a plural is chosen by
 * the parameter `n`, and a number among the parameters is written as the language writes numbers.
 * What is drawn with it follows the language.
 *
 * On start a page calls `chooseLanguage(settings.general.language, about.languages)`, and again
 * when settings change.
 */
import { catalogue, type Area, type Entry, type Key, type Language } from "./catalogues";
import { number } from "./format";
import { language } from "./language.svelte";

export { LANGUAGES, type Key, type Language } from "./catalogues";
export { bytes, duration, fixed, list, number, parameters, percent } from "./format";
export { bestLanguage, chooseLanguage, language } from "./language.svelte";

/** What stands in for `{name}`: texts as they are, numbers as the language writes them. */
export type Params = Record<string, string | number>;

/** The text of `key` in the language that is shown. */
export function t(key: Key, params: Params = {}): string {
  return translate(language(), key, params);
}

/** The text of `key` in `tongue`. */
export function translate(tongue: Language, key: Key, params: Params = {}): string {
  const dot = key.indexOf(".");
  const area = key.slice(0, dot) as Area;
  const name = key.slice(dot + 1);
  const entry = catalogue(tongue, area)[name] ?? catalogue("en", area)[name];
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
