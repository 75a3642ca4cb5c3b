"""Lists the tensors of a language model and counts its parameters, from its config.

One entry of `tensors` is (how many elements, how it is packed): "matrix" for what a quantized
file packs, "router" for what mlx-lm keeps at 8 bits, "experts" for the matrices of a mixture,
"plain" for norms, biases and the like, which stay at 16 bits. Tied matrices are counted once.
"""

MATRIX, ROUTER, EXPERTS, PLAIN = "matrix", "router", "experts", "plain"


def text_config(config):
    """Returns the part of a config that describes the language model."""
    text = dict(config.get("text_config") or config)
    for key in ("tie_word_embeddings", "quantization"):
        if key not in text and key in config:
            text[key] = config[key]
    return text


def family(config):
    """Returns the model_type of the language model, without suffixes of multimodal models."""
    kind = text_config(config)["model_type"]
    return kind.removesuffix("_text").removesuffix("_unified")


def is_tied(config):
    value = text_config(config).get("tie_word_embeddings")
    return family(config) in ("gemma3", "gemma4") if value is None else value


def head_dim(text):
    return text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"]


def kv_heads(text):
    return text.get("num_key_value_heads") or text["num_attention_heads"]


def layer_kinds(config):
    """Returns "full", "sliding" or "linear" for each layer."""
    text = text_config(config)
    n = text["num_hidden_layers"]
    kind = family(config)
    words = {"full_attention": "full", "sliding_attention": "sliding", "linear_attention": "linear"}
    if kind in ("qwen3_next", "qwen3_5", "qwen3_5_moe"):
        every = text.get("full_attention_interval", 4)
        listed = text.get("layer_types")
        if listed:
            return [words[name] for name in listed]
        return ["full" if (i + 1) % every == 0 else "linear" for i in range(n)]
    if kind == "gemma3":
        every = text.get("sliding_window_pattern") or text.get("_sliding_window_pattern") or 6
        return ["full" if (i + 1) % every == 0 else "sliding" for i in range(n)]
    if kind in ("gpt_oss", "gemma4"):
        return [words[name] for name in text["layer_types"]]
    return ["full"] * n


def mixture(text):
    """Returns (experts, experts per token, size of one, size of the shared one), or None."""
    experts = text.get("num_experts") or text.get("num_local_experts")
    if not experts:
        return None
    used = text.get("num_experts_per_tok") or text.get("top_k_experts") or text["experts_per_token"]
    size = text.get("moe_intermediate_size") or text["intermediate_size"]
    shared = text.get("shared_expert_intermediate_size") or 0
    return experts, used, size, shared


def delta_net(text):
    """Returns (key width, value width) of a gated delta net."""
    return (
        text["linear_num_key_heads"] * text["linear_key_head_dim"],
        text["linear_num_value_heads"] * text["linear_value_head_dim"],
    )


def linear_state_bytes(config):
    """Returns the state of a gated delta net per layer, at 4 bytes per element, with convolution."""
    text = text_config(config)
    if "linear_num_value_heads" not in text:
        return 0
    keys, values = delta_net(text)
    state = values * text["linear_key_head_dim"]
    convolution = (text["linear_conv_kernel_dim"] - 1) * (2 * keys + values)
    return 4 * (state + convolution)


def attention(kind, text, layer, keeps=True):
    """Yields the attention tensors of a layer; one without a KV cache of its own has fewer."""
    hidden, heads = text["hidden_size"], text["num_attention_heads"]
    size, kv = head_dim(text), kv_heads(text)
    if layer == "linear":
        keys, values = delta_net(text)
        value_heads = text["linear_num_value_heads"]
        yield hidden * (2 * keys + 2 * values + 2 * value_heads), MATRIX
        yield values * hidden, MATRIX
        yield (2 * keys + values) * text["linear_conv_kernel_dim"], PLAIN
        yield 2 * value_heads + text["linear_value_head_dim"], PLAIN
        return
    shares_values = False
    if kind == "gemma4" and layer == "full":
        size, kv = full_attention(text)
        shares_values = text.get("attention_k_eq_v", False)
    gated = kind in ("qwen3_next", "qwen3_5", "qwen3_5_moe")
    yield hidden * heads * size * (2 if gated else 1), MATRIX
    if keeps:
        yield hidden * kv * size * (1 if shares_values else 2), MATRIX
    yield heads * size * hidden, MATRIX
    if kind == "qwen2" or (kind == "gpt_oss" and text.get("attention_bias")):
        yield (heads + 2 * kv) * size, PLAIN
    if kind == "gpt_oss":
        yield hidden + heads, PLAIN
    if gated or kind in ("qwen3", "qwen3_moe", "gemma3", "gemma4"):
        yield (2 if keeps else 1) * size, PLAIN


def full_attention(text):
    """Returns (head size, key-value heads) of Gemma 4's layers with full attention."""
    kv = text.get("num_global_key_value_heads") if text.get("attention_k_eq_v") else None
    return text.get("global_head_dim") or head_dim(text), kv or kv_heads(text)


def feed_forward(kind, text):
    hidden = text["hidden_size"]
    parts = mixture(text)
    if kind == "gemma4" or not parts:
        yield 3 * hidden * text["intermediate_size"], MATRIX
    if not parts:
        return
    experts, _, size, shared = parts
    yield experts * 3 * hidden * size, EXPERTS
    yield hidden * experts, ROUTER
    if kind == "gpt_oss":
        yield experts * (2 * size + hidden + 1), PLAIN
    if shared:
        yield 3 * hidden * shared, MATRIX
    if kind in ("qwen3_next", "qwen3_5_moe"):
        yield hidden, ROUTER
    if kind == "gemma4":
        # The router's scale and one for each expert, and three more norms next to the mixture.
        yield hidden + experts + 3 * hidden, PLAIN


def widest_feed_forward(config):
    """Returns the width of the dense part; layers of Gemma 4 that share keys can have twice of it."""
    text = text_config(config)
    size = text.get("intermediate_size")
    shares = family(config) == "gemma4" and text.get("num_kv_shared_layers")
    return 2 * size if shares and text.get("use_double_wide_mlp") else size


def per_layer_inputs(text, layer_count):
    """Yields Gemma's small embeddings of each layer: tables, a projection, two matrices per layer."""
    size = text.get("hidden_size_per_layer_input") or 0
    if not size:
        return
    hidden = text["hidden_size"]
    yield text["vocab_size_per_layer_input"] * size * layer_count, MATRIX
    yield hidden * size * layer_count, MATRIX
    yield layer_count * 2 * hidden * size, MATRIX
    yield size + layer_count * hidden, PLAIN


def tensors(config):
    """Yields the language model's tensors, as (elements, kind of storage)."""
    text, kind = text_config(config), family(config)
    if kind not in KNOWN:
        raise ValueError(f"unknown tensors of {kind}")
    hidden, layers = text["hidden_size"], layer_kinds(config)
    yield text["vocab_size"] * hidden * (1 if is_tied(config) else 2), MATRIX
    yield hidden, PLAIN
    shared_from = len(layers) - (text.get("num_kv_shared_layers") or 0)
    for index, layer in enumerate(layers):
        yield from attention(kind, text, layer, index < shared_from)
        wide = kind == "gemma4" and text.get("use_double_wide_mlp") and index >= shared_from
        for count, packed in feed_forward(kind, text):
            yield count * (2 if wide and packed == MATRIX else 1), packed
        yield hidden * (4 if kind in ("gemma3", "gemma4") else 2), PLAIN
        if kind == "gemma4":
            yield 1, PLAIN
    yield from per_layer_inputs(text, len(layers))


KNOWN = (
    "llama", "mistral", "ministral3", "qwen2", "qwen3", "smollm3", "phi3", "granite", "gemma3",
    "gemma4", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe", "gpt_oss",
)


def parameters(config):
    return sum(count for count, _ in tensors(config))


def active_parameters(config):
    """Returns the parameters that a token uses; all of them without a mixture."""
    parts = mixture(text_config(config))
    if not parts:
        return parameters(config)
    experts, used, _, _ = parts
    return sum(n * used // experts if packed == EXPERTS else n for n, packed in tensors(config))


def vision_parameters(config):
    """Returns the parameters of the vision tower, which MLX files contain in 16 bits."""
    vision = config.get("vision_config")
    if not vision:
        return 0
    size, inner = vision["hidden_size"], vision["intermediate_size"]
    depth = vision.get("depth") or vision["num_hidden_layers"]
    kind = vision.get("model_type")
    if kind == "pixtral":
        hidden, merge = config["text_config"]["hidden_size"], config["spatial_merge_size"]
        layer = 4 * size * size + 3 * size * inner + 2 * size
        patches = vision["num_channels"] * vision["patch_size"] ** 2 * size + size
        projector = size + size * size * merge * merge + size * hidden + hidden * hidden
        return depth * layer + patches + projector
    layer = 4 * size * size + 4 * size + 2 * size * inner + size + inner + 4 * size
    if kind == "siglip_vision_model":
        positions = (vision["image_size"] // vision["patch_size"]) ** 2 * size
        patches = 3 * vision["patch_size"] ** 2 * size + size
        projector = size + size * config["text_config"]["hidden_size"]
        return depth * layer + positions + patches + 2 * size + projector
    if "spatial_merge_size" in vision:
        channels = vision["in_channels"] * vision["temporal_patch_size"]
        patches = channels * vision["patch_size"] ** 2 * size + size
        positions = vision["num_position_embeddings"] * size
        merged = size * vision["spatial_merge_size"] ** 2
        merger = 2 * size + merged * merged + merged + merged * vision["out_hidden_size"]
        return depth * layer + patches + positions + merger + vision["out_hidden_size"]
    return 0
