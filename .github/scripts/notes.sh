#!/usr/bin/env bash
# notes.sh VERSION: prints what CHANGELOG.md says about a version, without its heading.
set -euo pipefail
awk -v heading="## $1" '
  /^## / { is_wanted = $0 == heading || index($0, heading " ") == 1; next }
  is_wanted && (NF || has_begun) { has_begun = 1; print }
' CHANGELOG.md
