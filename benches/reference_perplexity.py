"""Computes the perplexity of the starter model on the text of `transom bench --quality` with numpy.

An independent implementation of the model, in f64, to compare with both engines:

    python3 -m venv env
    env/bin/pip install numpy tokenizers safetensors
    env/bin/python benches/reference_perplexity.py
"""

import json
import pathlib
import struct

import numpy as np
from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "assets" / "starter"
TEXT = ROOT / "crates" / "bench" / "src" / "quality.txt"


def read_tensors(path):
    """Returns the tensors of a safetensors file; bf16 as f32."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        part = data[begin:end]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(part, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            kind = {"F32": "<f4", "F16": "<f2", "U32": "<u4"}[entry["dtype"]]
            values = np.frombuffer(part, kind)
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def main():
    config = json.loads((MODEL / "config.json").read_text())
    tensors = read_tensors(MODEL / "model.safetensors")
    group, bits = config["quantization"]["group_size"], config["quantization"]["bits"]

    def weight(name):
        """Returns a weight, dequantized from MLX's affine groups if it is quantized."""
        packed = tensors[f"{name}.weight"]
        if f"{name}.scales" not in tensors:
            return packed.astype(np.float64)
        shifts = np.arange(0, 32, bits, dtype=np.uint32)
        values = (packed[..., None] >> shifts) & ((1 << bits) - 1)
        values = values.reshape(packed.shape[0], -1, group).astype(np.float64)
        scales, biases = (tensors[f"{name}.{part}"][..., None] for part in ("scales", "biases"))
        return (values * scales + biases).reshape(packed.shape[0], -1)

    def norm(x, name):
        mean = np.mean(x * x, axis=-1, keepdims=True)
        return x / np.sqrt(mean + config["rms_norm_eps"]) * weight(name)

    text = TEXT.read_text()
    ids = Tokenizer.from_file(str(MODEL / "tokenizer.json")).encode(text).ids
    n_heads, n_kv = config["num_attention_heads"], config["num_key_value_heads"]
    size, n = config["head_dim"], len(ids)
    angles = np.outer(np.arange(n), config["rope_theta"] ** (-np.arange(0, size, 2) / size))
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]

    def rotate(x):
        a, b = x[..., : size // 2], x[..., size // 2 :]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    embedding = weight("model.embed_tokens")
    x = embedding[ids]
    hidden = np.triu(np.full((n, n), -np.inf), 1)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        h = norm(x, f"{prefix}.input_layernorm")
        attention = f"{prefix}.self_attn"
        q, k, v = (
            (h @ weight(f"{attention}.{part}_proj").T).reshape(n, -1, size) for part in "qkv"
        )
        q = rotate(norm(q, f"{attention}.q_norm"))
        k = rotate(norm(k, f"{attention}.k_norm"))
        k, v = (np.repeat(part, n_heads // n_kv, axis=1) for part in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(size) + hidden
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        out = np.einsum("hqk,khd->qhd", scores, v).reshape(n, -1)
        x = x + out @ weight(f"{attention}.o_proj").T
        h = norm(x, f"{prefix}.post_attention_layernorm")
        gate, up = (h @ weight(f"{prefix}.mlp.{part}_proj").T for part in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ weight(f"{prefix}.mlp.down_proj").T
    logits = norm(x, "model.norm")[:-1] @ embedding.T
    highest = logits.max(axis=-1)
    sums = np.log(np.exp(logits - highest[:, None]).sum(axis=-1)) + highest
    nats = sums - logits[np.arange(n - 1), ids[1:]]
    print(f"tokens {n - 1}, perplexity {np.exp(nats.mean()):.4f}")


if __name__ == "__main__":
    main()
