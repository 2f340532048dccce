#!/bin/sh
# Measures Lazuli beside Azurite: installs a pinned Azurite from npm into a cache folder, starts it with a fresh data
# folder on loopback ports, and runs `lazuli-lab bench --vs` against it. Further arguments go to that command:
#
#   scripts/bench-azurite.sh --floor --duration 10s --json result.json
#
# Needs go, node and npm. AZURITE_VERSION, AZURITE_CACHE and AZURITE_PORT (the first of three ports) may be set.
set -eu

version=${AZURITE_VERSION:-3.37.0}
cache=${AZURITE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lazuli-bench/azurite-$version}
port=${AZURITE_PORT:-21000}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
azurite=

cleanup() {
	if [ -n "$azurite" ]; then
		kill -9 "$azurite" 2>/dev/null || true # it may take minutes to save what is thrown away
		wait "$azurite" 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

if [ ! -f "$cache/node_modules/azurite/package.json" ]; then
	mkdir -p "$cache"
	(cd "$cache" && npm install --no-audit --no-fund "azurite@$version" >"$work/npm.log" 2>&1) || {
		cat "$work/npm.log" >&2
		exit 1
	}
fi

(cd "$root" && go build -o "$work/" ./cmd/lazuli ./cmd/lazuli-lab)

node "$cache/node_modules/azurite/dist/src/azurite.js" --silent --skipApiVersionCheck --location "$work/azurite" \
	--blobPort "$port" --queuePort $((port + 1)) --tablePort $((port + 2)) >"$work/azurite.log" 2>&1 &
azurite=$!

# It says "successfully listening" once for each service.
tries=0
until [ "$(grep -c 'successfully listening' "$work/azurite.log")" -ge 3 ]; do
	tries=$((tries + 1))
	if [ "$tries" -gt 300 ] || ! kill -0 "$azurite" 2>/dev/null; then
		cat "$work/azurite.log" >&2
		exit 1
	fi
	sleep 0.1
done

account=devstoreaccount1
key=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==
at() { echo "http://127.0.0.1:$1/$account"; }
"$work/lazuli-lab" bench --vs-pid "$azurite" \
	--vs "AccountName=$account;AccountKey=$key;BlobEndpoint=$(at "$port");QueueEndpoint=$(at $((port + 1)));TableEndpoint=$(at $((port + 2)))" \
	"$@"
