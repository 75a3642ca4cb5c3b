/** The content of the status line: the most important state and a few numbers. */
import { bytes, fixed, percent, t } from "../i18n";
import type { Stage, StatusView } from "../ipc";
import { because } from "./labels";

export interface StatusLine {
  text: string;
  /** Numbers, most important first. */
  figures: string[];
  tone: "calm" | "busy" | "held";
}

/** `stage` is the stage of the visible response, if one is running. */
export function statusLine(status: StatusView, stage: Stage | null, chosen: string): StatusLine {
  const memory = status.model?.memory_bytes ? [bytes(status.model.memory_bytes)] : [];
  const waiting = status.n_queued > 0 ? [t("chat.status.waiting", { n: status.n_queued })] : [];
  const figures = [...waiting, ...memory];
  const line = (text: string, tone: StatusLine["tone"]) => ({ text, figures, tone });

  const { model } = status;
  if (status.held === "paused" || status.is_paused) return line(t("chat.status.paused"), "held");
  if (status.held) return line(t("chat.status.held", { reason: because(status.held) }), "held");
  if (model && !model.is_ready && !model.is_unloading) {
    const params = { model: model.name, percent: percent(model.load_fraction ?? 0) };
    const text = model.load_fraction === null
      ? t("chat.status.loading", params) : t("chat.status.loading_percent", params);
    return line(text, "busy");
  }
  if (stage?.stage === "prefill" && stage.total > 0) {
    return line(t("chat.status.prefill_percent", { percent: percent(stage.done / stage.total) }), "busy");
  }
  if (stage?.stage === "writing" && stage.tokens_per_second) {
    figures.unshift(t("chat.status.speed", { speed: fixed(stage.tokens_per_second, 0) }));
  }
  if (status.background && (!stage || stage.stage === "waiting")) {
    return line(t("chat.status.used_by", { client: status.background.client }), "busy");
  }
  if (stage || status.activity === "answering") return line(t("chat.status.answering"), "busy");
  const first = status.limits[0];
  if (first && first.reason !== "setting" && first.reason !== "small_machine") {
    return line(t("chat.status.limited", { reason: because(first.reason) }), "calm");
  }
  if (model?.is_unloading) return line(t("chat.status.unloading", { model: model.name }), "busy");
  // If another model is loaded, the selected one replaces it; its memory is not shown.
  if (model && chosen && model.name !== chosen) {
    return { ...line(t("chat.status.resting", { model: chosen }), "calm"), figures: waiting };
  }
  if (model) return line(t("chat.status.ready", { model: model.name }), "calm");
  const lastUnload = status.last_unload;
  if (lastUnload?.held_bytes) {
    const size = bytes(lastUnload.held_bytes);
    return line(t(lastUnload.was_idle ? "chat.status.returned_idle" : "chat.status.returned", { size }), "calm");
  }
  return line(chosen ? t("chat.status.resting", { model: chosen }) : t("chat.status.unloaded"), "calm");
}
