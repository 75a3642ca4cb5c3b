#!/usr/bin/env python3
"""Writes a GGUF model with random weights and a real model's shape, to measure speed and memory.

    python benches/make_random_gguf.py --shape 0.6b OUT.gguf                      # f16
    python benches/make_random_gguf.py --shape 0.6b --quantize Q4_K_M OUT.gguf

Speed depends on the shape and the types, not on the values of the weights. `llama-quantize` of
llama.cpp writes other types than f16 (see llama_cpp_peer.py). Needs numpy and gguf. The tokenizer
is that of the starter model; ids above its vocabulary are unused.
"""

import argparse
import json
import sys
from pathlib import Path

import gguf
import llama_cpp_peer
import numpy as np
from make_random_model import SHAPES

REPOSITORY = Path(__file__).resolve().parents[1]
STARTER = REPOSITORY / "assets" / "starter"
CONTEXT = 40960


def add_tokenizer(writer, vocab_size):
    tokenizer = json.loads((STARTER / "tokenizer.json").read_text(encoding="utf-8"))
    config = json.loads((STARTER / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokens = [f"<|unused_{i}|>" for i in range(vocab_size)]
    types = [gguf.TokenType.UNUSED] * vocab_size
    for piece, i in tokenizer["model"]["vocab"].items():
        tokens[i], types[i] = piece, gguf.TokenType.NORMAL
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]] = added["content"]
        types[added["id"]] = gguf.TokenType.CONTROL
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tokens.index(config["eos_token"]))
    writer.add_add_bos_token(False)
    if "chat_template" in config:
        writer.add_chat_template(config["chat_template"])


def add_metadata(writer, name, shape):
    writer.add_name(f"random {name}")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape["hidden_size"])
    writer.add_block_count(shape["num_hidden_layers"])
    writer.add_feed_forward_length(shape["intermediate_size"])
    writer.add_head_count(shape["num_attention_heads"])
    writer.add_head_count_kv(shape["num_key_value_heads"])
    writer.add_key_length(shape["head_dim"])
    writer.add_value_length(shape["head_dim"])
    writer.add_rope_freq_base(shape["rope_theta"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)


def tensors(shape):
    """Yields the name and the sizes of each tensor, inputs last. The vectors are norms."""
    hidden, mlp, head = shape["hidden_size"], shape["intermediate_size"], shape["head_dim"]
    q, kv = shape["num_attention_heads"] * head, shape["num_key_value_heads"] * head
    yield "token_embd", (shape["vocab_size"], hidden)
    for i in range(shape["num_hidden_layers"]):
        for name, size in {
            "attn_norm": (hidden,),
            "attn_q": (q, hidden),
            "attn_k": (kv, hidden),
            "attn_v": (kv, hidden),
            "attn_q_norm": (head,),
            "attn_k_norm": (head,),
            "attn_output": (hidden, q),
            "ffn_norm": (hidden,),
            "ffn_gate": (mlp, hidden),
            "ffn_up": (mlp, hidden),
            "ffn_down": (hidden, mlp),
        }.items():
            yield f"blk.{i}.{name}", size
    yield "output_norm", (hidden,)
    if not shape["tie_word_embeddings"]:
        yield "output", (shape["vocab_size"], hidden)


def write_f16(path, name, seed):
    shape = SHAPES[name]
    writer = gguf.GGUFWriter(path, "qwen3")
    add_metadata(writer, name, shape)
    add_tokenizer(writer, shape["vocab_size"])
    all_tensors = list(tensors(shape))
    for tensor, size in all_tensors:
        dtype = np.dtype(np.float32 if len(size) == 1 else np.float16)
        n_bytes = int(np.prod(size)) * dtype.itemsize
        writer.add_tensor_info(f"{tensor}.weight", size, dtype, n_bytes)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    rng = np.random.default_rng(seed)
    for _, size in all_tensors:
        if len(size) == 1:
            values = np.ones(size, np.float32)
        else:
            values = rng.standard_normal(size, dtype=np.float32) * size[-1] ** -0.5
            values = values.astype(np.float16)
        writer.write_tensor_data(values)
    writer.close()


def make(path, name, quantize, seed=0, cache=llama_cpp_peer.CACHE):
    """Writes the model unless it exists."""
    if path.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = path if quantize == "F16" else path.with_name(f"random-{name}-F16.gguf")
    if not plain.is_file():
        write_f16(plain.with_suffix(".part"), name, seed)
        plain.with_suffix(".part").rename(plain)
    if quantize != "F16":
        programs = Path(llama_cpp_peer.build(cache, 2)["programs"])
        part = path.with_suffix(".part")
        llama_cpp_peer.run([programs / "llama-quantize", plain, part, quantize], stdout=sys.stderr)
        part.rename(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=Path, help="file to write, unless it exists")
    parser.add_argument("--shape", choices=SHAPES, default="0.6b")
    parser.add_argument("--quantize", default="F16", help="F16, Q8_0, Q4_K_M, …")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    make(args.out, args.shape, args.quantize, args.seed)
    print(f"{args.out}: {args.shape}, {args.quantize}, {args.out.stat().st_size / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
