#!/bin/sh
# nginx with the settings in a file, without those of IPv6 where the kernel has none: nginx would end there.
set -eu
settings=${1:-/app/gateway.conf}
if [ ! -e /proc/net/if_inet6 ]; then
  grep -v 'listen \[::\]' "$settings" > /tmp/gateway.conf
  settings=/tmp/gateway.conf
fi
exec nginx -e stderr -c "$settings"
