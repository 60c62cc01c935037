#!/bin/bash
# Every exported function of go-zookeeper against a running server: run-go.sh HOST:PORT
set -u
here=$(cd "$(dirname "$0")" && pwd)
made=${CARGO_TARGET_DIR:-$here/../../target}/interop/go
[ $# -eq 1 ] || { echo "usage: $0 HOST:PORT" >&2; exit 1; }
mkdir -p "$made"
(cd "$here" && GOFLAGS=-mod=mod go build -o "$made/interop" .) >&2 || { echo "could not run: the program does not build" >&2; exit 1; }
exec "$made/interop" "$1"
