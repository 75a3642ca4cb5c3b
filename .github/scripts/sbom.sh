#!/usr/bin/env bash
# sbom.sh VERSION FOLDER: writes a list of the packages in each program to FOLDER (CycloneDX). Run it
# at the root of the checkout; it needs cargo-cyclonedx.
set -euo pipefail
version=$1 folder=$2
for package in src-tauri crates/cli crates/document-reader; do
  cargo cyclonedx --manifest-path "$package/Cargo.toml" --format json
  mv "$package"/*.cdx.json "$folder/Transom_${version}_$(basename "$package").cdx.json"
done
