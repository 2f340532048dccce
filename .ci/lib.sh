# Shared by the scripts of this folder; sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
server=

cleanup() {
	if [ -n "$server" ]; then # one process or several
		kill $server 2>/dev/null || true
		wait $server 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# The programs are built without C, so the checks compile the same packages once.
export CGO_ENABLED=${CGO_ENABLED:-0}

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

# find_python MINOR: sets python to a Python of version 3.MINOR or newer, LAZULI_CI_PYTHON or one that is installed; to nothing without one.
find_python() {
	local candidate
	python=${LAZULI_CI_PYTHON:-}
	for candidate in python3.13 python3.14 python3 "$HOME"/.pyenv/versions/3.1[3-9]*/bin/python3; do
		# A name may be that of a version manager, which has no such version.
		[ -n "$python" ] || ! "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, int(sys.argv[1])))' "$1" 2>/dev/null || python=$candidate
	done
}

# installed FOLDER FILE: whether what FILE asks for is in FOLDER already.
installed() { [ -f "$1/done" ] && cmp -s "$1/done" "$2"; }

# npm_install ARGUMENTS...: in the current folder.
npm_install() {
	retry npm install --no-audit --no-fund "$@" >"$work/npm.log" 2>&1 || { tail -20 "$work/npm.log" >&2; fail "npm install $*"; }
}

# install_azurite FOLDER RELEASE: Azurite from npm, with a Node.js of its own: 3.37.0 needs release 22, which npm has as a package.
install_azurite() {
	need node nodejs npm
	need npm npm
	if [ ! -f "$1/done" ]; then
		rm -rf "$1"
		mkdir -p "$1"
		(cd "$1" && npm_install --prefix . "azurite@$2" "node-linux-$(node -p process.arch)@22")
		touch "$1/done"
	fi
}

# install_sdks: the SDKs of internal/test/sdktest for Python and JavaScript, into the folders that it names in python and js.
install_sdks() {
	local tests=$root/internal/test/sdktest cache=${LAZULI_CI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lazuli-ci} newer
	need python3 python3 python3-venv
	need node nodejs npm
	need npm npm
	mkdir -p "$cache"

	# The JavaScript SDKs need node 20. Where the system's is older, as in Debian 12, npm has a package with a newer one.
	if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
		newer=$cache/node
		if [ ! -x "$newer/node_modules/.bin/node" ]; then
			rm -rf "$newer"
			mkdir "$newer"
			(cd "$newer" && npm_install --prefix . "node-linux-$(node -p process.arch)@22")
		fi
		export PATH=$newer/node_modules/.bin:$PATH
	fi

	python=$cache/python
	if ! installed "$python" "$tests/python/requirements.txt" || ! "$python/bin/python" -c 'import azure.storage.blob' 2>/dev/null; then
		rm -rf "$python"
		python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv
		python3 -m venv "$python"
		retry "$python/bin/python" -m pip install --quiet --disable-pip-version-check -r "$tests/python/requirements.txt" >"$work/pip.log" 2>&1 ||
			{ tail -20 "$work/pip.log" >&2; fail "pip install"; }
		cp "$tests/python/requirements.txt" "$python/done"
	fi
	js=$cache/js
	if ! installed "$js" "$tests/js/package.json"; then
		rm -rf "$js"
		mkdir "$js"
		cp "$tests/js/package.json" "$js/"
		(cd "$js" && npm_install)
		cp "$tests/js/package.json" "$js/done"
	fi
}

# build_lazuli FILE: the program, by go run with a copy in place of a run: unlike go build, go run keeps what it links in the build cache, for
# the other checks and for the tests that kill servers (internal/killrig).
# LAZULI_CI_PROGRAM is one that was built before. With LAZULI_CI_CLUSTER=front or node, it starts a cluster whose clients talk to a process without data (cluster_server.py).
build_lazuli() {
	if [ -n "${LAZULI_CI_PROGRAM:-}" ]; then
		cp "$LAZULI_CI_PROGRAM" "$1" || fail "no program $LAZULI_CI_PROGRAM"
	else
		(cd "$root" && go run -exec cp ./cmd/lazuli "$1") || fail "build"
	fi
	[ -n "${LAZULI_CI_CLUSTER:-}" ] || return 0
	need python3 python3
	mv "$1" "$1.alone" && printf '#!/bin/sh\nexec python3 "%s" "%s" "%s" "$@"\n' "$root/.ci/cluster_server.py" "$1.alone" "$LAZULI_CI_CLUSTER" >"$1" && chmod +x "$1"
}

# ready_looks is how often scripts look, each 0.2 s, whether a server is ready. A cluster starts more slowly.
ready_looks=300
[ -z "${LAZULI_CI_CLUSTER:-}" ] || ready_looks=1500

# start_lazuli ARGUMENTS...: builds the binary, runs it on free ports with a new data folder, and sets BLOB, QUEUE and TABLE to the
# ports and LAZULI_CONNECTION_STRING to the development account's.
start_lazuli() {
	build_lazuli "$work/lazuli"
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

# port SERVICE [FOLDER]: the port of a service of the server that printed to lazuli.out in FOLDER.
port() {
	sed -n "s|^  $1 *https*://[^:]*:\([0-9]*\).*|\1|p" "${2:-$work}/lazuli.out"
}

# start_azurite NODE_MODULES FOLDER: runs Azurite in memory on free ports, with AZURITE_FLAGS if that is set, and sets AZURITE to its process and AZURITE_CONNECTION_STRING to the
# development account's.
start_azurite() {
	(cd "$2" && exec node "$1/azurite/dist/src/azurite.js" --inMemoryPersistence ${AZURITE_FLAGS---skipApiVersionCheck} --disableTelemetry \
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
