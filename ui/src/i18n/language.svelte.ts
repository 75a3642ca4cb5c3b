/**
 * Which language is shown. `t` and the formats read it, so whatever is drawn with them is drawn
 * anew when it changes.
 */
import { LANGUAGES, type Language } from "./catalogues";

let current = $state<Language>("en");

/** The language that is shown. */
export function language(): Language {
  return current;
}

/**
 * The first of `wishes` that there is a catalogue for, else English. A wish is a BCP 47 tag, such
 * as `de-AT` or `zh-Hans-CN`; Chinese in traditional script has no catalogue.
 */
export function bestLanguage(wishes: readonly string[]): Language {
  for (const wish of wishes) {
    const tag = wish.replaceAll("_", "-").replace(/\..*$/, "").toLowerCase();
    if (/^zh\b(?!.*-(hant|tw|hk|mo)\b)/.test(tag)) return "zh-Hans";
    const base = tag.split("-")[0] as Language;
    if (base in LANGUAGES) return base;
  }
  return "en";
}

/** Shows `setting` if the user chose a language, else the best of the `system`'s. */
export function chooseLanguage(setting: string | null, system: readonly string[] = []): void {
  const browser = typeof navigator === "undefined" ? [] : navigator.languages;
  current = bestLanguage([...(setting ? [setting] : []), ...system, ...browser]);
  if (typeof document !== "undefined") document.documentElement.lang = current;
}
