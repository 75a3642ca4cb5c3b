/** Names of saved prompts: one word each, and unique. */
import { t } from "../i18n";
import type { SavedPrompt } from "../ipc";

/** Normalizes a name: no leading slash, no spaces. */
export function cleanName(text: string): string {
  return text.replace(/^\/+/, "").replace(/\s+/g, "-");
}

/** The error in the name at `index`; undefined if there is none. */
export function nameProblem(all: readonly SavedPrompt[], index: number): string | undefined {
  const name = all[index]?.name.toLowerCase() ?? "";
  if (name === "") return t("settings.prompts.name_empty");
  const isTwice = all.some((one, at) => at !== index && one.name.toLowerCase() === name);
  return isTwice ? t("settings.prompts.name_twice") : undefined;
}

/** `base`, or `base-2`, `base-3`, … if it is taken. */
export function freshName(base: string, all: readonly SavedPrompt[]): string {
  const isTaken = (name: string) => all.some((one) => one.name.toLowerCase() === name.toLowerCase());
  let name = base;
  for (let n = 2; isTaken(name); n += 1) name = `${base}-${n}`;
  return name;
}
