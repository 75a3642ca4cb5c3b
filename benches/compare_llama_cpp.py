#!/usr/bin/env python3
"""Runs llama-bench of llama.cpp and `transom bench` alternately on the same model files.

    python benches/compare_llama_cpp.py                           # 0.6b shape in Q4_K_M and Q8_0
    python benches/compare_llama_cpp.py --model FILE.gguf --rounds 7

Run it with a Python that has numpy and gguf. `llama_cpp_peer.py` builds llama-bench with the
llama.cpp that transom links; `make_random_gguf.py` creates the models. Each run is a separate
process: load, warm up, measure. The programs alternate, so a machine that slows down or is busy
affects both equally. Each round has a ratio, and the table shows the median round.

Both use the same file, threads and number of tokens, decode greedily and ignore the end of text.
llama-bench computes logits and draws random tokens; transom samples, turns tokens into text, and
sends them to another process. llama-bench runs with or without flash attention, whichever is faster
in a short run. Decode is measured after the prompt in both programs.

`--speculation` compares transom with and without speculative decoding instead: on a task in which
the starter model copies a text, and on one in which it invents one.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import llama_cpp_peer
from make_random_gguf import make

REPOSITORY = Path(__file__).resolve().parents[1]
# Name, unit, factor, and whether more is better.
METRICS = {
    "prefill": ("pp", "tok/s", 1, True),
    "decode": ("tg", "tok/s", 1, True),
    "load": ("load", "ms", 1e3, False),
    "memory": ("resident", "MB", 1e-6, False),
}
STARTER = REPOSITORY / "assets" / "starter" / "starter.gguf"
# Prompts for the starter model: to copy a text, which it does word for word, and to invent one.
TASKS = {
    "copying": "Repeat this exactly: The morning train leaves the harbour at seven and reaches the "
    "hills before noon. Bread, cheese and tea are sold on board. When the weather is kind, the windows "
    "are open and the children count the bridges. The evening train comes back with the people who "
    "walked.",
    "telling": "Tell me a story about a dragon.",
}


def output_of(command, args):
    """Returns the output of a command, its seconds, and its peak memory, including children."""
    env = os.environ | {"TRANSOM_DATA": args.data}
    start = time.monotonic()
    process = subprocess.Popen(
        [str(part) for part in command], env=env, stdout=subprocess.PIPE, text=True
    )
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}")
    scale = 1 if sys.platform == "darwin" else 1024
    return text, time.monotonic() - start, usage.ru_maxrss * scale


def llama_bench(args, model, flash_attention, runs, *test):
    command = [args.programs / "llama-bench", "-m", model, "-t", args.threads, "-o", "json"]
    command += ["-fa", flash_attention, "-r", runs, *test]
    text, seconds, memory = output_of(command, args)
    return json.loads(text)[0]["samples_ts"], seconds, memory


def run_peer(args, model, flash_attention):
    prompt, answer = args.prompt_tokens, args.generate_tokens
    bench = lambda runs, *test: llama_bench(args, model, flash_attention, runs, *test)
    prefill, _, memory_prefill = bench(args.runs, "-p", prompt, "-n", 0)
    decode, _, memory_decode = bench(args.runs, "-p", 0, "-n", answer, "-d", prompt)
    # Process start, load, and one token.
    _, load, _ = bench(1, "-p", 1, "-n", 0, "--no-warmup")
    return {
        "prefill": statistics.median(prefill),
        "decode": statistics.median(decode),
        "load": load,
        "memory": max(memory_prefill, memory_decode),
    }


def transom_bench(args, model, prompt, answer, runs, *options):
    command = [args.transom, "bench", "--model", model, "--json", *options]
    command += ["--prompt-tokens", prompt, "--generate-tokens", answer]
    command += ["--runs", runs, "--warmup", 1]
    report = json.loads(output_of(command, args)[0].strip().splitlines()[-1])
    if report["engine"] != "llama.cpp":
        sys.exit(f"transom ran {model} with {report['engine']}")
    return report


def run_transom(args, model):
    report = transom_bench(args, model, args.prompt_tokens, args.generate_tokens, args.runs)
    return {
        "prefill": report["median"]["prefill_tokens_per_second"],
        "decode": report["median"]["decode_tokens_per_second"],
        "load": report["load_seconds"],
        "memory": report["peak_memory_bytes"],
        "computed_as": report["computed_as"],
    }


def choose_flash_attention(args, model):
    """Returns the faster setting, by short runs of the same proportions, the best of five each."""
    if args.flash_attention:
        return args.flash_attention
    seconds = {}
    for setting in ("off", "on"):
        prompt, answer = args.prompt_tokens // 4, args.generate_tokens // 8
        prefill, _, _ = llama_bench(args, model, setting, 5, "-p", prompt, "-n", 0)
        decode, _, _ = llama_bench(args, model, setting, 5, "-p", 0, "-n", answer, "-d", prompt)
        seconds[setting] = prompt / max(prefill) + 2 * answer / max(decode)
    return min(seconds, key=seconds.get)


def ratio(metric, ours, peer):
    return ours[metric] / peer[metric] if METRICS[metric][3] else peer[metric] / ours[metric]


def spread(values, factor=1):
    values = [value * factor for value in values]
    low, middle, high = min(values), statistics.median(values), max(values)
    digits = 2 if high < 10 else 0
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def compare(args, model):
    flash_attention = choose_flash_attention(args, model)
    rounds = []
    for i in range(args.rounds):
        peer = run_peer(args, model, flash_attention)
        rounds.append((peer, run_transom(args, model)))
        print(f"{model.name}: round {i + 1} of {args.rounds} done", file=sys.stderr)
    print(f"\n{model.name}: {rounds[0][1]['computed_as']}")
    print(f"llama-bench with flash attention {flash_attention}, {args.threads} threads")
    print(f"{'':<18} {'llama-bench':>26} {'transom':>26} {'ratio, by round':>22}")
    lengths = {"prefill": args.prompt_tokens, "decode": args.generate_tokens}
    for metric, (name, unit, factor, _) in METRICS.items():
        label = f"{name}{lengths.get(metric, '')}, {unit}"
        cells = [spread([side[metric] for side in sides], factor) for sides in zip(*rounds)]
        ratios = spread([ratio(metric, ours, peer) for peer, ours in rounds])
        print(f"{label:<18} {cells[0]:>26} {cells[1]:>26} {ratios:>22}")
    report = transom_bench(args, model, args.history, 64, args.runs, "--turn2")["turn2"]
    run = report["runs"][0]
    print(
        f"Turn 2 ({run['cached_tokens']} of {run['prompt_tokens']} tokens cached): first token "
        f"after {run['second_ttft_seconds'] * 1e3:.0f} ms, {report['median_ratio']:.1%} of turn 1's "
        f"{run['first_ttft_seconds'] * 1e3:.0f} ms"
    )
    return {"flash_attention": flash_attention, "rounds": rounds, "turn2": report}


def generate(args, prompt, *options):
    """Returns the tokens per second and the statistics of one greedy response of the starter."""
    command = [args.transom, "ask", "--model", STARTER, "--json", "--temperature", 0]
    text, _, _ = output_of([*command, "--max-tokens", 100, *options, prompt], args)
    stats = json.loads(text.strip().splitlines()[-1])["stats"]
    return (stats["generated_tokens"] - 1) / stats["decode_time_seconds"], stats


def compare_speculation(args):
    """Compares both in one process, which stays because it learns the cost of steps."""
    host = subprocess.Popen(
        [args.transom, "chat", "--model", STARTER], env=os.environ | {"TRANSOM_DATA": args.data},
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    results = {}
    try:
        for task, prompt in TASKS.items():
            generate(args, prompt)
            rounds = [
                (generate(args, prompt, "--no-speculation"), generate(args, prompt))
                for _ in range(3 * args.rounds)
            ]
            speeds = [[side[0] for side in sides] for sides in zip(*rounds)]
            ratios = [speculative[0] / plain[0] for plain, speculative in rounds]
            total = lambda name: sum(speculative[1][name] for _, speculative in rounds)
            print(
                f"{task}: plain {spread(speeds[0])} tok/s, speculative {spread(speeds[1])}, ratio "
                f"{spread(ratios)}; {total('accepted_tokens')} of {total('drafted_tokens')} drafted "
                f"tokens accepted, of {total('generated_tokens')} tokens"
            )
            results[task] = rounds
    finally:
        host.stdin.close()
        host.wait()
    return results


def main():
    args = parse()
    if not args.transom.is_file():
        sys.exit(f"{args.transom}: not found; cargo build --release -p transom-cli builds it")
    if args.speculation and not STARTER.is_file():
        sys.exit(f"{STARTER}: not found; cargo xtask setup creates it")
    peer = llama_cpp_peer.build(args.cache, args.threads)
    args.programs = Path(peer["programs"])
    models = args.model or [
        args.cache / "models" / f"random-0.6b-{kind}.gguf" for kind in ("Q4_K_M", "Q8_0")
    ]
    if not args.model and not args.speculation:
        for model in models:
            make(model, "0.6b", model.stem.rsplit("-", 1)[1], cache=args.cache)
    print(f"{peer['libraries']}; llama-bench: {peer['tools']}; {platform.platform()}")
    print(f"{args.rounds} rounds of {args.runs}, alternating: median (min to max)")
    results = {}
    with tempfile.TemporaryDirectory() as args.data:
        if args.speculation:
            results["speculation"] = compare_speculation(args)
        else:
            for model in models:
                results[model.name] = compare(args, model)
    if args.json:
        args.json.write_text(json.dumps({"peer": peer, "models": results}, indent=2) + "\n")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--model", type=Path, action="append", help="GGUF file; may be given several times")
    add("--prompt-tokens", type=int, default=512)
    add("--generate-tokens", type=int, default=128)
    add("--history", type=int, default=1500, help="tokens before turn 2")
    add("--rounds", type=int, default=5, help="runs of each program")
    add("--runs", type=int, default=1, help="measurements in a run")
    add("--speculation", action="store_true", help="with and without speculative decoding")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of llama-bench")
    add("--flash-attention", choices=["on", "off"], help="of llama-bench, instead of the faster")
    add("--transom", type=Path, default=REPOSITORY / "target" / "release" / "transom")
    add("--cache", type=Path, default=llama_cpp_peer.CACHE, help="programs and models")
    add("--json", type=Path, help="file for all values")
    return parser.parse_args()


if __name__ == "__main__":
    main()
