#!/usr/bin/env python3
"""Writes a model with random weights and the shape of a real model, to measure speed and memory.

    python benches/make_random_model.py --shape 0.6b OUT
    python benches/make_random_model.py --shape 8b --bits 4 --group-size 64 OUT

Speed depends on the shape and the types, not on the values of the weights. They are drawn in their
stored form, one tensor at a time, so the largest model needs no more memory than its largest
matrix. Needs only numpy. The tokenizer is that of the starter model. Ids above its vocabulary are
words of random letters, so that every token has text, which costs time.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[1]
STARTER = REPOSITORY / "assets" / "starter"
SHARD_BYTES = 4 << 30
# Bytes of matrix rows that are drawn at a time.
CHUNK_BYTES = 64 << 20


def shape(hidden, layers, heads, kv_heads, head_dim, mlp, vocab, tied, theta=1e6):
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": mlp,
        "vocab_size": vocab,
        "tie_word_embeddings": tied,
        "rope_theta": theta,
    }


def hybrid(*arguments, key_heads, value_heads):
    """A shape in which three of four layers have a recurrent state of 128 by 128 per value head."""
    recurrent = {
        "full_attention_interval": 4,
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": value_heads,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "partial_rotary_factor": 0.25,
    }
    return shape(*arguments, 1e7) | recurrent


# The shapes of the first and the current starter model, those of Qwen3, and hybrids of Qwen3.5.
SHAPES = {
    "26m": shape(512, 8, 8, 2, 64, 1344, 8192, True, 1e4),
    "62m": shape(640, 12, 10, 2, 64, 1728, 16384, True, 1e4),
    "0.6b": shape(1024, 28, 16, 8, 128, 3072, 151936, True),
    "1.7b": shape(2048, 28, 16, 8, 128, 6144, 151936, True),
    "4b": shape(2560, 36, 32, 8, 128, 9728, 151936, True),
    "8b": shape(4096, 36, 32, 8, 128, 12288, 151936, False),
    "0.8b-hybrid": hybrid(1024, 24, 8, 2, 256, 3584, 248320, True, key_heads=16, value_heads=16),
    "4b-hybrid": hybrid(2560, 32, 16, 4, 256, 9216, 248320, True, key_heads=16, value_heads=32),
}


def is_recurrent(config, layer):
    interval = config.get("full_attention_interval")
    return interval is not None and (layer + 1) % interval != 0


def make_config(name, bits, group_size, context):
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "attention_bias": False,
        "max_position_embeddings": context,
        "rms_norm_eps": 1e-6,
        "bos_token_id": None,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    } | SHAPES[name]
    if "full_attention_interval" in config:
        config |= {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5"}
    if bits < 16:
        config["quantization"] = {"group_size": group_size, "bits": bits, "mode": "affine"}
        config["quantization_config"] = config["quantization"]
    return config


def matrices(config):
    """Yields the path, outputs and inputs of every matrix, in the order of the forward pass."""
    hidden, mlp = config["hidden_size"], config["intermediate_size"]
    q = config["num_attention_heads"] * config["head_dim"]
    kv = config["num_key_value_heads"] * config["head_dim"]
    yield "model.embed_tokens", config["vocab_size"], hidden
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        if is_recurrent(config, i):
            heads = config["linear_num_value_heads"]
            keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
            values = heads * config["linear_value_head_dim"]
            yield f"{layer}.linear_attn.in_proj_qkv", 2 * keys + values, hidden
            yield f"{layer}.linear_attn.in_proj_z", values, hidden
            yield f"{layer}.linear_attn.in_proj_b", heads, hidden
            yield f"{layer}.linear_attn.in_proj_a", heads, hidden
            yield f"{layer}.linear_attn.out_proj", hidden, values
        else:
            # The hybrids compute a gate with the queries.
            gates = q if "full_attention_interval" in config else 0
            yield f"{layer}.self_attn.q_proj", q + gates, hidden
            yield f"{layer}.self_attn.k_proj", kv, hidden
            yield f"{layer}.self_attn.v_proj", kv, hidden
            yield f"{layer}.self_attn.o_proj", hidden, q
        yield f"{layer}.mlp.gate_proj", mlp, hidden
        yield f"{layer}.mlp.up_proj", mlp, hidden
        yield f"{layer}.mlp.down_proj", hidden, mlp
    if not config["tie_word_embeddings"]:
        yield "lm_head", config["vocab_size"], hidden


def vectors(config):
    """Yields the name, shape and value of every tensor that is no matrix."""
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        for name in ["input_layernorm", "post_attention_layernorm"]:
            yield f"{layer}.{name}.weight", [config["hidden_size"]], 1.0
        if is_recurrent(config, i):
            heads = config["linear_num_value_heads"]
            keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
            convolved = 2 * keys + heads * config["linear_value_head_dim"]
            width = config["linear_conv_kernel_dim"]
            yield f"{layer}.linear_attn.conv1d.weight", [convolved, width, 1], 1 / width
            yield f"{layer}.linear_attn.A_log", [heads], 0.0
            yield f"{layer}.linear_attn.dt_bias", [heads], 0.0
            yield f"{layer}.linear_attn.norm.weight", [config["linear_value_head_dim"]], 1.0
        else:
            for name in ["q_norm", "k_norm"]:
                yield f"{layer}.self_attn.{name}.weight", [config["head_dim"]], 1.0
    yield "model.norm.weight", [config["hidden_size"]], 1.0


def bf16(values):
    """Returns the bf16 bits of f32 values, truncated and not rounded."""
    return (np.asarray(values, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)


def constant(value, shape):
    """Returns a function that makes bf16 rows of `value`."""

    def rows(n_rows):
        return np.full((n_rows, *shape[1:]), bf16([value])[0], dtype=np.uint16)

    return rows


def tensors(config, bits, group_size, rng):
    """Yields the name, type, shape and a function that draws the next rows of every tensor."""
    for path, n_out, n_in in matrices(config):
        spread = n_in**-0.5
        if bits == 16:
            draw = lambda n, n_in=n_in, spread=spread: bf16(
                rng.standard_normal((n, n_in), dtype=np.float32) * spread
            )
            yield f"{path}.weight", "BF16", [n_out, n_in], draw
            continue
        if n_in % group_size:
            sys.exit(f"{path}: {n_in} inputs cannot be split into groups of {group_size}")
        # Levels 0 to 2^bits - 1 drawn evenly, scaled and shifted to mean 0 and this spread.
        highest = (1 << bits) - 1
        scale = spread * 12**0.5 / highest
        n_words = n_in * bits // 32
        words = lambda n, n_words=n_words: rng.integers(
            0, 1 << 32, (n, n_words), dtype=np.uint32
        )
        groups = [n_out, n_in // group_size]
        yield f"{path}.weight", "U32", [n_out, n_words], words
        yield f"{path}.scales", "BF16", groups, constant(scale, groups)
        yield f"{path}.biases", "BF16", groups, constant(-scale * highest / 2, groups)
    for name, shape, value in vectors(config):
        yield name, "BF16", shape, constant(value, shape)


def n_bytes(dtype, shape):
    return int(np.prod(shape)) * (4 if dtype == "U32" else 2)


def split(all_tensors):
    """Yields parts of at most SHARD_BYTES each, or of one larger tensor."""
    part, size = [], 0
    for tensor in all_tensors:
        own = n_bytes(tensor[1], tensor[2])
        if part and size + own > SHARD_BYTES:
            yield part
            part, size = [], 0
        part.append(tensor)
        size += own
    yield part


def write_shard(path, part):
    header, offset = {"__metadata__": {"format": "mlx"}}, 0
    for name, dtype, shape, _ in part:
        end = offset + n_bytes(dtype, shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    # Readers map the file, so the data starts at a multiple of eight.
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, dtype, shape, draw in part:
            row_bytes = n_bytes(dtype, shape) // shape[0]
            step = max(1, CHUNK_BYTES // row_bytes)
            for start in range(0, shape[0], step):
                file.write(draw(min(step, shape[0] - start)).tobytes())


def write_tokenizer(out, vocab_size, rng):
    tokenizer = json.loads((STARTER / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    while len(vocab) < vocab_size:
        letters = rng.integers(ord("a"), ord("z") + 1, 7, dtype=np.uint8)
        # A space, in the alphabet of the bytes.
        vocab.setdefault("\u0120" + letters.tobytes().decode(), len(vocab))
    (out / "tokenizer.json").write_text(json.dumps(tokenizer))
    for file in ["tokenizer_config.json", "special_tokens_map.json"]:
        shutil.copy(STARTER / file, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=Path, help="folder to write; must not exist")
    parser.add_argument("--shape", choices=SHAPES, default="0.6b")
    parser.add_argument("--bits", type=int, choices=[2, 3, 4, 5, 6, 8, 16], default=4)
    parser.add_argument("--group-size", type=int, choices=[32, 64, 128], default=64)
    parser.add_argument("--context", type=int, default=40960, help="context length of the model")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    config = make_config(args.shape, args.bits, args.group_size, args.context)
    args.out.mkdir(parents=True)
    rng = np.random.default_rng(args.seed)
    parts = list(split(tensors(config, args.bits, args.group_size, rng)))
    weight_map, total = {}, 0
    for i, part in enumerate(parts):
        single = len(parts) == 1
        file = "model.safetensors" if single else f"model-{i + 1:05d}-of-{len(parts):05d}.safetensors"
        write_shard(args.out / file, part)
        weight_map |= {name: file for name, *_ in part}
        total += sum(n_bytes(dtype, shape) for _, dtype, shape, _ in part)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (args.out / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    (args.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    write_tokenizer(args.out, config["vocab_size"], rng)
    print(f"{args.out}: {args.shape}, {args.bits}-bit, {total / 1e9:.2f} GB of weights")


if __name__ == "__main__":
    main()
