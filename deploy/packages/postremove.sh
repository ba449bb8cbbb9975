#!/bin/sh
# Leaves /var/lib/quorate: it may be the only copy of messages.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
case "$1" in
purge | 0)
  if [ -d /var/lib/quorate ]; then
    echo "The node's data stays in /var/lib/quorate; remove it by hand if no cluster needs it any more."
  fi
  ;;
esac
