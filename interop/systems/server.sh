# Starts, stops and kills the server under a system's feet. Sourced after ../java/lib.sh.
# ZEBU=PATH names the binary (default: target/release/zebu); ZEBU_SYSTEMS_SERVER=apache runs Apache ZooKeeper instead,
# which is how each scenario is shown to be right.

ZEBU_SYSTEMS_SERVER=${ZEBU_SYSTEMS_SERVER:-${INTEROP_PEER:-zebu}}
server_binary=${ZEBU:-$(dirname "$made")/release/zebu}
server_pid=

# free_port: a port that nobody listens on at this moment.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# open_scratch NAME: an empty directory of the scenario's own; everything ends with the script.
open_scratch() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/zebu-$1-XXXXXX") || could_not_run "no scratch directory"
    trap close_scratch EXIT
}

close_scratch() {
    local status=$?
    for pid in ${system_pids:-}; do
        kill -9 "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    kill_server
    if [ -n "${ZEBU_SYSTEMS_KEEP:-}" ]; then
        echo "kept: $scratch" >&2
    else
        rm -rf "$scratch"
    fi
    exit $status
}

# start_server: the first time on a free port and an empty directory, later on the same ones.
start_server() {
    if [ -z "${server_port:-}" ]; then
        server_port=$(free_port)
        mkdir -p "$scratch/server/data"
        cat >"$scratch/server/zoo.cfg" <<END
tickTime=1000
dataDir=$scratch/server/data
clientPort=$server_port
clientPortAddress=127.0.0.1
maxClientCnxns=0
extendedTypesEnabled=true
admin.enableServer=false
4lw.commands.whitelist=*
END
    fi
    if [ "${ZEBU_SYSTEMS_SERVER:-zebu}" = apache ]; then
        fetch_jars java-client "$project/interop/java/java-client/pom.xml"
        java -Xmx256m -Dzookeeper.extendedTypesEnabled=true -Dznode.container.checkIntervalMs=2000 \
            "-Dlogback.configurationFile=$project/interop/java/logback.xml" -Dinterop.log=INFO \
            -cp "$made/java-client/jars/*" org.apache.zookeeper.server.quorum.QuorumPeerMain \
            "$scratch/server/zoo.cfg" >>"$scratch/server/log" 2>&1 &
    else
        [ -x "$server_binary" ] || could_not_run "no zebu at $server_binary; build it or set ZEBU"
        "$server_binary" serve "$scratch/server/zoo.cfg" -Dznode.container.checkIntervalMs=2000 \
            >>"$scratch/server/log" 2>&1 &
    fi
    server_pid=$!
    wait_for_port "$server_port" "$server_pid" "the server" || {
        tail -5 "$scratch/server/log" >&2
        could_not_run "the server did not start"
    }
}

# kill_server: as a power failure would.
kill_server() {
    [ -n "$server_pid" ] && kill -9 "$server_pid" 2>/dev/null && wait "$server_pid" 2>/dev/null
    server_pid=
}

# wait_for_port PORT PID NAME: until somebody listens, at most two minutes; false if the process ends before.
wait_for_port() {
    for _ in $(seq 1200); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return 0
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.1
    done
    echo "$3 does not listen at $1" >&2
    return 1
}
