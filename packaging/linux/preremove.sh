#!/bin/sh
set -e
# $1 is "remove" (deb) or 0 (rpm) unless this is an upgrade. Data and configuration stay.
if [ -d /run/systemd/system ] && { [ "${1:-}" = remove ] || [ "${1:-}" = 0 ]; }; then
	systemctl disable --now lazuli.service || true
fi
