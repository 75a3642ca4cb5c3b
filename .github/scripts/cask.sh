#!/usr/bin/env bash
# cask.sh VERSION SHA256SUMS REPOSITORY CASK: writes a version, the checksum of its DMG, and the
# repository on GitHub (OWNER/NAME) into a cask.
set -euo pipefail
version=$1 sums=$2 repository=$3 cask=$4
image="Transom_${version}_arm64.dmg"
sum=$(awk -v name="$image" '$2 == name || $2 == "*" name { print $1 }' "$sums")
if ! [[ $sum =~ ^[0-9a-f]{64}$ ]]; then
  echo "$sums has no checksum of $image." >&2
  exit 1
fi
sed -e "s/^  version \".*\"$/  version \"$version\"/" \
  -e "s/^  sha256 .*$/  sha256 \"$sum\"/" \
  -e "s|github.com/[^/]*/[^/\"]*|github.com/$repository|" "$cask" >"$cask.new"
mv "$cask.new" "$cask"
