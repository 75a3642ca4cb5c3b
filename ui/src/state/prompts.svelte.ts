/** Saved prompts, which are called with `/name`; shared by the composer and the quick prompt. */
import { t, type Key } from "../i18n";
import type { Route, SavedPrompt } from "../ipc";
import { app } from "./app.svelte";

/** The built-in prompts, whose texts are translated, with their routes. Explained may be code or text. */
const builtIn = { summarize: "summarize", fix: "rewrite", translate: "translate", explain: null } as const;
const builtInNames = Object.keys(builtIn) as (keyof typeof builtIn)[];

/** The names of all routes, which are commands. */
const commands: readonly Route[] = ["chat", "code", "summarize", "rewrite", "translate", "question", "extract"];

export function prompts(): SavedPrompt[] {
  return app.settings?.prompts ?? builtInNames.map(inLanguage);
}

function inLanguage(name: keyof typeof builtIn): SavedPrompt {
  const key = (part: string) => `chat.prompts.${name}_${part}` as Key;
  return { name: t(key("name")), text: t(key("text")) };
}

/** British and American spellings call the same prompt: `/summarise` and `/summarize`. */
function spelling(name: string): string {
  return name.toLowerCase().replaceAll("z", "s");
}

/** The prompts that match a line such as `/su`; null if the line does not call a prompt. */
export function matching(line: string, all: SavedPrompt[] = prompts()): SavedPrompt[] | null {
  const called = /^\/(\S*)$/.exec(line);
  if (!called) return null;
  const typed = spelling(called[1]!);
  return all.filter((prompt) => spelling(prompt.name).startsWith(typed));
}

/** Inserts `text` at the prompt's placeholder, or appends it if there is none. */
export function fill(prompt: SavedPrompt, text: string): string {
  // A function, because `$` has a special meaning in a replacement string.
  if (prompt.text.includes("{text}")) return prompt.text.replaceAll("{text}", () => text);
  return text ? `${prompt.text}\n\n${text}` : prompt.text;
}

/** A prompt's text on one line, for lists. */
export function preview(prompt: SavedPrompt): string {
  return prompt.text.replaceAll("{text}", "…").replace(/\s+/g, " ");
}

/** `/name more`: the saved prompt that a text starts with, and the rest, if there is such a prompt. */
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

/** The name in `/name more` that no saved prompt has; a path such as `/etc/hosts` is not a name. */
export function unknownCall(text: string, all: SavedPrompt[] = prompts()): string | null {
  const name = /^\/([\p{L}\p{N}_-]+)(?=\s|$)/u.exec(text)?.[1];
  return name && !called(text, all) && !commandIn(text) ? name : null;
}

/** The route that a text says outright: `/translate more`, or the call of a built-in prompt. */
export function routeOf(text: string): Route | null {
  const prompt = called(text)?.prompt;
  if (!prompt) return commandIn(text);
  const name = builtInNames.find((one) => {
    const known = inLanguage(one);
    return known.name === prompt.name && known.text === prompt.text;
  });
  return name ? builtIn[name] : null;
}

function commandIn(text: string): Route | null {
  const name = /^\/(\w+)(?=\s|$)/.exec(text)?.[1];
  return commands.find((route) => name && spelling(route) === spelling(name)) ?? null;
}

/** `/name more` with its prompt filled in; null if it calls no prompt. */
export function expand(text: string, all: SavedPrompt[] = prompts()): string | null {
  const found = called(text, all);
  return found && fill(found.prompt, found.more).trim();
}
