#!/usr/bin/env bash
# try.sh TRANSOM: asks the starter model of an installed program a question, without a network and
# with an empty data folder. Fails if there is no response.
set -euo pipefail
transom=$1
TRANSOM_DATA=$(mktemp -d)
export TRANSOM_DATA
trap 'rm -rf "$TRANSOM_DATA"' EXIT
# Nothing listens there, so a download would fail.
export HTTPS_PROXY=http://127.0.0.1:9 HTTP_PROXY=http://127.0.0.1:9
"$transom" doctor
response=$("$transom" ask "What is a haiku?")
if [ -z "${response//[[:space:]]/}" ]; then
  echo "The starter model did not respond." >&2
  exit 1
fi
printf '%s\n' "$response"
