/** A refused change in words, beside the setting that it was for. */
import { t } from "../i18n";
import type { Refusal } from "../ipc";
import { troubleText } from "../models/words";

/** The field's own name: refusals may say `models.<id>.top_p`, ids have dots too. */
function isFor(field: string, name: string): boolean {
  return field === name || field.endsWith(`.${name}`);
}

/** What to show beside the setting `name`; undefined when the refusal is for another one. */
export function problemOf(refused: Refusal | null, name: string): string | undefined {
  if (refused?.code !== "invalid" || !isFor(refused.field, name)) return undefined;
  return t("settings.refused.invalid", { reason: refused.reason });
}

/** What to show at the top of the pane. */
export function refusalText(refused: Refusal): string {
  switch (refused.code) {
    case "invalid": return t("settings.refused.invalid", { reason: refused.reason });
    case "not_found": return t("settings.refused.not_found");
    case "storage": return t("settings.refused.storage", { reason: refused.reason });
    case "turn": return t("settings.refused.other", { reason: refused.failure.code });
    case "hub": return troubleText(refused.trouble);
    case "other": return t("settings.refused.other", { reason: refused.reason });
  }
}
