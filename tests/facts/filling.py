"""Writes facts from a hub into the catalog, and leaves every other line as it is."""

import re


def filled(text, identifier, index, read):
    """Returns the catalog with variant `index` of model `identifier` replaced by `read`."""
    lines = text.split("\n")
    start, end = _block(lines, identifier, index)
    comments = [line for line in lines[start:end] if line.startswith("#")]
    return "\n".join(lines[:start] + comments + written(read) + lines[end:])


def _block(lines, identifier, index):
    """Returns the first line of the variant, and the first line after it."""
    at = lines.index(f'id = "{identifier}"')
    for _ in range(index + 1):
        at = lines.index("[[model.variant]]", at) + 1
    start = at - 1
    while at < len(lines) and lines[at].strip():
        at += 1
    return start, at


def written(variant):
    """Returns the lines of a variant, in the order and form of the catalog."""
    lines = ["[[model.variant]]"]
    for key in ("format", "quantization", "repository", "revision"):
        lines.append(f'{key} = "{_plain(variant[key])}"')
    lines.append(f"size_bytes = {variant['size_bytes']:_}")
    files = ["{ " + ", ".join(_file(file)) + " }" for file in variant["files"]]
    if len(files) == 1:
        return [*lines, f"files = [ {files[0]} ]"]
    return [*lines, "files = [", *(f"  {file}," for file in files), "]"]


def _file(file):
    yield f'name = "{_plain(file["name"])}"'
    yield f"size_bytes = {file['size_bytes']:_}"
    if "sha256" in file:
        yield f'sha256 = "{_plain(file["sha256"])}"'


def _plain(word):
    """Returns a word that needs no escaping; raises ValueError for other words."""
    if not re.fullmatch(r"[\w./ -]+", word):
        raise ValueError(f"{word!r} cannot be written into the catalog")
    return word
