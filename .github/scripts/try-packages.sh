#!/usr/bin/env bash
# try-packages.sh FOLDER PACKAGE...: uses each package (.deb or .AppImage) on a bare Debian 12, as a
# new user and without a network. The command line and the app must answer, and what is left after
# the package was removed must be in the folders of the user's data. Pictures of the app and its
# messages are written to FOLDER.
#
# Run it as root, with debootstrap, ImageMagick, sqlite3, xdotool and Xvfb. The bare system has none
# of them: its screen, and what presses keys there, are outside. DEBIAN_MIRROR names a mirror.
set -euo pipefail

if [ "${1:-}" != --inside ]; then
  if [ $# -lt 2 ]; then
    echo "Usage: try-packages.sh FOLDER PACKAGE..." >&2
    exit 2
  fi
  for package in "${@:2}"; do
    case $package in
      *.deb | *.AppImage) ;;
      *)
        echo "$package is neither a .deb nor an .AppImage." >&2
        exit 2
        ;;
    esac
    if [ ! -f "$package" ]; then
      echo "$package does not exist." >&2
      exit 2
    fi
  done
  if [ "$(id -u)" != 0 ]; then
    echo "Run try-packages.sh as root, because it makes a system in a folder." >&2
    exit 2
  fi
  # Mounts and processes end with the script.
  exec unshare --mount --pid --fork --kill-child bash "$0" --inside "$@"
fi

scripts=$(dirname "$(realpath "$0")")
mkdir -p "$2"
results=$(realpath "$2")
packages=()
for package in "${@:3}"; do
  packages+=("$(realpath "$package")")
done
question="What is the capital of France?"
# Where the user's data are, below the home folder, and what the graphics driver writes there for
# every program.
data=.local/share/transom
cache=.cache/transom
driver=.cache/mesa_shader_cache

# Places in the bare system: the home folder, files of this script, and the socket of the screen.
home=home/tester
files=tmp
sockets=tmp/.X11-unix

root=$(mktemp -d)
chmod 755 "$root"
screen=
finish() {
  [ -z "$screen" ] || kill "$screen" 2>/dev/null || true
  umount --lazy "$root"/proc "$root"/dev/pts "$root"/dev/shm 2>/dev/null || true
  umount "$root/$sockets/X$number" 2>/dev/null || true
  rm -rf --one-file-system "$root"
}
number=0
trap finish EXIT

# Runs a command in the bare system, as root and with a network.
in_root() {
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "$@"
}

# Runs a command in the bare system, as the user and without a network.
as_user() {
  exec unshare --net chroot --userspec=tester:tester "$root" /usr/bin/env -i \
    PATH=/usr/bin:/bin LANG=C.UTF-8 HOME="/$home" DISPLAY=":$number" "$@"
}

# Waits until a command succeeds, at most two minutes.
until_true() {
  local what=$1
  shift
  for _ in $(seq 120); do
    if "$@"; then return; fi
    sleep 1
  done
  echo "After two minutes, it is not true that $what." >&2
  return 1
}

window() {
  local found
  found=$(xdotool search --onlyvisible --name '^Transom$' 2>/dev/null | tail -n 1)
  [ -n "$found" ] && echo "$found"
}

# Prints the complete responses in the history.
responses() {
  sqlite3 -readonly "$root/$home/$data/transom.db" "SELECT text FROM body JOIN message
    ON message.id = body.message WHERE speaker = 'assistant' AND ending = 'stop'" 2>/dev/null
}

# Presses the Return key, which closes the welcome and then sends what is in the composer. Returns
# false while there is no response.
press_return() {
  local at
  at=$(window) || return 1
  xdotool windowfocus "$at" key Return 2>/dev/null || return 1
  sleep 2
  [ -n "$(responses)" ]
}

# ask_app NAME PROGRAM...: starts the app with a question in the composer and sends it.
ask_app() {
  local name=$1 app
  shift
  (as_user "$@" "transom://compose?text=${question// /%20}") >"$results/$name.log" 2>&1 &
  app=$!
  if ! until_true "the app shows a window" window >/dev/null ||
    ! until_true "the app shows a response" press_return; then
    import -display ":$number" -window root "$results/$name.png" || true
    tail -n 20 "$results/$name.log" >&2
    return 1
  fi
  sleep 1
  import -display ":$number" -window root "$results/$name.png"
  echo "The app responded: $(responses)"
  kill "$app"
  wait "$app" || true
}

# Prints every path of the bare system, without what apt writes about itself.
paths() {
  (
    cd "$root"
    find . -xdev \( -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./var/cache \
      -o -path ./var/log -o -path ./tmp \) -prune -o -print | sort
  )
}

# Compares the paths with those in a file, and removes the user's data.
nothing_but_data_is_left() {
  local before=$1 name=$2 left
  paths >"$before.after"
  comm -13 "$before" "$before.after" >"$results/$name.left"
  left=$(grep -vE "^\./$home/($data|$cache|$driver)(/|$)" "$results/$name.left" |
    grep -vxE "\./$home/(\.local|\.local/share|\.cache)" || true)
  if [ -n "$left" ]; then
    printf 'These are left after the package was removed:\n%s\n' "$left" >&2
    return 1
  fi
  left=$(comm -23 "$before" "$before.after")
  if [ -n "$left" ]; then
    printf 'These were removed together with the package:\n%s\n' "$left" >&2
    return 1
  fi
  echo "Removed. $(wc -l <"$results/$name.left") paths are left, in ~/$data, ~/$cache and ~/$driver."
  rm -rf "$root/$home/.local" "$root/$home/.cache"
}

try_deb() {
  local depends
  depends=$(dpkg-deb --field "$1" Depends)
  echo "It depends on $depends."
  in_root apt-get satisfy -qq -y --no-install-recommends "$depends" >"$results/deb-depends.log"
  paths >"$root/$files/before"
  cp "$1" "$root/$files/transom.deb"
  in_root apt-get install -qq -y --no-install-recommends "/$files/transom.deb" \
    >"$results/deb-apt.log"
  (as_user bash "/$files/try.sh" /usr/bin/transom)
  ask_app deb /usr/bin/transom-app
  in_root apt-get purge -qq -y transom >>"$results/deb-apt.log"
  nothing_but_data_is_left "$root/$files/before" deb
  in_root apt-get autoremove -qq -y --purge >>"$results/deb-apt.log"
}

try_appimage() {
  # An AppImage leaves these to the desktop that it runs on.
  in_root apt-get install -qq -y --no-install-recommends ca-certificates fontconfig libasound2 \
    libegl1 libfribidi0 libgbm1 libgl1 libgles2 libgmp10 libharfbuzz0b libopengl0 libthai0 \
    libusb-1.0-0 libwayland-client0 libx11-6 libx11-xcb1 >"$results/appimage-apt.log"
  paths >"$root/$files/before"
  install -D -m 755 "$1" "$root/$files/appimage/Transom.AppImage"
  chroot "$root" chown -R tester:tester "/$files/appimage"
  # Unpacked, because a bare system has no FUSE.
  (as_user sh -c "cd /$files/appimage && ./Transom.AppImage --appimage-extract >/dev/null")
  (as_user bash "/$files/try.sh" "/$files/appimage/squashfs-root/usr/bin/transom")
  ask_app appimage "/$files/appimage/squashfs-root/AppRun"
  rm -r "$root/$files/appimage"
  nothing_but_data_is_left "$root/$files/before" appimage
}

echo "Making a bare Debian 12 …"
debootstrap --variant=minbase bookworm "$root" \
  "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$results/debootstrap.log"
cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
chroot "$root" useradd --create-home --shell /bin/bash tester
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm" "$root/dev/pts" "$root/$sockets"
mount -t devpts devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
chmod 1777 "$root/dev/shm"
install -m 755 "$scripts/try.sh" "$root/$files/try.sh"

# Everybody on this machine may use the screen.
exec 3>"$root/$files/number"
Xvfb -displayfd 3 -ac -nolisten tcp -screen 0 1280x800x24 2>"$results/screen.log" &
screen=$!
exec 3>&-
until_true "there is a screen" test -s "$root/$files/number"
number=$(cat "$root/$files/number")
export DISPLAY=":$number"
touch "$root/$sockets/X$number"
mount --bind "/$sockets/X$number" "$root/$sockets/X$number"

for package in "${packages[@]}"; do
  echo "Trying $(basename "$package") …"
  case $package in
    *.deb) try_deb "$package" ;;
    *.AppImage) try_appimage "$package" ;;
  esac
done
