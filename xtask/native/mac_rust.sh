#!/usr/bin/env bash
# mac_rust.sh FOLDER: unpacks Debian's Rust below FOLDER, and builds its standard library for Apple
# silicon. Nothing is installed. The version is that of Debian's backports, whose index and packages
# apt checks by their signatures and checksums.
set -euo pipefail
root=$(realpath -m "$1")
debian=$root/debian
suite=trixie
target=aarch64-apple-darwin
mkdir -p "$root"/apt/{lists,cache/archives}/partial "$root"/{debian,bin,std/src}
touch "$root/apt/status"

# A package index of its own, on the mirror that this machine uses.
format='$(REPO_URI) $(ORIGIN) $(LABEL) $(CREATED_BY)'
mirror=$(apt-get indextargets --format "$format" |
  awk '$2 == "Debian" && $3 == "Debian" && $4 == "Packages" { print $1; exit }')
if [ -z "$mirror" ]; then
  echo "apt knows no mirror of Debian" >&2
  exit 1
fi
keys=/usr/share/keyrings/debian-archive-keyring.gpg
for name in "$suite" "$suite-backports"; do
  echo "deb [signed-by=$keys] $mirror $name main"
done >"$root/apt/sources.list"
cat >"$root/apt/apt.conf" <<CONF
Dir::Etc::SourceList "$root/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State::Lists "$root/apt/lists";
Dir::State::status "$root/apt/status";
Dir::Cache "$root/apt/cache";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
APT::Architectures { "amd64"; };
Acquire::Languages "none";
CONF
export APT_CONFIG="$root/apt/apt.conf"
apt-get -q update
apt-get -qy -t "$suite-backports" install --download-only libstd-rust-dev rust-src rust-clippy
(cd "$root/apt/cache/archives" && apt-get -q -t "$suite-backports" download rustc)
for package in "$root"/apt/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" |
    tar -x -C "$debian" --keep-directory-symlink --no-wildcards-match-slash \
      --exclude=./usr/share --exclude='./usr/src/rustc-*/compiler' --exclude='./usr/src/rustc-*/src'
done
unset APT_CONFIG
rm -rf "$root/apt"

# The programs need the libraries of their own release of Debian.
libraries="$debian/usr/lib/x86_64-linux-gnu"
for program in rustc rustdoc clippy-driver; do
  sysroot="--sysroot \"$debian/usr\""
  if [ $program = clippy-driver ]; then sysroot=; fi
  printf '#!/bin/sh\nSYSROOT="%s" exec "%s/ld-linux-x86-64.so.2" --argv0 %s --library-path "%s" "%s" %s "$@"\n' \
    "$debian/usr" "$libraries" $program "$libraries" "$debian/usr/bin/$program" "$sysroot" \
    >"$root/bin/$program"
  chmod +x "$root/bin/$program"
done
"$root/bin/rustc" -V

printf '[package]\nname = "mkstd"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n' \
  >"$root/std/Cargo.toml"
: >"$root/std/src/lib.rs"
(
  cd "$root/std"
  export RUSTC="$root/bin/rustc" RUSTC_BOOTSTRAP=1 CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0
  "${CARGO:-cargo}" build -q -Zbuild-std=std,panic_abort,test --target $target --target-dir built
)
library="$debian/usr/lib/rustlib/$target/lib"
mkdir -p "$library"
cp "$root"/std/built/$target/debug/deps/*.rlib "$library/"
rm -rf "$library"/libmkstd* "$root/std"
