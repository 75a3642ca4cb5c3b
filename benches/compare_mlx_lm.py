#!/usr/bin/env python3
"""Runs mlx-lm and `transom bench` alternately on the same model, and prints both and their ratio.

    python benches/compare_mlx_lm.py --model MODEL [--prompt-tokens 512] [--generate-tokens 128]

Run it with a Python that has mlx-lm and the version of MLX that transom links. Each run is a
separate process: load, warm up, measure. The programs alternate, so a machine that slows down or is
busy affects both equally. Both use the same folder and number of prompt tokens, decode greedily,
ignore the end of text, and turn tokens into text. The token ids of the prompt are drawn evenly from
the vocabulary. For "switch back", a conversation continues after a response in another one: mlx-lm keeps
both in the prompt cache of its server. The peaks are those of MLX's allocator, weights included.

mlx-lm runs with its best setting on this machine. On a GPU that is the model as stored. On a CPU, a
short run first tries three (as stored; parameters in float32; dequantized to dense float32), and
the fastest is used. `--blas` gives both processes the same BLAS library.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
NEW_TOKENS = 20
SETTINGS = ["stored", "float32", "dense"]
# Name, unit, factor, and whether more is better.
METRICS = {
    "prefill": ("prefill", "tok/s", 1, True),
    "decode": ("decode", "tok/s", 1, True),
    "ttft": ("TTFT", "ms", 1e3, False),
    "turn2": ("TTFT, turn 2", "ms", 1e3, False),
    "switch": ("TTFT, switch back", "ms", 1e3, False),
    "prefill_peak": ("peak, prefill", "MB", 1e-6, False),
    "decode_peak": ("peak, decode", "MB", 1e-6, False),
}


def load_peer(args):
    import mlx.core as mx
    from mlx_lm import load
    from mlx_lm.utils import dequantize_model

    if args.device != "auto":
        mx.set_default_device(mx.cpu if args.device == "cpu" else mx.gpu)
    model, tokenizer, config = load(args.model, return_config=True)
    if args.setting == "dense":
        model = dequantize_model(model)
    if args.setting in ("float32", "dense"):
        model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    # Ignore the end of text.
    tokenizer._eos_token_ids = set()
    return mx, model, tokenizer, config["vocab_size"]


def measure_generation(mx, model, tokenizer, prompt, n_tokens, cache):
    """Returns the seconds to the first token and from it to the last one, both peaks, and the ids."""
    from mlx_lm import stream_generate

    mx.reset_peak_memory()
    start = time.perf_counter()
    tokens, first, last, prefill_peak = [], None, start, 0
    for response in stream_generate(
        model, tokenizer, prompt, max_tokens=n_tokens, prompt_cache=cache
    ):
        last = time.perf_counter()
        if first is None:
            first, prefill_peak = last, mx.get_peak_memory()
            mx.reset_peak_memory()
        tokens.append(response.token)
    return first - start, last - first, (prefill_peak, mx.get_peak_memory()), tokens


def measure_switch_back(mx, model, tokenizer, new_tokens, args):
    """Returns the seconds to the first token of a second turn after a response in another conversation.

    Like the server of mlx-lm, it takes the longest cached prefix, and keeps the cache of each response.
    """
    from mlx_lm.models.cache import LRUPromptCache, make_prompt_cache

    kept = LRUPromptCache()

    def respond(prompt, n_tokens):
        start = time.perf_counter()
        cache, rest = kept.fetch_nearest_cache("model", prompt)
        cache = cache or make_prompt_cache(model)
        fetch = time.perf_counter() - start
        ttft, _, _, tokens = measure_generation(mx, model, tokenizer, rest, n_tokens, cache)
        # The cache doesn't always contain the last token.
        kept.insert_cache("model", (prompt + tokens)[: cache[0].offset], cache)
        return fetch + ttft, prompt + tokens

    _, conversation = respond(new_tokens(args.prompt_tokens), args.generate_tokens)
    respond(new_tokens(args.prompt_tokens), args.generate_tokens)
    ttft, _ = respond(conversation + new_tokens(NEW_TOKENS), 2)
    return ttft


def peer_run(mx, model, tokenizer, vocab_size, args):
    from mlx_lm.models.cache import make_prompt_cache

    def new_tokens(n):
        return mx.random.randint(0, vocab_size, (n,)).tolist()

    prompt = new_tokens(args.prompt_tokens)
    cache = make_prompt_cache(model)
    ttft, decode, peaks, tokens = measure_generation(
        mx, model, tokenizer, prompt, args.generate_tokens, cache
    )
    # A second turn that reuses the cache of the first, as the server of mlx-lm does.
    rest = (prompt + tokens)[cache[0].offset :] + new_tokens(NEW_TOKENS)
    turn2, _, _, _ = measure_generation(mx, model, tokenizer, rest, 2, cache)
    del cache
    return {
        "prefill": args.prompt_tokens / ttft,
        "decode": (len(tokens) - 1) / decode if len(tokens) > 1 else None,
        "ttft": ttft,
        "turn2": turn2,
        "switch": measure_switch_back(mx, model, tokenizer, new_tokens, args),
        "prefill_peak": peaks[0],
        "decode_peak": peaks[1],
    }


def peer_process(args):
    from mlx.utils import tree_flatten

    mx, model, tokenizer, vocab_size = load_peer(args)
    mx.random.seed(args.seed)
    for _ in range(args.warmup):
        peer_run(mx, model, tokenizer, vocab_size, args)
    runs = [peer_run(mx, model, tokenizer, vocab_size, args) for _ in range(args.runs)]
    device = "GPU" if mx.default_device().type == mx.gpu else "CPU"
    weights = sum(x.nbytes for _, x in tree_flatten(model.parameters()))
    report = {"runs": runs, "device": device, "weights": weights, "mlx": mx.__version__}
    print(json.dumps(report))


def environment(args, libraries=None):
    env = dict(os.environ)
    if args.blas:
        env["LD_PRELOAD"] = ":".join(filter(None, [str(args.blas), env.get("LD_PRELOAD")]))
    if libraries:
        path = [str(libraries), env.get("LD_LIBRARY_PATH")]
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, path))
    return env


def output_of(command, env):
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"failed with {done.returncode}: {' '.join(map(str, command))}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def lengths(prompt_tokens, generate_tokens, runs, warmup):
    return [
        "--prompt-tokens", str(prompt_tokens), "--generate-tokens", str(generate_tokens),
        "--runs", str(runs), "--warmup", str(warmup),
    ]  # fmt: skip


def run_peer(args, setting, size, seed):
    command = [sys.executable, __file__, "--peer-process", "--model", args.model]
    command += ["--device", args.device, "--setting", setting, "--seed", str(seed)]
    return output_of(command + lengths(*size), environment(args))


def run_transom(args, size):
    command = [args.transom, "bench", "--model", args.model, "--json", "--turn2", "--switch-back"]
    report = output_of(command + lengths(*size), environment(args, args.transom_libraries))
    runs = [
        {
            "prefill": run["prefill_tokens_per_second"],
            "decode": run["decode_tokens_per_second"],
            "ttft": run["ttft_seconds"],
            "turn2": turn2["second_ttft_seconds"],
            "switch": switch["second_ttft_seconds"],
            "prefill_peak": report["prefill_peak_bytes"],
            "decode_peak": report["decode_peak_bytes"],
        }
        for run, turn2, switch in zip(
            report["runs"], report["turn2"]["runs"], report["switch_back"]["runs"], strict=True
        )
    ]
    device = "CPU" if "CPU" in report["computed_as"] else "GPU"
    return report | {"runs": runs, "device": device}


def choose_setting(args):
    """Returns the fastest setting of mlx-lm on this device, by a short run of equal proportions."""
    if args.setting:
        return args.setting
    size = (max(1, args.prompt_tokens // 8), max(2, args.generate_tokens // 8), 1, 1)
    seconds = {}
    for setting in SETTINGS:
        report = run_peer(args, setting, size, seed=0)
        if report["device"] == "GPU":
            return "stored"
        run = report["runs"][0]
        seconds[setting] = run["ttft"] + size[1] / run["decode"]
    for setting, elapsed in seconds.items():
        print(f"mlx-lm, {setting}: {elapsed:.2f} s for {size[0]} + {size[1]} tokens")
    return min(seconds, key=seconds.get)


def measure(args, setting):
    size = (args.prompt_tokens, args.generate_tokens, args.runs, args.warmup)
    peer, ours = {"runs": []}, {"runs": []}
    for i in range(args.rounds):
        for total, report in [
            (peer, run_peer(args, setting, size, seed=i)),
            (ours, run_transom(args, size)),
        ]:
            runs = total["runs"] + report["runs"]
            total.update(report, runs=runs)
        print(f"round {i + 1} of {args.rounds} done", file=sys.stderr)
        if peer["device"] != ours["device"]:
            sys.exit(
                f"mlx-lm ran on the {peer['device']} and transom on the {ours['device']}; "
                "set --device, or --transom-libraries to the MLX of that device"
            )
    return peer, ours


def spread(runs, metric):
    """Returns the median, minimum and maximum."""
    values = [run[metric] for run in runs if run[metric] is not None]
    return (statistics.median(values), min(values), max(values)) if values else None


def summarize(peer, ours):
    rows = {}
    for metric, (_, _, _, more_is_better) in METRICS.items():
        both = [spread(side["runs"], metric) for side in (peer, ours)]
        if None in both:
            continue
        ratio = both[1][0] / both[0][0] if more_is_better else both[0][0] / both[1][0]
        rows[metric] = {"mlx_lm": both[0], "transom": both[1], "ratio": ratio}
    return rows


def print_table(args, setting, peer, ours, rows):
    print(f"\n{Path(args.model).resolve().name}, {ours['computed_as']}")
    print(f"mlx-lm in the setting '{setting}' with MLX {peer['mlx']}; {platform.platform()}")
    n_runs = f"{args.rounds} rounds of {args.runs}"
    print(f"{args.prompt_tokens} + {args.generate_tokens} tokens, {n_runs}: median (min to max)\n")
    print(f"{'':<20} {'mlx-lm':>30} {'transom':>30} {'ratio':>8}")
    for metric, row in rows.items():
        name, unit, factor, _ = METRICS[metric]
        cells = [
            "{:.1f} ({:.1f} to {:.1f})".format(*(value * factor for value in row[side]))
            for side in ("mlx_lm", "transom")
        ]
        print(f"{name + ', ' + unit:<20} {cells[0]:>30} {cells[1]:>30} {row['ratio']:>7.2f}x")
    share = rows["turn2"]["transom"][0] / rows["ttft"]["transom"][0]
    print("\nA ratio above 1 means that transom is faster, or needs less memory. ", end="")
    print(f"Its TTFT of turn 2 is {share:.1%} of turn 1.")
    mb = {name: f"{size / 1e6:,.0f} MB" for name, size in ours["memory"].items()}
    print(f"Weights: mlx-lm {peer['weights'] / 1e6:,.0f} MB, transom {mb['weight_bytes']}. The peaks of ")
    print(f"transom contain at most {mb['parked_bytes']} KV caches of other conversations.")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--model", default=str(REPOSITORY / "assets" / "starter"), help="model folder")
    add("--prompt-tokens", type=int, default=512)
    add("--generate-tokens", type=int, default=128)
    add("--rounds", type=int, default=5, help="runs of each program")
    add("--runs", type=int, default=1, help="measurements in a run")
    add("--warmup", type=int, default=1, help="warm-up measurements in a run")
    add("--device", choices=["auto", "cpu", "gpu"], default="auto", help="of mlx-lm")
    add("--setting", choices=SETTINGS, help="of mlx-lm, instead of the fastest")
    add("--blas", type=Path, help="BLAS library to preload into both")
    add("--transom", type=Path, default=REPOSITORY / "target" / "release" / "transom")
    add("--transom-libraries", type=Path, help="folder with the libmlx that transom uses")
    add("--json", type=Path, help="file for all values")
    add("--seed", type=int, default=0, help=argparse.SUPPRESS)
    add("--peer-process", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse()
    if args.peer_process:
        peer_process(args)
        return
    if not args.transom.is_file():
        sys.exit(f"{args.transom}: not found; cargo build --release -p transom-cli builds it")
    setting = choose_setting(args)
    peer, ours = measure(args, setting)
    rows = summarize(peer, ours)
    print_table(args, setting, peer, ours, rows)
    if args.json:
        report = {"setting": setting, "summary": rows, "mlx_lm": peer, "transom": ours}
        args.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
