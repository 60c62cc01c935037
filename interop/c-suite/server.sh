#!/bin/bash
# The server of the C client's tests, called as the script tests/zkServer.sh that comes with them:
#   server.sh {start|startClean|startCleanReadOnly|startRequireSASLAuth [JAAS-FILE] [readOnly]|stop}
# C_SUITE_WORK is a directory for its files; INTEROP_PEER, ZEBU, C_SUITE_JARS and C_SUITE_LOGGING say what is started.
# C_SUITE_CERTS has the key stores. The tests set ZKMAXCNXNS and EXTRA_JVM_ARGS. Status 0: it serves, or it is gone.
set -u
work=${C_SUITE_WORK:?is not set}
certs=${C_SUITE_CERTS:?is not set}
port=${ZOOPORT:-22181}

stop_server() {
    [ -r "$work/pid" ] || return 0
    local pid
    pid=$(cat "$work/pid")
    kill -9 "$pid" 2>/dev/null
    for _ in $(seq 500); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.02
    done
    rm -f "$work/pid"
}

# A server that is about to start may take the connection and never answer.
serves() {
    local answer
    answer=$(timeout 2 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0" && printf srvr >&3 && cat <&3' "$port" 2>/dev/null)
    [[ $answer == *"Mode: $1"* ]]
}

stop_server
mode=standalone
extra=()
case ${1:-} in
    start) ;;
    startClean) rm -rf "$work/data" ;;
    startCleanReadOnly)
        rm -rf "$work/data"
        mode=read-only
        extra=(-Dreadonlymode.enabled=true)
        ;;
    startRequireSASLAuth)
        extra=(-Dzookeeper.sessionRequireClientSASLAuth=true
            -Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider)
        [ -z "${2:-}" ] || extra+=("-Djava.security.auth.login.config=$2")
        if [ -n "${3:-}" ]; then
            mode=read-only
            extra+=(-Dreadonlymode.enabled=true)
        fi
        ;;
    stop) exit 0 ;;
    *) echo "server.sh does not know ${1:-nothing}" >&2; exit 2 ;;
esac

mkdir -p "$work/data"
{
    printf 'tickTime=500\ninitLimit=10\nsyncLimit=5\nlocalSessionsEnabled=true\nadmin.enableServer=false\n4lw.commands.whitelist=*\n'
    printf 'dataDir=%s\nclientPort=%s\nmaxClientCnxns=%s\n' "$work/data" "$port" "${ZKMAXCNXNS:-100}"
    printf 'secureClientPort=22281\nserverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n'
    printf 'ssl.keyStore.location=%s/server.jks\nssl.keyStore.password=password\n' "$certs"
    printf 'ssl.trustStore.location=%s/servertrust.jks\nssl.trustStore.password=password\n' "$certs"
    # One server of three is without a leader for ever.
    [ "$mode" = standalone ] || printf 'server.%s\n' 1=localhost:22881:23881 2=localhost:22882:23882 3=localhost:22883:23883
} >"$work/zoo.cfg"
[ "$mode" = standalone ] || echo 1 >"$work/data/myid"

# shellcheck disable=SC2206 # Several words in one variable, as the tests write them.
properties=(-Dzookeeper.extendedTypesEnabled=true -Dznode.container.checkIntervalMs=100 "${extra[@]}" ${EXTRA_JVM_ARGS:-})
if [ "${INTEROP_PEER:-zebu}" = apache ]; then
    java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$C_SUITE_JARS" "-Dlogback.configurationFile=$C_SUITE_LOGGING" "${properties[@]}" org.apache.zookeeper.server.quorum.QuorumPeerMain "$work/zoo.cfg" >>"$work/server.log" 2>&1 &
else
    "$ZEBU" serve "${properties[@]}" "$work/zoo.cfg" >>"$work/server.log" 2>&1 &
fi
echo $! >"$work/pid"
for _ in $(seq 600); do
    serves "$mode" && exit 0
    kill -0 "$!" 2>/dev/null || break
    sleep 0.05
done
echo "the server does not serve; see $work/server.log" >&2
exit 1
