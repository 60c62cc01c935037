#!/bin/bash
# Every exported function of go-zookeeper against a running server: run-go.sh HOST:PORT
set -u
here=$(cd "$(dirname "$0")" && pwd)
made=${INTEROP_CACHE:-${CARGO_TARGET_DIR:-$here/../../target}/interop}/go
[ $# -eq 1 ] || { echo "usage: $0 HOST:PORT" >&2; exit 1; }
mkdir -p "$made"
cd "$here" || exit 1
# Its sums stand in go.sum: nothing is looked up there, and nothing is written into the source.
export GOFLAGS=-mod=readonly
if ! go mod download >"$made/fetch.log" 2>&1; then
    echo "unreachable Go's modules: $(tail -1 "$made/fetch.log")"
    exit 1
fi
echo "version $(go list -m -f '{{.Path}} {{.Version}}' github.com/go-zookeeper/zk)"
go build -o "$made/interop" . >&2 || { echo "could not run: the program does not build" >&2; exit 1; }
exec "$made/interop" "$1"
