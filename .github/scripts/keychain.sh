#!/usr/bin/env bash
# keychain.sh: puts the certificate in CERTIFICATE (a base64-encoded .p12 file) and PASSWORD into a
# keychain of this runner, and NOTARY_KEY into a file. Prints lines for GITHUB_ENV. Without a
# certificate it prints nothing, and the app gets an ad-hoc signature.
set -euo pipefail
if [ -z "${CERTIFICATE:-}" ]; then
  echo "There is no certificate, so the app is not signed." >&2
  exit 0
fi
umask 077
keychain=$RUNNER_TEMP/release.keychain
certificate=$RUNNER_TEMP/certificate.p12
trap 'rm -f "$certificate"' EXIT
base64 --decode <<<"$CERTIFICATE" >"$certificate"
security create-keychain -p "" "$keychain" >&2
security set-keychain-settings "$keychain" >&2
security unlock-keychain -p "" "$keychain" >&2
security import "$certificate" -k "$keychain" -P "$PASSWORD" -T /usr/bin/codesign >&2
security set-key-partition-list -S apple-tool:,apple: -s -k "" "$keychain" >/dev/null
security list-keychains -d user -s "$keychain" login.keychain >&2
identity=$(security find-identity -v -p codesigning "$keychain" |
  sed -n 's/.*"\(Developer ID Application: .*\)".*/\1/p' | head -n 1)
if [ -z "$identity" ]; then
  echo "The certificate is not a Developer ID Application." >&2
  exit 1
fi
echo "APPLE_SIGNING_IDENTITY=$identity"
if [ -n "${NOTARY_KEY:-}" ]; then
  printf '%s' "$NOTARY_KEY" >"$RUNNER_TEMP/notary.p8"
  echo "APPLE_API_KEY_PATH=$RUNNER_TEMP/notary.p8"
  echo "APPLE_API_KEY=$NOTARY_KEY_ID"
  echo "APPLE_API_ISSUER=$NOTARY_ISSUER"
fi
