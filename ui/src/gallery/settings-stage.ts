/** Sets up and draws states of the settings window. */
import { mount, tick } from "svelte";
import type { FakeIpc } from "../ipc/fake";
import { startApp } from "../state/app.svelte";
import { modelSource } from "../state/model-source.svelte";
import { Live } from "../settings/live.svelte";
import type { Pane } from "../settings/pages";
import Settings from "../settings/Settings.svelte";
import { currentPane } from "../settings/current-pane.svelte";

/**
 * The states of a window by name. `show` gets a new fake app that is already installed, and resolves
 * to the argument of `unmount`.
 */
export type GalleryStates = Record<string, {
  /** Text that only this state shows; see `claim`. */
  shows: string;
  show: (fake: FakeIpc, target: HTMLElement) => Promise<ReturnType<typeof mount>>;
}>;

export type SetUp = (fake: FakeIpc) => void;

const nothing: SetUp = () => {};

function found<E extends Element>(target: HTMLElement, selector: string): E {
  const element = target.querySelector<E>(selector);
  if (!element) throw new Error(`there is no ${selector}`);
  return element;
}

/** An action after the page is drawn: clicks the button with this label, or this element. */
export async function click(target: HTMLElement, selector: string): Promise<void> {
  await settled();
  found<HTMLElement>(target, selector).click();
  await settled();
}

export async function settled(): Promise<void> {
  await tick();
  await new Promise((done) => setTimeout(done, 60));
  await tick();
}

export function pane(pane: Pane, setUp: SetUp = nothing, then: (target: HTMLElement) => Promise<void> = settled) {
  return async (fake: FakeIpc, target: HTMLElement) => {
    setUp(fake);
    await begin(pane);
    const drawn = mount(Settings, { target, props: { live: new Live() } });
    await settled();
    await then(target);
    return drawn;
  };
}

/** Resets shared state between gallery pages. */
async function begin(pane: Pane): Promise<void> {
  modelSource.catalog = modelSource.drag = null;
  modelSource.dropped = [];
  modelSource.downloads = [];
  currentPane.model = null;
  await startApp();
  currentPane.pane = pane;
}

export function picked(value: string) {
  return async (target: HTMLElement) => {
    await settled();
    const select = found<HTMLSelectElement>(target, "select");
    select.value = value;
    select.dispatchEvent(new Event("change", { bubbles: true }));
    await settled();
  };
}

export function scrolled(selector: string) {
  return async (target: HTMLElement) => {
    await settled();
    found(target, selector).scrollIntoView({ block: "start" });
  };
}

export function onLinux(change: Partial<FakeIpc["aboutView"]> = {}): SetUp {
  return (fake) => {
    fake.aboutView = {
      ...fake.aboutView, platform: "linux", system: "Debian 12", default_hotkey: "Ctrl+Space",
      chip: "AMD Ryzen 7 7840U", data_folder: "~/.local/share/transom",
      hotkey: { hotkey: "registered", shortcut: "Ctrl+Space" }, ...change,
    };
  };
}

export function speaking(language: string, setUp: SetUp = nothing): SetUp {
  return (fake) => {
    void fake.updateSettings({ general: { language } });
    setUp(fake);
  };
}
