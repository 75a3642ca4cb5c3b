#!/usr/bin/env python3
"""Gathers the licenses of everything in the app into `licenses.txt`, which the About pane shows.

    python3 src-tauri/licenses.py      # needs cargo, and `npm ci` in ui/

What it writes is committed, so a build does not need it; run it when dependencies change.
"""

import collections
import json
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
TARGETS = ["aarch64-apple-darwin", "x86_64-unknown-linux-gnu"]
# The app and the program that it starts for answers.
PROGRAMS = ["transom-app", "transom-cli"]
NAMES = re.compile(r"^(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)


def rust_packages():
    """Packages that end up in the programs, without what only builds or tests them."""
    found = {}
    for target in TARGETS:
        command = ["cargo", "metadata", "--format-version", "1", "--all-features"]
        output = subprocess.run([*command, "--filter-platform", target], cwd=ROOT, check=True, capture_output=True)
        metadata = json.loads(output.stdout)
        packages = {package["id"]: package for package in metadata["packages"]}
        nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
        waiting = [id for id, package in packages.items() if package["name"] in PROGRAMS]
        seen = set(waiting)
        while waiting:
            for dependency in nodes[waiting.pop()]["deps"]:
                is_in_program = any(kind["kind"] is None for kind in dependency["dep_kinds"])
                if is_in_program and dependency["pkg"] not in seen:
                    seen.add(dependency["pkg"])
                    waiting.append(dependency["pkg"])
        for id in seen:
            package = packages[id]
            if package["source"] is not None:
                folder = pathlib.Path(package["manifest_path"]).parent
                license = package["license"] or "see below"
                found[(package["name"], package["version"])] = (license, folder)
    return found


def page_packages():
    """What the pages are built of: the rest of node_modules only builds them."""
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


def key(text):
    """Texts that differ only in whose copyright it is are printed once, with all the names."""
    lines = [line for line in text.split("\n") if not re.match(r"\s*(portions )?copyright\b", line, re.IGNORECASE)]
    return re.sub(r"\W+", " ", " ".join(lines)).strip().lower()


def main():
    packages = {**rust_packages(), **page_packages()}
    out = ["Transom is made of the following works of others, with thanks.", ""]
    by_text = collections.defaultdict(lambda: {"text": "", "holders": set(), "packages": []})
    for (name, version), (license, folder) in sorted(packages.items()):
        out.append(f"{name} {version} ({license})")
        for text in texts(folder):
            entry = by_text[key(text)]
            entry["text"] = entry["text"] or text
            entry["packages"].append(name)
            holders = re.findall(r"^\s*(?:portions )?(copyright\b.*)$", text, re.IGNORECASE | re.MULTILINE)
            # Not the clauses of Apache's own text.
            entry["holders"].update(line.strip() for line in holders if re.search(r"\d{4}|\(c\)|©", line, re.IGNORECASE))
    for entry in sorted(by_text.values(), key=lambda entry: -len(entry["packages"])):
        out += ["", "-" * 80, "For " + ", ".join(sorted(set(entry["packages"]))) + ":", ""]
        out += sorted(entry["holders"]) + [""] if len(entry["packages"]) > 1 else []
        out.append(entry["text"])
    (HERE / "licenses.txt").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
