/** Error texts for refused changes, shown next to their setting. */
import { t } from "../i18n";
import type { CommandError } from "../ipc";
import { hubErrorText } from "../models/labels";

/** The field's own name: errors may contain `models.<id>.top_p`, and ids contain dots too. */
function isFor(field: string, name: string): boolean {
  return field === name || field.endsWith(`.${name}`);
}

/** The text next to the setting `name`; undefined if the error is for another one. */
export function problemOf(refused: CommandError | null, name: string): string | undefined {
  if (refused?.code !== "invalid" || !isFor(refused.field, name)) return undefined;
  return t("settings.refused.invalid", { reason: refused.reason });
}

/** The text at the top of the pane. */
export function commandErrorText(refused: CommandError): string {
  switch (refused.code) {
    case "invalid": return t("settings.refused.invalid", { reason: refused.reason });
    case "not_found": return t("settings.refused.not_found");
    case "storage": return t("settings.refused.storage", { reason: refused.reason });
    case "turn": return t("settings.refused.other", { reason: refused.failure.code });
    case "hub": return hubErrorText(refused.error);
    case "other": return t("settings.refused.other", { reason: refused.reason });
  }
}
