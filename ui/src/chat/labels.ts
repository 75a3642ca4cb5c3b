/** Translates codes of the app. */
import { bytes, duration, number, t, textIfAny, type Key } from "../i18n";
import type { EndingView, LimitReason, Failure, Limit, ModelProblem } from "../ipc";

export function because(reason: LimitReason): string {
  return t(`chat.because.${reason}`);
}

/** A limit as a sentence. */
export function limitText(one: Limit): string {
  const n = "tokens" in one ? one.tokens : 0;
  const seconds = "seconds" in one ? one.seconds : null;
  if (seconds === 0) return t("chat.limit.idle_at_once");
  return t(`chat.limit.${one.limit}`, { n, time: seconds === null ? "" : duration(seconds) });
}

/** Why a response ended early; empty if it did not, or if it failed. */
export function endingText({ ending }: EndingView): string {
  switch (ending) {
    case "canceled": case "length": case "shed": case "interrupted": return t(`chat.ending.${ending}`);
    default: return "";
  }
}

/** Why a model can't be used. */
function modelProblem(one: ModelProblem): string {
  const params: Record<string, string> = {};
  if ("name" in one) params.name = one.name;
  else if ("file" in one) params.file = one.file;
  return t(`chat.problem.${one.problem}`, params);
}

/** What is wrong with the app's own files; undefined without a kind that this page knows. */
export function storageText(kind: unknown): string | undefined {
  return textIfAny(`chat.storage.${String(kind)}`);
}

/** The text of a failed turn: one line, and a second one with advice. */
export function failure(one: Failure): { title: string; detail: string; reason: string } {
  const params: Record<string, string> = {};
  if (one.code === "too_large") {
    params.need = bytes(one.need_bytes);
    params.budget = bytes(one.budget_bytes);
  } else if (one.code === "held") params.time = duration(one.retry_after_seconds);
  else if (one.code === "prompt_too_long" || one.code === "conversation_too_long") {
    params.prompt = number(one.prompt_tokens);
    params.context = number(one.context_length);
  } else if (one.code === "attached_too_long") {
    params.tokens = number(Math.ceil(one.attached_tokens / 10) * 10);
    params.max = number(one.max_tokens);
    params.task = one.route === "chat" ? "" : t(`chat.route.${one.route}`);
  } else if (one.code === "invalid_parameter") {
    params.name = one.name;
    params.value = one.value;
  } else if (one.code === "stuck") {
    params.process = String(one.process_id);
    params.size = bytes(one.held_bytes);
  }
  const reason = "reason" in one ? one.reason : "";
  const problem = one.code === "model_unusable" && one.problem ? modelProblem(one.problem) : "";
  const stored = one.code === "storage" ? storageText(one.kind) : undefined;
  const detail =
    one.code === "other" ? "" : problem || (stored ?? t(`chat.failure.${one.code}_detail` as Key, params));
  return { title: t(`chat.failure.${one.code}`), detail, reason };
}
