/**
 * The settings window and the welcome in the states that are worth a picture. Each sets up the fake
 * app, then draws what a window draws.
 */
import { mount, tick, type Component } from "svelte";
import type { FakeIpc } from "../ipc/fake";
import type { FitView, StatusView } from "../ipc";
import { startApp } from "../state/app.svelte";
import { Live } from "../settings/live.svelte";
import type { Pane } from "../settings/pages";
import Settings from "../settings/Settings.svelte";
import { shown } from "../settings/shown.svelte";
import ShortcutsSheet from "../help/ShortcutsSheet.svelte";
import Welcome from "../welcome/Welcome.svelte";

/** A state of a window, by name. `show` is given a fresh fake app that is already in place, and
 * resolves to what `unmount` takes. */
export interface GalleryState {
  name: string;
  show: (fake: FakeIpc, target: HTMLElement) => Promise<Drawn>;
}

type Drawn = ReturnType<typeof mount>;

type SetUp = (fake: FakeIpc) => void;

const nothing: SetUp = () => {};

/** What follows when the page is drawn: a click on the button with these words, or on this element. */
async function click(target: HTMLElement, selector: string): Promise<void> {
  await settled();
  target.querySelector<HTMLElement>(selector)?.click();
  await settled();
}

async function settled(): Promise<void> {
  await tick();
  await new Promise((done) => setTimeout(done, 60));
  await tick();
}

function pane(pane: Pane, setUp: SetUp = nothing, then: (target: HTMLElement) => Promise<void> = settled) {
  return async (fake: FakeIpc, target: HTMLElement) => {
    setUp(fake);
    await startApp();
    shown.pane = pane;
    const drawn = mount(Settings, { target, props: { live: new Live() } });
    await settled();
    await then(target);
    return drawn;
  };
}

/** Shows what is further down. */
function scrolled(selector: string) {
  return async (target: HTMLElement) => {
    await settled();
    target.querySelector(selector)?.scrollIntoView({ block: "start" });
  };
}

function speaking(language: string, setUp: SetUp = nothing): SetUp {
  return (fake) => {
    void fake.updateSettings({ general: { language } });
    setUp(fake);
  };
}

/** The chosen model with this context. */
function withContext(tokens: number, id = "/models/Qwen3-4B-4bit"): SetUp {
  return (fake) => {
    void fake.updateSettings({ models: { [id]: { context_length: tokens } } });
  };
}

/** Others take a part, and the context is longer than what is left. */
const isTight: SetUp = (fake) => {
  withContext(32_768)(fake);
  const GB = 2 ** 30;
  const fit: FitView = {
    weight_bytes: 2.3 * GB, kv_cache_bytes: 4.6 * GB, headroom_bytes: 0.4 * GB, draft_bytes: 0,
    prefix_bytes: 0, budget_bytes: 8 * GB, taken_bytes: 1.9 * GB, context_length: 32_768,
    context_that_fits: 24_000, fits: false, is_measured: true, speed: null,
    verdict: { verdict: "context", tokens: 24_000 },
  };
  Object.assign(fake, { fit: async () => fit });
};

const hot: Partial<StatusView> = {
  machine: {
    memory: "warning", heat: "nominal", is_low_power: true, is_on_battery: true, is_thrashing: false,
  },
  restraints: [
    { limit: { limit: "answer_length", tokens: 1024 }, because: "memory_warning" },
    { limit: { limit: "context", tokens: 4096 }, because: "memory_warning" },
    { limit: { limit: "idle_unload", seconds: 60 }, because: "memory_warning" },
    { limit: { limit: "speculation" }, because: "low_power" },
    { limit: { limit: "smaller_model" }, because: "low_power" },
    { limit: { limit: "background_work" }, because: "battery" },
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
    setUp(fake);
    await startApp();
    const drawn = mount(component, { target, props });
    await settled();
    return drawn;
  };
}

export const settingsStates: GalleryState[] = [
  {
    name: "settings-model",
    show: pane("model"),
  },
  {
    name: "settings-model-answers",
    show: pane("model", (fake) => {
      void fake.updateSettings({
        models: { "/models/Qwen3-4B-4bit": { temperature: 0.4, top_k: 0, max_tokens: 1024 } },
      });
    }, scrolled("section:nth-of-type(3)")),
  },
  {
    name: "settings-model-too-large",
    show: pane("model", withContext(32_768, "/models/Mistral-Small-24B-Q4_K_M.gguf"),
      (target) => click(target, ".list li:nth-child(2) .name")),
  },
  {
    name: "settings-model-tight",
    show: pane("model", isTight),
  },
  {
    name: "settings-model-german",
    show: pane("model", speaking("de", withContext(24_576))),
  },
  {
    name: "settings-model-japanese",
    show: pane("model", speaking("ja")),
  },
  {
    name: "settings-behaviour",
    show: pane("behaviour"),
  },
  {
    name: "settings-behaviour-lit",
    show: pane("behaviour", (fake) => fake.setStatus(hot), scrolled("section:nth-of-type(3)")),
  },
  {
    name: "settings-behaviour-german",
    show: pane("behaviour", speaking("de", (fake) => fake.setStatus(hot)),
      scrolled("section:nth-of-type(3)")),
  },
  {
    name: "settings-general",
    show: pane("general"),
  },
  {
    name: "settings-general-recording",
    show: pane("general", onLinux(), (target) => click(target, ".well")),
  },
  {
    name: "settings-general-conflict",
    show: pane("general", isTaken),
  },
  {
    name: "settings-general-prompts",
    show: pane("general", nothing, async (target) => {
      await click(target, ".prompt .head");
      target.querySelector("section:nth-of-type(3)")?.scrollIntoView({ block: "start" });
    }),
  },
  {
    name: "settings-general-clear",
    show: pane("general", nothing, (target) => click(target, "section:nth-of-type(4) .row:last-child button")),
  },
  {
    name: "settings-general-japanese",
    show: pane("general", speaking("ja")),
  },
  {
    name: "settings-about",
    show: pane("about"),
  },
  {
    name: "settings-about-missing",
    show: pane("about", onLinux({ missing: ["global_shortcut", "selection", "tray"] })),
  },
  {
    name: "settings-shortcuts",
    show: alone(ShortcutsSheet, { platform: "macos", onclose: () => {} }),
  },
  {
    name: "welcome",
    show: alone(Welcome, { onDone: () => {} }),
  },
  {
    name: "welcome-conflict",
    show: alone(Welcome, { onDone: () => {} }, isTaken),
  },
];
