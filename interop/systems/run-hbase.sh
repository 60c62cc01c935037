#!/bin/bash
# HBase (one master, two region servers, files on the local disk) on a server of its own: run-hbase.sh
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../java/lib.sh"
. "$here/server.sh"
fetch_jars hbase "$here/hbase/pom.xml"
say_version "Apache HBase" hbase hbase-server
compile hbase "$here"/hbase/src/*.java
open_scratch hbase
rows=5000
system_pids=
opens="--add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED \
    --add-opens=java.base/java.util.concurrent=ALL-UNNAMED --add-opens=java.base/java.nio=ALL-UNNAMED \
    --add-opens=java.base/java.net=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED \
    --add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED --add-opens=java.base/java.lang.reflect=ALL-UNNAMED"

write_configuration() { # DIRECTORY MASTER_PORT REGION_PORT
    mkdir -p "$1"
    {
        echo '<configuration>'
        while read -r key value; do
            echo "  <property><name>$key</name><value>$value</value></property>"
        done <<END
hbase.cluster.distributed true
hbase.rootdir file://$scratch/hbase/root
hbase.tmp.dir $scratch/hbase/tmp
hbase.wal.provider filesystem
hbase.unsafe.stream.capability.enforce false
hbase.zookeeper.quorum 127.0.0.1
hbase.zookeeper.property.clientPort $server_port
zookeeper.session.timeout 6000
hbase.master.ipc.address 127.0.0.1
hbase.regionserver.ipc.address 127.0.0.1
hbase.master.hostname localhost
hbase.regionserver.hostname localhost
hbase.unsafe.regionserver.hostname localhost
hbase.master.port $2
hbase.regionserver.port $3
hbase.master.info.port -1
hbase.regionserver.info.port -1
hbase.regionserver.handler.count 5
hbase.client.retries.number 12
hbase.client.operation.timeout 90000
hbase.procedure.store.wal.use.hsync false
END
        echo '</configuration>'
    } >"$1/hbase-site.xml"
    cat >"$1/log4j2.properties" <<END
rootLogger.level = ${ZEBU_SYSTEMS_LOG:-info}
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ABSOLUTE} %p %c{1} %m%n
END
}

start_daemon() { # NAME CLASS PORT
    # shellcheck disable=SC2086 # the options are words
    java -Xmx512m -XX:+UseSerialGC $opens -cp "$scratch/$1:$made/hbase/jars/*" "$2" start >>"$scratch/$1/log" 2>&1 &
    daemon_pid[$1]=$!
    system_pids="$system_pids $!"
    wait_for_port "$3" "$!" "$1"
}

step() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" 2>"$scratch/why"; then
        echo "ok $name"
    else
        echo "not ok $name: $(grep -v '^SLF4J\|WARNING' "$scratch/why" | tail -1)"
    fi
}

client() {
    # shellcheck disable=SC2086
    timeout 240 java -Xmx192m -XX:+UseSerialGC $opens -cp "$scratch/client:$made/hbase/classes:$made/hbase/jars/*" HBaseRows "$@" 2>"$scratch/client.log" ||
        { grep -v 'WARN\|INFO' "$scratch/client.log" | tail -1 >&2; return 1; }
}

restart_server() {
    kill_server
    start_server
}

declare -A daemon_pid
start_server
master_port=$(free_port)
first_port=$(free_port)
second_port=$(free_port)
write_configuration "$scratch/master" "$master_port" "$first_port"
write_configuration "$scratch/first" "$master_port" "$first_port"
write_configuration "$scratch/second" "$master_port" "$second_port"
write_configuration "$scratch/client" "$master_port" "$first_port"
sed -i 's/^rootLogger.level.*/rootLogger.level = off/' "$scratch/client/log4j2.properties"
master=org.apache.hadoop.hbase.master.HMaster
region=org.apache.hadoop.hbase.regionserver.HRegionServer
step "the master starts" start_daemon master $master "$master_port"
step "a region server starts" start_daemon first $region "$first_port"
step "it is registered" client servers any 1
step "a table is created" client create rows 0
step "$rows rows go in" client put rows $rows
step "$rows rows come out" client scan rows $rows
step "the server is killed and started under the running cluster" restart_server
step "rows come out after that" client scan rows $rows
step "a table is created after that" client create later 0
step "rows go into it" client put later $rows
step "a second region server starts" start_daemon second $region "$second_port"
step "both are registered" client servers any 2
kill -9 "${daemon_pid[first]}"
step "a killed region server is noticed by its session" client servers any 1
step "its regions move: rows come out" client scan rows $rows
step "and of the other table" client scan later $rows
kill -9 "${daemon_pid[master]}"
wait "${daemon_pid[master]}" 2>/dev/null
step "the master starts again" start_daemon master $master "$master_port"
step "it finds the region server" client servers any 1
step "a table is dropped" client drop later 0
step "rows come out at the end" client scan rows $rows
exit 0
