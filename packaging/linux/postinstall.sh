#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	# An upgrade restarts a service that runs; an installation starts nothing.
	systemctl try-restart lazuli.service || true
fi
