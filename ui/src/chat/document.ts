/** Why a document can't be attached, in words. */
import { bytes, duration, t } from "../i18n";
import type { DocumentProblem } from "../ipc";

/** A sentence with the reason and what to do. */
export function documentText(problem: DocumentProblem): string {
  switch (problem.kind) {
    case "not_text": return t(`chat.document.not_text_${problem.content}`);
    case "no_text": return t(problem.pages === null ? "chat.document.no_text" : "chat.document.scan");
    case "too_large":
    case "too_much_text": {
      const sizes = { size: bytes(problem.bytes), limit: bytes(problem.limit_bytes) };
      return t(`chat.document.${problem.kind}`, sizes);
    }
    case "too_slow": return t("chat.document.too_slow", { time: duration(problem.limit_seconds) });
    case "too_much_memory": return t("chat.document.too_much_memory", { limit: bytes(problem.limit_bytes) });
    default: return t(`chat.document.${problem.kind}`);
  }
}

/** The reason of the system or of a library, in English; undefined without one. */
export function documentDetail(problem: DocumentProblem): string | undefined {
  return "reason" in problem ? problem.reason : undefined;
}
