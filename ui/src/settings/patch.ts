/**
 * Patches of settings on the page, so that a change is visible before the app has replied. The
 * app's reply replaces the result.
 */
import type { ModelSettings, Patch, RouteChanges, Settings } from "../ipc";

type Json = Record<string, unknown>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns `base` with `patch` merged into it. `null` stays `null`, which settings read as the default. */
export function merged<T>(base: T, patch: Patch<T>): T {
  return merge(base as Json, patch as Json) as T;
}

/** Returns one patch with the effect of `first` and then `second`. */
export function joined<T>(first: Patch<T>, second: Patch<T>): Patch<T> {
  return merge(first as Json, second as Json) as Patch<T>;
}

function merge(base: Json, patch: Json): Json {
  const result: Json = { ...base };
  for (const [key, value] of Object.entries(patch)) {
    const under = base[key];
    result[key] = isObject(value) ? merge(isObject(under) ? under : {}, value) : value;
  }
  return result;
}

/** The settings of a model if the user set none. */
export const NO_CHOICES: ModelSettings = {
  context_length: null, kv_cache: "automatic", max_tokens: null, temperature: null, top_p: null,
  top_k: null, min_p: null, repetition_penalty: null, seed: null, system_prompt: null,
  thinking: null,
};

/** A route as it is built in. */
export const NO_CHANGES: RouteChanges = {
  is_off: false, instructions: null, temperature: null, thinking: null, reserve: null, history: null,
  attached: null,
};

/** Returns all settings of model `id`. */
export function choicesFor(settings: Settings, id: string): ModelSettings {
  const chosen = settings.models[id];
  return { ...NO_CHOICES, ...chosen, kv_cache: chosen?.kv_cache ?? "automatic" };
}

/** Returns true if the user set anything for the model. */
export function hasChoices(choices: ModelSettings): boolean {
  return Object.entries(choices).some(
    ([key, value]) => value !== null && value !== NO_CHOICES[key as keyof ModelSettings],
  );
}
