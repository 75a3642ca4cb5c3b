"""Computes the numbers of `[model.architecture]` from a model's config.json."""

import shapes


def numbers(config, is_mlx):
    """Returns every key of the table but the context length, which some cards state differently."""
    text, kinds = shapes.text_config(config), shapes.layer_kinds(config)
    head_dim, kv_heads = shapes.head_dim(text), shapes.kv_heads(text)
    mixture = shapes.mixture(text)
    found = {
        "model_type": config["model_type"],
        "parameters": shapes.parameters(config),
        "layers": text["num_hidden_layers"],
        "hidden_size": text["hidden_size"],
        "heads": text["num_attention_heads"],
        "intermediate_size": shapes.widest_feed_forward(config),
        "vocabulary": text["vocab_size"],
    }
    if mixture:
        _, used, size, shared = mixture
        beside = found["intermediate_size"] if shapes.family(config) == "gemma4" else 0
        found["intermediate_size"] = used * size + shared + beside
        found["active_parameters"] = shapes.active_parameters(config)
        found["experts_per_token"] = used
    if "sliding" in kinds:
        found["sliding_window"] = text["sliding_window"]
        found["sliding_layers"] = kinds.count("sliding")
    if shapes.family(config) == "gemma4":
        full_dim, full_heads = shapes.full_attention(text)
        for key, sliding, full in (
            ("sliding_kv_heads", kv_heads, full_heads),
            ("sliding_head_dim", head_dim, full_dim),
        ):
            if sliding != full:
                found[key] = sliding
        head_dim, kv_heads = full_dim, full_heads
    found |= {"kv_heads": kv_heads, "head_dim": head_dim}
    if text.get("num_kv_shared_layers"):
        found["shared_layers"] = text["num_kv_shared_layers"]
    if "linear" in kinds:
        found["linear_layers"] = kinds.count("linear")
        found["linear_state_bytes"] = shapes.linear_state_bytes(config)
    vision = shapes.vision_parameters(config)
    if vision and is_mlx:
        found["vision_parameters"] = vision
    return found
