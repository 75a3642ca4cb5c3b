"""Compares the catalog with a hub.

Reads only what is requested by name: listings, and the small files with a model's numbers.
"""

import json
import os
import urllib.error
import urllib.parse
import urllib.request

import check
import shapes

TIMEOUT_SECONDS = 30
FOLDER_MARGIN = 0.001
BESIDE_WEIGHTS = (".json", ".jinja", ".model", ".tiktoken", ".txt")
TERMS = ("LICENSE", "NOTICE", "USE_POLICY")


class Unreadable(Exception):
    """The hub did not return the requested data; the text says why."""


class Hub:
    def __init__(self, endpoint, token=None):
        self.endpoint = endpoint.rstrip("/")
        self.token = token
        self.listings = {}

    def json(self, path):
        request = urllib.request.Request(f"{self.endpoint}/{path}")
        if self.token:
            # Do not send the token to hosts that the hub redirects to.
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            reasons = {401: "it needs a token", 403: "its terms must be accepted", 404: "it does not exist"}
            raise Unreadable(reasons.get(error.code, f"the hub's status is {error.code}")) from error
        except (OSError, ValueError) as error:
            raise Unreadable(f"no readable response ({error})") from error

    def listing(self, repository, revision):
        """Returns (commit, files by name) of a repository; a file has size_bytes, and sha256 if large."""
        at = (repository, revision)
        if at not in self.listings:
            revision = urllib.parse.quote(revision, safe="")
            answer = self.json(f"api/models/{repository}/revision/{revision}?blobs=true")
            self.listings[at] = answer["sha"], {
                found["rfilename"]: {
                    "size_bytes": found.get("size"),
                    "sha256": (found.get("lfs") or {}).get("sha256"),
                }
                for found in answer["siblings"]
            }
        return self.listings[at]


def from_environment(endpoint=None):
    endpoint = endpoint or os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    return Hub(endpoint, os.environ.get("HF_TOKEN"))


def fetched_names(names):
    """Returns the files of an MLX repository that are downloaded."""
    at_top = [name for name in names if "/" not in name and not name.startswith("consolidated")]
    beside = (".safetensors", *BESIDE_WEIGHTS)
    return [name for name in at_top if name.endswith(beside) or name.startswith(TERMS)]


def read_variant(hub, variant):
    """Returns the variant on the hub, with every size and checksum, at its current commit."""
    commit, there = hub.listing(variant["repository"], variant["revision"])
    if variant["format"] == "gguf":
        names = [file["name"] for file in variant["files"]]
    else:
        names = sorted(fetched_names(there))
    missing = [name for name in names if name not in there]
    if missing or not names:
        raise Unreadable(f"the repository has no {', '.join(missing) or 'weights'}")
    files = [{"name": name, **_given(there[name])} for name in names]
    sizes = [file.get("size_bytes") for file in files]
    if not all(sizes):
        raise Unreadable("the hub does not say the sizes of its files")
    read = {key: variant[key] for key in ("format", "quantization", "repository")}
    read |= {"revision": commit, "size_bytes": sum(sizes)}
    if variant["format"] == "mlx":
        # The rest is small, and the hub lists it when the model is downloaded.
        files = [file for file in files if file["name"].endswith(".safetensors")]
    return read | {"files": files}


def _given(file):
    return {key: value for key, value in file.items() if value is not None}


def compared_variant(variant, read):
    """Returns (errors, missing facts) of the catalog, as sentences. Unverified facts count as missing."""
    wrong, lacking = [], []
    guessed = set(variant.get("unverified", []))

    def compare(what, key, stated, found):
        if found is None or stated == found:
            return
        is_open = stated is None or guessed & {key, "files" if what else key}
        (lacking if is_open else wrong).append(f"{what}{key} is {stated}, but {found} on the hub")

    is_folder = variant["format"] == "mlx"
    listed = {file["name"]: file for file in variant.get("files", [])}
    stated, found = variant.get("size_bytes"), read["size_bytes"]
    # The small files of a folder that are downloaded may change.
    if not (is_folder and stated and abs(stated / found - 1) <= FOLDER_MARGIN):
        compare("", "size_bytes", stated, found)
    for file in read["files"]:
        own = listed.get(file["name"])
        if own is None:
            lacking.append(f"{file['name']} is not listed")
            continue
        for key in ("size_bytes", "sha256"):
            compare(f"{file['name']}: ", key, own.get(key), file.get(key))
    if guessed:
        lacking.append(f"{', '.join(sorted(guessed))} can be marked as verified")
    return wrong, lacking


def compared_source(hub, entry):
    """Returns (errors, notes) about config, sampling and license in the authors' own repository."""
    repository = urllib.parse.urlsplit(entry["source"]).path.strip("/")
    guessed = set(entry.get("unverified", []))
    wrong, notes = [], []

    def read(what, path, compare, is_sure):
        try:
            published = hub.json(path)
        except Unreadable as error:
            notes.append(f"{what} cannot be read: {error}")
            return
        (wrong if is_sure else notes).extend(compare(entry, published))

    if check.config(entry) is not None:
        path = f"{repository}/resolve/main/config.json"
        read("its config", path, _config_differs, "architecture" not in guessed)
    # The model card may recommend something else than this file, and has priority.
    path = f"{repository}/resolve/main/generation_config.json"
    read("its sampling", path, _sampling_differs, False)
    read("its license", f"api/models/{repository}", _license_differs, "license" not in guessed)
    return wrong, notes


def _config_differs(entry, published):
    own, theirs = shapes.text_config(check.config(entry)), shapes.text_config(published)
    for key, value in own.items():
        if key in ("quantization", "model_type", "architectures", "vision_config"):
            continue
        if key in theirs and theirs[key] != value:
            yield f"`{key}` of its config is {value}, but {theirs[key]} on the hub"


def _sampling_differs(entry, published):
    stated = entry.get("sampling", {})
    for key in check.SAMPLING_RANGES:
        if key in published and published[key] != stated.get(key):
            yield f"`{key}` is {stated.get(key)}, but {published[key]} in generation_config.json"


def _license_differs(entry, published):
    stated = entry["license"].lower()
    named = (published.get("cardData") or {}).get("license")
    # Names of licenses that are not SPDX's differ between sites.
    if named in (None, "other") or stated.startswith("licenseref-"):
        return
    if named.lower() != stated:
        yield f"`license` is {entry['license']}, but {named} on the hub"
