/** The states and failures of updates as sentences. */
import { bytes, t } from "../i18n";
import type { UpdateProblem, UpdatesView } from "../ipc";

/** What is happening, or what the last check found. */
export function updateText({ step, offer, checked_at }: UpdatesView): string {
  const version = offer?.version ?? "";
  switch (step.step) {
    case "checking": return t("settings.updates.checking");
    case "downloading": return t("settings.updates.downloading", { version });
    case "ready": return t("settings.updates.ready", { version });
    case "waiting": return t("settings.updates.waiting");
    case "installing": return t("settings.updates.installing", { version });
    case "idle":
      if (offer) return t("settings.updates.available", { version });
      return checked_at === null ? t("settings.updates.never") : t("settings.updates.newest");
  }
}

/** What went wrong, and what to do. */
export function updateProblemText(problem: UpdateProblem, host: string): string {
  switch (problem.problem) {
    case "disk_full": {
      if (problem.needed_bytes === 0) return t("settings.updates.problem.disk_full_now");
      const { needed_bytes, free_bytes } = problem;
      return t("settings.updates.problem.disk_full", { needed: bytes(needed_bytes), free: bytes(free_bytes) });
    }
    case "not_restored": return t("settings.updates.problem.not_restored", { path: problem.path });
    case "failed": return t("settings.updates.problem.failed", { detail: problem.detail });
    default: return t(`settings.updates.problem.${problem.problem}`, { host });
  }
}
