/** The states of models and downloads for screenshots. */
import { onDisk, hubError } from "../ipc/fake/catalog";
import type { FakeIpc } from "../ipc/fake";
import { modelSource } from "../state/model-source.svelte";
import { click, pane, scrolled, settled, speaking, write, type GalleryState } from "./settings-stage";

const GB = 2 ** 30;

/** One download in each state: downloading, verifying, queued, paused, failed, done. */
function busy(fake: FakeIpc): void {
  const { downloadQueue } = fake;
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

function retrying(fake: FakeIpc): void {
  const { downloadQueue } = fake;
  downloadQueue.install("qwen3-8b@4-bit");
  downloadQueue.install("gemma-3-4b@4-bit");
  downloadQueue.come(1, 0.42);
  downloadQueue.set(1, { state: "retrying", seconds: 32,
    error: hubError("unreachable", "no network", { host: "huggingface.co", reason: "dns" }) });
  downloadQueue.come(2, 1);
  downloadQueue.set(2, { state: "verifying", fraction: 0.7 });
}

function mistaken(fake: FakeIpc): void {
  fake.downloadQueue.catalog = { ...fake.downloadQueue.catalog, error: {
    file: "~/Library/Application Support/Transom/models.toml", line: 14, column: 9,
    reason: "“licence” is missing; write for example licence = \"Apache-2.0\"",
  } };
}

const recommended = "section:nth-of-type(2)";
const list = "section:nth-of-type(3)";

function full(fake: FakeIpc): void {
  fake.downloadQueue.catalog = onDisk(fake.downloadQueue.catalog, 4.2);
}

async function showTiers(target: HTMLElement): Promise<void> {
  await click(target, `${recommended} header button`);
  await settled();
}

async function scrolledTo(target: HTMLElement, selector: string): Promise<void> {
  await scrolled(selector)(target);
}

async function searched(target: HTMLElement): Promise<void> {
  await settled();
  await write(target, "input[type=search]", "smollm");
  await click(target, ".ask button");
  await click(target, ".title + ul li:nth-child(2) .actions button");
  await scrolledTo(target, list);
}

export const modelsStates: GalleryState[] = [
  {
    name: "settings-models-installed",
    shows: "Mistral Small 24B",
    show: pane("models"),
  },
  {
    name: "settings-models-recommended",
    shows: "Recommended",
    show: pane("models", undefined, (target) => scrolledTo(target, recommended)),
  },
  {
    name: "settings-models-tiers",
    shows: "192 GB",
    show: pane("models", undefined, showTiers),
  },
  {
    name: "settings-models-disk",
    shows: "Not enough disk space",
    show: pane("models", full, (target) => scrolledTo(target, recommended)),
  },
  {
    name: "settings-models-list",
    shows: "Download",
    show: pane("models", undefined, (target) => scrolledTo(target, list)),
  },
  {
    name: "settings-models-list-all",
    shows: "Too large: needs",
    show: pane("models", undefined, async (target) => {
      await click(target, ".hidden button");
      await scrolledTo(target, `${list} .entry:nth-child(6)`);
    }),
  },
  {
    name: "settings-models-details",
    shows: "License",
    show: pane("models", undefined, async (target) => {
      await click(target, `${recommended} .entry:first-child [aria-expanded]`);
      await scrolledTo(target, recommended);
    }),
  },
  {
    name: "settings-models-downloads",
    shows: "Paused",
    show: pane("models", busy),
  },
  {
    name: "settings-models-downloads-trouble",
    shows: "Verifying",
    show: pane("models", retrying),
  },
  {
    name: "settings-models-hub",
    shows: "SmolLM",
    show: pane("models", undefined, searched),
  },
  {
    name: "settings-models-mistake",
    shows: "“licence” is missing",
    show: pane("models", mistaken),
  },
  {
    name: "settings-models-remove",
    shows: "This deletes its files",
    show: pane("models", undefined, (target) => click(target, ".list li:first-child button:last-child")),
  },
  {
    name: "settings-models-advanced",
    shows: "https://huggingface.co",
    show: pane("models", undefined, async (target) => {
      await click(target, ".fold");
      await scrolledTo(target, ".fold");
    }),
  },
  {
    name: "settings-models-drop",
    shows: "Qwen3-4B-Q4_K_M.gguf",
    show: pane("models", undefined, async () => {
      modelSource.drop = { state: "over", name: "Qwen3-4B-Q4_K_M.gguf", kind: "model" };
      await settled();
    }),
  },
  {
    name: "settings-models-drop-refused",
    shows: "Holiday.mov",
    show: pane("models", undefined, async () => {
      modelSource.drop = { state: "refused", name: "Holiday.mov", problem: "not_usable", error: null, reason: "" };
      await settled();
    }),
  },
  {
    name: "settings-models-german",
    shows: "Angehalten",
    show: pane("models", speaking("de", busy)),
  },
  {
    name: "settings-models-german-list",
    shows: "Herunterladen",
    show: pane("models", speaking("de"), async (target) => {
      await click(target, ".hidden button");
      await scrolledTo(target, list);
    }),
  },
  {
    name: "settings-models-german-tiers",
    shows: "192 GB",
    show: pane("models", speaking("de"), showTiers),
  },
  {
    name: "settings-models-japanese",
    shows: "一時停止",
    show: pane("models", speaking("ja", busy)),
  },
];
