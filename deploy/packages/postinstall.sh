#!/bin/sh
# Makes the user of the service. It neither starts the service nor restarts it after an upgrade: in a cluster that is
# done one node at a time.
set -e

if command -v systemd-sysusers >/dev/null 2>&1; then
  systemd-sysusers quorate.conf
elif ! getent passwd quorate >/dev/null; then
  useradd --system --user-group --home-dir /var/lib/quorate --no-create-home --shell /usr/sbin/nologin quorate
fi
install -d -m 0750 -o quorate -g quorate /var/lib/quorate
chgrp quorate /etc/quorate /etc/quorate/node.yaml /etc/quorate/backup.env
chmod 0750 /etc/quorate

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  if systemctl is-active --quiet quorate; then
    echo "Quorate is still the version that was running. To upgrade this node: quoratectl upgrade check, then systemctl restart quorate."
    exit 0
  fi
fi
echo "Edit /etc/quorate/node.yaml, then: systemctl enable --now quorate"
