#!/bin/sh
set -e
getent group lazuli >/dev/null || groupadd --system lazuli
getent passwd lazuli >/dev/null ||
	useradd --system --gid lazuli --home-dir /var/lib/lazuli --no-create-home --shell /usr/sbin/nologin lazuli
