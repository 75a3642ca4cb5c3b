/** Notices of the app as sentences, with their actions. */
import { date } from "../i18n/format";
import { t, textIfAny, type Params } from "../i18n";
import { ipc, type Failure } from "../ipc";
import { errorNoticeText } from "../models/labels";
import { attempt, type Notice } from "../state/app.svelte";
import { page } from "../state/page.svelte";
import { failure, storageText } from "./labels";

/** Notices that the settings window shows. */
const elsewhere = ["login_item"];

export interface NoticeView {
  text: string;
  /** English details, if the sentence does not contain them. */
  detail: string;
  action: { label: string; run: () => void } | null;
}

/** Converts a notice for the chat; null if another window shows it. */
export function noticeView(notice: Notice): NoticeView | null {
  const { code, values } = notice;
  const detail = storageText(values.kind) ?? notice.detail;
  if (elsewhere.includes(code)) return null;
  if (code === "not_found") return { text: t("chat.failure.not_found"), detail: "", action: null };
  if (code === "hub") return { text: errorNoticeText(notice), detail: "", action: null };
  if (code === "model") return { text: errorNoticeText(notice), detail: notice.detail, action: null };
  if (code === "turn") {
    const { title, detail } = failure(values.failure as Failure);
    return { text: title, detail, action: null };
  }
  const isRestored = code === "store_recovered" && typeof values.backed_up_at === "number";
  const text = textIfAny(`chat.notice.${isRestored ? "store_restored" : code}`,
    { n: Number(values.conversations ?? 0), ...named(values) });
  if (code === "other" || text === undefined) {
    return { text: t("chat.notice.other", { detail: detail || code }), detail: "", action: null };
  }
  // For a shortcut the detail is the shortcut itself.
  return { text, detail: code === "hotkey_taken" ? "" : detail, action: actionOf(code) };
}

function named(values: Notice["values"]): Params {
  const named: Params = Object.fromEntries(Object.entries(values).map(
    ([name, value]) => [name, typeof value === "number" ? value : String(value)],
  ));
  return typeof values.backed_up_at === "number" ? { ...named, date: date(values.backed_up_at) } : named;
}

function actionOf(code: string): NoticeView["action"] {
  if (code === "hotkey_taken") {
    return { label: t("chat.notice.change_shortcut"), run: () => page.openSettings("general") };
  }
  if (code === "update_available") {
    return { label: t("chat.notice.show_update"), run: () => page.openSettings("about") };
  }
  if (code === "store_recovered") {
    return { label: t("chat.notice.show_folder"), run: () => attempt(ipc.openDataFolder()) };
  }
  return null;
}
