#!/bin/bash
# Writes with go-zookeeper until standard input ends: run-rolling.sh HOST:PORT PREFIX
set -u
here=$(cd "$(dirname "$0")" && pwd)
made=${INTEROP_CACHE:-${CARGO_TARGET_DIR:-$here/../../target}/interop}/go
[ $# -eq 2 ] || { echo "usage: $0 HOST:PORT PREFIX" >&2; exit 1; }
mkdir -p "$made"
made=$(cd "$made" && pwd)
cd "$here" || exit 1
export GOFLAGS=-mod=readonly
if ! go mod download >"$made/fetch.log" 2>&1; then
    echo "unreachable Go's modules: $(tail -1 "$made/fetch.log")"
    exit 1
fi
go build -o "$made/rolling" ./rolling >&2 || { echo "could not run: the program does not build" >&2; exit 1; }
exec "$made/rolling" "$1" "$2"
