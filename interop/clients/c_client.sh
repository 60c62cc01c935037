#!/bin/sh
# c_client.sh HOST:PORT: compiles the C program against the installed libzookeeper_mt and runs it.
set -eu
: "${INTEROP_CACHE:?is not set; cargo xtask interop sets it}"
here=$(cd -- "$(dirname -- "$0")" && pwd)
program=$INTEROP_CACHE/c_client_smoke
if ! cc -DTHREADED -Wall -Wextra -Werror -O1 -o "$program" "$here/c_client_smoke.c" -lzookeeper_mt -lpthread; then
    echo "not ok start: the C program does not compile; Debian: install libzookeeper-mt-dev"
    exit 1
fi
exec "$program" "$@"
