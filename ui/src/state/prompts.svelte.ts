/** Prompts that the user keeps and calls with `/name`; shared by the composer and the quick prompt. */
import { t, type Key } from "../i18n";
import type { SavedPrompt } from "../ipc";
import { app } from "./app.svelte";

/** What there is before the user changes it; the text is looked up in the language shown. */
const builtIn = ["summarise", "fix", "translate", "explain"] as const;

/** All of them, in their order. */
export function prompts(): SavedPrompt[] {
  return app.settings?.prompts ?? builtIn.map(inLanguage);
}

function inLanguage(name: (typeof builtIn)[number]): SavedPrompt {
  const key = (part: string) => `chat.prompts.${name}_${part}` as Key;
  return { name: t(key("name")), text: t(key("text")) };
}

/** The prompts that a line such as `/su` may mean; null if the line is none that calls one. */
export function matching(line: string, all: SavedPrompt[] = prompts()): SavedPrompt[] | null {
  const called = /^\/(\S*)$/.exec(line);
  if (!called) return null;
  const begun = called[1]!.toLowerCase();
  return all.filter((prompt) => prompt.name.toLowerCase().startsWith(begun));
}

/** Puts `text` where the prompt wants it, or behind it where it does not say. */
export function fill(prompt: SavedPrompt, text: string): string {
  if (prompt.text.includes("{text}")) return prompt.text.replaceAll("{text}", text);
  return text ? `${prompt.text}\n\n${text}` : prompt.text;
}

/** `/name more`: the prompt called at the start of a text, filled with what follows; else null. */
export function expand(text: string, all: SavedPrompt[] = prompts()): string | null {
  const called = /^\/(\S+)(?:\s+([\s\S]*))?$/.exec(text);
  const prompt = called && all.find((one) => one.name.toLowerCase() === called[1]!.toLowerCase());
  return prompt ? fill(prompt, called[2]?.trim() ?? "").trim() : null;
}
