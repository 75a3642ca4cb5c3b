/**
 * The arithmetic of the fit bar. Between two results of the app, the bar follows the slider by
 * itself: the KV cache grows linearly with the context, everything else stays.
 */
import { bytes, number, t } from "../i18n";
import type { FitView } from "../ipc";

export type PartKind = "taken" | "weights" | "kv" | "draft" | "prefix" | "headroom";

export function neededBytes(fit: FitView): number {
  return fit.weight_bytes + fit.kv_cache_bytes + fit.headroom_bytes + fit.draft_bytes + fit.prefix_bytes;
}

export function freeBytes(fit: FitView): number {
  return Math.max(0, fit.budget_bytes - fit.taken_bytes);
}

/** Returns `fit` for a context of `contextLength` tokens. */
export function atContext(fit: FitView, contextLength: number): FitView {
  if (fit.context_length <= 0 || contextLength === fit.context_length) return fit;
  const kv = Math.round((fit.kv_cache_bytes / fit.context_length) * contextLength);
  const moved = { ...fit, context_length: contextLength, kv_cache_bytes: kv };
  return { ...moved, fits: neededBytes(moved) <= freeBytes(moved) };
}

/**
 * Returns the bar for `fit`, as long as the budget, or as the total if that is more: its parts in
 * order, and the end of the budget. Shares are fractions of the bar's length.
 */
export function barOf(
  fit: FitView,
): { parts: { kind: PartKind; bytes: number; share: number }[]; budgetShare: number } {
  const amounts: [PartKind, number][] = [
    ["taken", fit.taken_bytes], ["weights", fit.weight_bytes], ["kv", fit.kv_cache_bytes],
    ["draft", fit.draft_bytes], ["prefix", fit.prefix_bytes], ["headroom", fit.headroom_bytes],
  ];
  const sum = amounts.reduce((total, [, bytes]) => total + bytes, 0);
  const length = Math.max(sum, fit.budget_bytes, 1);
  const parts = amounts
    .filter(([, bytes]) => bytes > 0)
    .map(([kind, bytes]) => ({ kind, bytes, share: bytes / length }));
  return { parts, budgetShare: Math.min(1, fit.budget_bytes / length) };
}

export type FitOutcome = "fits" | "others_close" | "shorter" | "too_large";

/** `shorter`: it fits with `context_that_fits`; `others_close`: other programs use too much memory. */
export function fitOf(fit: FitView): FitOutcome {
  if (fit.fits) return fit.summary.fit === "others_close" ? "others_close" : "fits";
  return fit.context_that_fits === null ? "too_large" : "shorter";
}

/** What a fit means, in one sentence. */
export function fitText(fit: FitView): string {
  return t(`settings.fit.${fitOf(fit)}`, {
    need: bytes(neededBytes(fit)),
    free: bytes(freeBytes(fit)),
    size: fit.summary.fit === "others_close" ? bytes(fit.summary.bytes) : "",
    tokens: number(fit.context_that_fits ?? 0),
  });
}

const SHORTEST = 512;

/** Context lengths at which the slider stops: powers of two and the values halfway, up to `longest`. */
export function contextStops(longest: number): number[] {
  const stops: number[] = [];
  for (let stop = Math.min(SHORTEST, longest); stop < longest; stop *= 2) {
    stops.push(stop);
    if (stop * 1.5 < longest) stops.push(stop * 1.5);
  }
  return [...stops, longest];
}

/** The index of the stop nearest to `contextLength`, by ratio. */
export function nearestStop(stops: readonly number[], contextLength: number): number {
  const distance = (stop: number) => Math.abs(Math.log(stop / Math.max(1, contextLength)));
  let best = 0;
  stops.forEach((stop, place) => {
    if (distance(stop) < distance(stops[best] ?? stop)) best = place;
  });
  return best;
}
