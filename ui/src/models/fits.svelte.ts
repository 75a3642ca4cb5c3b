/**
 * Whether the installed models fit with their settings. Loaded when a page shows it, because that
 * reads model files.
 */
import { SvelteMap } from "svelte/reactivity";
import { ipc, type FitView, type ModelView } from "../ipc";
import { choicesFor } from "../settings/patch";
import { app } from "../state/app.svelte";

export class ModelFits {
  #fits = new SvelteMap<string, FitView>();

  /** Undefined until it is loaded, and for a model that cannot be estimated. */
  get(id: string): FitView | undefined {
    return this.#fits.get(id);
  }

  async load(models: readonly ModelView[] = app.chatModels): Promise<void> {
    for (const model of models) {
      if (!model.facts || !app.settings) continue;
      try {
        this.#fits.set(model.id, await ipc.fit(model.id, choicesFor(app.settings, model.id)));
      } catch {
        this.#fits.delete(model.id);
      }
    }
  }
}
