/**
 * The fit of one model for the choices that are shown: the app's answer, moved along with the
 * slider until the next one is there.
 */
import { ipc, type FitView, type ModelSettings } from "../ipc";
import { atContext } from "./fit";

/** The app is asked when the slider has rested this long. */
const REST_MS = 30;

export class LiveFit {
  /** What is shown; null until the first answer. */
  shown = $state<FitView | null>(null);
  /** Why there is none. */
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
      // An answer to an older question would let the bar jump back.
      if (question !== this.#asked) return;
      this.#answer = this.shown = fit;
      this.isUnknown = false;
    } catch {
      if (question === this.#asked) this.isUnknown = true;
    }
  }
}
