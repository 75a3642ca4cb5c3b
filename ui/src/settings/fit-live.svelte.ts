/**
 * The memory fit of one model for the current choices: the app's result, adjusted with the slider
 * until the next result arrives.
 */
import { ipc, type FitView, type ModelSettings } from "../ipc";
import { atContext } from "./fit";

/** The delay after the last slider movement before the app is asked. */
const DELAY_MS = 30;

export class LiveFit {
  /** The current fit; null until the first result. */
  shown = $state<FitView | null>(null);
  isUnknown = $state(false);

  #result: FitView | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #requests = 0;

  follow(id: string, choices: ModelSettings): void {
    if (this.#result && choices.context_length !== null) {
      this.shown = atContext(this.#result, choices.context_length);
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#ask(id, choices), this.#result ? DELAY_MS : 0);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#requests += 1;
  }

  async #ask(id: string, choices: ModelSettings): Promise<void> {
    const request = ++this.#requests;
    try {
      const fit = await ipc.fit(id, choices);
      // A result for older choices would make the bar jump back.
      if (request !== this.#requests) return;
      this.#result = this.shown = fit;
      this.isUnknown = false;
    } catch {
      if (request === this.#requests) this.isUnknown = true;
    }
  }
}
