#!/bin/bash
# ClickHouse, two replicas of one table, on a server of its own: run-clickhouse.sh
# Debian's packages are unpacked below target/interop; nothing is installed.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../java/lib.sh"
. "$here/server.sh"
clickhouse=$made/clickhouse
if [ ! -e "$clickhouse/complete" ]; then
    mkdir -p "$clickhouse/debs" "$clickhouse/root"
    packages=$(apt-get install -s --no-install-recommends clickhouse-server clickhouse-client 2>"$clickhouse/apt.log" | awk '/^Inst/ { print $2 }')
    [ -n "$packages" ] || unreachable "a Debian with clickhouse-server, or its list of packages: $(tail -1 "$clickhouse/apt.log")"
    # shellcheck disable=SC2086 # the packages are words
    (cd "$clickhouse/debs" && apt-get download $packages) >"$clickhouse/apt.log" 2>&1 ||
        unreachable "Debian's packages of ClickHouse: $(tail -1 "$clickhouse/apt.log")"
    for package in "$clickhouse"/debs/*.deb; do
        dpkg -x "$package" "$clickhouse/root" || could_not_run "cannot unpack $package"
    done
    touch "$clickhouse/complete"
fi
deb=$(basename "$(echo "$clickhouse"/debs/clickhouse-server_*.deb)")
version=${deb#clickhouse-server_}
echo "version ClickHouse ${version%%+*}"
libraries=$(find "$clickhouse/root" -name '*.so*' -printf '%h\n' | sort -u | tr '\n' ':')
open_scratch clickhouse
system_pids=
rows=10000
declare -A replica_pid port

start_replica() { # NAME
    local directory=$scratch/$1
    mkdir -p "$directory/data" "$directory/tmp"
    [ -n "${port[$1]:-}" ] || { port[$1]=$(free_port); port[$1-http]=$(free_port); port[$1-inter]=$(free_port); }
    cat >"$directory/config.xml" <<END
<yandex>
  <logger><level>information</level><log>$directory/log</log><errorlog>$directory/errors</errorlog></logger>
  <listen_host>127.0.0.1</listen_host>
  <tcp_port>${port[$1]}</tcp_port><http_port>${port[$1-http]}</http_port>
  <interserver_http_port>${port[$1-inter]}</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>
  <path>$directory/data/</path><tmp_path>$directory/tmp/</tmp_path>
  <users_config>$directory/users.xml</users_config>
  <mark_cache_size>10000000</mark_cache_size><default_profile>default</default_profile><default_database>default</default_database>
  <zookeeper><node><host>127.0.0.1</host><port>$server_port</port></node><session_timeout_ms>6000</session_timeout_ms></zookeeper>
  <macros><replica>$1</replica></macros>
  <remote_servers><both><shard><internal_replication>true</internal_replication>
    <replica><host>127.0.0.1</host><port>${port[one]}</port></replica>
  </shard></both></remote_servers>
  <distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>
</yandex>
END
    cat >"$directory/users.xml" <<END
<yandex>
  <profiles><default><max_memory_usage>500000000</max_memory_usage></default></profiles>
  <users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
  <quotas><default></default></quotas>
</yandex>
END
    (cd "$directory" && LD_LIBRARY_PATH=$libraries exec "$clickhouse/root/usr/sbin/clickhouse-server" --config-file="$directory/config.xml") \
        >"$directory/output" 2>&1 &
    replica_pid[$1]=$!
    system_pids="$system_pids $!"
    wait_for_port "${port[$1]}" "$!" "replica $1" || { tail -1 "$directory/errors" "$directory/output" >&2; return 1; }
}

sql() { # REPLICA QUERY [INPUT on standard input]
    LD_LIBRARY_PATH=$libraries timeout 120 "$clickhouse/root/usr/bin/clickhouse-client" --host 127.0.0.1 --port "${port[$1]}" --query "$2"
}

# expect REPLICA QUERY RESULT: until the result is there, at most a minute; replication takes its time.
expect() {
    local seen=
    for _ in $(seq 300); do
        seen=$(sql "$1" "$2" 2>&1) && [ "$seen" = "$3" ] && return 0
        sleep 0.2
    done
    echo "$2 on $1: expected $3, got $(echo "$seen" | tail -1)" >&2
    return 1
}

# repeated REPLICA QUERY: until it succeeds; a replica without a session refuses writes for a moment.
repeated() {
    for _ in $(seq 150); do
        sql "$1" "$2" >/dev/null 2>"$scratch/refused" && return 0
        sleep 0.2
    done
    tail -1 "$scratch/refused" >&2
    return 1
}

step() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >/dev/null 2>"$scratch/why"; then
        echo "ok $name"
    else
        echo "not ok $name: $(tail -1 "$scratch/why")"
    fi
}

create() { # REPLICA
    sql "$1" "CREATE TABLE t (day Date, id UInt64, text String) ENGINE = ReplicatedMergeTree('/clickhouse/tables/t', '{replica}', day, (id), 8192)"
}

insert() { # REPLICA FIRST COUNT
    repeated "$1" "INSERT INTO t (day, id, text) SELECT toDate('2026-01-01'), number + $2, toString(number) FROM system.numbers LIMIT $3"
}

restart_server() {
    kill_server
    start_server
}

start_server
port[one]=$(free_port) port[one-http]=$(free_port) port[one-inter]=$(free_port)
step "the first replica starts" start_replica one
step "the second replica starts" start_replica two
step "the tree is seen through a table" expect one "SELECT count() FROM system.zookeeper WHERE path = '/' AND name = 'zookeeper'" 1
step "a replicated table is created" create one
step "and joined by the second replica" create two
step "$rows rows go into the first" insert one 0 $rows
step "and arrive at the second" expect two "SELECT count(), sum(id) FROM t" "$rows	$((rows * (rows - 1) / 2))"
step "the same block again is recognized" insert one 0 $rows
step "and not stored twice" expect one "SELECT count() FROM t" $rows
step "a column is added on both" sql one "ALTER TABLE t ADD COLUMN more UInt8 DEFAULT 7"
step "and seen on the second" expect two "SELECT sum(more) FROM t" $((rows * 7))
step "a statement for the cluster runs through the queue" sql one "CREATE TABLE local_table ON CLUSTER both (x UInt8) ENGINE = Memory"
step "the server is killed and started under the running replicas" restart_server
step "rows go into the second after that" insert two 1000000 $rows
step "and arrive at the first" expect one "SELECT count() FROM t" $((rows * 2))
kill -9 "${replica_pid[two]}"
wait "${replica_pid[two]}" 2>/dev/null
step "rows go in while a replica is away" insert one 2000000 $rows
step "its session ends" expect one "SELECT active_replicas FROM system.replicas" 1
step "it starts again" start_replica two
step "it catches up" expect two "SELECT count() FROM t" $((rows * 3))
step "both replicas are active" expect one "SELECT active_replicas FROM system.replicas" 2
step "parts are merged" sql one "OPTIMIZE TABLE t FINAL"
step "the merge arrives" expect two "SELECT count() FROM system.parts WHERE table = 't' AND active" 1
step "a partition is dropped" sql two "ALTER TABLE t DROP PARTITION 202601"
step "on both" expect one "SELECT count() FROM t" 0
step "the table is dropped by the first" sql one "DROP TABLE t"
step "and by the second" sql two "DROP TABLE t"
step "nothing of it is left" expect one "SELECT count() FROM system.zookeeper WHERE path = '/clickhouse/tables'" 0
exit 0
