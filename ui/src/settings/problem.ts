/** Error texts for refused changes and commands. */
import { failure, storageText } from "../chat/labels";
import { t } from "../i18n";
import type { CommandError } from "../ipc";
import { errorNoticeText, hubErrorText, modelErrorText } from "../models/labels";
import type { Notice } from "../state/app.svelte";

/** The field's own name: errors may contain `models.<id>.top_p`, and ids contain dots too. */
function isFor(field: string, name: string): boolean {
  return field === name || field.endsWith(`.${name}`);
}

/** The text next to the setting `name`; undefined if the error is for another one. */
export function problemOf(refused: CommandError | null, name: string): string | undefined {
  if (refused?.code !== "invalid" || !isFor(refused.field, name)) return undefined;
  return t("settings.refused.invalid", { reason: refused.reason });
}

/** The text at the top of the pane for a refused change. */
export function commandErrorText(refused: CommandError): string {
  switch (refused.code) {
    case "hub": return hubErrorText(refused.error);
    case "model": return modelErrorText(refused.error);
    case "not_found": return refusedText(refused.code, "");
    case "storage": return storageText(refused.kind) ?? refusedText(refused.code, refused.reason);
    case "turn": return failure(refused.failure).title;
    default: return refusedText(refused.code, refused.reason);
  }
}

/** Notices about commands of the settings window. */
const codes = ["hub", "model", "login_item", "not_found", "storage", "invalid", "other"];

/** The text at the top of the pane for the last notice about a command; empty without one. */
export function noticeText(notices: readonly Notice[]): string {
  const notice = notices.findLast((one) => codes.includes(one.code));
  if (!notice) return "";
  if (notice.code === "hub" || notice.code === "model") return errorNoticeText(notice);
  return storageText(notice.values.kind) ?? refusedText(notice.code, notice.detail);
}

function refusedText(code: string, reason: string): string {
  const known = (["invalid", "login_item", "not_found", "storage"] as const).find((one) => one === code);
  return t(`settings.refused.${known ?? "other"}`, { reason, detail: reason });
}
