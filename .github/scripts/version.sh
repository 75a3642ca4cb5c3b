#!/usr/bin/env bash
# version.sh TAG: prints the version of a tag. Fails if the tag is not that of this checkout, or if
# CHANGELOG.md does not describe the version. Run it at the root of the checkout.
set -euo pipefail
tag=$1
version=$(sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
if [ "$tag" != "v$version" ]; then
  echo "The tag $tag does not fit the version $version in Cargo.toml; tag v$version." >&2
  exit 1
fi
if ! grep -q "^## $version\( \|$\)" CHANGELOG.md; then
  echo "CHANGELOG.md has no heading for $version; write '## $version' above its changes." >&2
  exit 1
fi
echo "$version"
