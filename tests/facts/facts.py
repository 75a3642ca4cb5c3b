"""Checks the facts in models.toml: in the catalog itself, and against a hub.

    python3 tests/facts/facts.py --offline            check only the catalog itself
    python3 tests/facts/facts.py [ENDPOINT]           also compare it with a hub (or HF_ENDPOINT)
    python3 tests/facts/facts.py --fill [ENDPOINT]    write missing facts into the catalog

`--model ID` compares only that model, and may be repeated. HF_TOKEN is sent if it is set. The exit
status is 1 if something is wrong. Facts that are missing in the catalog or on the hub are notes.
"""

import argparse
import sys
import tomllib

import check
import filling
import hub

CATALOG = check.ROOT / "models.toml"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("endpoint", nargs="?", help="a hub, such as https://huggingface.co")
    parser.add_argument("--offline", action="store_true", help="do not use the network")
    parser.add_argument("--fill", action="store_true", help="write missing facts into the catalog")
    parser.add_argument("--model", action="append", help="id of a model to compare")
    arguments = parser.parse_args()

    entries = tomllib.loads(CATALOG.read_text())["model"]
    unknown = set(arguments.model or []) - {entry["id"] for entry in entries}
    if unknown:
        parser.error(f"no model has the id {', '.join(sorted(unknown))}")
    wrong = check.problems(entries)
    for problem in wrong:
        print(f"wrong    {problem}")
    if not arguments.offline:
        selected = [entry for entry in entries if "path" not in entry]
        if arguments.model:
            selected = [entry for entry in selected if entry["id"] in arguments.model]
        source = hub.from_environment(arguments.endpoint)
        wrong += compare(source, selected, CATALOG if arguments.fill else None)
    n_variants = sum(len(entry.get("variant", [])) for entry in entries)
    print(f"{len(entries)} models, {n_variants} variants, {len(wrong)} wrong")
    return 1 if wrong else 0


def compare(source, entries, fill_path=None):
    """Prints the differences to a hub, and returns the errors."""
    wrong = []

    def report(place, of_these, notes):
        wrong.extend(of_these)
        for word, sentences in (("wrong", of_these), ("note", notes)):
            for sentence in sentences:
                print(f"{word:8} {place}: {sentence}", flush=True)

    for entry in entries:
        report(entry["id"], *hub.compared_source(source, entry))
        for index, variant in enumerate(entry.get("variant", [])):
            place = f"{entry['id']}, {variant['format']} {variant['quantization']}"
            try:
                read = hub.read_variant(source, variant)
            except hub.Unreadable as error:
                report(place, [f"{variant['repository']}: {error}"], [])
                continue
            of_these, lacking = hub.compared_variant(variant, read)
            report(place, of_these, lacking)
            if fill_path and lacking and not of_these:
                text = fill_path.read_text()
                fill_path.write_text(filling.filled(text, entry["id"], index, read))
    return wrong


if __name__ == "__main__":
    sys.exit(main())
