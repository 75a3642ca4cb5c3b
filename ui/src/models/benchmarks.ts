/** Texts and places in plots for the results of benchmarks. */
import { clock, fixed, number, t } from "../i18n";
import type { Axis, BenchmarkView, QualityReport, SustainedReport } from "../ipc";
import { speedText } from "./labels";

/** Lines differ in color and dashes. */
export const DASHES = ["none", "7 4", "2 4", "9 3 2 3"];

export function engineName(engine: string): string {
  return { mlx: "MLX" }[engine] ?? engine;
}

/** `1:30`, from seconds. */
export function minutesText(seconds: number): string {
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

export function rateText(rate: number): string {
  return t("models.bench.rate", { rate: number(rate, rate < 10 ? 1 : 0) });
}

export function ticks({ step, n_steps }: Axis): number[] {
  return Array.from({ length: n_steps + 1 }, (_, index) => step * index);
}

export function end({ step, n_steps }: Axis): number {
  return step * n_steps;
}

/** The middle of each window and its speed. */
export function points({ windows }: SustainedReport): { seconds: number; rate: number }[] {
  return windows.flatMap((one) => one.tokens_per_second === null ? []
    : [{ seconds: one.start_seconds + one.seconds / 2, rate: one.tokens_per_second }]);
}

/** What the plot shows. */
export function plotText(forms: SustainedReport[]): string {
  const lines = forms.flatMap((form) => {
    const [first, last] = [points(form)[0], points(form).at(-1)];
    return first && last ? [t("models.bench.line", {
      engine: engineName(form.engine), first: rateText(first.rate), last: rateText(last.rate) })] : [];
  });
  return [t("models.bench.plot"), ...lines].join(" ");
}

export function isEstimateFarOff({ prediction }: SustainedReport): boolean {
  return prediction?.is_far_off ?? false;
}

export function isFarOff({ benchmark: { measured } }: BenchmarkView): boolean {
  return measured.kind === "sustained" && measured.forms.some(isEstimateFarOff);
}

/** What is in the plot besides the lines. */
export function legendText(forms: SustainedReport[]): string {
  return [
    forms.some((form) => form.prediction) ? t("models.bench.legend_estimate") : "",
    forms.some((form) => form.throttling) ? t("models.bench.legend_slower") : "",
  ].filter(Boolean).join(" ");
}

export function titleText({ benchmark }: BenchmarkView): string {
  return [t(`models.bench.kind_${benchmark.measured.kind}`), clock(benchmark.ended_at * 1000)].join(" · ");
}

export function estimateText({ prediction }: SustainedReport): string {
  return prediction ? speedText({ ...prediction, is_measured: false }) : t("models.bench.unknown");
}

export function slowerText({ throttling }: SustainedReport): string {
  return throttling ? t("models.bench.slower", {
    time: minutesText(throttling.at_seconds), rate: rateText(throttling.after) }) : t("models.bench.steady");
}

export function energyText({ energy }: SustainedReport): string {
  return energy ? t("models.bench.energy_value", {
    tokens: number(energy.tokens_per_joule, 2), watts: number(energy.watts, energy.watts < 10 ? 1 : 0),
  }) : t("models.bench.energy_unknown");
}

/** The names of all minutes that any of the forms has a speed for. */
export function minutesOf(forms: SustainedReport[]): number[] {
  const all = forms.flatMap((form) => form.minutes.map((one) => one.minute));
  return [...new Set(all)].sort((a, b) => a - b);
}

export function minuteText(form: SustainedReport, minute: number): string {
  const found = form.minutes.find((one) => one.minute === minute);
  return found ? rateText(found.tokens_per_second) : "–";
}

/** Rows of the table of all speeds, at most; the exported file has all windows. */
const MAX_ROWS = 30;

/** The speeds of all forms at the same times. */
export function speedRows(forms: SustainedReport[]): { seconds: number; cells: string[] }[] {
  const starts = forms.flatMap((form) => form.windows.map((one) => one.start_seconds));
  const times = [...new Set(starts)].sort((a, b) => a - b);
  const every = Math.ceil(times.length / MAX_ROWS);
  return times.filter((_, index) => index % every === 0).map((seconds) => ({
    seconds, cells: forms.map((form) => {
      const found = form.windows.find((one) => one.start_seconds === seconds);
      if (!found || found.tokens_per_second === null) return "–";
      const rate = number(found.tokens_per_second, 1);
      return found.thermal === "nominal" ? rate : `${rate} · ${t(`models.bench.heat_${found.thermal}`)}`;
    }),
  }));
}

/** `12.41 ± 0.40`. */
export function errorText(value: number, error: number, digits: number): string {
  return `${fixed(value, digits)} ± ${fixed(error, digits)}`;
}

/** The distance of a form from the reference, or why there is none. */
export function distanceText({ divergence, is_reference }: QualityReport): string {
  if (divergence) return errorText(divergence.kl_nats, divergence.kl_error, 4);
  return t(is_reference ? "models.bench.reference" : "models.bench.other_tokens");
}

/** A command for a terminal, with a model that may have a path. */
export function qualityCommand(model: string): string {
  const isPlain = /^[\w@:./+-]+$/.test(model);
  return `transom bench --quality --model ${isPlain ? model : `'${model.replaceAll("'", "'\\''")}'`}`;
}
