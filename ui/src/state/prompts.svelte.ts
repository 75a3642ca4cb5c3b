/** Prompts that the user keeps and calls with `/name`; shared by the composer and the quick prompt. */
import { t, type Key } from "../i18n";
import type { SavedPrompt } from "../ipc";
import { app } from "./app.svelte";

/** What there is before the user changes it; the text is looked up in the language shown. */
const builtIn = ["summarize", "fix", "translate", "explain"] as const;

/** All of them, in their order. */
export function prompts(): SavedPrompt[] {
  return app.settings?.prompts ?? builtIn.map(inLanguage);
}

function inLanguage(name: (typeof builtIn)[number]): SavedPrompt {
  const key = (part: string) => `chat.prompts.${name}_${part}` as Key;
  return { name: t(key("name")), text: t(key("text")) };
}

/** British and American spellings call the same prompt: `/summarise` and `/summarize`. */
function spelling(name: string): string {
  return name.toLowerCase().replaceAll("z", "s");
}

/** The prompts that a line such as `/su` may mean; null if the line is none that calls one. */
export function matching(line: string, all: SavedPrompt[] = prompts()): SavedPrompt[] | null {
  const called = /^\/(\S*)$/.exec(line);
  if (!called) return null;
  const begun = spelling(called[1]!);
  return all.filter((prompt) => spelling(prompt.name).startsWith(begun));
}

/** Puts `text` where the prompt wants it, or behind it where it does not say. */
export function fill(prompt: SavedPrompt, text: string): string {
  // A function, because `$` has a meaning of its own in a replacement string.
  if (prompt.text.includes("{text}")) return prompt.text.replaceAll("{text}", () => text);
  return text ? `${prompt.text}\n\n${text}` : prompt.text;
}

/** A prompt's text in one line, for lists. */
export function preview(prompt: SavedPrompt): string {
  return prompt.text.replaceAll("{text}", "…").replace(/\s+/g, " ");
}

/** `/name more`: the prompt that a text begins with and what follows it, if there is such a prompt. */
export function called(
  text: string, all: SavedPrompt[] = prompts(),
): { prompt: SavedPrompt; more: string } | null {
  const found = /^\/(\S+)(?:\s+([\s\S]*))?$/.exec(text);
  if (!found) return null;
  const name = found[1]!.toLowerCase();
  const prompt = all.find((one) => one.name.toLowerCase() === name) ??
    all.find((one) => spelling(one.name) === spelling(name));
  return prompt ? { prompt, more: found[2]?.trim() ?? "" } : null;
}

/** The name in `/name more` where no saved prompt has it; a path such as `/etc/hosts` is no name. */
export function unknownCall(text: string, all: SavedPrompt[] = prompts()): string | null {
  const name = /^\/([\p{L}\p{N}_-]+)(?=\s|$)/u.exec(text)?.[1];
  return name && !called(text, all) ? name : null;
}

/** `/name more` filled with what follows; null where no prompt is called. */
export function expand(text: string, all: SavedPrompt[] = prompts()): string | null {
  const found = called(text, all);
  return found && fill(found.prompt, found.more).trim();
}
