#!/usr/bin/env python3
"""Writes models with random weights, one for each kind of cache, to measure memory with MLX.

    python benches/make_memory_models.py OUT

They are built with the classes of mlx-lm and have some hundred megabytes each, so a model uses more
memory than its process. Needs mlx-lm 0.32.2. The tokenizer is that of the starter model.
"""

import json
import shutil
import sys
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.utils import _get_classes

REPOSITORY = Path(__file__).resolve().parents[1]
TOKENIZER_FILES = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]

COMMON = {
    "vocab_size": 8192,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "bos_token_id": None,
    "eos_token_id": 2,
}


def shape(hidden, layers, heads, kv_heads, head_dim, mlp):
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": mlp,
    }


EXPERTS = {
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 256,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
}
LINEAR = {
    "linear_num_value_heads": 8,
    "linear_num_key_heads": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
    "partial_rotary_factor": 0.25,
}
MODELS = {
    "wide": {"model_type": "llama", **shape(1536, 6, 12, 4, 128, 4096)},
    "deep-many-heads": {"model_type": "qwen3", **shape(768, 20, 12, 12, 64, 2048)},
    "windows": {
        "model_type": "gemma3_text",
        **shape(1024, 12, 8, 4, 128, 4096),
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "query_pre_attn_scalar": 128,
        "rope_local_base_freq": 10000.0,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_act": "gelu_pytorch_tanh",
    },
    # Sliding windows, larger heads in layers with full attention, and keys that late layers share.
    "shared-keys": {
        "model_type": "gemma4_text",
        **shape(1024, 12, 8, 2, 128, 3072),
        "global_head_dim": 256,
        "num_kv_shared_layers": 6,
        "hidden_size_per_layer_input": 128,
        "vocab_size_per_layer_input": 8192,
        "use_double_wide_mlp": False,
        "sliding_window": 512,
        "layer_types": 2 * [*5 * ["sliding_attention"], "full_attention"],
        "rope_parameters": {
            "full_attention": {
                "partial_rotary_factor": 0.25,
                "rope_theta": 1000000.0,
                "rope_type": "proportional",
            },
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
        },
        "final_logit_softcapping": 30.0,
        "hidden_activation": "gelu_pytorch_tanh",
    },
    "experts": {"model_type": "qwen3_moe", **shape(768, 10, 12, 4, 64, 1024), **EXPERTS},
    "hybrid": {
        "model_type": "qwen3_5",
        "tie_word_embeddings": True,
        "text_config": {
            **COMMON,
            "model_type": "qwen3_5_text",
            **shape(1024, 12, 8, 2, 128, 2816),
            **LINEAR,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.25,
                "mrope_section": [6, 5, 5],
                "mrope_interleaved": True,
            },
        },
    },
}


def main():
    out = Path(sys.argv[1])
    mx.set_default_device(mx.cpu)
    mx.random.seed(1)
    for name, own in MODELS.items():
        config = {**COMMON, **own}
        model_class, args_class = _get_classes(config)
        model = model_class(args_class.from_dict(config))
        model.update(tree_map(lambda a: a.astype(mx.bfloat16), model.parameters()))
        folder = out / name
        folder.mkdir(parents=True)
        weights = dict(tree_flatten(model.parameters()))
        mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        for file in TOKENIZER_FILES:
            shutil.copy(REPOSITORY / "assets" / "starter" / file, folder)
        print(f"{folder}: {sum(w.nbytes for w in weights.values()) / 1e6:.0f} MB")


main()
