#!/usr/bin/env bash
# Installs the Debian package of DIR in a copy of this system that vanishes afterwards, and does to it what an operator
# does: start, use, upgrade, remove, purge. Looks into the RPM package if rpm is there. Usage: test.sh DIR
set -euo pipefail

dir=$(realpath "${1:?name the directory with the packages}")
arch=$(dpkg --print-architecture)
deb=$(ls "$dir"/quorate_*_"$arch".deb)
rpm=$(ls "$dir"/quorate-*.rpm)
[ "$(id -u)" = 0 ] || { echo "packages-test: not root: only root can lay a file system over this one"; exit 1; }

# Within namespaces of its own: mounts, processes and ports of the test end with it.
if [ "${INSIDE:-}" != yes ]; then
  INSIDE=yes exec unshare --mount --pid --net --fork --kill-child "$0" "$dir"
fi
ip link set lo up
work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
mkdir "$work"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
mount -t proc proc "$work/root/proc"
mount --bind /dev "$work/root/dev"
mount -t tmpfs tmpfs "$work/root/run" # no systemd runs here
cp "$deb" "$work/root/quorate.deb"

inside() { chroot "$work/root" "$@"; }
# as_service LINE runs it as the units' user, with that user's home, as systemd does.
as_service() { chroot --userspec=quorate:quorate "$work/root" /usr/bin/env HOME=/var/lib/quorate /bin/sh -c "$*"; }
fail() { echo "packages-test: $*"; exit 1; }
has() { inside test -e "$1" || fail "$1 is missing"; }
# command_of KEY prints what the unit has for KEY.
command_of() { sed -n "s/^$1=//p" "$work/root/usr/lib/systemd/system/quorate.service"; }

inside dpkg -i /quorate.deb
for f in /usr/bin/quorate /usr/bin/quoratectl /usr/lib/systemd/system/quorate.service /usr/lib/systemd/system/quorate-backup.timer /etc/quorate/node.yaml \
  /usr/share/man/man1/quoratectl.1.gz /usr/share/bash-completion/completions/quoratectl; do has "$f"; done
[ "$(inside stat -c %U:%G:%a /var/lib/quorate)" = quorate:quorate:750 ] || fail "/var/lib/quorate: $(inside stat -c %U:%G:%a /var/lib/quorate)"
[ "$(inside stat -c %G:%a /etc/quorate/node.yaml)" = quorate:640 ] || fail "/etc/quorate/node.yaml: $(inside stat -c %G:%a /etc/quorate/node.yaml)"

# What the unit runs, as the user that it names.
as_service "exec $(command_of ExecStartPre)"
# Its process is the node.
exec_start="exec $(command_of ExecStart)"
chroot --userspec=quorate:quorate "$work/root" /usr/bin/env HOME=/var/lib/quorate /bin/sh -c "$exec_start" >"$work/node.log" 2>&1 &
node=$!
ctl() { inside quoratectl "$@"; }
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
inside quoratectl backup ls /var/backups/quorate | grep -q complete || fail "the unit has made no backup"

# An upgrade leaves the running node and the changed settings alone.
echo "# changed here" >>"$work/root/etc/quorate/node.yaml"
inside dpkg -i --force-confold /quorate.deb
grep -q "changed here" "$work/root/etc/quorate/node.yaml" || fail "the upgrade has replaced changed settings"
[ "$(ctl consume hello --count 1 -o json | grep -c "a message")" = 1 ] || fail "the message is gone"

kill -TERM "$node"
wait "$node" || { cat "$work/node.log"; fail "the node did not stop as it should"; }
# What systemd would be asked to do: an upgrade disables nothing, a removal the service and the timer of backups.
mkdir -p "$work/root/run/systemd/system"
printf '#!/bin/sh\necho "$@" >>/run/asked\n' >"$work/root/usr/local/bin/systemctl"
chmod 755 "$work/root/usr/local/bin/systemctl"
inside dpkg -i --force-confold /quorate.deb
grep -q disable "$work/root/run/asked" && fail "an upgrade asks systemd to $(grep disable "$work/root/run/asked")"
inside dpkg -r quorate
grep -q "^disable --now .*quorate-backup.timer" "$work/root/run/asked" || fail "the removal leaves the timer: $(cat "$work/root/run/asked")"
inside test ! -e /usr/bin/quorate || fail "the program stays after the removal"
has /etc/quorate/node.yaml
inside dpkg -P quorate
inside test ! -e /etc/quorate/node.yaml || fail "settings stay after the purge"
has /var/lib/quorate

if command -v rpm >/dev/null; then
  rpm -qpl "$rpm" | grep -qx /usr/lib/systemd/system/quorate.service || fail "the RPM package lacks the unit"
  rpm -qp --scripts "$rpm" | grep -q systemd-sysusers || fail "the RPM package makes no user"
else
  echo "packages-test: rpm is not installed: the RPM package was only built"
fi
echo "packages-test: ok"
