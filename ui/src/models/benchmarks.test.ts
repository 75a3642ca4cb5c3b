/** Tests benchmarks in the Models pane: start and stop, results as plot and table, exports. */
import { fireEvent, render, screen, waitFor, within } from "@testing-library/svelte";
import { beforeEach, describe, expect, it } from "vitest";
import { chooseLanguage } from "../i18n";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { qualities, speeds, sustained } from "../ipc/fake/benchmarks";
import { Live } from "../settings/live.svelte";
import Settings from "../settings/Settings.svelte";
import { currentPane } from "../settings/current-pane.svelte";
import { app, startApp } from "../state/app.svelte";
import { benchmarks } from "../state/benchmarks.svelte";
import { modelSource } from "../state/model-source.svelte";
import { plotText, qualityCommand, speedRows } from "./benchmarks";

let fake: FakeIpc;
let stop: () => void;

beforeEach(() => {
  stop?.();
  modelSource.catalog = null;
  modelSource.downloads = [];
  benchmarks.results = [];
  benchmarks.running = null;
  fake = new FakeIpc();
  useIpc(fake);
  chooseLanguage("en");
});

async function open() {
  stop = await startApp();
  currentPane.pane = "models";
  render(Settings, { live: new Live() });
  await waitFor(() => expect(app.models.length).toBeGreaterThan(0));
  const heading = await screen.findByRole("heading", { name: "Speed and quality" });
  return within(heading.closest("section")!);
}

function called(name: string): unknown[][] {
  return fake.calls.filter((call) => call.name === name).map((call) => call.values);
}

describe("a benchmark", () => {
  it("measures the chosen model for the chosen time, shows its progress and can be stopped", async () => {
    const group = await open();
    group.getByText("No results yet");
    const model = group.getByLabelText("Model to measure");
    expect([...model.querySelectorAll("option")].map((one) => one.textContent)).not.toContain("old-model");
    await fireEvent.change(model, { target: { value: "starter" } });
    await fireEvent.change(group.getByLabelText("Time for each engine"), { target: { value: "5" } });
    await fireEvent.click(group.getByRole("button", { name: "Start" }));
    expect(called("runBenchmark")).toEqual([["starter", 5]]);
    await group.findByText("Loading Starter");
    fake.setBenchmarks({ running: { model: "Starter", engine: "mlx", seconds: 150, total_seconds: 600 } });
    await group.findByText("MLX · 2:30 of 10:00");
    const bar = group.getByRole("progressbar", { name: "Measuring Starter" });
    expect(bar.getAttribute("aria-valuenow")).toBe("25");
    expect(group.queryByRole("button", { name: "Start" })).toBeNull();
    fake.benchmarksView = { results: [speeds()], running: null };
    await fireEvent.click(group.getByRole("button", { name: "Stop" }));
    await group.findByRole("button", { name: "Start" });
    await group.findByRole("img");
  });

  it("says why it can't start", async () => {
    const group = await open();
    fake.refuse("runBenchmark", { code: "other", reason: "a benchmark is already running" });
    await fireEvent.click(group.getByRole("button", { name: "Start" }));
    await screen.findByRole("alert");
  });

  it("of the command line appears when the window is used again", async () => {
    const group = await open();
    fake.benchmarksView = { results: [qualities()], running: null };
    window.dispatchEvent(new Event("focus"));
    await group.findByText("Perplexity");
  });
});

describe("a result", () => {
  it("has a plot with a text, and a table with both engines, their estimates and settings", async () => {
    fake.benchmarksView = { results: [speeds(), qualities()], running: null };
    const group = await open();
    const plot = await group.findByRole("img");
    expect(plot.getAttribute("aria-label")).toBe(
      "Plot of tokens per second over time. MLX: 48 tokens/s at first, 39 tokens/s at the end. "
      + "llama.cpp: 26 tokens/s at first, 26 tokens/s at the end.");
    const table = group.getByRole("table", { name: /^Qwen3 4B · 4-bit: Speed/ });
    const cells = (label: string) => {
      const row = within(table).getByRole("rowheader", { name: label }).closest("tr")!;
      return within(row).getAllByRole("cell").map((cell) => cell.textContent?.trim().replace(/\s+/g, " "));
    };
    expect(cells("Minute 1")).toEqual(["49 tokens/s", "27 tokens/s"]);
    expect(cells("Estimate")).toEqual(["36–54 tokens/s", "36–54 tokens/s Far from the estimate"]);
    expect(cells("Slowed down")).toEqual(["After 2:00, to 39 tokens/s", "No"]);
    expect(cells("Energy")).toEqual(["3.1 tokens per joule, 14 W", "Unknown: Transom can’t read it here"]);
    expect(cells("Requests")[0]).toBe("64 + 256 tokens, temperature 0, no speculative decoding");
    expect(cells("Ended early")).toEqual(["–", "Memory was low or the temperature too high"]);
  });

  it("shows every speed on request", async () => {
    fake.benchmarksView = { results: [speeds()], running: null };
    const group = await open();
    const button = await group.findByRole("button", { name: "Show All Speeds" });
    await fireEvent.click(button);
    const table = group.getByRole("table", { name: /Tokens per second$/ });
    expect(within(table).getAllByRole("row").length).toBe(25);
    within(table).getByText("38.8 · elevated temperature");
    await fireEvent.click(button);
    expect(group.queryByRole("table", { name: /Tokens per second$/ })).toBeNull();
  });

  it("unfolds, and is exported as a plot or as numbers", async () => {
    fake.benchmarksView = { results: [speeds(), qualities()], running: null };
    const group = await open();
    const second = (await group.findAllByRole("button", { name: /Qwen3 4B/, expanded: false })).at(-1)!;
    await fireEvent.click(second);
    group.getByText("0.0412 ± 0.0021");
    group.getByText("94.3%");
    await fireEvent.click(group.getByRole("button", { name: /^Export Plot.*Quality/ }));
    await fireEvent.click(group.getByRole("button", { name: /^Export JSON.*Speed/ }));
    await group.findAllByText("Saved as ~/Desktop/chat.md");
    expect(called("exportBenchmark")).toEqual([
      ["quality qwen3-4b@4-bit", "svg"], ["sustained qwen3-4b@4-bit", "json"]]);
  });
});

it("a long measurement has few rows, and a window without tokens no speed", () => {
  const long = sustained("mlx", Array.from({ length: 90 }, (_, index) => index + 1));
  expect(speedRows([long]).map((row) => row.seconds)).toEqual(Array.from({ length: 30 }, (_, index) => 30 * index));
  long.windows[0]!.tokens_per_second = null;
  expect(speedRows([long])[0]!.cells).toEqual(["–"]);
  expect(plotText([long, sustained("llama.cpp", [])])).toBe(
    "Plot of tokens per second over time. MLX: 2 tokens/s at first, 90 tokens/s at the end.");
});

it("a command can be pasted into a terminal, whatever the model is called", () => {
  expect(qualityCommand("qwen3-4b@Q4_K_M")).toBe("transom bench --quality --model qwen3-4b@Q4_K_M");
  expect(qualityCommand("/a b/it's.gguf")).toBe("transom bench --quality --model '/a b/it'\\''s.gguf'");
});
