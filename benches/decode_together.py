#!/usr/bin/env python3
"""Measures whether llama.cpp decodes several sequences faster with one step for all of them.

    python benches/decode_together.py                             # 0.6b shape in Q4_K_M, one thread
    python benches/decode_together.py --model FILE.gguf --threads 2

Run it with a Python that has numpy, gguf and typing_extensions. `llama_cpp_peer.py` builds the
llama.cpp that transom links.

transom gives each response a context of its own, and the responses take turns. The other ways are
one context for all, with a KV cache of its own for each sequence (split) or one for all (unified).
The ways alternate. On a busy machine use one thread and the ratio of CPU times, which other
programs change least. The CPU time of several threads includes their waiting, so only an idle
machine gives a valid result for them.
"""

import argparse
import importlib
import os
import random
import statistics
import sys
import time
import types
from pathlib import Path

import llama_cpp_peer

COUNTS = [1, 2, 4, 8]
WAYS = ["turns", "split", "unified"]


def binding(peer):
    """Returns the functions of llama.cpp, without the package's other modules."""
    os.environ["LLAMA_CPP_LIB_PATH"] = peer["programs"]
    package = types.ModuleType("llama_cpp")
    package.__path__ = [str(Path(peer["python"]) / "llama_cpp")]
    sys.modules["llama_cpp"] = package
    return importlib.import_module("llama_cpp.llama_cpp")


class Context:
    def __init__(self, llama, model, args, n_sequences, is_unified):
        params = llama.llama_context_default_params()
        params.n_ctx = args.capacity * n_sequences
        params.n_batch = params.n_ubatch = 512
        params.n_seq_max = n_sequences
        params.kv_unified = is_unified
        params.n_threads = params.n_threads_batch = args.threads
        params.flash_attn_type = 0
        self.llama, self.context = llama, llama.llama_init_from_model(model, params)
        if not self.context:
            sys.exit(f"no memory for {n_sequences} sequences")
        self.batch = llama.llama_batch_init(512, 0, 1)

    def step(self, tokens):
        """Processes (token, position, sequence, whether it has logits), and waits."""
        self.batch.n_tokens = len(tokens)
        for index, (token, position, sequence, has_logits) in enumerate(tokens):
            self.batch.token[index] = token
            self.batch.pos[index] = position
            self.batch.n_seq_id[index] = 1
            self.batch.seq_id[index][0] = sequence
            self.batch.logits[index] = has_logits
        code = self.llama.llama_decode(self.context, self.batch)
        if code != 0:
            sys.exit(f"a step failed with {code}")
        self.llama.llama_synchronize(self.context)

    def free(self):
        self.llama.llama_batch_free(self.batch)
        self.llama.llama_free(self.context)


def decode(llama, model, args, way, n_sequences):
    """Returns tokens per second and milliseconds of CPU time per token."""
    numbers = random.Random(0)

    def token():
        return numbers.randrange(300, 2300)

    n_contexts, n_inside = (n_sequences, 1) if way == "turns" else (1, n_sequences)
    contexts = [
        Context(llama, model, args, n_inside, way == "unified") for _ in range(n_contexts)
    ]
    for context in contexts:
        for sequence in range(n_inside):
            last = args.prompt_tokens - 1
            context.step([(token(), i, sequence, i == last) for i in range(last + 1)])
    began, cpu_began = time.perf_counter(), time.process_time()
    for position in range(args.prompt_tokens, args.prompt_tokens + args.generate_tokens):
        for context in contexts:
            context.step([(token(), position, sequence, 1) for sequence in range(n_inside)])
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    for context in contexts:
        context.free()
    n_tokens = args.generate_tokens * n_sequences
    return n_tokens / seconds, cpu_seconds * 1e3 / n_tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--model", type=Path, help="GGUF file")
    add("--prompt-tokens", type=int, default=256, help="at most 512")
    add("--generate-tokens", type=int, default=32)
    add("--capacity", type=int, default=1024, help="tokens of each KV cache")
    add("--rounds", type=int, default=3)
    add("--threads", type=int, default=1)
    add("--cache", type=Path, default=llama_cpp_peer.CACHE, help="programs and models")
    args = parser.parse_args()
    if not 1 <= args.prompt_tokens <= 512:
        parser.error(f"--prompt-tokens {args.prompt_tokens}: must be 1 to 512")
    if args.prompt_tokens + args.generate_tokens > args.capacity:
        parser.error(f"--capacity {args.capacity}: prompt and generated tokens need more")
    peer = llama_cpp_peer.build(args.cache.resolve(), 2)
    if args.model is None:
        from make_random_gguf import make

        args.model = args.cache.resolve() / "models" / "random-0.6b-Q4_K_M.gguf"
        make(args.model, "0.6b", "Q4_K_M", cache=args.cache.resolve())
    llama = binding(peer)
    log = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(log, None)
    llama.llama_backend_init()
    model = llama.llama_model_load_from_file(
        str(args.model).encode(), llama.llama_model_default_params()
    )
    if not model:
        sys.exit(f"{args.model}: llama.cpp does not load it")
    print(
        f"{peer['libraries']}; {args.model.name}: {args.prompt_tokens} tokens before "
        f"{args.generate_tokens} in each; threads: {args.threads}, rounds: {args.rounds}; medians"
    )
    print("sequences  way      tok/s in total  ratio  CPU ms a token  ratio")
    for n_sequences in COUNTS:
        runs = {way: [] for way in WAYS}
        for _ in range(args.rounds):
            for way in WAYS:
                runs[way].append(decode(llama, model, args, way, n_sequences))
        medians = {
            way: [statistics.median(values) for values in zip(*runs[way])] for way in WAYS
        }
        for way, (speed, cpu) in medians.items():
            print(
                f"{n_sequences:>9}  {way:<7} {speed:>15.1f} {speed / medians['turns'][0]:>5.2f}x "
                f"{cpu:>15.2f} {medians['turns'][1] / cpu:>5.2f}x",
                flush=True,
            )


if __name__ == "__main__":
    main()
