#!/usr/bin/env python3
"""Runs llama.cpp's own tests of llama-server against `transom serve`, as far as they fit.

    python benches/llama_server_tests.py
    python benches/llama_server_tests.py --transom target/debug/transom -- -k anthropic

Run it with a Python that has pytest, requests, openai and numpy. The tests are in the source package
that llama_cpp_peer.py pins. They are copied and changed at run time, and only in what depends on the
program or on its model: `LOOSENED` lists these changes. A request without the name of a model, or with
a made-up one, gets the name of the starter or of a tiny embedding model, and a path without a version
gets `/v1`. Tests of private routes and of start options of llama-server are left out: `LEFT_OUT` gives
the reason of each.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import llama_cpp_peer
from compare_llama_server import free_port

REPOSITORY = Path(__file__).resolve().parents[1]
EMBEDDER = REPOSITORY / "crates/engine-llama/tests/fixtures/embeddings/qwen3-last.gguf"
STARTUP_SECONDS = 60

FILES = [
    "test_basic.py",
    "test_chat_completion.py",
    "test_compat_anthropic.py",
    "test_compat_oai_responses.py",
    "test_completion.py",
    "test_embedding.py",
    "test_security.py",
    "test_tokenize.py",
]

# Patterns and what takes their place. The tests know the texts and the lengths of models that are not
# here, and the name of their program.
LOOSENED = [
    (r'\.startswith\("b"\)', '.startswith("transom-")'),
    (r'== "llama-test-model"', "== CHAT"),
    (r"== n_prompt\b", "> 0"),
    (r"== n_predicted\b", "> 0"),
    (r"== finish_reason\b", 'in ["stop", "length"]'),
    # The starter may end its answer earlier.
    (r'\["finish_reason"\] == "length"', '["finish_reason"] in ["stop", "length"]'),
    (r'\.finish_reason == "length"', '.finish_reason in ["stop", "length"]'),
    # The first chunk of OpenAI has an empty text.
    (r'\["content"\] is None', '["content"] in [None, ""]'),
    (r"delta\.content is None", "delta.content in [None, '']"),
    # Longer than the context of the starter, and with the code of OpenAI.
    (r"\] \* 100,", "] * 500,"),
    (r'\["type"\] == "exceed_context_size_error"', '["code"] == "context_length_exceeded"'),
    (r'\["n_ctx"\] == server\.n_ctx // server\.n_slots', '["n_ctx"] > 0'),
    (r'"This is a test " \* 512', '"This is a test " * 2000'),
    (r'"too large" in', '"at most" in'),
    (r"== n_tokens\b", "> 0"),
    (r"== 2 \* 9\b", "> 0"),
    # The starter has no token for the begin of a text.
    (r'\["tokens"\]\[0\] == bosId', '["tokens"][0] >= 0'),
    # The types of OpenAI.
    (r'== "authentication_error"', '== "invalid_request_error"'),
    (r"^TEST_API_KEY = .*", 'TEST_API_KEY = os.environ["TRANSOM_KEY"]'),
    (r"\{server\.server_port\}\"\)", '{server.server_port}/v1")'),
    # A preflight request has no content, and one of a foreign page is refused.
    (r"(OPTIONS[^}]*\}\)\n    assert res\.status_code) == 200", r"\1 in [204, 403]"),
]

# Tests that do not fit, as patterns, each with the reason.
LEFT_OUT = {
    r"test_server_(props|slots|models|model_aliases|multiple)": "start options and private routes",
    r"test_load_split_model|test_no_ui|static_assets": "start options, and the pages of llama-server",
    r"test_chat_completion_cached_tokens": "the token counts of one model",
    r"test_chat_template|test_apply_chat_template|test_verbose_debug": "show the prompt to clients",
    r"with_grammar": "grammars in llama.cpp's own form; here they have the form of Lark",
    r"test_invalid_chat_completion_req\[messages7": "two answers in a row are no error here",
    r"timings_per_token|llama_telemetry|test_return_progress": "private fields of streams",
    r"vision|with_image|local_media": "images are refused with 400, not 500, or need their model",
    r"test_anthropic_empty_messages": "a conversation without a message is refused",
    r"thinking_history|thinking_with_reasoning": "need a template and a model that reason",
    r"test_completion\[|test_completion_stream\[": "private fields of whole completions",
    r"test_json_prompt|tokens_input|mixed_input|content_text": "prompts in a private form",
    r"parallel_slots|unified|response_fields|prompt_cache|cancel_request": "slots of llama-server",
    r"test_n_probs|n_probs_": "private fields; the log probabilities of OpenAI's API are tested",
    r"test_nocache_long": "the context length of a start option",
    r"pooling_none|with_fa": "start options, and longer texts than the tiny model takes",
    r"cors_options": "reflects every origin with credentials, which is refused here",
    r"cors_origins": "lets in every page of this computer; here origins are listed",
    r"test_logit_bias\[False": "texts in place of token ids, a private form",
    r"cors_proxy": "a private route",
    r"slow|library_stops": "downloads a model",
}

# Replaces what starts llama-server and what sends requests.
ADAPTER = '''
import os
from utils import *

CHAT, EMBEDDER = os.environ["TRANSOM_CHAT"], os.environ["TRANSOM_EMBEDDER"]
KEY = os.environ["TRANSOM_KEY"]
VERSIONED = ("/completion", "/chat/", "/embeddings", "/models", "/responses", "/messages")


def adapted(path, data):
    """Returns the path and the body for Transom."""
    is_native = path == "/completion"
    if path.startswith(VERSIONED):
        path = "/v1/completions" if is_native else "/v1" + path
    if isinstance(data, dict):
        data = {**data, "model": EMBEDDER if path.endswith("/embeddings") else CHAT}
        if is_native:
            data["max_tokens"] = data.pop("n_predict", 16)
            data.pop("cache_prompt", None)
            if isinstance(data.get("logit_bias"), list):
                data["logit_bias"] = {str(token): -100 for token, _ in data["logit_bias"]}
    return path, data


def with_content(body):
    """Adds the text of a completion where a private route has it."""
    if isinstance(body, dict) and body.get("object") == "text_completion":
        body["content"] = "".join(choice["text"] for choice in body["choices"])
    return body


send, stream = ServerProcess.make_request, ServerProcess.make_stream_request
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}


def make_request(self, method, path, data=None, headers=None, **options):
    path, data = adapted(path, data)
    result = send(self, method, path, data, headers or AUTHORIZED, **options)
    result.body = with_content(result.body)
    return result


def make_stream_request(self, method, path, data=None, headers=None, **options):
    path, data = adapted(path, data)
    for event in stream(self, method, path, data, headers or AUTHORIZED, **options):
        yield with_content(event)


ServerProcess.start = lambda self, timeout_seconds=0: None
ServerProcess.stop = lambda self: None
ServerProcess.make_request = make_request
ServerProcess.make_stream_request = make_stream_request
ServerPreset.load_all = staticmethod(lambda: None)


def match_regex(pattern, text):
    return text is not None
'''


CONFTEST = f"""
import re
from adapter import *

LEFT_OUT = {LEFT_OUT!r}


def pytest_collection_modifyitems(config, items):
    fits = lambda item: not any(re.search(pattern, item.name) for pattern in LEFT_OUT)
    left_out = [item for item in items if not fits(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if fits(item)]
    unused = [one for one in LEFT_OUT if not any(re.search(one, item.name) for item in left_out)]
    if unused and not config.option.keyword:
        raise SystemExit(f"no test has this name: {{unused}}")
"""


def prepare(folder, tests):
    """Copies the tests, with all changes. They are run in the copy."""
    (folder / "utils.py").write_text((tests / "utils.py").read_text())
    (folder / "adapter.py").write_text(ADAPTER)
    # Only downloads of models need this package.
    (folder / "wget.py").write_text("")
    (folder / "conftest.py").write_text(CONFTEST)
    for name in FILES:
        text = (tests / "unit" / name).read_text()
        for pattern, replacement in LOOSENED:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        text = text.replace("from utils import *", "from adapter import *")
        text = text.replace('api_key="dummy"', 'api_key=os.environ["TRANSOM_KEY"]')
        text = re.sub(
            r'model="(gpt|davinci|text-embedding)[^"]*"',
            lambda found: "model=" + ("EMBEDDER" if found[1] == "text-embedding" else "CHAT"),
            text,
        )
        (folder / name).write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--transom", type=Path, default=REPOSITORY / "target" / "release" / "transom")
    add("--cache", type=Path, default=llama_cpp_peer.CACHE, help="the source package")
    add("pytest", nargs="*", help="more arguments for pytest, after --")
    args = parser.parse_args()
    package = llama_cpp_peer.source_package(args.cache.resolve())
    tests = package / "vendor" / "llama.cpp" / "tools" / "server" / "tests"
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        key, port = "sk-transom-tests", free_port()
        env = os.environ | {
            "TRANSOM_DATA": str(folder / "data"),
            "TRANSOM_CHAT": "starter",
            "TRANSOM_EMBEDDER": EMBEDDER.stem,
            "TRANSOM_KEY": key,
            "PORT": str(port),
            "DEBUG_EXTERNAL": "1",
        }
        prepare(folder, tests)
        install = [args.transom, "models", "install", EMBEDDER]
        llama_cpp_peer.run(install, env=env, stdout=subprocess.DEVNULL)
        serve = [args.transom, "serve", "--port", str(port), "--key", key]
        server = subprocess.Popen(serve, env=env, stdout=subprocess.DEVNULL)
        try:
            wait_for(port, server)
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *FILES]
            done = subprocess.run([*command, *args.pytest], cwd=folder, env=env)
        finally:
            server.terminate()
            server.wait(timeout=30)
    sys.exit(done.returncode)


def wait_for(port, server):
    deadline = time.monotonic() + STARTUP_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://localhost:{port}/health", timeout=5):
                return
        except OSError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"transom serve did not start: {error}")
            time.sleep(0.05)


if __name__ == "__main__":
    main()
