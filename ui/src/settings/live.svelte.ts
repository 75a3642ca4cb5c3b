/**
 * Changes of settings. A change is shown at once, sent after a moment (so that a slider sends one
 * patch, not fifty), and taken back with its reason when the app refuses it. Everything else is the
 * state that all pages share.
 */
import { ipc, type ModelSettings, type Patch, type Refusal, type Settings } from "../ipc";
import { app, refreshModels } from "../state/app.svelte";
import { refusal } from "../state/refusal";
import { joined, merged } from "./patch";

/** How long a slider or a text rests before its change is sent. */
const REST_MS = 250;

export class Live {
  /** The last change that was refused, until one is accepted. */
  refused = $state.raw<Refusal | null>(null);

  /** Changes that wait, and those that are on their way. */
  #waiting = $state.raw<Patch<Settings> | null>(null);
  #sent = $state.raw<Patch<Settings> | null>(null);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #last: Promise<void> = Promise.resolve();

  /** The app's settings with the changes that it does not know yet. */
  #shown = $derived.by(() => {
    const patches = [this.#sent, this.#waiting].filter((patch) => patch !== null);
    return app.settings && patches.reduce(merged<Settings>, app.settings);
  });
  get settings(): Settings | null {
    return this.#shown;
  }
  get status() {
    return app.status;
  }
  get about() {
    return app.about;
  }
  get models() {
    return app.models;
  }

  readModels(): Promise<void> {
    return refreshModels();
  }

  async readAbout(): Promise<void> {
    app.about = await ipc.about();
  }

  /** Changes settings; `rests` for what changes many times in a row. */
  change(patch: Patch<Settings>, rests = false): void {
    this.#waiting = this.#waiting ? joined(this.#waiting, patch) : patch;
    clearTimeout(this.#timer);
    if (rests) this.#timer = setTimeout(() => void this.flush(), REST_MS);
    else void this.flush();
  }

  /** Changes what was chosen for one model; `null` takes all of it back. */
  changeModel(id: string, patch: Patch<ModelSettings> | null, rests = false): void {
    this.change({ models: { [id]: patch } } as Patch<Settings>, rests);
  }

  /** Sends what waits; resolves when the app has answered. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#last = this.#last.then(() => this.#send());
    return this.#last;
  }

  /** Does what the app may refuse, and shows why if it does. */
  async attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      const result = await work();
      this.refused = null;
      return result;
    } catch (reason) {
      this.refused = refusal(reason);
      return undefined;
    }
  }

  async #send(): Promise<void> {
    const patch = this.#waiting;
    if (!patch) return;
    this.#sent = patch;
    this.#waiting = null;
    const settings = await this.attempt(() => ipc.updateSettings(patch));
    if (settings) app.settings = settings;
    this.#sent = null;
  }
}
