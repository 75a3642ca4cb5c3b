"""Checks the facts in models.toml: within the list, and against a hub.

    python3 tests/facts/facts.py --offline            what must hold within the list
    python3 tests/facts/facts.py [ENDPOINT]           and against a hub (or HF_ENDPOINT)
    python3 tests/facts/facts.py --fill [ENDPOINT]    writes what the list lacks into it

`--model ID` asks only for that model, and may be repeated. HF_TOKEN is sent if it is set. The exit
status is 1 if something is wrong. What the list only lacks, and what a hub does not show, is a
note.
"""

import argparse
import sys
import tomllib

import check
import filling
import hub

LIST = check.ROOT / "models.toml"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("endpoint", nargs="?", help="a hub, such as https://huggingface.co")
    parser.add_argument("--offline", action="store_true", help="ask nobody")
    parser.add_argument("--fill", action="store_true", help="write what the list lacks into it")
    parser.add_argument("--model", action="append", help="id of a model to ask for")
    arguments = parser.parse_args()

    entries = tomllib.loads(LIST.read_text())["model"]
    unknown = set(arguments.model or []) - {entry["id"] for entry in entries}
    if unknown:
        parser.error(f"no model has the id {', '.join(sorted(unknown))}")
    wrong = check.problems(entries)
    for problem in wrong:
        print(f"wrong    {problem}")
    if not arguments.offline:
        asked = [entry for entry in entries if "path" not in entry]
        if arguments.model:
            asked = [entry for entry in asked if entry["id"] in arguments.model]
        source = hub.from_environment(arguments.endpoint)
        wrong += ask(source, asked, LIST if arguments.fill else None)
    n_variants = sum(len(entry.get("variant", [])) for entry in entries)
    print(f"{len(entries)} models, {n_variants} variants, {len(wrong)} wrong")
    return 1 if wrong else 0


def ask(source, entries, fill_path=None):
    """Prints what a hub says otherwise, and returns what is wrong."""
    wrong = []

    def report(place, of_these, notes):
        wrong.extend(of_these)
        for word, sentences in (("wrong", of_these), ("note", notes)):
            for sentence in sentences:
                print(f"{word:8} {place}: {sentence}", flush=True)

    for entry in entries:
        report(entry["id"], *hub.compared_source(source, entry))
        for index, variant in enumerate(entry.get("variant", [])):
            place = f"{entry['id']}, {variant['format']} {variant['packing']}"
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
