#!/usr/bin/env python3
"""manifest.py VERSION REPOSITORY FOLDER: writes FOLDER/latest.json, from which installed copies learn of a
version. It has the addresses of the files at the release of REPOSITORY (OWNER/NAME), their sizes, their
signatures, which `sign.sh` wrote, and the notes of CHANGELOG.md. The signatures are checked against the
public key in TRANSOM_UPDATE_KEY, and removed from the folder. Without signatures it writes nothing.
"""

import base64
import json
import os
import pathlib
import subprocess
import sys

# The endings of the files, and what the updater calls their systems.
PLATFORMS = {".app.tar.gz": "darwin-aarch64", ".AppImage": "linux-x86_64"}


def fields(text):
    """Returns the decoded lines of a key or a signature in the encoding of Tauri."""
    return base64.b64decode(text, validate=True).decode().splitlines()


def key_id(line):
    """Returns the id of the key, which follows the two letters of the algorithm."""
    return base64.b64decode(line, validate=True)[2:10]


def check(file, signature, version, key):
    lines = fields(signature)
    if key_id(lines[1]) != key_id(fields(key)[1]):
        sys.exit(f"{file.name} is signed with another key than that of TRANSOM_UPDATE_KEY.")
    # The updater refuses a signature that does not name the announced version.
    if f"version:{version}" not in lines[2].split("\t"):
        sys.exit(f"{file.name} is not signed for version {version}: {lines[2]}")


def main(version, repository, folder):
    folder = pathlib.Path(folder)
    signatures = sorted(folder.glob("*.sig"))
    if not signatures:
        print("No file is signed, so there is no latest.json.", file=sys.stderr)
        return
    key = os.environ.get("TRANSOM_UPDATE_KEY", "").strip()
    if not key:
        sys.exit("The files are signed, but TRANSOM_UPDATE_KEY has no public key, so the programs can't update.")
    platforms = {}
    for path in signatures:
        file, signature = path.with_suffix(""), path.read_text().strip()
        names = [name for ending, name in PLATFORMS.items() if file.name.endswith(ending)]
        if len(names) != 1 or names[0] in platforms:
            sys.exit(f"{file.name} is not the one file for its system.")
        check(file, signature, version, key)
        platforms[names[0]] = {
            "url": f"https://github.com/{repository}/releases/download/v{version}/{file.name}",
            "signature": signature,
            "size": file.stat().st_size,
        }
    missing = sorted(set(PLATFORMS.values()) - set(platforms))
    if missing:
        sys.exit(f"There is no signed file for {', '.join(missing)}.")
    script = pathlib.Path(__file__).with_name("notes.sh")
    notes = subprocess.run([script, version], check=True, capture_output=True, text=True).stdout
    manifest = {"version": version, "notes": notes.strip(), "platforms": platforms}
    (folder / "latest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    for path in signatures:
        path.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
