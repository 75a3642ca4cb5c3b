/** Translates codes of the app. */
import { bytes, duration, number, t, type Key } from "../i18n";
import type { EndingView, LimitReason, Failure, Limit } from "../ipc";

export function because(reason: LimitReason): string {
  return t(`chat.because.${reason}`);
}

/** A limit as a sentence, or as a few words for a list of the settings. */
export function limitText(one: Limit, area: "chat" | "settings"): string {
  const n = "tokens" in one ? one.tokens : 0;
  const seconds = "seconds" in one ? one.seconds : null;
  if (area === "settings" && seconds === 0) return t("settings.limit.idle_at_once");
  return t(`${area}.limit.${one.limit}`, { n, time: seconds === null ? "" : duration(seconds) });
}

/** Why a response ended early; empty if it did not, or if it failed. */
export function endingText({ ending }: EndingView): string {
  switch (ending) {
    case "cancelled": case "length": case "shed": case "interrupted": return t(`chat.ending.${ending}`);
    default: return "";
  }
}

/** The text of a failed turn: one line, and a second one with advice. */
export function failure(one: Failure): { title: string; detail: string; reason: string } {
  const params: Record<string, string> = {};
  if (one.code === "too_large") {
    params.need = bytes(one.need_bytes);
    params.budget = bytes(one.budget_bytes);
  } else if (one.code === "held") params.time = duration(one.retry_after_seconds);
  else if (one.code === "prompt_too_long") {
    params.prompt = number(one.prompt_tokens);
    params.context = number(one.context_length);
  }
  const reason = "reason" in one ? one.reason : "";
  const detail = one.code === "other" ? "" : t(`chat.failure.${one.code}_detail` as Key, params);
  return { title: t(`chat.failure.${one.code}`), detail, reason };
}
