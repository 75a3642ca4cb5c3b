#!/usr/bin/env bash
# tap.sh TAG REPOSITORY: writes the release of a tag into Casks/transom.rb and pushes that to the tap, the
# repository in TAP (OWNER/homebrew-NAME), with TAP_TOKEN. Without a TAP it does nothing. Run it at the
# root of the checkout.
set -euo pipefail
tag=$1 repository=$2
if [ -z "${TAP:-}" ]; then
  echo "The variable HOMEBREW_TAP names no repository, so there is no tap to update." >&2
  exit 0
fi
gh release download "$tag" --repo "$repository" --pattern SHA256SUMS
"$(dirname "$0")/cask.sh" "${tag#v}" SHA256SUMS "$repository" Casks/transom.rb
git clone --quiet --depth 1 "https://x-access-token:$TAP_TOKEN@github.com/$TAP" tap
mkdir -p tap/Casks
cp Casks/transom.rb tap/Casks/transom.rb
cd tap
git add Casks/transom.rb
# The release may be published again.
if git diff --cached --quiet; then exit 0; fi
git -c user.name="github-actions[bot]" \
  -c user.email="41898282+github-actions[bot]@users.noreply.github.com" \
  commit --quiet --message "transom ${tag#v}"
git push --quiet origin HEAD
