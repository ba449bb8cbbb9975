#!/usr/bin/env bash
# Builds a release again where everything differs that must not matter (directory, name of the machine, home, umask, time
# zone, times of files) and compares each of its files with that of DIR. TARGET is what made DIR: release or release-files.
# Usage: again.sh DIR TARGET [VARIABLE=VALUE...]
set -euo pipefail

dir=$(realpath "${1:?name the directory of the release}")
target=${2:?name the target that made it}

# In a namespace of its own the machine has another name.
if [ "${INSIDE:-}" != yes ]; then
  user=()
  [ "$(id -u)" = 0 ] || user=(--map-root-user)
  INSIDE=yes exec unshare --uts "${user[@]}" "$0" "$@"
fi
shift 2
hostname elsewhere
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The commit, and the changes to it. A file that git does not know is missing there.
git clone -q --shared . "$work/copy"
git diff --binary HEAD >"$work/diff"
[ ! -s "$work/diff" ] || git -C "$work/copy" apply "$work/diff"

# Tools and what the go command has compiled are not part of a release: those of this directory serve again.
mkdir "$work/copy/bin" "$work/home"
for tool in nfpm cyclonedx-gomod; do
  [ ! -x "bin/$tool" ] || cp "bin/$tool" "$work/copy/bin/"
done
for name in GOCACHE GOENV GOMODCACHE; do
  export "$name=$("${GO:-go}" env "$name")"
done
# Nothing is built there yet, whatever BUILT says of this directory.
(umask 077 && HOME=$work/home TZ=Pacific/Kiritimati BUILT='' make --no-print-directory -C "$work/copy" "$target" RELEASE=dist/again "$@")

sums() { (cd "$1" && sha256sum -- *); }
sums "$dir" >"$work/first"
sums "$work/copy/dist/again" >"$work/second"
if ! diff "$work/first" "$work/second"; then
  rm -rf dist/again
  cp -r "$work/copy/dist/again" dist/
  echo "again: files of $target differ when they are built elsewhere: compare $dir with dist/again"
  exit 1
fi
echo "again: $(wc -l <"$work/first") files of $target are the same when they are built elsewhere"
