/** The local API of the fake app: keys, clients and requests that tests and the gallery choose. */
import type { ApiClientView, ApiSetupView, LocalApiView, RequestRecord, Settings } from "../bindings";

/** A local API that is off, without keys. */
export function localApi(): LocalApiView {
  return {
    state: { state: "off" }, clients: [], keys_problem: null, requests: [], max_queued: 16, max_queued_per_key: 8,
  };
}

/** The state for these settings, of a computer with free ports. */
export function stateFor({ local_api }: Settings): LocalApiView["state"] {
  return local_api.is_on
    ? { state: "listening", port: local_api.port ?? 11_535, ollama_port: local_api.ollama_port }
    : { state: "off" };
}

export function apiClient(name: string, change: Partial<ApiClientView> = {}): ApiClientView {
  return { name, created_at: Date.now() - 86_400_000, work: null, requests: 0, tokens: 0, last_used_at: null, ...change };
}

/** A key that was created now. */
export const newKey = "sk-transom-4f0c1d9be27a6358c4d1f0a97b3e52681d0f9c8b7a6e5d4c3b2a19081726354f";

const model = "Qwen3 4B · 4-bit";

/** Programs that use the API now. */
export function busyClients(): ApiClientView[] {
  const last_used_at = Date.now() - 4_000;
  return [
    apiClient("zed", { work: { work: "generating", model, tokens: 212 }, requests: 31, tokens: 48_120, last_used_at }),
    apiClient("claude-code", { work: { work: "queued", model }, requests: 4, tokens: 21_377, last_used_at }),
    apiClient("backup-script", { requests: 2, tokens: 640, last_used_at: Date.now() - 3_600_000 }),
    apiClient("open-webui"),
  ];
}

export function request(id: number, change: Partial<RequestRecord> = {}): RequestRecord {
  return {
    id, key: "zed", route: "/v1/chat/completions", model: "qwen3-4b@4-bit", prompt_tokens: 1_840, generated_tokens: 96,
    began_at: Date.now() - 9_000, took_ms: 2_840, status: 200, is_canceled: false, ...change,
  };
}

/** One request of each kind, newest first. */
export function someRequests(): RequestRecord[] {
  return [
    request(7, { took_ms: null, prompt_tokens: 0, generated_tokens: 0 }),
    request(6, { key: "claude-code", route: "/v1/messages/count_tokens", prompt_tokens: 0, generated_tokens: 0, took_ms: 41 }),
    request(5, { key: null, model: null, status: 401, prompt_tokens: 0, generated_tokens: 0, took_ms: 1 }),
    request(4, { is_canceled: true, generated_tokens: 12, took_ms: 900 }),
    request(3, { key: "backup-script", route: "/v1/completions", status: 503, prompt_tokens: 0, generated_tokens: 0, took_ms: 12 }),
    request(2),
    request(1, { key: "open-webui", route: "/v1/models", model: null, prompt_tokens: 0, generated_tokens: 0, took_ms: 3 }),
  ];
}

/** The lines of every program, like those of the app. */
export function setups(port: number): ApiSetupView[] {
  const root = `http://localhost:${port}`;
  const openai = `export OPENAI_BASE_URL=${root}/v1\nexport OPENAI_API_KEY=$TRANSOM_API_KEY`;
  const anthropic = `export ANTHROPIC_BASE_URL=${root}\nexport ANTHROPIC_API_KEY=$TRANSOM_API_KEY`;
  const curl = `curl ${root}/v1/chat/completions \\\n  -H "Authorization: Bearer $TRANSOM_API_KEY" \\\n` +
    `  -H 'Content-Type: application/json' \\\n` +
    `  -d '{"messages":[{"content":"What is a haiku?","role":"user"}],"model":"qwen3-4b"}'`;
  const json = JSON.stringify({ language_models: { openai_compatible: { Transom: { api_url: `${root}/v1` } } } }, null, 2);
  const lines: Record<string, string> = {
    curl, openai, anthropic, zed: json, vscode: json, "claude-code": anthropic,
    codex: `model = "qwen3-4b"\nmodel_provider = "transom"`, "open-webui": openai,
  };
  return Object.entries(lines).map(([program, lines]) => ({ program, lines }));
}
