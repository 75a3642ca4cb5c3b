/**
 * The states of the settings window and the welcome for screenshots. Each one sets up the fake app,
 * then draws what the window draws.
 */
import { mount, type Component } from "svelte";
import type { FakeIpc } from "../ipc/fake";
import { onDisk } from "../ipc/fake/catalog";
import type { FitView, StatusView } from "../ipc";
import { startApp } from "../state/app.svelte";
import { modelSource } from "../state/model-source.svelte";
import ShortcutsSheet from "../help/ShortcutsSheet.svelte";
import Welcome from "../welcome/Welcome.svelte";
import { modelsStates } from "./models-states";
import {
  click, pane, picked, scrolled, settled, speaking, type GalleryState, type SetUp,
} from "./settings-stage";

export type { GalleryState } from "./settings-stage";

const nothing: SetUp = () => {};

/** Sets the context length of the selected model. */
function withContext(tokens: number, id = "/models/Qwen3-4B-4bit"): SetUp {
  return (fake) => {
    void fake.updateSettings({ models: { [id]: { context_length: tokens } } });
  };
}

/** Other models use a part, and the context is longer than the rest allows. */
const isTight: SetUp = (fake) => {
  withContext(32_768)(fake);
  const GB = 2 ** 30;
  const fit: FitView = {
    weight_bytes: 2.3 * GB, kv_cache_bytes: 4.6 * GB, headroom_bytes: 0.4 * GB, draft_bytes: 0,
    prefix_bytes: 0, budget_bytes: 8 * GB, taken_bytes: 1.9 * GB, context_length: 32_768,
    context_that_fits: 24_000, fits: false, is_measured: true, speed: null,
    summary: { fit: "context", tokens: 24_000 },
  };
  Object.assign(fake, { fit: async () => fit });
};

const hot: Partial<StatusView> = {
  machine: {
    memory: "warning", thermal: "nominal", is_low_power: true, is_on_battery: true,
    is_thrashing: false,
  },
  limits: [
    { limit: { limit: "answer_length", tokens: 1024 }, reason: "memory_warning" },
    { limit: { limit: "context", tokens: 4096 }, reason: "memory_warning" },
    { limit: { limit: "idle_unload", seconds: 60 }, reason: "memory_warning" },
    { limit: { limit: "speculation" }, reason: "low_power" },
    { limit: { limit: "smaller_model" }, reason: "low_power" },
  ],
};

function onLinux(change: Partial<FakeIpc["aboutView"]> = {}): SetUp {
  return (fake) => {
    fake.aboutView = {
      ...fake.aboutView, platform: "linux", system: "Debian 12", default_hotkey: "Ctrl+Space",
      chip: "AMD Ryzen 7 7840U", data_folder: "~/.local/share/transom",
      hotkey: { hotkey: "registered", shortcut: "Ctrl+Space" }, ...change,
    };
  };
}

const isTaken = onLinux({ hotkey: { hotkey: "taken", shortcut: "Ctrl+Space" } });

function alone<Props extends Record<string, unknown>>(
  component: Component<Props>, props: Props, setUp: SetUp = nothing,
) {
  return async (fake: FakeIpc, target: HTMLElement) => {
    modelSource.catalog = null;
    modelSource.downloads = [];
    setUp(fake);
    await startApp();
    const drawn = mount(component, { target, props });
    await settled();
    return drawn;
  };
}

export const settingsStates: GalleryState[] = [
  ...modelsStates,
  {
    name: "settings-model",
    shows: "This model is in use",
    show: pane("model"),
  },
  {
    name: "settings-model-answers",
    shows: "0.40",
    show: pane("model", (fake) => {
      void fake.updateSettings({
        models: { "/models/Qwen3-4B-4bit": { temperature: 0.4, top_k: 0, max_tokens: 1024 } },
      });
    }, scrolled("section:nth-of-type(3)")),
  },
  {
    name: "settings-model-too-large",
    shows: "Too large",
    show: pane("model", withContext(32_768, "/models/Mistral-Small-24B-Q4_K_M.gguf"),
      picked("/models/Mistral-Small-24B-Q4_K_M.gguf")),
  },
  {
    name: "settings-model-tight",
    shows: "Fits with a 24,000-token context",
    show: pane("model", isTight),
  },
  {
    name: "settings-model-german",
    shows: "24.576",
    show: pane("model", speaking("de", withContext(24_576))),
  },
  {
    name: "settings-model-japanese",
    shows: "メモリ",
    show: pane("model", speaking("ja")),
  },
  {
    name: "settings-behavior",
    shows: "Automatic limits",
    show: pane("behavior"),
  },
  {
    name: "settings-behavior-lit",
    shows: "Now:",
    show: pane("behavior", (fake) => fake.setStatus(hot), scrolled("section:nth-of-type(3)")),
  },
  {
    name: "settings-behavior-german",
    shows: "Strom",
    show: pane("behavior", speaking("de", (fake) => fake.setStatus(hot)),
      scrolled("section:nth-of-type(3)")),
  },
  {
    name: "settings-general",
    shows: "Show in the Dock",
    show: pane("general"),
  },
  {
    name: "settings-general-recording",
    shows: "Type a shortcut",
    show: pane("general", onLinux(), (target) => click(target, ".well")),
  },
  {
    name: "settings-general-conflict",
    shows: "Another app uses Ctrl+Space",
    show: pane("general", isTaken),
  },
  {
    name: "settings-general-prompts",
    shows: "Summarize this",
    show: pane("general", nothing, async (target) => {
      await click(target, ".prompt .head");
      await scrolled("section:nth-of-type(3)")(target);
    }),
  },
  {
    name: "settings-general-clear",
    shows: "Delete all chats?",
    show: pane("general", nothing, (target) => click(target, "section:nth-of-type(4) .row:last-child button")),
  },
  {
    name: "settings-general-japanese",
    shows: "データフォルダ",
    show: pane("general", speaking("ja")),
  },
  {
    name: "settings-about",
    shows: "Apple M4",
    show: pane("about"),
  },
  {
    name: "settings-about-missing",
    shows: "Not available in this session",
    show: pane("about", onLinux({ missing: ["global_shortcut", "selection", "tray"] })),
  },
  {
    name: "settings-shortcuts",
    shows: "Open the quick prompt",
    show: alone(ShortcutsSheet, { platform: "macos", onclose: () => {} }),
  },
  {
    name: "welcome",
    shows: "Recommended: Qwen3 8B",
    show: alone(Welcome, { onDone: () => {} }),
  },
  {
    name: "welcome-downloading",
    shows: "You can use the small starter model in the meantime.",
    show: alone(Welcome, { onDone: () => {} }, (fake) => {
      fake.downloadQueue.install("qwen3-8b@4-bit");
      fake.downloadQueue.come(1, 0.4);
      modelSource.downloads = fake.downloadQueue.downloads;
    }),
  },
  {
    name: "welcome-disk",
    shows: "Not enough disk space",
    show: alone(Welcome, { onDone: () => {} }, (fake) => {
      fake.downloadQueue.catalog = onDisk(fake.downloadQueue.catalog, 4.2);
    }),
  },
  {
    name: "welcome-conflict",
    shows: "Another app uses Ctrl+Space",
    show: alone(Welcome, { onDone: () => {} }, isTaken),
  },
];
