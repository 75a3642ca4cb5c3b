#!/usr/bin/env bash
# sign.sh VERSION FOLDER: signs the files that installed copies download to update themselves, for this
# version, with the key in TAURI_SIGNING_PRIVATE_KEY and its TAURI_SIGNING_PRIVATE_KEY_PASSWORD. Without a
# key it signs nothing.
set -euo pipefail
version=$1 folder=$2
if [ -z "${TAURI_SIGNING_PRIVATE_KEY:-}" ]; then
  echo "There is no key for updates, so installed copies do not get this release." >&2
  exit 0
fi
for file in "$folder"/*.app.tar.gz "$folder"/*.AppImage; do
  npm exec --yes --package @tauri-apps/cli@2.12.5 -- \
    tauri signer sign --app-version "$version" "$file" >/dev/null
done
