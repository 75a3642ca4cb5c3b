#!/usr/bin/env bash
# app-archive.sh APP ARCHIVE: packs an app of a Mac, with its signature and ticket, as the archive that
# installed copies download to update themselves.
set -euo pipefail
app=$1 archive=$2
# Otherwise tar adds a file with the extended attributes of each file, and the signature breaks.
COPYFILE_DISABLE=1 tar -czf "$archive" -C "$(dirname "$app")" "$(basename "$app")"
