/** The states of models and downloads for screenshots. */
import { qualities, speeds } from "../ipc/fake/benchmarks";
import { onDisk, hubError } from "../ipc/fake/catalog";
import { GB } from "../ipc/fake/defaults";
import type { DropView } from "../ipc";
import type { FakeIpc } from "../ipc/fake";
import { handleModelEvent } from "../state/model-source.svelte";
import { click, pane, scrolled, settled, speaking, type GalleryStates } from "./settings-stage";
import { type } from "./steps";

/** One download in each state: downloading, verifying, queued, paused, failed, done. */
function busy({ downloadQueue }: FakeIpc): void {
  for (const key of ["qwen3-8b@4-bit", "gemma-3-4b@4-bit", "qwen2.5-coder-7b@4-bit",
    "phi-4@4-bit", "qwen3-0.6b@4-bit"]) downloadQueue.install(key);
  downloadQueue.come(1, 0.42);
  downloadQueue.come(4, 0.18);
  downloadQueue.set(4, { state: "paused" });
  downloadQueue.come(3, 0.6);
  downloadQueue.fail(3, hubError("disk_full", "The disk is too full.",
    { folder: "/models", needed_bytes: 1.8 * GB, free_bytes: 0.4 * GB }));
  downloadQueue.finish(5);
  // Only one is downloading at a time.
  downloadQueue.set(2, { state: "waiting" });
}

function retrying({ downloadQueue }: FakeIpc): void {
  downloadQueue.install("qwen3-8b@4-bit");
  downloadQueue.install("gemma-3-4b@4-bit");
  downloadQueue.come(1, 0.42);
  downloadQueue.set(1, { state: "retrying", seconds: 32,
    error: hubError("unreachable", "no network", { host: "huggingface.co", reason: "dns" }) });
  downloadQueue.come(2, 1);
  downloadQueue.set(2, { state: "verifying", fraction: 0.7 });
}

function mistaken({ downloadQueue }: FakeIpc): void {
  downloadQueue.catalog = { ...downloadQueue.catalog, error: {
    file: "~/Library/Application Support/Transom/models.toml", line: 14, column: 9,
    code: "missing_key", key: "license",
    detail: "“license” is missing; write for example license = \"Apache-2.0\"",
  } };
}

function full({ downloadQueue }: FakeIpc): void {
  downloadQueue.catalog = onDisk(downloadQueue.catalog, 4.2);
}

function measured(fake: FakeIpc): void {
  fake.setBenchmarks({ results: [speeds(), qualities()] });
}

function measuring(fake: FakeIpc): void {
  measured(fake);
  fake.setBenchmarks({ running: { model: "Starter", engine: "llama.cpp", seconds: 157, total_seconds: 240 } });
}

const recommended = "section:nth-of-type(2)";
const list = "section:nth-of-type(3)";
const bench = "section:nth-of-type(4)";
const result = (n: number) => `${bench} li:nth-child(${n})`;

const clicked = (selector: string, shown?: string) => async (target: HTMLElement) => {
  await click(target, selector);
  if (shown) await scrolled(shown)(target);
};
/** Shows every speed of the first result. */
const allSpeeds = clicked(`${result(1)} [aria-controls$="-all"]`, `${result(1)} [id$="-all"]`);
/** Shows the second result, which has the quality. */
const itsQuality = async (target: HTMLElement) => {
  await click(target, `${result(1)} .head`);
  await click(target, `${result(2)} .head`);
  await scrolled(bench)(target);
};
const showTiers = clicked(`${recommended} header button`);

const dropped = (drop: DropView) => async () => {
  handleModelEvent({ event: "drop", window: "settings", drop });
  await settled();
};

async function searched(target: HTMLElement): Promise<void> {
  await settled();
  await type("smollm", "input[type=search]");
  await click(target, ".ask button");
  await click(target, ".title + ul li:nth-child(2) .actions button");
  await scrolled(list)(target);
}

export const modelsStates: GalleryStates = {
  "settings-models-installed": { shows: "Mistral Small 24B", show: pane("models") },
  "settings-models-recommended": { shows: "Recommended", show: pane("models", undefined, scrolled(recommended)) },
  "settings-models-tiers": { shows: "192 GB", show: pane("models", undefined, showTiers) },
  "settings-models-disk": { shows: "Not enough disk space", show: pane("models", full, scrolled(recommended)) },
  "settings-models-list": { shows: "Download", show: pane("models", undefined, scrolled(list)) },
  "settings-models-list-all": {
    shows: "Too large: needs",
    show: pane("models", undefined, clicked(".hidden button", `${list} .entry:nth-child(6)`)),
  },
  "settings-models-details": {
    shows: "License",
    show: pane("models", undefined, clicked(`${recommended} .entry:first-child [aria-expanded]`, recommended)),
  },
  "settings-models-downloads": { shows: "Paused", show: pane("models", busy) },
  "settings-models-downloads-trouble": { shows: "Verifying", show: pane("models", retrying) },
  "settings-models-hub": { shows: "SmolLM", show: pane("models", undefined, searched) },
  "settings-models-mistake": { shows: "The key “license” is missing.", show: pane("models", mistaken) },
  "settings-models-remove": {
    shows: "This deletes its files",
    show: pane("models", undefined, clicked(".list li:first-child button:last-child")),
  },
  "settings-models-bench-none": { shows: "No results yet", show: pane("models", undefined, scrolled(bench)) },
  "settings-models-bench": { shows: "Far from the estimate", show: pane("models", measured, scrolled(bench)) },
  "settings-models-bench-result": { shows: "Slowed down", show: pane("models", measured, scrolled(result(1))) },
  "settings-models-bench-all": { shows: "Hide All Speeds", show: pane("models", measured, allSpeeds) },
  "settings-models-bench-quality": { shows: "Perplexity", show: pane("models", measured, itsQuality) },
  "settings-models-bench-running": { shows: "Measuring Starter", show: pane("models", measuring, scrolled(bench)) },
  "settings-models-advanced": {
    shows: "https://huggingface.co",
    show: pane("models", undefined, clicked(".fold", ".fold")),
  },
  "settings-models-drop": {
    shows: "Qwen3-4B-Q4_K_M.gguf",
    show: pane("models", undefined, dropped({ state: "over", name: "Qwen3-4B-Q4_K_M.gguf", kind: "model",
      is_several: false })),
  },
  "settings-models-drop-refused": {
    shows: "Holiday.mov",
    show: pane("models", undefined,
      dropped({ state: "refused", name: "Holiday.mov", problem: "not_usable", error: null, reason: "" })),
  },
  "settings-models-german": { shows: "Angehalten", show: pane("models", speaking("de", busy)) },
  "settings-models-german-list": {
    shows: "Herunterladen",
    show: pane("models", speaking("de"), clicked(".hidden button", list)),
  },
  "settings-models-german-tiers": { shows: "192 GB", show: pane("models", speaking("de"), showTiers) },
  "settings-models-german-bench": {
    shows: "Weit von der Schätzung",
    show: pane("models", speaking("de", measured), scrolled(result(1))),
  },
  "settings-models-japanese": { shows: "一時停止", show: pane("models", speaking("ja", busy)) },
};
