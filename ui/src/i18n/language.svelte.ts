/** The current language. `t` and the formats read it, so components that use them update when it changes. */
import { LANGUAGES, type Language } from "./catalogs";

let current = $state<Language>("en");

export function language(): Language {
  return current;
}

/**
 * Returns the first of the BCP 47 tags `requested`, such as `de-AT` or `zh-Hans-CN`, that has a
 * catalog, else English. There is no catalog for Traditional Chinese.
 */
export function bestLanguage(requested: readonly string[]): Language {
  for (const item of requested) {
    const tag = item.replaceAll("_", "-").replace(/\..*$/, "").toLowerCase();
    if (/^zh\b(?!.*-(hant|tw|hk|mo)\b)/.test(tag)) return "zh-Hans";
    const base = tag.split("-")[0] as Language;
    if (base in LANGUAGES) return base;
  }
  return "en";
}

/** Sets the language: `setting` if the user chose one, else the best match for `system`. */
export function chooseLanguage(setting: string | null, system: readonly string[] = []): void {
  const browser = typeof navigator === "undefined" ? [] : navigator.languages;
  current = bestLanguage([...(setting ? [setting] : []), ...system, ...browser]);
  if (typeof document !== "undefined") document.documentElement.lang = current;
}
