/**
 * The states of the settings window and the welcome for screenshots. Each one sets up the fake app,
 * then draws what the window draws.
 */
import { mount, type Component } from "svelte";
import type { FakeIpc } from "../ipc/fake";
import { onDisk } from "../ipc/fake/catalog";
import { firstModels, GB, sampleAssistants } from "../ipc/fake/defaults";
import { apiClient, busyClients, someRequests } from "../ipc/fake/local-api";
import { update } from "../ipc/fake/updates";
import type { ApiClientView, FitView, ModelSettings, StatusView, UpdatesView } from "../ipc";
import { startApp } from "../state/app.svelte";
import { modelSource } from "../state/model-source.svelte";
import ShortcutsSheet from "../help/ShortcutsSheet.svelte";
import Welcome from "../welcome/Welcome.svelte";
import {
  click, onLinux, pane, picked, scrolled, settled, speaking, type GalleryStates, type SetUp,
} from "./settings-stage";

/** Settings of the selected model, or of model `id`. */
function chosen(settings: Partial<ModelSettings>, id = "/models/Qwen3-4B-4bit"): SetUp {
  return (fake) => void fake.updateSettings({ models: { [id]: settings } });
}

/** Other models use a part, and the context is longer than the rest allows. */
const isTight: SetUp = (fake) => {
  chosen({ context_length: 32_768 })(fake);
  const fit: FitView = {
    weight_bytes: 2.3 * GB, kv_cache_bytes: 4.6 * GB, headroom_bytes: 0.4 * GB, draft_bytes: 0,
    prefix_bytes: 0, budget_bytes: 8 * GB, taken_bytes: 1.9 * GB, context_length: 32_768,
    context_that_fits: 24_000, fits: false, is_measured: true, speed: null,
    summary: { fit: "context", tokens: 24_000 },
  };
  fake.fit = async () => fit;
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
const isHot: SetUp = (fake) => fake.setStatus(hot);
const isTaken = onLinux({ hotkey: { hotkey: "taken", shortcut: "Ctrl+Space" } });

const isServed = (clients: ApiClientView[]): SetUp => (fake) => {
  void fake.updateSettings({ local_api: { is_on: true } });
  fake.setLocalApi({ clients });
};

/** Programs use the local API, and a limit is in force. */
const isBusy: SetUp = (fake) => {
  isServed(busyClients())(fake);
  fake.setLocalApi({ requests: someRequests() });
  fake.setStatus({ ...hot, background: { client: "zed", model: "Qwen3 4B · 4-bit" } });
};

/** A newer version was found, and then this happened. */
const updating = (change: Partial<UpdatesView>): SetUp => (fake) =>
  fake.setUpdates({ offer: update(), checked_at: Date.now(), ...change });

const second = scrolled("section:nth-of-type(2)");
const third = scrolled("section:nth-of-type(3)");

async function explained(target: HTMLElement): Promise<void> {
  await click(target, "summary");
  await third(target);
}

function alone<Props extends Record<string, unknown>>(
  component: Component<Props>, props: Props, setUp: SetUp = () => {},
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

const welcome = (setUp: SetUp = () => {}) => alone(Welcome, { onDone: () => {} }, (fake) => {
  fake.setModels(firstModels());
  setUp(fake);
});

export const settingsStates: GalleryStates = {
  "settings-model": { shows: "Fits: 3.7 GB of 10.5 GB", show: pane("model") },
  "settings-model-answers": {
    shows: "0.40",
    show: pane("model", chosen({ temperature: 0.4, top_k: 0, max_tokens: 1024 }), third),
  },
  "settings-model-typed": {
    shows: "Enter a number from 0 to 2.",
    show: pane("model", undefined, async (target) => {
      await settled();
      const field = target.querySelectorAll<HTMLInputElement>("section:nth-of-type(3) input[inputmode]")[1]!;
      field.value = "7";
      field.dispatchEvent(new Event("change", { bubbles: true }));
      await third(target);
    }),
  },
  "settings-model-too-large": {
    shows: "Too large",
    show: pane("model", chosen({ context_length: 32_768 }, "/models/Mistral-Small-24B-Q4_K_M.gguf"),
      picked("/models/Mistral-Small-24B-Q4_K_M.gguf")),
  },
  "settings-model-tight": { shows: "Fits with a 24,000-token context", show: pane("model", isTight) },
  "settings-model-german": {
    shows: "24.576",
    show: pane("model", speaking("de", chosen({ context_length: 24_576 }))),
  },
  "settings-model-japanese": { shows: "メモリ", show: pane("model", speaking("ja")) },
  "settings-behavior": { shows: "Automatic limits", show: pane("behavior") },
  "settings-behavior-lit": { shows: "Speculative decoding is off", show: pane("behavior", isHot, explained) },
  "settings-behavior-german": { shows: "Strom", show: pane("behavior", speaking("de", isHot), explained) },
  "settings-api-off": { shows: "Serve models to other apps", show: pane("api") },
  "settings-api": { shows: "Not used yet", show: pane("api", isServed([apiClient("default")])) },
  "settings-api-busy": { shows: "Generating with", show: pane("api", isBusy, second) },
  "settings-api-requests": { shows: "/v1/messages/count_tokens", show: pane("api", isBusy, scrolled("section:nth-of-type(4)")) },
  "settings-api-setup": {
    shows: "openai_compatible",
    show: pane("api", isBusy, async (target) => {
      await picked("zed")(target);
      await scrolled("section:nth-of-type(5)")(target);
    }),
  },
  "settings-api-taken": {
    shows: "Another app uses port 11535",
    show: pane("api", (fake) => {
      isServed([apiClient("default")])(fake);
      fake.setLocalApi({ state: { state: "port_taken", port: 11_535, is_ollama: false } });
    }),
  },
  "settings-api-terminal": {
    shows: "already serves your models",
    show: pane("api", (fake) => {
      isServed([apiClient("default")])(fake);
      fake.setLocalApi({ state: { state: "already_served", port: 11_535 } });
    }),
  },
  "settings-api-key": { shows: "it’s shown only once", show: pane("api", undefined, (target) => click(target, "[role=switch]")) },
  "settings-api-german": { shows: "Wartet auf", show: pane("api", speaking("de", isBusy), second) },
  "settings-api-japanese": { shows: "待機中", show: pane("api", speaking("ja", isBusy), second) },
  "settings-general": { shows: "Show in the Dock", show: pane("general") },
  "settings-general-recording": {
    shows: "Type a shortcut",
    show: pane("general", onLinux(), (target) => click(target, ".well")),
  },
  "settings-general-conflict": { shows: "Another app uses Ctrl+Space", show: pane("general", isTaken) },
  "settings-general-prompts": {
    shows: "Summarize this",
    show: pane("general", undefined, async (target) => {
      await click(target, ".fold .head");
      await scrolled("section:nth-of-type(4)")(target);
    }),
  },
  "settings-general-routes": {
    shows: "Largest share of the context for files and selections.",
    show: pane("general",
      (fake) => void fake.updateSettings({ routes: { translate: { temperature: 0.4, attached: 0.6 } } } as never),
      async (target) => {
        await click(target, "section:nth-of-type(5) .fold:nth-of-type(5) .head");
        await scrolled("section:nth-of-type(5) .fold:nth-of-type(5)")(target);
      }),
  },
  "settings-general-assistants": {
    shows: "Strict Editor",
    show: pane("general", (fake) => fake.setSettings({ assistants: sampleAssistants }), async (target) => {
      await click(target, ".fold .head");
      await third(target);
    }),
  },
  "settings-general-clear": {
    shows: "Delete all chats?",
    show: pane("general", undefined, (target) => click(target, "section:nth-of-type(6) .row:last-child button")),
  },
  "settings-general-japanese": { shows: "データフォルダ", show: pane("general", speaking("ja")) },
  "settings-about": { shows: "Apple M4", show: pane("about") },
  "settings-updates": { shows: "Version 0.2.0 is available", show: pane("about", updating({})) },
  "settings-updates-downloading": {
    shows: "Downloading version 0.2.0",
    show: pane("about", updating({ step: { step: "downloading", done_bytes: 24_000_000 } })),
  },
  "settings-updates-ready": {
    shows: "Version 0.2.0 is ready to install",
    show: pane("about", updating({ step: { step: "ready" } })),
  },
  "settings-updates-waiting": {
    shows: "Waiting for responses to finish",
    show: pane("about", updating({ step: { step: "waiting" } })),
  },
  "settings-updates-failed": {
    shows: "isn’t signed by the developers",
    show: pane("about", updating({ problem: { problem: "bad_signature" } })),
  },
  "settings-updates-refused": {
    shows: "isn’t in the Applications folder",
    show: pane("about", updating({ refusal: "not_in_applications", host: "", offer: null })),
  },
  "settings-updates-german": {
    shows: "Nicht genug Speicherplatz: Das Update",
    show: pane("about", speaking("de", updating({
      problem: { problem: "disk_full", needed_bytes: 507_000_000, free_bytes: 312_000_000 },
    }))),
  },
  "settings-updates-japanese": {
    shows: "バージョン 0.2.0 を利用できます",
    show: pane("about", speaking("ja", updating({}))),
  },
  "settings-about-missing": {
    shows: "Not available in this session",
    show: pane("about", onLinux({ missing: ["global_shortcut", "selection", "tray"] })),
  },
  "settings-shortcuts": {
    shows: "Open the quick prompt",
    show: alone(ShortcutsSheet, { onclose: () => {} }),
  },
  "welcome": { shows: "Recommended: Qwen3 8B", show: welcome() },
  "welcome-found": {
    shows: "From LM Studio",
    show: welcome((fake) => fake.setModels(firstModels(3.1))),
  },
  "welcome-downloading": {
    shows: "You can use the tiny demo model in the meantime.",
    show: welcome(({ downloadQueue }) => {
      downloadQueue.install("qwen3-8b@4-bit");
      downloadQueue.come(1, 0.4);
      modelSource.downloads = downloadQueue.downloads;
    }),
  },
  "welcome-disk": {
    shows: "Not enough disk space",
    show: welcome(({ downloadQueue }) => {
      downloadQueue.catalog = onDisk(downloadQueue.catalog, 4.2);
    }),
  },
  "welcome-german": { shows: "Empfohlen: Qwen3 8B", show: welcome(speaking("de")) },
  "welcome-japanese": { shows: "おすすめ", show: welcome(speaking("ja")) },
  "welcome-updates": {
    shows: "Updates only if you want",
    show: async (fake, target) => {
      const drawn = await welcome()(fake, target);
      await scrolled("li:last-child")(target);
      return drawn;
    },
  },
  "welcome-conflict": { shows: "Another app uses Ctrl+Space", show: welcome(isTaken) },
};
