/**
 * Changes of settings. A change is shown at once, sent after a delay (so that a slider sends one
 * patch and not fifty), and reverted with its reason if the app refuses it.
 */
import { createContext } from "svelte";
import { ipc, type ModelSettings, type Patch, type CommandError, type Settings } from "../ipc";
import { app, refreshModels } from "../state/app.svelte";
import { commandError } from "../state/command-error";
import { joined, merged } from "./patch";

/** The delay before changes of a slider or a text are sent. */
const DELAY_MS = 250;

/** The changes of the window, for components below it. */
export const [useLive, provideLive] = createContext<Live>();

export class Live {
  /** The last refused change, until one is accepted. */
  refused = $state.raw<CommandError | null>(null);

  /** Changes that wait, and changes that were sent. */
  #waiting = $state.raw<Patch<Settings> | null>(null);
  #sent = $state.raw<Patch<Settings> | null>(null);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #last: Promise<void> = Promise.resolve();

  /** The app's settings with the changes that it does not have yet. */
  settings: Settings | null = $derived.by(() => {
    const patches = [this.#sent, this.#waiting].filter((patch) => patch !== null);
    return app.settings && patches.reduce(merged<Settings>, app.settings);
  });

  /** Changes settings; `isDelayed` delays changes that come many times in a row. */
  change(patch: Patch<Settings>, isDelayed = false): void {
    this.#waiting = this.#waiting ? joined(this.#waiting, patch) : patch;
    clearTimeout(this.#timer);
    if (isDelayed) this.#timer = setTimeout(() => void this.flush(), DELAY_MS);
    else void this.flush();
  }

  /** Changes settings of one model; `null` resets all of them. */
  changeModel(id: string, patch: Patch<ModelSettings> | null, isDelayed = false): void {
    this.change({ models: { [id]: patch } } as Patch<Settings>, isDelayed);
  }

  /** Sends the waiting changes. Resolves when the app has replied. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#last = this.#last.then(() => this.#send());
    return this.#last;
  }

  /** Runs a command that may fail, and shows the reason if it does. */
  async attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      const result = await work();
      this.refused = null;
      return result;
    } catch (reason) {
      this.refused = commandError(reason);
      return undefined;
    }
  }

  /** Runs a command that changes the list of models. */
  async updateModels<T>(work: () => Promise<T>): Promise<T | undefined> {
    const result = await this.attempt(work);
    await refreshModels();
    return result;
  }

  async #send(): Promise<void> {
    const patch = this.#waiting;
    if (!patch) return;
    this.#sent = patch;
    this.#waiting = null;
    const before = app.settings;
    const settings = await this.attempt(() => ipc.updateSettings(patch));
    // The app sends every change as an event, too; one that came meanwhile may be newer.
    if (settings && app.settings === before) app.settings = settings;
    this.#sent = null;
  }
}
