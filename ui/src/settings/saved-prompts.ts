/** Names of saved prompts and of assistants, which are unique. That of a prompt is one word. */
import { t } from "../i18n";

interface Named {
  name: string;
}

/** Normalizes a name: no leading slash, no spaces. */
export function cleanName(text: string): string {
  return text.replace(/^\/+/, "").replace(/\s+/g, "-");
}

/**
 * The error in the name at `index`; undefined if there is none. `taken` returns the error for a name
 * that another entry has.
 */
export function nameProblem(
  all: readonly Named[], index: number, taken = () => t("settings.prompts.name_twice"),
): string | undefined {
  const name = all[index]?.name.trim().toLowerCase() ?? "";
  if (name === "") return t("settings.prompts.name_empty");
  const isTwice = all.some((one, at) => at !== index && one.name.trim().toLowerCase() === name);
  return isTwice ? taken() : undefined;
}

/** `base`, or `base-2`, `base-3`, … if it is taken. */
export function freshName(base: string, all: readonly Named[], gap = "-"): string {
  const isTaken = (name: string) => all.some((one) => one.name.toLowerCase() === name.toLowerCase());
  let name = base;
  for (let n = 2; isTaken(name); n += 1) name = `${base}${gap}${n}`;
  return name;
}
