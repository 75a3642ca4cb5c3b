"""Tests of the checks: each finds its kind of error in a copy of the catalog.

    python3 -m unittest discover tests/facts
"""

import contextlib
import copy
import http.server
import io
import json
import tempfile
import threading
import tomllib
import unittest
from pathlib import Path

import check
import facts
import filling
import hub

ENTRIES = tomllib.loads(facts.CATALOG.read_text())["model"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHA256 = "ab" * 32


def changed(identifier, change):
    """Returns the catalog after a change to one of its models."""
    entries = copy.deepcopy(ENTRIES)
    change(next(entry for entry in entries if entry["id"] == identifier))
    return check.problems(entries)


class CatalogChecks(unittest.TestCase):
    def assert_found(self, words, identifier, change):
        found = changed(identifier, change)
        self.assertTrue(any(words in problem for problem in found), found)

    def test_the_catalog_itself_has_no_errors(self):
        self.assertEqual(check.problems(ENTRIES), [])

    def test_a_repeated_id_is_an_error(self):
        self.assert_found("is already used", "qwen3-8b", lambda entry: entry.update(id="qwen3-4b"))

    def test_a_file_of_two_models_is_an_error(self):
        other = next(entry for entry in ENTRIES if entry["id"] == "qwen3-4b")
        same = [variant for variant in other["variant"] if variant["format"] == "gguf"][0]
        self.assert_found("the file", "qwen3-8b", lambda entry: entry["variant"].append(same))

    def test_an_unknown_tag_is_an_error(self):
        self.assert_found("no tag `poetry`", "qwen3-8b",
                          lambda entry: entry["tags"].append("poetry"))

    def test_a_misspelled_key_is_an_error(self):
        self.assert_found("no key `layer`", "qwen3-8b",
                          lambda entry: entry["architecture"].update(layer=36))

    def test_a_missing_draft_model_is_an_error(self):
        self.assert_found("is not in the catalog", "qwen3-8b",
                          lambda entry: entry.update(draft="none"))

    def test_a_draft_model_with_another_vocabulary_is_an_error(self):
        self.assert_found("another vocabulary", "qwen3-8b",
                          lambda entry: entry.update(draft="llama-3.2-1b"))

    def test_a_larger_draft_model_is_an_error(self):
        self.assert_found("not smaller", "qwen3-8b", lambda entry: entry.update(draft="qwen3-14b"))

    def test_parameters_that_do_not_match_the_layers_are_an_error(self):
        self.assert_found("`parameters` is", "qwen3-8b",
                          lambda entry: entry["architecture"].update(parameters=8_300_000_000))

    def test_parameters_that_a_card_rounds_are_allowed(self):
        found = changed("qwen3-8b",
                        lambda entry: entry["architecture"].update(parameters=8_200_000_000))
        self.assertEqual(found, [])

    def test_a_state_that_does_not_match_the_config_is_an_error(self):
        self.assert_found("`linear_state_bytes` is", "qwen3.5-4b",
                          lambda entry: entry["architecture"].update(linear_state_bytes=1))

    def test_experts_that_do_not_match_the_config_are_an_error(self):
        self.assert_found("`experts_per_token` is 8, but 4 by its config", "gpt-oss-20b",
                          lambda entry: entry["architecture"].update(experts_per_token=8))

    def test_missing_experts_are_an_error(self):
        self.assert_found("`experts_per_token` is None", "qwen3.6-35b-a3b",
                          lambda entry: entry["architecture"].pop("experts_per_token"))

    def test_a_missing_window_is_an_error(self):
        self.assert_found("`sliding_window` is None", "gemma-3-4b",
                          lambda entry: entry["architecture"].pop("sliding_window"))

    def test_a_size_that_does_not_match_the_quantization_is_an_error(self):
        for form in ("mlx", "gguf"):
            def halve(entry, form=form):
                variant = next(v for v in entry["variant"] if v["format"] == form)
                variant["size_bytes"] //= 2
                variant.pop("files", None) if form == "mlx" else None
            self.assert_found("are usual for this quantization", "qwen3-8b", halve)

    def test_a_file_without_a_size_must_be_marked(self):
        def forget(entry):
            variant = next(v for v in entry["variant"] if v["format"] == "gguf")
            del variant["files"][0]["size_bytes"]
        self.assert_found("nothing is marked as unverified", "qwen3-8b", forget)

    def test_a_truncated_checksum_is_an_error(self):
        def cut(entry):
            variant = next(v for v in entry["variant"] if v["format"] == "gguf")
            variant["files"][0]["sha256"] = SHA256[:-1]
        self.assert_found("64 lower-case hexadecimal digits", "qwen3-8b", cut)

    def test_a_model_without_a_config_must_be_marked(self):
        self.assert_found("must be marked as unverified", "nomic-embed-text-v1.5",
                          lambda entry: entry.pop("unverified"))

    def test_a_config_without_a_model_is_an_error(self):
        found = check.problems([entry for entry in ENTRIES if entry["id"] != "phi-4"])
        self.assertTrue(any("phi-4.json" in problem for problem in found), found)


class StoredHub(http.server.BaseHTTPRequestHandler):
    """Responds with the content of `responses` for a path."""

    responses = {}

    def do_GET(self):
        response = self.responses.get(self.path.split("?")[0])
        self.send_response(200 if response is not None else 404)
        self.end_headers()
        if response is not None:
            self.wfile.write(json.dumps(response).encode())

    def log_message(self, *_):
        pass


ENTRY = {
    "id": "small", "source": "https://hub.example/makers/small", "license": "MIT",
    "sampling": {"temperature": 0.5},
    "variant": [
        {"format": "gguf", "quantization": "Q8_0", "repository": "makers/small-GGUF", "revision": "main",
         "size_bytes": 90, "unverified": ["size_bytes"], "files": [{"name": "small.gguf"}]},
        {"format": "mlx", "quantization": "4-bit", "repository": "makers/small-4bit", "revision": "main",
         "size_bytes": 70},
    ],
}
TEXT = """# A list.

[[model]]
id = "small"

[[model.variant]]
format = "gguf"
quantization = "Q8_0"
# Made by its authors.
size_bytes = 90
files = [ { name = "small.gguf" } ]

[[model.variant]]
format = "mlx"
size_bytes = 70
"""


def listed(name, size, sha256=None):
    return {"rfilename": name, "size": size} | ({"lfs": {"sha256": sha256}} if sha256 else {})


class HubComparison(unittest.TestCase):
    def setUp(self):
        handler = type("Handler", (StoredHub,), {"responses": {
            "/makers/small/resolve/main/generation_config.json": {"temperature": 0.7},
            "/api/models/makers/small": {"cardData": {"license": "apache-2.0"}},
            "/api/models/makers/small-GGUF/revision/main": {
                "sha": COMMIT, "siblings": [listed("small.gguf", 100, SHA256)]},
            "/api/models/makers/small-4bit/revision/main": {
                "sha": COMMIT, "siblings": [
                    listed("README.md", 5), listed("config.json", 10), listed("tokenizer.json", 20),
                    listed("model.safetensors", 40, SHA256),
                    listed("images/model.safetensors", 9)]},
        }})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.hub = hub.Hub(f"http://127.0.0.1:{server.server_port}")

    def test_differences_are_errors_and_unverified_differences_are_notes(self):
        wrong, notes = hub.compared_source(self.hub, ENTRY)
        self.assertEqual(wrong, ["`license` is MIT, but apache-2.0 on the hub"])
        self.assertEqual(notes, ["`temperature` is 0.5, but 0.7 in generation_config.json"])
        gguf, mlx = (hub.read_variant(self.hub, variant) for variant in ENTRY["variant"])
        wrong, notes = hub.compared_variant(ENTRY["variant"][0], gguf)
        self.assertEqual(wrong, [])
        self.assertIn("size_bytes is 90, but 100 on the hub", notes)
        # The weights, the config and the tokenizer, and nothing else.
        self.assertEqual(mlx["size_bytes"], 70)
        wrong, _ = hub.compared_variant(ENTRY["variant"][1] | {"size_bytes": 71}, mlx)
        self.assertEqual(wrong, ["size_bytes is 71, but 70 on the hub"])

    def test_missing_facts_are_filled_in_and_the_rest_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "models.toml"
            path.write_text(TEXT)
            with contextlib.redirect_stdout(io.StringIO()):
                facts.compare(self.hub, [ENTRY], path)
            text = path.read_text()
        self.assertTrue(text.startswith('# A list.\n\n[[model]]\nid = "small"\n\n# Made by'), text)
        gguf, mlx = tomllib.loads(text)["model"][0]["variant"]
        file = {"name": "small.gguf", "size_bytes": 100, "sha256": SHA256}
        self.assertEqual((gguf["revision"], gguf["size_bytes"]), (COMMIT, 100))
        self.assertEqual(gguf["files"], [file])
        self.assertNotIn("unverified", gguf)
        self.assertEqual((mlx["size_bytes"], len(mlx["files"])), (70, 1))

    def test_a_missing_file_is_an_error(self):
        variant = ENTRY["variant"][0] | {"files": [{"name": "other.gguf"}]}
        with self.assertRaisesRegex(hub.Unreadable, "has no other.gguf"):
            hub.read_variant(self.hub, variant)

    def test_a_name_that_would_break_the_file_is_not_written(self):
        read = hub.read_variant(self.hub, ENTRY["variant"][0])
        read["files"][0]["name"] = 'a"\n[[model]]'
        with self.assertRaisesRegex(ValueError, "cannot be written"):
            filling.filled(TEXT, "small", 0, read)


if __name__ == "__main__":
    unittest.main()
