#!/usr/bin/env bash
# Installs each package of DIR in a copy of this system that vanishes afterwards, and does to it what an operator does:
# start, use, upgrade, remove, purge. Usage: test.sh DIR
set -euo pipefail

dir=$(realpath "${1:?name the directory with the packages}")
kind=${2:-}
[ "$(id -u)" = 0 ] || { echo "packages-test: not root: only root can lay a file system over this one"; exit 1; }

# Each within namespaces of its own: mounts, processes and ports of the test end with it.
if [ -z "$kind" ]; then
  for kind in deb rpm; do unshare --mount --pid --net --fork --kill-child "$0" "$dir" "$kind"; done
  exit
fi
ip link set lo up
work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
mkdir "$work"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
mount -t proc proc "$work/root/proc"
mount --bind /dev "$work/root/dev"
mount -t tmpfs tmpfs "$work/root/run" # no systemd runs here

inside() { chroot "$work/root" "$@"; }
# as_service LINE runs it as the units' user, with that user's home, as systemd does.
as_service() { chroot --userspec=quorate:quorate "$work/root" /usr/bin/env HOME=/var/lib/quorate /bin/sh -c "$*"; }
fail() { echo "packages-test: $kind: $*"; exit 1; }
gone() { inside test ! -e "$1" || fail "$1 stays after the removal"; }
# is MODE OWNER:GROUP FILE... says what the package, or its script, has to make of files.
is() {
  local want="$1 $2" f got
  shift 2
  for f in "$@"; do
    got=$(inside stat -c '%a %U:%G' "$f") || fail "$f is missing"
    [ "$got" = "$want" ] || fail "$f has mode and owner $got, want $want"
  done
}
# command_of KEY prints what the unit has for KEY.
command_of() { sed -n "s/^$1=//p" "$work/root/usr/lib/systemd/system/quorate.service"; }
ctl() { inside quoratectl "$@"; }

# What differs between the two kinds. Debian's rpm knows that it is not the system's own: it is given a database of its own.
case $kind in
deb)
  package=$(ls "$dir"/quorate_*_"$(dpkg --print-architecture)".deb)
  zsh=/usr/share/zsh/vendor-completions
  install_package() { inside dpkg -i --force-confold /package; }
  remove_package() { inside dpkg -r quorate; }
  files_of() { inside dpkg -L quorate; }
  version_of() { inside dpkg-query -W -f "\${Version}" quorate; }
  odd=$(dpkg-deb -c "$package" | grep '^d' | grep -v '^drwxr-xr-x root/root ' || true)
  [ -z "$odd" ] || fail "directories of the package: $odd"
  ;;
rpm)
  package=$(ls "$dir"/quorate-*."$(uname -m)".rpm)
  zsh=/usr/share/zsh/site-functions
  rpm_inside() { inside rpm --dbpath /var/lib/quorate-test-rpm "$@"; }
  install_package() { rpm_inside -U --replacepkgs --force-debian /package; }
  remove_package() { rpm_inside -e quorate; }
  files_of() { rpm_inside -ql quorate; }
  version_of() { rpm_inside -q --qf '%{VERSION}' quorate; }
  ;;
esac
cp "$package" "$work/root/package"
rm -f "$work/root/var/lib/man-db/auto-update" # the index of all manual pages takes longer than the test

install_package
is 755 root:root /usr/bin/quorate /usr/bin/quoratectl
is 644 root:root /usr/lib/systemd/system/quorate{,-backup}.service /usr/lib/systemd/system/quorate-backup.timer /usr/lib/sysusers.d/quorate.conf \
  /usr/share/doc/quorate/copyright /usr/share/man/man1/quorate{,ctl}.1.gz /usr/share/bash-completion/completions/quoratectl "$zsh/_quoratectl"
is 750 quorate:quorate /var/lib/quorate
is 750 root:quorate /etc/quorate
is 640 root:quorate /etc/quorate/node.yaml /etc/quorate/backup.env
[[ $(inside getent passwd quorate) == *:/var/lib/quorate:/usr/sbin/nologin ]] || fail "the user: $(inside getent passwd quorate)"
[[ $(inside quorate --version) == "quorate $(version_of) "* ]] || fail "$(inside quorate --version) is in the package of $(version_of)"

# What the unit runs, as the user that it names.
as_service "exec $(command_of ExecStartPre)"
# Its process is the node.
exec_start="exec $(command_of ExecStart)"
chroot --userspec=quorate:quorate "$work/root" /usr/bin/env HOME=/var/lib/quorate /bin/sh -c "$exec_start" >"$work/node.log" 2>&1 &
node=$!
for _ in $(seq 300); do
  ctl check ready >/dev/null 2>&1 && break
  kill -0 "$node" 2>/dev/null || { cat "$work/node.log"; fail "the node has ended"; }
  sleep 0.1
done
ctl check ready || { cat "$work/node.log"; fail "the node is not ready"; }
ctl queue declare hello
ctl publish hello "a message"

# What the timer of backups runs, as the user that its unit names.
inside install -d -o quorate -g quorate -m 0750 /var/backups/quorate
sed -n 's/^ExecStart=//p' "$work/root/usr/lib/systemd/system/quorate-backup.service" | while read -r line; do
  as_service "set -a; . /etc/quorate/backup.env; $line"
done
ctl backup ls /var/backups/quorate | grep -q complete || fail "the unit has made no backup"

# An upgrade leaves the running node and the changed settings alone.
echo "# changed here" >>"$work/root/etc/quorate/node.yaml"
install_package
grep -q "changed here" "$work/root/etc/quorate/node.yaml" || fail "the upgrade has replaced changed settings"
is 640 root:quorate /etc/quorate/node.yaml /etc/quorate/backup.env
[ "$(ctl consume hello --count 1 -o json | grep -c "a message")" = 1 ] || fail "the message is gone"

kill -TERM "$node"
wait "$node" || { cat "$work/node.log"; fail "the node did not stop as it should"; }
# What systemd would be asked to do: an upgrade disables nothing, a removal the service and the timer of backups.
mkdir -p "$work/root/run/systemd/system"
rm -f "$work/root/usr/bin/systemctl"
printf '#!/bin/sh\necho "$@" >>/run/asked\n' >"$work/root/usr/bin/systemctl"
chmod 755 "$work/root/usr/bin/systemctl"
install_package
asked=$(cat "$work/root/run/asked")
[[ $asked == *daemon-reload* && $asked != *disable* ]] || fail "an upgrade asks systemd to $asked"

files=$(files_of)
data() { inside find /var/lib/quorate -type f -exec sha256sum {} + | sort; }
stored=$(data)
remove_package
grep -q "^disable --now .*quorate-backup.timer" "$work/root/run/asked" || fail "the removal leaves the timer: $(cat "$work/root/run/asked")"
gone /usr/bin/quorate
# Changed settings stay: as they are until a purge, or as what rpm calls saved.
if [ "$kind" = deb ]; then
  grep -q "changed here" "$work/root/etc/quorate/node.yaml" || fail "the removal takes changed settings"
  inside dpkg -P quorate
else
  grep -q "changed here" "$work/root/etc/quorate/node.yaml.rpmsave" || fail "the removal takes changed settings"
fi
while read -r f; do
  [ -d "$work/root$f" ] || gone "$f"
done <<<"$files"
[[ -n $stored && $(data) == "$stored" ]] || fail "the removal has changed the node's data"
echo "packages-test: $kind: ok"
