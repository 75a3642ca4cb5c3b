#!/usr/bin/env python3
"""Builds the tools of llama.cpp with the llama.cpp that the engine links, as the reference.

    python benches/llama_cpp_peer.py            # prints the folder with the programs and libraries

The crate `llama-cpp-sys-2` contains the libraries of llama.cpp but not the sources of its tools.
These are in the source package of `llama-cpp-python`, which is pinned by version and SHA-256. Its
llama.cpp is some weeks older. This script checks that its public header is the same, except for the
version numbers of saved states. So `llama-bench`, `llama-quantize` and `llama-server` are built from
its sources with the libraries of the crate, and the Python binding loads the same libraries. The
server is built only on request, and without its web pages.

The build is a release build for the instructions of this machine, as usual for measurements. Only
OpenMP is off, because the build of the engine has none. The results are outside the repository.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "transom" / "reference"
SDIST = "llama-cpp-python"
SDIST_VERSION = "0.3.36"
SDIST_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
CRATE = "llama-cpp-sys-2"
OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "BUILD_SHARED_LIBS": "ON",
    "GGML_NATIVE": "ON",
    "GGML_OPENMP": "OFF",
    "GGML_METAL_EMBED_LIBRARY": "ON",
    "LLAMA_BUILD_COMMON": "OFF",
    "LLAMA_OPENSSL": "OFF",
    "LLAMA_BUILD_UI": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
}
if platform.machine() == "x86_64":
    # The crate does not use AMX, and there are virtual machines that announce it but forbid its use.
    NO_AMX = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
    OPTIONS |= {"CMAKE_C_FLAGS": NO_AMX, "CMAKE_CXX_FLAGS": NO_AMX}
PROJECT = """\
cmake_minimum_required(VERSION 3.14)
project(transom_reference C CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
find_package(Threads REQUIRED)
add_subdirectory(${LIBRARIES} llama.cpp)
# The tools look for their scripts below the project, and need their own version of what they share.
get_filename_component(PROJECT_SOURCE_DIR ${TOOLS} DIRECTORY)
set(LLAMA_BUILD_NUMBER 0)
set(LLAMA_BUILD_COMMIT unknown)
set(LLAMA_VERSION_BASE 0)
set(LLAMA_VERSION_MAJOR 0)
add_subdirectory(${PROJECT_SOURCE_DIR}/vendor/cpp-httplib cpp-httplib EXCLUDE_FROM_ALL)
add_subdirectory(${PROJECT_SOURCE_DIR}/common common EXCLUDE_FROM_ALL)
foreach(tool llama-bench quantize mtmd ui server)
    add_subdirectory(${TOOLS}/${tool} ${tool} EXCLUDE_FROM_ALL)
endforeach()
"""


def run(command, **options):
    done = subprocess.run([str(part) for part in command], **options)
    if done.returncode != 0:
        sys.exit(f"failed with {done.returncode}: {' '.join(map(str, command))}")
    return done


def crate():
    """Returns the version of the crate in the lock file and the folder of its llama.cpp."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    done = run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    for package in json.loads(done.stdout)["packages"]:
        if package["name"] == CRATE:
            return package["version"], Path(package["manifest_path"]).parent / "llama.cpp"
    sys.exit(f"{CRATE} is not in the lock file")


def source_package(cache):
    """Returns the folder of the unpacked source package, which is downloaded once."""
    folder = cache / f"llama_cpp_python-{SDIST_VERSION}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    requirements = cache / "requirements.txt"
    requirements.write_text(f"{SDIST}=={SDIST_VERSION} --hash=sha256:{SDIST_SHA256}\n")
    run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", SDIST,
         "--require-hashes", "--requirement", requirements, "--dest", cache],
        stdout=sys.stderr,
    )  # fmt: skip
    archive = cache / f"{folder.name}.tar.gz"
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SDIST_SHA256:
        sys.exit(f"{archive} does not have the pinned checksum")
    part = cache / f"{folder.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(part, filter="data")
    (part / folder.name).rename(folder)
    part.rmdir()
    return folder


def api(llama_cpp):
    """Returns the public header of llama.cpp without the versions of saved states."""
    text = (llama_cpp / "include" / "llama.h").read_text()
    return re.sub(r"(#define LLAMA_\w+_VERSION) \d+", r"\1", text)


def version_of(llama_cpp):
    text = (llama_cpp / "CMakeLists.txt").read_text()
    return ".".join(
        re.search(rf"LLAMA_VERSION_{part} (\d+)", text)[1] for part in ["MAJOR", "MINOR", "PATCH"]
    )


def build(cache, jobs, *more_targets):
    """Builds what is missing, with `more_targets`; returns the paths and versions."""
    crate_version, libraries = crate()
    package = source_package(cache)
    tools = package / "vendor" / "llama.cpp"
    if api(libraries) != api(tools):
        sys.exit(
            f"llama.cpp of {CRATE} {crate_version} and of {SDIST} {SDIST_VERSION} have different "
            "interfaces; pin a source package of the same version"
        )
    options = OPTIONS | {"LIBRARIES": str(libraries), "TOOLS": str(tools / "tools")}
    key = hashlib.sha256(json.dumps([PROJECT, options]).encode()).hexdigest()[:12]
    folder = cache / f"{CRATE}-{crate_version}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "CMakeLists.txt").write_text(PROJECT)
    out = folder / "build"
    start = time.monotonic()
    run(
        ["cmake", "-S", folder, "-B", out, "--log-level=ERROR", "-Wno-dev"]
        + [f"-D{name}={value}" for name, value in options.items()],
        stdout=subprocess.DEVNULL,
    )
    targets = ["llama-bench", "llama-quantize", "llama", *more_targets]
    run(
        ["nice", "-n", "19", "cmake", "--build", out, "-j", str(jobs), "--target", *targets],
        stdout=sys.stderr,
    )
    return {
        "programs": str(out / "bin"),
        "python": str(package),
        "libraries": f"llama.cpp {version_of(libraries)} of {CRATE} {crate_version}",
        "tools": f"llama.cpp {version_of(tools)} of {SDIST} {SDIST_VERSION}",
        "build_seconds": round(time.monotonic() - start, 1),
        "machine": platform.platform(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where to build ({CACHE})")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time")
    parser.add_argument("--server", action="store_true", help="build llama-server, too")
    args = parser.parse_args()
    more = ["llama-server"] if args.server else []
    print(json.dumps(build(args.cache.resolve(), args.jobs, *more), indent=2))


if __name__ == "__main__":
    main()
