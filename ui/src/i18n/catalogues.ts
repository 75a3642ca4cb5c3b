/**
 * Every text for people, in every language, by area. All are bundled: together they are smaller
 * than one icon font, and a change of language needs no waiting.
 *
 * A catalogue is flat: key to text, or to one text per plural category. English is the one that
 * the keys are typed by; `catalogues.test.ts` holds the others to it.
 */
import enChat from "./en/chat.json";
import enHelp from "./en/help.json";
import enModels from "./en/models.json";
import enPrompt from "./en/prompt.json";
import enSettings from "./en/settings.json";
import enTray from "./en/tray.json";
import enWelcome from "./en/welcome.json";

/** A text, or one per plural category of its `n`. */
export type Entry = string | { [category: string]: string };
/** An area's texts by key. */
export type Catalogue = Record<string, Entry>;

const english = {
  chat: enChat,
  help: enHelp,
  models: enModels,
  prompt: enPrompt,
  settings: enSettings,
  tray: enTray,
  welcome: enWelcome,
};

/** The file in each language's folder that a key is from. */
export type Area = keyof typeof english;

type KeysOf<A extends Area> = `${A}.${Extract<keyof (typeof english)[A], string>}`;
/** Area, dot, key of the area's file; a key that does not exist does not compile. */
export type Key = { [A in Area]: KeysOf<A> }[Area];

/** Tags of the languages, each with its own name for itself. */
export const LANGUAGES = {
  en: "English",
  de: "Deutsch",
  fr: "Français",
  es: "Español",
  "zh-Hans": "简体中文",
  ja: "日本語",
} as const;
/** One of them. */
export type Language = keyof typeof LANGUAGES;

const files = import.meta.glob<Catalogue>("./*/*.json", { eager: true, import: "default" });

/** The texts of one area in one language; empty if the file is not there. */
export function catalogue(language: Language, area: Area): Catalogue {
  return files[`./${language}/${area}.json`] ?? {};
}

/** Every area. */
export const AREAS = Object.keys(english) as Area[];
