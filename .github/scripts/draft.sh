#!/usr/bin/env bash
# draft.sh TAG FOLDER: drafts the release of a tag, with the files of FOLDER and the section of
# CHANGELOG.md. Run it at the root of the checkout.
set -euo pipefail
tag=$1 folder=$2
notes=$(mktemp)
trap 'rm -f "$notes"' EXIT
"$(dirname "$0")/notes.sh" "${tag#v}" >"$notes"
gh release create "$tag" --draft --verify-tag --title "Transom ${tag#v}" \
  --notes-file "$notes" "$folder"/*
