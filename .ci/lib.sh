# Shared by the scripts of this folder; sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
server=

cleanup() {
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

fail() {
	echo "FAIL: $*" >&2
	exit 1
}

# retry COMMAND...: a command that downloads, four times at most.
retry() {
	local pause
	for pause in 5 20 60; do
		"$@" && return
		echo "tried again in $pause s: $*" >&2
		sleep "$pause"
	done
	"$@"
}

# need COMMAND PACKAGES...: installs Debian packages if the command is missing.
need() {
	local command=$1
	shift
	command -v "$command" >/dev/null || apt_install "$@"
}

apt_install() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "install $*"
	{
		retry apt-get update &&
			retry env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@"
	} >"$work/apt.log" 2>&1 || { tail -20 "$work/apt.log" >&2; fail "cannot install $*"; }
}

# start_lazuli ARGUMENTS...: builds the binary, runs it on free ports with a new data folder, and sets BLOB, QUEUE and TABLE to the
# ports and LAZULI_CONNECTION_STRING to the development account's.
start_lazuli() {
	(cd "$root" && go build -o "$work/lazuli" ./cmd/lazuli) || fail "build"
	env -u LAZULI_CONFIG "$work/lazuli" --location "$work/data" --blob-port 0 --queue-port 0 --table-port 0 --admin-port 0 "$@" \
		>"$work/lazuli.out" 2>"$work/lazuli.log" &
	server=$!
	local i
	for i in $(seq 1200); do
		grep -q '^Ready' "$work/lazuli.out" && break
		kill -0 "$server" 2>/dev/null || { cat "$work/lazuli.log" >&2; fail "lazuli does not start"; }
		sleep 0.1
	done
	grep -q '^Ready' "$work/lazuli.out" || fail "lazuli is not ready after 2 minutes"
	BLOB=$(port Blob) QUEUE=$(port Queue) TABLE=$(port Table)
	LAZULI_CONNECTION_STRING=$(grep -o 'DefaultEndpointsProtocol=.*' "$work/lazuli.out")
	export LAZULI_CONNECTION_STRING
}

port() {
	sed -n "s|^  $1 *http://[^:]*:\([0-9]*\).*|\1|p" "$work/lazuli.out"
}

# start_azurite NODE_MODULES FOLDER: runs Azurite in memory on free ports, and sets AZURITE to its process and AZURITE_CONNECTION_STRING to the
# development account's.
start_azurite() {
	(cd "$2" && exec node "$1/azurite/dist/src/azurite.js" --inMemoryPersistence --skipApiVersionCheck --disableTelemetry \
		--blobPort 0 --queuePort 0 --tablePort 0 >azurite.out 2>&1) &
	AZURITE=$!
	local i
	for i in $(seq 300); do
		[ "$(grep -c 'successfully listen' "$2/azurite.out")" = 3 ] && break
		kill -0 "$AZURITE" 2>/dev/null || break
		sleep 0.2
	done
	[ "$(grep -c 'successfully listen' "$2/azurite.out")" = 3 ] || { cat "$2/azurite.out" >&2; return 1; }
	listens() { sed -n "s/.*$1 service is successfully listening at //p" "$2/azurite.out"; }
	AZURITE_CONNECTION_STRING="DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=$development_key;BlobEndpoint=$(listens Blob "$2")/devstoreaccount1;QueueEndpoint=$(listens Queue "$2")/devstoreaccount1;TableEndpoint=$(listens Table "$2")/devstoreaccount1"
}

# The published key of the development account.
development_key='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
