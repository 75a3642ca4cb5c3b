/**
 * The memory fit of one model for the current choices: the app's result, adjusted with the slider
 * until the next result arrives.
 */
import { ipc, type FitView, type ModelSettings } from "../ipc";
import { atContext } from "./fit";

/** The delay after the last slider movement before the app is asked. */
const REST_MS = 30;

export class LiveFit {
  /** The current fit; null until the first result. */
  shown = $state<FitView | null>(null);
  /** Why there is no result. */
  isUnknown = $state(false);

  #answer: FitView | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asked = 0;

  /** Shows the fit for other choices. */
  follow(id: string, choices: ModelSettings): void {
    if (this.#answer && choices.context_length !== null) {
      this.shown = atContext(this.#answer, choices.context_length);
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#ask(id, choices), this.#answer ? REST_MS : 0);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#asked += 1;
  }

  async #ask(id: string, choices: ModelSettings): Promise<void> {
    const question = ++this.#asked;
    try {
      const fit = await ipc.fit(id, choices);
      // A result for older choices would make the bar jump back.
      if (question !== this.#asked) return;
      this.#answer = this.shown = fit;
      this.isUnknown = false;
    } catch {
      if (question === this.#asked) this.isUnknown = true;
    }
  }
}
