/** What a model is asked with where the user chose nothing. */
import type { ModelSettings } from "../ipc";

export const byDefault: ModelSettings = {
  context_length: null, kv_cache: "automatic", max_tokens: null, temperature: null, top_p: null,
  top_k: null, min_p: null, repetition_penalty: null, seed: null, system_prompt: null,
  thinking: null,
};
