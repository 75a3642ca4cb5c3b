/**
 * All user-visible texts, in every language, by area. All are bundled: together they are smaller
 * than one icon font, and changing the language needs no waiting. Only the descriptions of models are
 * loaded when needed (`descriptions.svelte.ts`).
 *
 * A catalog is flat: key to text, or to one text per plural category. The keys are typed by the
 * English catalog; `catalogs.test.ts` compares the others with it.
 */
import enApi from "./en/api.json";
import enChat from "./en/chat.json";
import enHelp from "./en/help.json";
import enModels from "./en/models.json";
import enPrompt from "./en/prompt.json";
import enSettings from "./en/settings.json";
import enTray from "./en/tray.json";
import enWelcome from "./en/welcome.json";

/** A text, or one per plural category of its `n`. */
export type Entry = string | { [category: string]: string };
/** The texts of an area by key. */
export type Catalog = Record<string, Entry>;

const english = {
  api: enApi,
  chat: enChat,
  help: enHelp,
  models: enModels,
  prompt: enPrompt,
  settings: enSettings,
  tray: enTray,
  welcome: enWelcome,
};

/** The area of a key, which is the name of its file. */
export type Area = keyof typeof english;

type KeysOf<A extends Area> = `${A}.${Extract<keyof (typeof english)[A], string>}`;
/** Area, dot, key in the area's file. An unknown key does not compile. */
export type Key = { [A in Area]: KeysOf<A> }[Area];

/** Language tags with their own names. */
export const LANGUAGES = {
  en: "English",
  de: "Deutsch",
  fr: "Français",
  es: "Español",
  "zh-Hans": "简体中文",
  ja: "日本語",
} as const;
/** A language tag. */
export type Language = keyof typeof LANGUAGES;

const files = import.meta.glob<Catalog>(["./*/*.json", "!./*/descriptions.json"], {
  eager: true, import: "default",
});

/** Returns the texts of one area in one language; empty if the file does not exist. */
export function catalog(language: Language, area: Area): Catalog {
  return files[`./${language}/${area}.json`] ?? {};
}

/** All areas. */
export const AREAS = Object.keys(english) as Area[];
