/** The catalog of the fake app, on a Mac with 16 GB. */
import type {
  CatalogView, DownloadView, EntryView, HubAccessView, TagView, HubErrorView, VariantView,
  FitSummary,
} from "../bindings";
import { GB } from "./defaults";
import { tiers } from "./tiers";

const ROOM = 10.5 * GB;

/** A variant of this size, with its fit on this machine. */
export function variant(
  entry: string, format: "mlx" | "gguf", quantization: string, gigabytes: number,
  change: Partial<VariantView> = {},
): VariantView {
  const size_bytes = gigabytes * GB;
  const speed = gigabytes > 10.2 ? null
    : { low: 60 / gigabytes, high: 92 / gigabytes, is_measured: false };
  return {
    key: `${entry}@${quantization}`, format, quantization, repository: `mlx-community/${entry}`,
    size_bytes, disk_missing_bytes: null, fit: fitSummary(gigabytes), speed, model: null, ...change,
  };
}

function fitSummary(gigabytes: number): FitSummary {
  const need_bytes = (gigabytes + 1.4) * GB;
  if (gigabytes < 7.2) return { fit: "fits" };
  if (gigabytes < 9) return { fit: "context", tokens: 8192 };
  if (gigabytes < 10.2) return { fit: "others_close", bytes: need_bytes - ROOM + 1.1 * GB };
  return { fit: "too_large", need_bytes, room_bytes: ROOM };
}

function entry(
  id: string, name: string, tags: TagView[], billions: number, description: string,
  variants: VariantView[], change: Partial<EntryView> = {},
): EntryView {
  return {
    id, name, family: name.split(" ")[0] ?? name, description, license: "Apache-2.0", tags,
    source: `https://huggingface.co/models/${id}`, n_parameters: billions * 1e9,
    n_active_parameters: null, context_length: 40_960, is_users: false, is_from_hub: false,
    n_downloads: null, variants, best: 0, ...change,
  };
}

export function entries(): EntryView[] {
  return [
    entry("qwen3-0.6b", "Qwen3 0.6B", ["chat"], 0.6,
      "The smallest Qwen3. Fast on any Mac and the usual draft model for its larger siblings; on its own good for short texts and simple questions, weak on facts and long reasoning.",
      [variant("qwen3-0.6b", "mlx", "4-bit", 0.33), variant("qwen3-0.6b", "mlx", "8-bit", 0.62)]),
    entry("qwen3-4b", "Qwen3 4B", ["chat", "reasoning"], 4,
      "An all-round small model with a thinking mode, good at many languages for its size. The 2507 versions of it are newer and better at most things.",
      [
        variant("qwen3-4b", "mlx", "4-bit", 2.3, { model: "/models/Qwen3-4B-4bit" }),
        variant("qwen3-4b", "mlx", "8-bit", 4.2),
        variant("qwen3-4b", "gguf", "Q4_K_M", 2.5),
      ]),
    entry("gemma-3-4b", "Gemma 3 4B", ["chat"], 4.3,
      "A pleasant writer in over a hundred languages for 8 GB Macs. It does not think aloud; weak at code and math.",
      [variant("gemma-3-4b", "mlx", "4-bit", 2.6), variant("gemma-3-4b", "gguf", "Q4_K_M", 2.5)],
      { license: "LicenseRef-Gemma", context_length: 131_072 }),
    entry("qwen3-8b", "Qwen3 8B", ["chat", "reasoning"], 8.2,
      "A solid chat model for 16 GB Macs, with a thinking mode for harder questions and good command of many languages.",
      [
        variant("qwen3-8b", "mlx", "4-bit", 4.6), variant("qwen3-8b", "mlx", "8-bit", 8.7),
        variant("qwen3-8b", "gguf", "Q4_K_M", 5.0),
      ]),
    entry("qwen2.5-coder-7b", "Qwen2.5 Coder 7B", ["code"], 7.6,
      "A coding model that also completes code in the middle of a file. Quick on 16 GB Macs; newer general models explain better.",
      [variant("qwen2.5-coder-7b", "mlx", "4-bit", 4.3)], { context_length: 32_768 }),
    entry("phi-4", "Phi-4", ["chat", "reasoning"], 14.7,
      "Microsoft's model for math, science and structured answers, trained largely on synthetic text. Takes at most 16,000 tokens, and knows little trivia.",
      [variant("phi-4", "mlx", "4-bit", 8.2), variant("phi-4", "mlx", "6-bit", 9.9)],
      { license: "MIT", context_length: 16_384 }),
    entry("qwen3-30b-a3b", "Qwen3 30B A3B", ["chat", "reasoning"], 30.5,
      "A mixture of experts that knows as much as a 30B model and is nearly as fast as a 3B one. A good choice for 32 GB Macs and more; it needs all of its 17 GB in memory.",
      [variant("qwen3-30b-a3b", "mlx", "4-bit", 17.2)], { n_active_parameters: 3.3e9 }),
    entry("llama-3.3-70b", "Llama 3.3 70B", ["chat"], 70.6,
      "Wide knowledge and fine English prose, slowly: every word needs all 70 billion weights. For Macs with 64 GB and more.",
      [variant("llama-3.3-70b", "mlx", "4-bit", 39.7)],
      { license: "LicenseRef-Llama-3.3", context_length: 131_072 }),
    entry("nomic-embed", "Nomic Embed v1.5", ["embedding"], 0.14,
      "A small, widely used English embedding model. Texts need a prefix such as \"search_document: \"; it does not chat.",
      [variant("nomic-embed", "gguf", "Q8_0", 0.15, { speed: null })], { context_length: 8192 }),
  ];
}

export function catalog(): CatalogView {
  return {
    entries: entries(),
    recommended: [
      { purpose: "chat", entry: "qwen3-8b", variant: "qwen3-8b@4-bit" },
      { purpose: "code", entry: "qwen2.5-coder-7b", variant: "qwen2.5-coder-7b@4-bit" },
      { purpose: "small", entry: "gemma-3-4b", variant: "gemma-3-4b@4-bit" },
    ],
    pair: tiers().find((tier) => tier.is_this_computer)?.pair ?? null,
    memory_bytes: 16 * GB, room_bytes: ROOM, disk_free_bytes: 212 * GB, disk_reserved_bytes: 0,
    error: null,
    user_file: "~/Library/Application Support/Transom/models.toml",
  };
}

/** The catalog on a disk with this much space, of which downloads leave half a gigabyte. */
export function onDisk(list: CatalogView, gigabytes: number): CatalogView {
  const free = gigabytes * GB;
  const missing = (one: VariantView) =>
    one.model !== null || one.size_bytes === null ? 0 : one.size_bytes + 0.5 * GB - free;
  const judged = (one: VariantView) =>
    ({ ...one, disk_missing_bytes: missing(one) > 0 ? missing(one) : null });
  const entries = list.entries.map((one) => ({ ...one, variants: one.variants.map(judged) }));
  return { ...list, entries, disk_free_bytes: free };
}

/** The results of a hub search; variants are added when one is opened. */
export function found(): EntryView[] {
  const one = (id: string, n_downloads: number): EntryView => ({
    ...entry(id, id, [], 0, "", []), family: "", license: "apache-2.0",
    n_parameters: null, context_length: null, is_from_hub: true, n_downloads,
    source: `https://huggingface.co/${id}`,
  });
  return [
    one("mlx-community/SmolLM3-3B-4bit", 12_400), one("bartowski/SmolLM3-3B-GGUF", 8_100),
    one("unsloth/SmolLM3-3B-128K-GGUF", 950),
  ];
}

export function hubEntry(id: string): EntryView {
  const known = found().find((one) => one.id === id) ?? found()[0]!;
  const key = (quantization: string) => ({ key: `${id}:${quantization}`, repository: id, speed: null });
  return {
    ...known,
    variants: id.includes("GGUF")
      ? [variant(id, "gguf", "Q4_K_M", 1.9, key("Q4_K_M")), variant(id, "gguf", "Q8_0", 3.3, key("Q8_0"))]
      : [variant(id, "mlx", "4-bit", 1.7, key("4-bit"))],
  };
}

export function download(id: number, key: string, name: string, total: number): DownloadView {
  return {
    id, key, name, state: { state: "waiting" }, done_bytes: 0, total_bytes: total,
    bytes_per_second: null, seconds_left: null,
  };
}

export function hubError(code: string, reason: string, values: HubErrorView["values"] = {}): HubErrorView {
  return { code, reason, values };
}

export function hubAccess(): HubAccessView {
  return {
    has_token: false, is_token_from_environment: false, keychain_problem: null,
    endpoint: "https://huggingface.co", is_default_endpoint: true,
    is_endpoint_from_environment: false, is_offline: false,
  };
}
