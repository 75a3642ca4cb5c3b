"""Checks the catalog itself, without a network."""

import functools
import json
import re
from pathlib import Path

import architecture
import packed
import shapes

ROOT = Path(__file__).resolve().parents[2]
# Folders of published configs: those that the MLX engine's tests load, and the others.
ENGINE_CONFIGS = ROOT / "crates/engine-mlx/tests/configs"
OTHER_CONFIGS = ROOT / "tests/facts/configs"

MODEL_KEYS = {
    "id", "name", "family", "description", "license", "tags", "source", "draft", "unverified",
    "sampling", "architecture", "variant", "path", "gguf", "query_prefix", "document_prefix", "min_dimensions",
}
SAMPLING_RANGES = {
    "temperature": (0, 5), "top_p": (0.01, 1), "top_k": (0, 1000), "min_p": (0, 1),
    "repetition_penalty": (0.5, 2),
}
ARCHITECTURE_KEYS = {
    "model_type", "parameters", "active_parameters", "experts_per_token", "vision_parameters", "layers",
    "hidden_size", "heads", "kv_heads", "head_dim", "value_dim", "intermediate_size", "vocabulary",
    "context_length", "sliding_window", "sliding_layers", "sliding_kv_heads", "sliding_head_dim",
    "shared_layers", "linear_layers", "linear_state_bytes",
}
VARIANT_KEYS = {
    "format", "quantization", "repository", "revision", "size_bytes", "files", "unverified",
}
FILE_KEYS = {"name", "size_bytes", "sha256"}
TAGS = {"chat", "code", "reasoning", "embedding"}
EXTENSIONS = {"mlx": ".safetensors", "gguf": ".gguf"}

# Allowed difference of parameters from the computed number, and of sizes from the usual ones.
PARAMETERS_MARGIN = 0.01
SIZE_MARGIN = 0.1
# Allowance for the tokenizer, which is larger than 10 % of the smallest models.
BESIDE_WEIGHTS_BYTES = 45_000_000


def problems(entries):
    """Returns all errors, as sentences that name the model."""
    return [f"{place}: {what}" for place, what in _problems(entries)]


def config_path(entry):
    """Returns the path of an entry's published config, whether it exists or not."""
    has_mlx = any(variant.get("format") == "mlx" for variant in entry.get("variant", []))
    return (ENGINE_CONFIGS if has_mlx else OTHER_CONFIGS) / f"{entry['id']}.json"


def config(entry):
    """Returns the published config of an entry, or None."""
    return _read(ROOT / entry["path"] / "config.json" if "path" in entry else config_path(entry))


@functools.cache
def _read(path):
    return json.loads(path.read_text()) if path.is_file() else None


def _problems(entries):
    yield from _duplicates(entries)
    known = {entry.get("id"): entry for entry in entries}
    for entry in entries:
        place = entry.get("id", "a model without id")
        checks = [_words, _draft, _sampling, _numbers, _variants]
        for check in checks:
            for what in check(entry, known):
                yield place, what
    paths = {config_path(entry) for entry in entries if "id" in entry}
    for folder in (ENGINE_CONFIGS, OTHER_CONFIGS):
        for path in sorted(folder.glob("*.json")):
            if path not in paths:
                where = folder.relative_to(ROOT)
                yield path.name, f"no model of the catalog has its config in {where}"


def _duplicates(entries):
    seen = {}
    for entry in entries:
        names = [("id", entry.get("id")), ("name", entry.get("name", "").lower())]
        for variant in entry.get("variant", []):
            repository = variant.get("repository", "")
            quantization = (variant.get("format"), variant.get("quantization"))
            names.append(("variant", (repository, *quantization)))
            for file in variant.get("files", []):
                names.append(("file", (repository, variant.get("revision"), file.get("name"))))
        for kind, name in names:
            place = entry.get("id", "a model without id")
            if (kind, name) in seen:
                yield place, f"the {kind} {name!r} is already used by {seen[kind, name]}"
            seen.setdefault((kind, name), place)


def _unknown(table, keys, what):
    return [f"there is no key `{key}` of {what}" for key in table if key not in keys]


def _words(entry, _known):
    yield from _unknown(entry, MODEL_KEYS, "a model")
    for key in ("id", "name", "family", "description", "license", "tags", "architecture"):
        if not entry.get(key):
            yield f"`{key}` is missing"
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", entry.get("id", "")):
        yield "`id` must be lower-case letters, digits, `.` and `-`"
    if not entry.get("description", ".").endswith("."):
        yield "`description` must end with a full stop"
    tags = entry.get("tags", [])
    yield from (f"there is no tag `{tag}`" for tag in tags if tag not in TAGS)
    if len(set(tags)) < len(tags):
        yield "a tag is listed twice"
    yield from _unverified(entry, MODEL_KEYS | set(SAMPLING_RANGES) | ARCHITECTURE_KEYS)
    if "path" in entry:
        return
    if not re.fullmatch(r"https://[^\s/]+/[\w.-]+/[\w.-]+", entry.get("source", "")):
        yield "`source` must be the URL of a model card"
    if not entry.get("variant"):
        yield "there are no variants to download"


def _unverified(table, keys):
    named = table.get("unverified", [])
    yield from (f"`unverified` lists `{key}`, which is not a key" for key in named if key not in keys)


def _draft(entry, known):
    name = entry.get("draft")
    if name is None:
        return
    draft = known.get(name)
    if draft is None:
        yield f"its draft `{name}` is not in the catalog"
        return
    own, other = entry.get("architecture", {}), draft.get("architecture", {})
    if other.get("parameters", 0) >= own.get("parameters", 0):
        yield f"its draft `{name}` is not smaller"
    if other.get("vocabulary") != own.get("vocabulary"):
        yield f"its draft `{name}` has another vocabulary"
    if draft.get("family") != entry.get("family"):
        yield f"its draft `{name}` is of another family, whose tokens may differ"


def _sampling(entry, _known):
    sampling = entry.get("sampling", {})
    yield from _unknown(sampling, SAMPLING_RANGES, "sampling")
    for key, (low, high) in SAMPLING_RANGES.items():
        if not low <= sampling.get(key, low) <= high:
            yield f"`{key}` of {sampling[key]} is not within {low} and {high}"


def _numbers(entry, _known):
    stated = entry.get("architecture", {})
    yield from _unknown(stated, ARCHITECTURE_KEYS, "an architecture")
    own = config(entry)
    if own is None:
        if "architecture" not in entry.get("unverified", []):
            yield "it has no config, so its architecture must be marked as unverified"
        return
    if config_path(entry).parent == ENGINE_CONFIGS and "quantization" not in own:
        yield "its config does not say how its MLX variants are quantized"
    variants = entry.get("variant", [])
    try:
        computed = architecture.numbers(own, any(v.get("format") == "mlx" for v in variants))
    except (KeyError, TypeError, ValueError) as error:
        yield f"the parameters of its config cannot be computed: {error!r}"
        return
    # The config of some vision towers does not say enough to count their parameters.
    left_out = {"context_length"}
    if shapes.vision_parameters(own) == 0:
        left_out.add("vision_parameters")
    for key in sorted(set(computed) | set(stated) - left_out):
        yield from _compared(key, stated.get(key), computed.get(key))
    longest = shapes.text_config(own)["max_position_embeddings"]
    if not 0 < stated.get("context_length", 0) <= longest:
        yield f"`context_length` is more than the {longest} of its config, or missing"


def _compared(key, stated, computed):
    if stated == computed:
        return
    counts = "parameters" in key and stated and computed
    if counts and abs(stated / computed - 1) <= PARAMETERS_MARGIN:
        return
    yield f"`{key}` is {stated}, but {computed} by its config"


def _variants(entry, _known):
    for variant in entry.get("variant", []):
        place = f"{variant.get('format')} {variant.get('quantization')}"
        for what in _variant(entry, variant):
            yield f"{place}: {what}"


def _variant(entry, variant):
    yield from _unknown(variant, VARIANT_KEYS, "a variant")
    yield from _unverified(variant, VARIANT_KEYS | FILE_KEYS)
    form, quantization = variant.get("format"), variant.get("quantization", "")
    quantizations = {"mlx": packed.MLX_BITS, "gguf": packed.GGUF_BITS}.get(form, {})
    if quantization.removeprefix("UD-" if form == "gguf" else "") not in quantizations:
        yield "it has an unknown format or quantization"
        return
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", variant.get("repository", "")):
        yield "`repository` is owner/name"
    if not re.fullmatch(r"[\w./-]+", variant.get("revision", "")):
        yield "`revision` is a commit, a tag or a branch"
    yield from _files(variant, form)
    size, own = variant.get("size_bytes"), config(entry)
    if not isinstance(size, int) or size <= 0:
        yield "`size_bytes` is missing"
    elif own is not None:
        vision = entry["architecture"].get("vision_parameters", 0)
        usual = packed.usual_sizes(own, form, quantization, vision)
        beside = BESIDE_WEIGHTS_BYTES if form == "mlx" else 0
        if not any(is_near(size, other, beside) for other in usual):
            yield f"{size} bytes, but {usual[0]:.0f} are usual for this quantization"


def is_near(size, usual, beside):
    return usual * (1 - SIZE_MARGIN) <= size <= max(usual * (1 + SIZE_MARGIN), usual + beside)


def _files(variant, form):
    files, unverified = variant.get("files", []), variant.get("unverified", [])
    if form == "gguf" and not files:
        yield "a GGUF variant must list its files"
    extension = EXTENSIONS[form]
    if files and not any(file.get("name", "").endswith(extension) for file in files):
        yield f"none of its files is a *{extension} file"
    for file in files:
        yield from _unknown(file, FILE_KEYS, "a file")
        name = file.get("name", "")
        if not name or any(part.startswith(".") or not part for part in name.split("/")):
            yield f"{name!r} is not a valid file name"
        if not re.fullmatch(r"[0-9a-f]{64}", file.get("sha256", "0" * 64)):
            yield f"the sha256 of {name} is not 64 lower-case hexadecimal digits"
        known = "size_bytes" in file
        if not known and not {"files", "size_bytes"} & set(unverified):
            yield f"{name} has no size, and nothing is marked as unverified"
    sizes = [file.get("size_bytes") for file in files]
    total, stated = sum(size or 0 for size in sizes), variant.get("size_bytes", 0)
    # The size of a folder includes small files that are not listed.
    is_all = form == "gguf" and sizes and all(sizes)
    if total > stated or (is_all and total != stated):
        yield f"its files have {total} bytes together"
