/**
 * Translates the descriptions of the built-in model catalog. A language's translations are keyed by
 * the English description, so a description of the user's own list, or one that has changed, stays
 * English. They are loaded when a page first shows a description.
 */
import type { Language } from "./catalogs";
import { language } from "./language.svelte";

type Translations = Record<string, string>;

/** A description, and the language that it is in. */
export interface Description {
  text: string;
  lang: Language;
}

const files = import.meta.glob<Translations>("./*/descriptions.json", { import: "default" });

const requested = new Set<Language>();
let loaded = $state.raw<Partial<Record<Language, Translations>>>({});

/** Returns `english` in the current language. Returns it as it is if it has no translation, or until that is loaded. */
export function modelDescription(english: string): Description {
  const tongue = language();
  const translations = loaded[tongue];
  if (!translations) load(tongue);
  if (translations && Object.hasOwn(translations, english)) return { text: translations[english]!, lang: tongue };
  return { text: english, lang: "en" };
}

function load(tongue: Language): void {
  const file = files[`./${tongue}/descriptions.json`];
  if (!file || requested.has(tongue)) return;
  requested.add(tongue);
  file().then(
    (translations) => (loaded = { ...loaded, [tongue]: translations }),
    () => requested.delete(tongue),
  );
}
