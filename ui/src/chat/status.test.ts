import { describe, expect, it } from "vitest";
import type { StatusView } from "../ipc";
import { GB, loaded, status } from "../ipc/fake/defaults";
import { group, groups } from "./days";
import { statusText } from "../prompt/status";
import { statusLine } from "./status-line";

const QWEN = "Qwen3 4B · 4-bit";

const line = (
  change: Partial<StatusView>, stage: Parameters<typeof statusLine>[1] = null, chosen = QWEN,
) => {
  const { text, figures } = statusLine({ ...status(), ...change }, stage, chosen);
  return [text, ...figures].join(" | ");
};

describe("the status line", () => {
  it("shows the most important state", () => {
    const background = { client: "Zed", model: QWEN };
    const isLoading = { ...loaded(), is_ready: false, memory_bytes: null };
    expect(line({})).toBe("Qwen3 4B · 4-bit is ready | 2.8 GB");
    expect(line({ model: { ...isLoading, load_fraction: 0.4 } })).toBe("Loading Qwen3 4B · 4-bit, 40%");
    expect(line({ model: { ...isLoading, load_fraction: null } })).toBe("Loading Qwen3 4B · 4-bit");
    expect(line({}, { stage: "prefill", done: 512, total: 2048 })).toBe("Processing prompt, 25% | 2.8 GB");
    expect(line({}, { stage: "writing", tokens_per_second: 41.6 })).toBe("Generating | 42 tokens/s | 2.8 GB");
    expect(line({ n_queued: 2 }, { stage: "writing", tokens_per_second: null })).toBe("Generating | 2 queued | 2.8 GB");
    expect(line({ activity: "answering", background })).toBe("Generating for Zed | 2.8 GB");
    expect(line({ background, n_queued: 1 }, { stage: "waiting", position: 1 }))
      .toBe("Generating for Zed | 1 queued | 2.8 GB");
    expect(line({ held: "heat_serious" })).toBe("Paused: high temperature | 2.8 GB");
    expect(line({ held: "paused", is_paused: true })).toBe("Paused | 2.8 GB");
    expect(line({ limits: [{ limit: { limit: "speculation" }, reason: "low_power" }] }))
      .toBe("Limited: Low Power Mode | 2.8 GB");
    expect(line({ limits: [{ limit: { limit: "speculation" }, reason: "setting" }] }))
      .toBe("Qwen3 4B · 4-bit is ready | 2.8 GB");
  });

  it("shows the memory that an unloaded model freed", () => {
    const gone = { name: "Qwen3 4B", held_bytes: 1.2 * GB, was_idle: true };
    expect(line({ model: null, last_unload: gone })).toBe("Unloaded while idle · 1.2 GB freed");
    expect(line({ model: null, last_unload: { ...gone, was_idle: false } })).toBe("Unloaded · 1.2 GB freed");
    expect(line({ model: null })).toBe("Qwen3 4B · 4-bit will load when you send a message");
  });

  it("shows only the selected model as ready", () => {
    expect(line({}, null, "Starter")).toBe("Starter will load when you send a message");
    expect(statusText(null, status(), QWEN)).toBe("Ready");
    expect(statusText(null, status(), "Starter")).toBe("The model will load when you ask");
  });
});

describe("days of the history", () => {
  const now = new Date(2026, 10, 21, 0, 30).getTime();
  const ago = (hours: number) => now - hours * 3_600_000;

  it("are calendar days", () => {
    expect(group(ago(0.25), now)).toBe("today");
    expect(group(ago(1), now)).toBe("yesterday");
    expect(group(ago(24 * 6), now)).toBe("week");
    expect(group(ago(24 * 20), now)).toBe("month");
    expect(group(ago(24 * 60), now)).toBe("2026-09");
  });

  it("have pinned conversations first, and put search results into one group", () => {
    const one = (id: number, hours: number, is_pinned = false) => ({ snippet: null, conversation: {
      id, title: "", is_pinned, is_archived: false, created_at: 0, updated_at: ago(hours), n_messages: 2 } });
    const found = [one(1, 900, true), one(2, 0.1), one(3, 0.2), one(4, 2)];
    expect(groups(found, now, false).map((each) => [each.name, each.found.length]))
      .toEqual([["pinned", 1], ["today", 2], ["yesterday", 1]]);
    expect(groups(found, now, true).map((each) => each.name)).toEqual(["found"]);
    const pinnedMeanwhile = [one(1, 900, true), one(2, 0.1), one(3, 900, true)];
    expect(groups(pinnedMeanwhile, now, false).map((each) => [each.name, each.found.length]))
      .toEqual([["pinned", 2], ["today", 1]]);
  });
});
