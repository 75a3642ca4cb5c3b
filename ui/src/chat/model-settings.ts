/** The settings of a model if the user set none. */
import type { ModelSettings } from "../ipc";

export const byDefault: ModelSettings = {
  context_length: null, kv_cache: "automatic", max_tokens: null, temperature: null, top_p: null,
  top_k: null, min_p: null, repetition_penalty: null, seed: null, system_prompt: null,
  thinking: null,
};
