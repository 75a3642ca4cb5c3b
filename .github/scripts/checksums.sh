#!/usr/bin/env bash
# checksums.sh FOLDER: writes SHA256SUMS for the files of a folder.
set -euo pipefail
cd "$1"
rm -f SHA256SUMS
files=()
for file in *; do
  if [ -f "$file" ]; then files+=("$file"); fi
done
if [ ${#files[@]} -eq 0 ]; then
  echo "There are no files in $1." >&2
  exit 1
fi
sha256sum -- "${files[@]}" >SHA256SUMS
