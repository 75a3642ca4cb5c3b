/** The status line at the bottom of the quick prompt. */
import { duration, fixed, percent, t } from "../i18n";
import type { StatusView } from "../ipc";
import { because, endingText } from "../chat/labels";
import type { Answer } from "../state/answer.svelte";

/** `chosen` is the name of the selected model. */
export function statusText(answer: Answer | null, status: StatusView | null, chosen: string): string {
  if (answer?.isWriting) return writingText(answer, status);
  if (status?.is_paused) return t("chat.status.paused");
  if (status?.held) return t("chat.status.held", { reason: because(status.held) });
  if (answer) return endedText(answer);
  const model = status?.model;
  // If another model is loaded, the selected one replaces it.
  if (!model || model.name !== chosen) return t("prompt.resting");
  if (model.is_ready) return t("prompt.ready");
  return loadingText(model.load_fraction);
}

function loadingText(fraction: number | null): string {
  if (fraction === null) return t("chat.stage.loading");
  return t("chat.stage.loading_percent", { percent: percent(fraction) });
}

function writingText(answer: Answer, status: StatusView | null): string {
  const { stage } = answer;
  switch (stage.stage) {
    case "waiting":
      if (status?.held) {
        return t("chat.stage.waiting_held", { reason: because(status.held) });
      }
      return stage.position > 0
        ? t("chat.stage.waiting_for", { n: stage.position }) : t("chat.stage.waiting");
    case "loading":
      return stage.fraction === null ? t("chat.stage.making_room") : loadingText(stage.fraction);
    case "prefill":
      return t("chat.stage.prefill_percent", { percent: percent(stage.done / Math.max(1, stage.total)) });
    case "writing": {
      const speed = stage.tokens_per_second;
      if (answer.section === "reasoning") return t("chat.thinking");
      return speed === null ? t("chat.status.answering")
        : t("chat.status.speed", { speed: fixed(speed, speed < 100 ? 1 : 0) });
    }
  }
}

function endedText(answer: Answer): string {
  if (answer.ending.ending === "failed") return "";
  return endingText(answer.ending) || statsText(answer);
}

function statsText({ stats }: Answer): string {
  if (!stats) return "";
  const speed = stats.tokens_per_second;
  const first = t("chat.stats.first", { time: duration(stats.time_to_first_token_seconds) });
  const tokens = t("chat.stats.tokens", { n: stats.generated_tokens });
  if (speed === null) return [tokens, first].join(" · ");
  return [t("chat.stats.speed", { speed: fixed(speed, speed < 100 ? 1 : 0) }), tokens].join(" · ");
}
