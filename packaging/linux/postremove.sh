#!/bin/sh
set -e
# dpkg -P (purge): the configuration, the accounts and the user go. The data stays in /var/lib/lazuli: it is not the package's to
# delete.
if [ "${1:-}" = purge ]; then
	rm -rf /etc/lazuli
	if getent passwd lazuli >/dev/null; then userdel lazuli || true; fi
	if getent group lazuli >/dev/null; then groupdel lazuli || true; fi
fi
