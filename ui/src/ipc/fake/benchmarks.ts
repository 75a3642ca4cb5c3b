/** Results of benchmarks for tests and the gallery. */
import type { BenchmarkView, EngineSettings, QualityReport, SustainedReport } from "../bindings";

const GB = 2 ** 30;

/** A form whose windows have these speeds. */
export function sustained(engine: string, speeds: number[], change: Partial<SustainedReport> = {}): SustainedReport {
  const settings: EngineSettings = {
    stored_as: "4-bit, group 64", computed_as: "bf16", context_length: 1024, prompt_tokens: 64,
    generate_tokens: 256, temperature: 0, speculation: false, weight_bytes: 2.3 * GB, kv_cache_bytes: null,
    budget_bytes: 10 * GB,
  };
  return {
    model: "Qwen3-4B", engine, settings,
    windows: speeds.map((speed, index) => ({
      start_seconds: 10 * index, seconds: 10, tokens: 10 * speed, tokens_per_second: speed,
      thermal: index < 14 ? "nominal" : "fair", limits: [], joules: 140,
    })),
    minutes: [{ minute: 1, tokens_per_second: speeds[2] ?? 0 }, { minute: 4, tokens_per_second: speeds.at(-2) ?? 0 }],
    throttling: null, energy: { joules: 3360, watts: 14, tokens_per_joule: 3.1 }, energy_problem: null,
    prediction: { low: 36, high: 54, measured: speeds[2] ?? 0, is_far_off: false }, ended_early: null, ...change,
  };
}

/** A model in both engines. One slows down, and the prediction of the other is wrong. */
export function speeds(): BenchmarkView {
  const mlx = [48, 49.2, 49, 48.6, 49.1, 48.9, 48.7, 48.8, 48.2, 48.5, 48.6, 48, 44.1, 42.5, 41, 40.2, 39.6, 39.8,
    39.1, 39.3, 38.9, 39.2, 39, 38.8];
  const llama = mlx.map((_, index) => 26.4 + Math.sin(index) * 0.6);
  return {
    key: "sustained qwen3-4b@4-bit",
    axes: { seconds: { step: 60, n_steps: 4 }, speed: { step: 10, n_steps: 6 } },
    benchmark: {
      model_id: "qwen3-4b@4-bit", model: "Qwen3 4B · 4-bit", chip: "Apple M4", version: "0.1.0",
      ended_at: Date.UTC(2026, 10, 20, 9, 41) / 1000,
      measured: { kind: "sustained", forms: [
        sustained("mlx", mlx, { throttling: { at_seconds: 120, before: 48.9, after: 39.4 } }),
        sustained("llama.cpp", llama, {
          prediction: { low: 36, high: 54, measured: 26.4, is_far_off: true }, energy: null,
          energy_problem: "only the administrator may read the energy counters", ended_early: "limited",
        }),
      ] },
    },
  };
}

function form(engine: string, perplexity: number, divergence: QualityReport["divergence"]): QualityReport {
  return {
    model: "Qwen3-4B", engine, stored_as: engine === "mlx" ? "bf16" : "Q4_K_M", computed_as: "bf16",
    is_reference: engine === "mlx", divergence, n_tokens: 1128, n_bytes: 4600, perplexity,
    perplexity_error: perplexity / 30, bits_per_byte: Math.log2(perplexity) / 4.1,
  };
}

export function qualities(): BenchmarkView {
  return {
    key: "quality qwen3-4b@4-bit", axes: null,
    benchmark: {
      model_id: "qwen3-4b@4-bit", model: "Qwen3 4B · 4-bit", chip: "Apple M4", version: "0.1.0",
      ended_at: Date.UTC(2026, 10, 19, 20, 5) / 1000,
      measured: { kind: "quality", forms: [
        form("mlx", 12.41, null),
        form("llama.cpp", 13.02, { kl_nats: 0.0412, kl_error: 0.0021, same_top: 0.943 }),
      ] },
    },
  };
}
