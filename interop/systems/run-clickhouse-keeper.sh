#!/bin/bash
# The requests of ClickHouse Keeper, by an encoder of its own and by a new ClickHouse that chdb embeds, on a server of
# its own: run-clickhouse-keeper.sh. The wheel is unpacked below target/interop; nothing is installed.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../java/lib.sh"
. "$here/server.sh"
chdb=$made/chdb
if [ ! -e "$chdb/complete" ]; then
    rm -rf "$chdb"
    python3 -m venv "$chdb" || could_not_run "Python makes no virtual environment"
    "$chdb/bin/pip" install --quiet "chdb==4.4.0" "chdb-core==26.9.0" >"$chdb/pip.log" 2>&1 ||
        unreachable "the package chdb: $(tail -1 "$chdb/pip.log")"
    touch "$chdb/complete"
fi
open_scratch clickhouse-keeper
system_pids=
start_server
python3 "$here/keeper/requests.py" "127.0.0.1:$server_port"
mkdir -p "$scratch/clickhouse"
timeout 300 "$chdb/bin/python" "$here/keeper/queries.py" "127.0.0.1:$server_port" "$scratch/clickhouse" 2>"$scratch/why"
status=$?
# The engine may abort at the end of the process, behind its last line.
[ $status -ne 124 ] || echo "not ok ClickHouse answers within five minutes: $(tail -1 "$scratch/why")"
exit 0
