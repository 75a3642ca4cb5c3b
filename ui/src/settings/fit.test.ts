import { describe, expect, it } from "vitest";
import type { FitView } from "../ipc";
import { atContext, barOf, contextStops, freeBytes, nearestStop, neededBytes, fitOf } from "./fit";

const GB = 2 ** 30;
const fit: FitView = {
  weight_bytes: 4 * GB, kv_cache_bytes: 1 * GB, headroom_bytes: 0.5 * GB, draft_bytes: 0,
  prefix_bytes: 0, budget_bytes: 9 * GB, taken_bytes: 1 * GB, context_length: 8192,
  context_that_fits: 28_672, fits: true, summary: { fit: "fits" }, speed: null,
  is_measured: false,
};

describe("the fit bar", () => {
  it("is as long as the budget if everything fits", () => {
    const bar = barOf(fit);
    expect(bar.budgetShare).toBe(1);
    expect(bar.parts.map((part) => part.kind)).toEqual(["taken", "weights", "kv", "headroom"]);
    const share = bar.parts.reduce((sum, part) => sum + part.share, 0);
    expect(share).toBeCloseTo(6.5 / 9);
  });

  it("is as long as the total if that is more, and marks the end of the budget", () => {
    const bar = barOf({ ...fit, weight_bytes: 16 * GB, fits: false });
    expect(bar.parts.reduce((sum, part) => sum + part.share, 0)).toBeCloseTo(1);
    expect(bar.budgetShare).toBeCloseTo(9 / 18.5);
  });

  it("omits parts of zero bytes", () => {
    expect(barOf({ ...fit, taken_bytes: 0 }).parts.map((part) => part.kind)).not.toContain("taken");
  });

  it("follows the slider: the KV cache grows linearly, everything else stays", () => {
    const moved = atContext(fit, 16_384);
    expect(moved.kv_cache_bytes).toBe(2 * GB);
    expect(moved.weight_bytes).toBe(fit.weight_bytes);
    expect(moved.fits).toBe(true);
    expect(atContext(fit, 40_000).fits).toBe(false);
    expect(atContext(moved, 8192).kv_cache_bytes).toBe(fit.kv_cache_bytes);
  });

  it("stops fitting at exactly the token that the app reports", () => {
    const free = freeBytes(fit);
    const most = Math.floor((free - fit.weight_bytes - fit.headroom_bytes) / (GB / 8192));
    expect(most).toBe(28_672);
    expect(atContext(fit, most).fits).toBe(true);
    expect(atContext(fit, most + 1).fits).toBe(false);
    expect(neededBytes(atContext(fit, most))).toBe(free);
  });

  it("distinguishes a context that is too long from a model that is too large", () => {
    expect(fitOf(fit)).toBe("fits");
    expect(fitOf({ ...fit, fits: false })).toBe("shorter");
    expect(fitOf({ ...fit, fits: false, context_that_fits: null })).toBe("too_large");
  });
});

describe("the stops of the context slider", () => {
  it("are powers of two and values halfway, up to the model's maximum", () => {
    expect(contextStops(4096)).toEqual([512, 768, 1024, 1536, 2048, 3072, 4096]);
    expect(contextStops(40_960).at(-1)).toBe(40_960);
  });

  it("are only the longest context if that is tiny", () => {
    expect(contextStops(256)).toEqual([256]);
  });

  it("are strictly increasing", () => {
    for (const longest of [600, 2048, 32_768, 131_072, 1_010_000]) {
      const stops = contextStops(longest);
      expect(stops.every((stop, i) => i === 0 || stop > stops[i - 1]!)).toBe(true);
    }
  });

  it("find the nearest by ratio", () => {
    const stops = contextStops(32_768);
    expect(stops[nearestStop(stops, 8000)]).toBe(8192);
    expect(stops[nearestStop(stops, 1)]).toBe(512);
    expect(stops[nearestStop(stops, 999_999)]).toBe(32_768);
  });
});
