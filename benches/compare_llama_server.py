#!/usr/bin/env python3
"""Runs llama-server of llama.cpp and `transom serve` alternately on the same model file.

    python benches/compare_llama_server.py                        # 0.6b shape in Q4_K_M
    python benches/compare_llama_server.py --model FILE.gguf --rounds 7 --json OUT.json

Run it with a Python that has numpy and gguf, or give it a model. `llama_cpp_peer.py` builds
llama-server with the llama.cpp that transom links. Both servers run from the start to the end and are
measured in turn, so a machine that slows down or is busy affects both equally. Each round has a ratio,
and the table shows the median round.

Both get the same token ids, threads and number of tokens over `/v1/completions`, and stream. Every
prompt begins with other tokens, so no server finds it in its KV cache. A bias excludes tokens that end
a text or are no words. With one client, who sends a seed, which turns speculative decoding off:

- first token: from the request to the first event with text
- rate: tokens per second between the first event with text and the last one
- overhead: the time until the last event that the engine does not account for in `timings`, for each
  token. It is the cost of HTTP, JSON and processes.

Conversations, also with one client; the time to the first token:

- turn 2: of a prompt that continues the one before
- next message: the same over `/v1/chat/completions`, without a seed and a while after a complete response,
  as a person writes it. Until then transom reads what the message will follow.
- switch back: of a prompt that continues an earlier one, after another one

For these a second llama-server has one slot, and its cache of earlier prompts in memory (`--cache-ram`).

With several clients, each sends its requests one after the other: throughput is all tokens per second.
They send no seed, with which transom generates one response at a time. The model has random weights, so
at temperature 1 its words are random, and few drafts are right.
"""

import argparse
import http.client
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import llama_cpp_peer

REPOSITORY = Path(__file__).resolve().parents[1]
TEXT = "The morning train leaves the harbour at seven and reaches the hills before noon. " * 200
STARTUP_SECONDS = 120
# What the results are compared with: the least ratio, where more is better in transom.
LIMITS = {
    "first token": 1 / 1.1,
    "turn 2": 1.0,
    "next message": 1.0,
    "switch back": 1.0,
    "rate": 0.97,
    "throughput": 1.0,
}
TIMES = ("first token", "turn 2", "next message", "switch back")
# Tokens by which a prompt continues an earlier one, and of the responses to such prompts.
TURN_TOKENS = 32
SHORT_RESPONSE = 4
# Of the responses before a next message, which end by themselves, and the seconds until that message.
LONG_RESPONSE = 64
PAUSE_SECONDS = 1
# Of the llama-server with one slot.
CACHE_MB = 2048
MAX_OVERHEAD_MS = 0.2
# Sampling of one client, and of several.
SEEDED = {"temperature": 0, "seed": 1}
RANDOM = {"temperature": 1}


class Server:
    """A running server, whose process and children are ended with it."""

    def __init__(self, name, command, port, env=None):
        self.name, self.port, self.model = name, port, None
        self.process = subprocess.Popen(
            [str(part) for part in command],
            env=os.environ | (env or {}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + STARTUP_SECONDS
        while not self.is_ready():
            if self.process.poll() is not None:
                sys.exit(f"{name} ended at its start: {' '.join(map(str, command))}")
            if time.monotonic() > deadline:
                sys.exit(f"{name} did not start within {STARTUP_SECONDS} s")
            time.sleep(0.05)

    def is_ready(self):
        try:
            return self.request("GET", "/health")[0] == 200
        except OSError:
            return False

    def connect(self):
        return http.client.HTTPConnection("localhost", self.port, timeout=600)

    def request(self, method, path, body=None):
        connection = self.connect()
        headers = {"content-type": "application/json"}
        connection.request(method, path, body and json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text

    def tokenize(self, text):
        status, body = self.request("POST", "/tokenize", {"model": self.model, "content": text})
        if status != 200:
            sys.exit(f"{self.name}: /tokenize: {body}")
        return json.loads(body)["tokens"]

    def detokenize(self, tokens):
        status, body = self.request("POST", "/detokenize", {"model": self.model, "tokens": tokens})
        if status != 200:
            sys.exit(f"{self.name}: /detokenize: {body}")
        return json.loads(body)["content"]

    def stream(self, path, body):
        """Sends a request for a response; returns the time before it, and each event with its time."""
        body |= {"model": self.model, "stream": True, "stream_options": {"include_usage": True}}
        connection = self.connect()
        began = time.perf_counter()
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            sys.exit(f"{self.name}: {response.status} {response.read().decode()}")
        events = []
        for line in response:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            now = time.perf_counter()
            event = json.loads(line[6:])
            if "error" in event:
                sys.exit(f"{self.name}: {event['error']}")
            events.append((now, event))
        connection.close()
        return began, events

    def complete(self, args, prompt, sampling, max_tokens=None, n_known=0):
        """Streams a completion of a prompt that begins with `n_known` tokens of an earlier one; returns its
        times and counts."""
        max_tokens = max_tokens or args.generate_tokens
        body = {"prompt": prompt, "max_tokens": max_tokens, "logit_bias": args.logit_bias}
        began, events = self.stream("/v1/completions", body | sampling)
        first = last = None
        timings, usage = {}, None
        for now, event in events:
            timings = event.get("timings") or timings
            usage = event.get("usage") or usage
            if event["choices"] and event["choices"][0]["text"]:
                first, last = first or now, now
        n_tokens = usage["completion_tokens"]
        if n_tokens != max_tokens:
            sys.exit(f"{self.name} generated {n_tokens} of {max_tokens} tokens")
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        if abs(cached - n_known) > 8:
            sys.exit(f"{self.name} had {cached} tokens in its KV cache, where {n_known} were known")
        # Both name the time of the prompt; llama-server counts its tokens, too.
        prefill_ms = timings.get("prefill_ms", timings.get("prompt_ms"))
        engine_ms = prefill_ms + timings["predicted_ms"]
        return {
            "first token": (first - began) * 1e3,
            "rate": (n_tokens - 1) / (last - first),
            "overhead": ((last - began) * 1e3 - engine_ms) / n_tokens,
            "tokens": n_tokens,
        }

    def chat(self, args, messages, bias, max_tokens, sampling):
        """Returns the text of a response, why it ended, and the milliseconds until its first text."""
        body = {"messages": messages, "max_tokens": max_tokens, "logit_bias": args.logit_bias | bias}
        began, events = self.stream("/v1/chat/completions", body | sampling)
        text, reason, first = "", None, None
        for now, event in events:
            for choice in event["choices"]:
                reason = choice.get("finish_reason") or reason
                new = choice["delta"].get("content") or ""
                first = first or (now if new else None)
                text += new
        return text, reason, first and (first - began) * 1e3

    def next_message(self, args):
        """Returns the milliseconds to the first token after the second message of a chat."""
        may_end = {str(args.end_of_turn): 100}
        while True:
            messages = [{"role": "user", "content": args.question()}]
            text, reason, _ = self.chat(args, messages, may_end, LONG_RESPONSE, RANDOM)
            if text and reason == "stop":
                break
        time.sleep(PAUSE_SECONDS)
        messages.append({"role": "assistant", "content": text})
        messages.append({"role": "user", "content": args.message})
        return self.chat(args, messages, {}, SHORT_RESPONSE, {"temperature": 0})[2]

    def conversations(self, args):
        """Returns the milliseconds to the first token of prompts that continue earlier ones."""
        first, other = args.prompts(), args.prompts()
        second = first + args.words[:TURN_TOKENS]
        third = second + args.words[:TURN_TOKENS]

        def first_token(prompt, n_known=0):
            return self.complete(args, prompt, SEEDED, SHORT_RESPONSE, n_known)["first token"]

        first_token(first)
        turn = first_token(second, len(first))
        first_token(other)
        back = first_token(third, len(second))
        return {"turn 2": turn, "switch back": back, "next message": self.next_message(args)}

    def throughput(self, args, n_clients):
        """Returns the tokens per second of clients that all send requests one after the other."""
        counts = []

        def client():
            for _ in range(args.requests):
                counts.append(self.complete(args, args.prompts(), RANDOM)["tokens"])

        clients = [threading.Thread(target=client) for _ in range(n_clients)]
        began = time.perf_counter()
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        if len(counts) != n_clients * args.requests:
            sys.exit(f"{self.name}: a client failed")
        return sum(counts) / (time.perf_counter() - began)

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_peer(args, n_slots, cache_mb=0):
    port = free_port()
    n_turns = 2 * TURN_TOKENS
    context = n_slots * (args.prompt_tokens + n_turns + args.generate_tokens + 16)
    command = [args.programs / "llama-server", "-m", args.model, "-t", args.threads]
    command += ["-tb", args.threads, "-c", context, "-np", n_slots, "--host", "127.0.0.1"]
    # Its cache of earlier prompts costs memory and time, where no prompt comes twice.
    command += ["--port", port, "--offline", "--cache-ram", cache_mb, "-fa", args.flash_attention]
    return Server("llama-server", command, port)


def start_transom(args, data):
    env = {"TRANSOM_DATA": str(data)}
    llama_cpp_peer.run(
        [args.transom, "models", "install", args.model],
        env=os.environ | env,
        stdout=subprocess.DEVNULL,
    )
    port = free_port()
    server = Server("transom", [args.transom, "serve", "--port", port, "--no-key"], port, env)
    listed = json.loads(server.request("GET", "/v1/models")[1])["data"]
    names = [model["id"] for model in listed]
    stem = args.model.stem.lower()
    server.model = next((name for name in names if name.lower().startswith(stem)), None)
    if server.model is None:
        server.end()
        sys.exit(f"transom does not list {args.model.name}, but {', '.join(names)}")
    return server


def spread(values):
    low, middle, high = min(values), statistics.median(values), max(values)
    digits = 3 if high < 1 else 2 if high < 10 else 1
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def measure(args, server, of_conversations):
    runs = [server.complete(args, args.prompts(), SEEDED) for _ in range(args.runs)]
    result = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    turns = [of_conversations.conversations(args) for _ in range(args.runs)]
    result |= {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}
    for n_clients in args.clients:
        result[f"throughput, {n_clients} clients"] = server.throughput(args, n_clients)
    return result


def compare(args):
    with tempfile.TemporaryDirectory() as data:
        peer = start_peer(args, max([1, *args.clients]))
        servers = [peer]
        try:
            servers.append(start_transom(args, data))
            servers.append(start_peer(args, 1, CACHE_MB))
            # Without a token of white space, whose text would wait for what follows.
            words = peer.tokenize(TEXT.strip())
            while len(words) < args.prompt_tokens:
                words += words
            numbers = random.Random(0)

            def prompts():
                # The first tokens differ, so nothing of an earlier prompt can be used.
                start = [numbers.randrange(300, args.n_plain_tokens) for _ in range(4)]
                return start + words[: args.prompt_tokens - len(start)]

            question = peer.detokenize(words[: args.prompt_tokens - TURN_TOKENS])
            args.words = words
            args.prompts = prompts
            args.question = lambda: f"{numbers.randrange(10**9)} {question}"
            args.message = peer.detokenize(words[: TURN_TOKENS // 2])
            # Only words: bytes that are no whole character would be no event.
            args.logit_bias = {str(token): -100 for token in args.end_tokens}
            args.logit_bias |= {str(token): 100 for token in words}
            for server in servers:
                # Loads the model, and warms up.
                server.complete(args, prompts(), SEEDED)
            rounds = []
            for number in range(args.rounds):
                peer, ours, one_slot = servers
                rounds.append([measure(args, peer, one_slot), measure(args, ours, ours)])
                print(f"round {number + 1} of {args.rounds} done", file=sys.stderr)
        finally:
            for server in servers:
                server.end()
    return rounds


def report(args, rounds):
    """Prints the table; returns true if every limit is kept."""
    is_kept = True
    print(f"{'':<24} {'llama-server':>26} {'transom':>26} {'ratio, by round':>24}  limit")
    for name in rounds[0][0]:
        if name in ("tokens", "overhead"):
            continue
        values = [[side[name] for side in sides] for sides in zip(*rounds)]
        is_time = name in TIMES
        ratios = [peer / ours if is_time else ours / peer for peer, ours in zip(*values)]
        limit = LIMITS[name.split(",")[0]]
        is_in_limit = statistics.median(ratios) >= limit
        is_kept &= is_in_limit
        unit = "ms" if is_time else "tok/s"
        print(
            f"{name + ', ' + unit:<24} {spread(values[0]):>26} {spread(values[1]):>26} "
            f"{spread(ratios):>24}  {limit:.2f} {'kept' if is_in_limit else 'MISSED'}"
        )
    values = [[side["overhead"] for side in sides] for sides in zip(*rounds)]
    is_in_limit = statistics.median(values[1]) < MAX_OVERHEAD_MS
    is_kept &= is_in_limit
    print(
        f"{'overhead, ms a token':<24} {spread(values[0]):>26} {spread(values[1]):>26} {'':>24}  "
        f"{MAX_OVERHEAD_MS} {'kept' if is_in_limit else 'MISSED'}"
    )
    return is_kept


def end_tokens(model):
    """Returns the tokens that end a text, the one that ends a response, and the number of tokens below all
    special ones."""
    import gguf

    fields = gguf.GGUFReader(model).fields
    ids = {
        int(field.contents())
        for name, field in fields.items()
        if name.startswith("tokenizer.ggml.") and name.endswith(("eos_token_id", "eot_token_id"))
    }
    kinds = fields["tokenizer.ggml.token_type"].contents()
    ids |= {i for i, kind in enumerate(kinds) if kind == gguf.TokenType.CONTROL}
    n_plain = next((i for i, kind in enumerate(kinds) if i >= 1000 and kind != 1), len(kinds))
    end_of_turn = int(fields["tokenizer.ggml.eos_token_id"].contents())
    return sorted(ids)[:300], end_of_turn, n_plain


def main():
    args = parse()
    if not args.transom.is_file():
        sys.exit(f"{args.transom}: not found; cargo build --release -p transom-cli builds it")
    peer = llama_cpp_peer.build(args.cache.resolve(), args.threads, "llama-server")
    args.programs = Path(peer["programs"])
    if args.model is None:
        from make_random_gguf import make

        args.model = args.cache.resolve() / "models" / "random-0.6b-Q4_K_M.gguf"
        make(args.model, "0.6b", "Q4_K_M", cache=args.cache.resolve())
    args.model = args.model.resolve()
    args.end_tokens, args.end_of_turn, args.n_plain_tokens = end_tokens(args.model)
    print(f"{peer['libraries']}; llama-server: {peer['tools']}; {platform.platform()}")
    print(
        f"{args.model.name}: {args.prompt_tokens} and {args.generate_tokens} tokens, {args.threads} "
        f"threads; {args.rounds} rounds, alternating: median (min to max)"
    )
    rounds = compare(args)
    is_kept = report(args, rounds)
    if args.json:
        args.json.write_text(json.dumps({"peer": peer, "rounds": rounds}, indent=2) + "\n")
    sys.exit(0 if is_kept else 1)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--model", type=Path, help="GGUF file")
    add("--prompt-tokens", type=int, default=512)
    add("--generate-tokens", type=int, default=128)
    add("--rounds", type=int, default=5, help="measurements of each server")
    add("--runs", type=int, default=3, help="requests of one client in a round")
    add("--clients", type=int, nargs="*", default=[4, 8], help="clients at a time")
    add("--requests", type=int, default=2, help="requests of each of several clients")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of llama-server")
    add("--flash-attention", choices=["on", "off", "auto"], default="auto", help="of llama-server")
    add("--transom", type=Path, default=REPOSITORY / "target" / "release" / "transom")
    add("--cache", type=Path, default=llama_cpp_peer.CACHE, help="programs and models")
    add("--json", type=Path, help="file for all values")
    return parser.parse_args()


if __name__ == "__main__":
    main()
