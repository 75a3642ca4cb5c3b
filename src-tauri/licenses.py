#!/usr/bin/env python3
"""Collects the licenses of everything in the app in `licenses.txt`, which the About pane shows and every
bundle contains. Works that are not packages of Cargo or npm have a file in `native-licenses`, whose first
line is the name with the license.

    python3 src-tauri/licenses.py      # needs cargo, and `npm ci` in ui/

The result is committed, so builds do not need this program. Run it when dependencies change.
"""

import collections
import json
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
TARGETS = ["aarch64-apple-darwin", "x86_64-unknown-linux-gnu"]
# The app, the program that runs models, and the one that reads documents.
PROGRAMS = ["transom-app", "transom-cli", "transom-document-reader"]
NAMES = re.compile(r"^(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)


def rust_packages():
    """Returns the packages in the programs, without build and test dependencies."""
    found = {}
    for target in TARGETS:
        command = ["cargo", "metadata", "--format-version", "1", "--all-features"]
        output = subprocess.run([*command, "--filter-platform", target], cwd=ROOT, check=True, capture_output=True)
        metadata = json.loads(output.stdout)
        packages = {package["id"]: package for package in metadata["packages"]}
        nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
        pending = [id for id, package in packages.items() if package["name"] in PROGRAMS]
        seen = set(pending)
        while pending:
            for dependency in nodes[pending.pop()]["deps"]:
                is_in_program = any(kind["kind"] is None for kind in dependency["dep_kinds"])
                if is_in_program and dependency["pkg"] not in seen:
                    seen.add(dependency["pkg"])
                    pending.append(dependency["pkg"])
        for id in seen:
            package = packages[id]
            if package["source"] is not None:
                folder = pathlib.Path(package["manifest_path"]).parent
                license = package["license"] or "see below"
                found[(package["name"], package["version"])] = (license, folder)
    return found


def page_packages():
    """Returns the packages in the pages; the rest of node_modules only builds them."""
    found = {}
    for name in ["svelte", "@tauri-apps/api"]:
        folder = ROOT / "ui/node_modules" / name
        package = json.loads((folder / "package.json").read_text())
        found[(name, package["version"])] = (package["license"], folder)
    return found


def texts(folder):
    files = sorted(path for path in folder.iterdir() if path.is_file() and NAMES.match(path.name))
    for path in files:
        text = path.read_text(errors="replace").replace("\r\n", "\n").replace("\t", "    ")
        yield "\n".join(line.rstrip() for line in text.strip("\n\ufeff ").split("\n"))


def native_works():
    """Yields the name with the license, and the text, of each file in `native-licenses`."""
    for path in sorted((HERE / "native-licenses").glob("*.txt")):
        name, _, text = path.read_text().strip().partition("\n\n")
        yield name, text


def key(text):
    """Returns a key for texts that differ only in the copyright holder. They are printed once, with all names."""
    lines = [line for line in text.split("\n") if not re.match(r"\s*(portions )?copyright\b", line, re.IGNORECASE)]
    return re.sub(r"\W+", " ", " ".join(lines)).strip().lower()


def main():
    packages = {**rust_packages(), **page_packages()}
    out = ["Transom is made of the following works of others, with thanks.", ""]
    by_text = collections.defaultdict(lambda: {"text": "", "holders": set(), "packages": []})
    found = []
    for name, text in native_works():
        out.append(name)
        found.append((name.rpartition(" (")[0], text))
    for (name, version), (license, folder) in sorted(packages.items()):
        out.append(f"{name} {version} ({license})")
        found += [(name, text) for text in texts(folder)]
    for name, text in found:
        entry = by_text[key(text)]
        entry["text"] = entry["text"] or text
        entry["packages"].append(name)
        holders = re.findall(r"^\s*(?:portions )?(copyright\b.*)$", text, re.IGNORECASE | re.MULTILINE)
        # Excludes clauses of the Apache license.
        entry["holders"].update(line.strip() for line in holders if re.search(r"\d{4}|\(c\)|©", line, re.IGNORECASE))
    for entry in sorted(by_text.values(), key=lambda entry: -len(entry["packages"])):
        out += ["", "-" * 80, "For " + ", ".join(sorted(set(entry["packages"]))) + ":", ""]
        out += sorted(entry["holders"]) + [""] if len(entry["packages"]) > 1 else []
        out.append(entry["text"])
    (HERE / "licenses.txt").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
