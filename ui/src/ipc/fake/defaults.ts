/** The initial state of the fake app: a machine without limits and two models. */
import type {
  AboutView, Assistant, FitView, LoadedView, ModelSettings, ModelView, Route, RouteSettings, Settings, StatusView,
} from "../bindings";

export const GB = 2 ** 30;
export const MB = 2 ** 20;

export function settings(): Settings {
  return {
    general: {
      hotkey: null, launch_at_login: false, show_in_dock: false, chat_in_window: false,
      pin_chat: false, pin_prompt: false, zoom: null, appearance: "system", language: null,
      routing_off: false, check_for_updates: false, was_welcomed: true,
    },
    local_api: { is_on: false, port: null, ollama_port: null, allowed_origins: [] },
    behavior: { idle_unload_seconds: null, keep_loaded: false, memory_budget_bytes: null },
    model: "/models/Qwen3-4B-4bit",
    models: {}, added_models: [], recent_models: [], prompts: null, assistants: [], routes: {},
    declined_offers: [],
  };
}

export function models(): ModelView[] {
  const facts = {
    n_parameters: 4.02e9, quantization: "4-bit", formats: ["mlx"],
    size_bytes: 2.3 * GB, max_context_length: 40_960, has_chat_template: true, default_thinking: true,
  };
  const common = {
    can_be_removed: false, is_chosen: false, entry: null, sampling: null, problem: null, is_embedder: false, is_missing: false,
  };
  return [
    { ...common, id: "/models/Qwen3-4B-4bit", name: "Qwen3 4B · 4-bit", origin: { origin: "ours" },
      can_be_removed: true, is_chosen: true, entry: "qwen3-4b", size_bytes: 2.3 * GB, facts,
      sampling: { temperature: 0.6, top_p: 0.95, top_k: 20, min_p: 0, repetition_penalty: null } },
    { ...common, id: "/models/Mistral-Small-24B-Q4_K_M.gguf", name: "Mistral Small 24B",
      origin: { origin: "elsewhere", app: "LM Studio" }, size_bytes: 13.3 * GB,
      facts: { ...facts, n_parameters: 23.6e9, quantization: "Q4_K",
        formats: ["gguf"], size_bytes: 13.3 * GB, max_context_length: 32_768, default_thinking: null } },
    { ...common, id: "/models/old-model", name: "old-model", origin: { origin: "added" },
      size_bytes: 4.1 * GB, facts: null,
      problem: { code: "truncated", file: "model.safetensors", value: "",
        detail: "/models/old-model/model.safetensors: cut short: tensor model.norm.weight ends behind the file" } },
    { ...common, id: "starter", name: "Starter", origin: { origin: "starter" },
      entry: "starter", size_bytes: 71 * MB,
      facts: { ...facts, n_parameters: 62e6, quantization: "4-bit",
        formats: ["mlx", "gguf"], size_bytes: 71 * MB, max_context_length: 2048, default_thinking: null } },
  ];
}

/** For states that show assistants. */
export const sampleAssistants: Assistant[] = [
  { name: "Strict Editor", settings: { model: null, temperature: 0.2, context_length: null, thinking: null, overflow: "drop_oldest",
    instructions: "Correct spelling and grammar. Change nothing else, and list your changes at the end." } },
  { name: "Poet", settings: { model: "starter", temperature: 1.2, context_length: 2048, thinking: false, overflow: "stop",
    instructions: "Answer in rhymes." } },
];

/** The models of a new user: the starter, and one of LM Studio if it has a size. */
export function firstModels(gigabytes: number | null = null): ModelView[] {
  return models().flatMap((one): ModelView[] => {
    if (one.origin.origin === "starter") return [{ ...one, is_chosen: true }];
    if (one.origin.origin !== "elsewhere" || !one.facts || gigabytes === null) return [];
    const size_bytes = gigabytes * GB;
    return [{ ...one, id: "/models/gemma-3-4b", name: "Gemma 3 4B · 4-bit", size_bytes,
      facts: { ...one.facts, n_parameters: 4.3e9, size_bytes } }];
  });
}

export function fit(model: ModelView, chosen: ModelSettings): FitView {
  const weight_bytes = model.facts?.size_bytes ?? 0;
  const longest = model.facts?.max_context_length ?? 4096;
  const context_length = chosen.context_length ?? Math.min(longest, 8192);
  const small = chosen.kv_cache === "small" ? 0.53 : 1;
  const perToken = (weight_bytes / GB) * 62_000 * small;
  const headroom_bytes = 0.3 * GB;
  const budget_bytes = 10.5 * GB;
  const room = budget_bytes - weight_bytes - headroom_bytes;
  const most = Math.floor(room / Math.max(1, perToken));
  const kv_cache_bytes = perToken * context_length;
  const need_bytes = weight_bytes + kv_cache_bytes + headroom_bytes;
  const fits = need_bytes <= budget_bytes;
  const context_that_fits = most >= 512 ? Math.min(longest, most) : null;
  return {
    weight_bytes, kv_cache_bytes, headroom_bytes, draft_bytes: 0, prefix_bytes: 0, budget_bytes,
    taken_bytes: 0, context_length, context_that_fits, fits, is_measured: false,
    summary: fits ? { fit: "fits" }
      : context_that_fits ? { fit: "context", tokens: context_that_fits }
      : { fit: "too_large", need_bytes, room_bytes: budget_bytes },
    speed: fits ? { low: 21, high: 30, is_measured: false } : null,
  };
}

export function loaded(): LoadedView {
  return {
    name: "Qwen3 4B · 4-bit", load_fraction: null, is_ready: true, is_unloading: false,
    memory_bytes: 2.8 * GB, engine: "mlx", context_length: 8192, unloads_in_seconds: 540,
  };
}

export function status(): StatusView {
  return {
    activity: "idle", model: loaded(), budget_bytes: 10.5 * GB, in_use_bytes: 2.8 * GB, held: null,
    is_paused: false, limits: [], offer_smaller_model: false,
    machine: {
      memory: "normal", thermal: "nominal", is_low_power: false, is_on_battery: false,
      is_thrashing: false,
    },
    last_unload: null, n_queued: 0, background: null, is_client: false,
  };
}

/** Values like the built-in ones, with the first sentence of their instructions. */
function routes(): [Route, RouteSettings][] {
  return [
    ["code", { temperature: null, thinking: null, history: null, attached: 0.7, is_sticky: true,
      reserve_context: 0.25, reserve_text: null,
      instructions: "Answer as an experienced programmer." }],
    ["summarize", { temperature: 0.3, thinking: false, history: 0.0, attached: 0.8, is_sticky: false,
      reserve_context: 0.125, reserve_text: null,
      instructions: "Summarize the text that the user gives or attached." }],
    ["rewrite", { temperature: 0.4, thinking: false, history: 0.0, attached: 0.4, is_sticky: false,
      reserve_context: null, reserve_text: 1.3,
      instructions: "Rewrite the text that the user gives or attached, as the user asks." }],
    ["translate", { temperature: 0.2, thinking: false, history: 0.0, attached: 0.4, is_sticky: false,
      reserve_context: null, reserve_text: 1.3,
      instructions: "Translate the text that the user gives or attached into the language that the user names." }],
    ["question", { temperature: null, thinking: null, history: 0.0625, attached: 0.75, is_sticky: false,
      reserve_context: 0.125, reserve_text: null,
      instructions: "Answer questions about the text that the user attached from that text." }],
    ["extract", { temperature: 0.0, thinking: false, history: 0.0, attached: 0.7, is_sticky: false,
      reserve_context: 0.25, reserve_text: null,
      instructions: "Extract what the user asks for from the text that the user gives or attached." }],
  ];
}

export function about(): AboutView {
  return {
    version: "0.1.0",
    dependencies: [
      { name: "MLX", version: "0.29.2", license: "MIT" },
      { name: "llama.cpp", version: "b6500", license: "MIT" },
      { name: "Tauri", version: "2.12.5", license: "MIT OR Apache-2.0" },
    ],
    data_folder: "~/Library/Application Support/Transom",
    system: "macOS 26.1", chip: "Apple M4", memory_bytes: 16 * GB, missing: [],
    hotkey: { hotkey: "registered", shortcut: "Alt+Space" }, default_hotkey: "Alt+Space",
    platform: "macos", languages: ["en"], routes: routes(),
  };
}
