# Starts, stops and kills the server, or the three of an ensemble, under a system's feet. Sourced after ../java/lib.sh.
# ZEBU=PATH names the binary (default: target/release/zebu); ZEBU_SYSTEMS_SERVER=apache runs Apache ZooKeeper instead,
# which is how each scenario is shown to be right.

ZEBU_SYSTEMS_SERVER=${ZEBU_SYSTEMS_SERVER:-${INTEROP_PEER:-zebu}}
server_binary=${ZEBU:-$(dirname "$made")/release/zebu}
server_pid=
server_count=${server_count:-1}
declare -A member_pid member_port
# Set by protect: whether clients use the TLS port, lines for every zoo.cfg, words for every command line.
server_secure=
server_lines=
server_properties=()

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

# start_server: the first time on a free port and an empty directory, later on the same ones. With server_count=3 an
# ensemble of three. server_connect says where clients find it.
start_server() {
    if [ "$server_count" -gt 1 ]; then
        start_ensemble
        return
    fi
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
$server_lines
END
        server_connect=127.0.0.1:$server_port
        [ -z "$server_secure" ] || server_connect=$(add_secure_port "$scratch/server")
    fi
    run_server "$scratch/server"
    server_pid=$!
    wait_for_port "$server_port" "$server_pid" "the server" || {
        tail -5 "$scratch/server/log" >&2
        could_not_run "the server did not start"
    }
}

# add_secure_port DIRECTORY: to its zoo.cfg; says where clients find it.
add_secure_port() {
    local port
    port=$(free_port)
    printf 'secureClientPort=%s\nsecureClientPortAddress=127.0.0.1\n' "$port" >>"$1/zoo.cfg"
    echo 'serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory' >>"$1/zoo.cfg"
    echo "localhost:$port"
}

# run_server DIRECTORY: in the background, with the zoo.cfg that is there; $! is its process.
run_server() {
    if [ "${ZEBU_SYSTEMS_SERVER:-zebu}" = apache ]; then
        fetch_jars java-client "$project/interop/java/java-client/pom.xml"
        java -Xmx256m -Dzookeeper.extendedTypesEnabled=true -Dznode.container.checkIntervalMs=2000 \
            "-Dlogback.configurationFile=$project/interop/java/logback.xml" -Dinterop.log=INFO \
            "${server_properties[@]}" -cp "$made/java-client/jars/*" org.apache.zookeeper.server.quorum.QuorumPeerMain \
            "$1/zoo.cfg" >>"$1/log" 2>&1 &
    else
        [ -x "$server_binary" ] || could_not_run "no zebu at $server_binary; build it or set ZEBU"
        "$server_binary" serve "${server_properties[@]}" -Dznode.container.checkIntervalMs=2000 "$1/zoo.cfg" >>"$1/log" 2>&1 &
    fi
}

# start_ensemble: all members, the first time on free ports and empty directories, later on the same ones.
start_ensemble() {
    local number address members=
    if [ -z "${server_connect:-}" ]; then
        for number in $(seq "$server_count"); do
            member_port[$number]=$(free_port)
            members+="server.$number=127.0.0.1:$(free_port):$(free_port)"$'\n'
        done
        for number in $(seq "$server_count"); do
            mkdir -p "$scratch/server-$number/data"
            echo "$number" >"$scratch/server-$number/data/myid"
            cat >"$scratch/server-$number/zoo.cfg" <<END
tickTime=1000
initLimit=10
syncLimit=5
dataDir=$scratch/server-$number/data
clientPort=${member_port[$number]}
clientPortAddress=127.0.0.1
maxClientCnxns=0
extendedTypesEnabled=true
admin.enableServer=false
4lw.commands.whitelist=*
$server_lines
$members
END
            address=127.0.0.1:${member_port[$number]}
            [ -z "$server_secure" ] || address=$(add_secure_port "$scratch/server-$number")
            server_connect=${server_connect:+$server_connect,}$address
        done
    fi
    for number in $(seq "$server_count"); do
        start_member "$number"
    done
    for number in $(seq "$server_count"); do
        await_member "$number" || could_not_run "server $number did not start"
    done
}

# start_member NUMBER: does not wait until it serves.
start_member() {
    run_server "$scratch/server-$1"
    member_pid[$1]=$!
}

# kill_member NUMBER: as a power failure would.
kill_member() {
    kill -9 "${member_pid[$1]}" 2>/dev/null && wait "${member_pid[$1]}" 2>/dev/null
    unset "member_pid[$1]"
}

# mode_of NUMBER: leader, follower, or nothing.
mode_of() {
    { exec 3<>"/dev/tcp/127.0.0.1/${member_port[$1]}" && printf srvr >&3 && sed -n 's/^Mode: //p' <&3; } 2>/dev/null
}

# await_member NUMBER: until it serves, at most a minute.
await_member() {
    for _ in $(seq 600); do
        [ -n "$(mode_of "$1")" ] && return 0
        sleep 0.1
    done
    echo "server $1 does not serve: $(tail -1 "$scratch/server-$1/log")" >&2
    return 1
}

# leading_member: its number; waits for one, at most a minute.
leading_member() {
    local number
    for _ in $(seq 600); do
        for number in "${!member_pid[@]}"; do
            [ "$(mode_of "$number")" = leader ] && echo "$number" && return 0
        done
        sleep 0.1
    done
    echo "no server leads" >&2
    return 1
}

# kill_server: as a power failure would; of an ensemble, all at once.
kill_server() {
    for number in "${!member_pid[@]}"; do
        kill -9 "${member_pid[$number]}" 2>/dev/null
    done
    for number in "${!member_pid[@]}"; do
        kill_member "$number"
    done
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
