#!/bin/bash
# Apache Kafka in ZooKeeper mode on a server of its own: run-kafka.sh [--servers 3] [--protection tls|sasl]
# The broker, the topic and the records must survive restarts of either side. With three servers also the death of the
# one that leads, while records go in. With protection the brokers use TLS with a certificate, or SASL, and own their
# nodes: nobody else may change these. See server.sh for the environment.
protection=none
while [ $# -gt 1 ]; do
    case $1 in
        --servers) server_count=$2 ;;
        --protection) protection=$2 ;;
        *) break ;;
    esac
    shift 2
done
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../java/lib.sh"
. "$here/server.sh"
. "$here/protection.sh"
fetch_jars kafka "$here/kafka/pom.xml"
say_version "Apache Kafka (ZooKeeper mode)" kafka kafka_2.13
compile kafka "$here"/kafka/src/*.java
open_scratch kafka
records=10000
system_pids=
java_words=()
declare -A broker_pid broker_port

start_broker() { # ID
    local directory=$scratch/broker-$1
    mkdir -p "$directory"
    [ -n "${broker_port[$1]:-}" ] || broker_port[$1]=$(free_port)
    cat >"$directory/server.properties" <<END
broker.id=$1
listeners=PLAINTEXT://127.0.0.1:${broker_port[$1]}
log.dirs=$directory/logs
zookeeper.connect=$server_connect/kafka
zookeeper.session.timeout.ms=6000
zookeeper.connection.timeout.ms=60000
num.network.threads=1
num.io.threads=2
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
$(broker_protection)
END
    java "${java_words[@]}" -Xmx512m -XX:+UseSerialGC -Dorg.slf4j.simpleLogger.defaultLogLevel=info -Dorg.slf4j.simpleLogger.showDateTime=true \
        -cp "$made/kafka/jars/*" kafka.Kafka "$directory/server.properties" >>"$directory/log" 2>&1 &
    broker_pid[$1]=$!
    system_pids="$system_pids $!"
    wait_for_port "${broker_port[$1]}" "$!" "broker $1"
}

# Properties of a broker that uses TLS or SASL, and that owns its nodes.
broker_protection() {
    [ "$protection" = none ] || echo zookeeper.set.acl=true
    [ "$protection" = tls ] || return 0
    cat <<END
zookeeper.ssl.client.enable=true
zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty
zookeeper.ssl.keystore.location=$scratch/stores/system.jks
zookeeper.ssl.keystore.password=$store_password
zookeeper.ssl.truststore.location=$scratch/stores/trust.jks
zookeeper.ssl.truststore.password=$store_password
END
}

# The nodes of a broker belong to its id, and a client without one cannot change them.
nodes_belong_to() { # ID
    local plain=${server_port:-${member_port[1]:-}}
    java -Xmx128m -XX:+UseSerialGC -Dorg.slf4j.simpleLogger.defaultLogLevel=off -Dzookeeper.sasl.client=false \
        -cp "$made/kafka/classes:$made/kafka/jars/*" NodeOwner "127.0.0.1:$plain" "$1" \
        /kafka/brokers/ids /kafka/brokers/topics /kafka/config/topics /kafka/admin/delete_topics
}

stop_broker() { # ID SIGNAL
    kill "-$2" "${broker_pid[$1]}"
    wait "${broker_pid[$1]}" 2>/dev/null
}

step() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" 2>"$scratch/why"; then
        echo "ok $name"
    else
        echo "not ok $name: $(tail -1 "$scratch/why")"
    fi
}

client() { # BROKER COMMAND...
    local broker=$1
    shift
    java -Xmx128m -XX:+UseSerialGC -Dorg.slf4j.simpleLogger.defaultLogLevel=off \
        -cp "$made/kafka/classes:$made/kafka/jars/*" KafkaRecords "127.0.0.1:${broker_port[$broker]}" "$@"
}

restart_server_under_brokers() {
    kill_server
    start_server
}

# The records are on their way while the leader dies: the broker works on without it.
leader_dies_under_load() { # TOPIC
    client 0 produce "$1" $((5 * records)) &
    local producer=$!
    sleep 1 # into the middle of the records: where exactly does not matter
    dead_member=$(leading_member) || return 1
    kill_member "$dead_member"
    wait "$producer"
}

dead_member_returns() {
    start_member "$dead_member"
    await_member "$dead_member"
}

pause_broker_beyond_its_session() {
    kill -STOP "${broker_pid[0]}"
    sleep 12 # twice the session timeout: the time itself is what is tested
    kill -CONT "${broker_pid[0]}"
}

expired_and_back() {
    for _ in $(seq 300); do
        grep -q '\] Session expired\.' "$scratch/broker-0/log" && return 0
        sleep 0.1
    done
    echo "the broker did not notice that its session expired" >&2
    return 1
}

session_kept() {
    if grep '\] Session expired\.' "$scratch/broker-0/log" >&2; then
        return 1
    fi
}

protect "$protection"
[ "$protection" != sasl ] || java_words=("-Djava.security.auth.login.config=$scratch/client.jaas" -Dzookeeper.fips-mode=false)
start_server
step "the broker starts" start_broker 0
step "one broker is registered" client 0 brokers 1
step "a topic is created" client 0 create first 3 1
step "$records records go in" client 0 produce first $records
step "$records records come out" client 0 consume first $records
case $protection in
    tls) step "its nodes belong to its certificate" nodes_belong_to "$x509_id" ;;
    sasl) step "its nodes belong to its SASL user" nodes_belong_to "$sasl_id" ;;
esac
stop_broker 0 TERM
step "the broker starts again" start_broker 0
step "the records are still there" client 0 consume first $records
if [ "$server_count" -gt 1 ]; then
    for round in one two three; do
        step "topic $round is created" client 0 create "$round" 3 1
        step "records go into $round while the leading server is killed" leader_dies_under_load "$round"
        step "topic $round-b is created by the servers that are left" client 0 create "$round-b" 1 1
        step "the killed server comes back ($round)" dead_member_returns
        step "the records of $round come out" client 0 consume "$round" $((5 * records))
    done
fi
step "the server is killed and started under the running broker" restart_server_under_brokers
step "records come out after that" client 0 consume first $records
step "a topic is created after that" client 0 create second 2 1
step "records go into it" client 0 produce second $records
step "and come out" client 0 consume second $records
step "the broker has kept its session" session_kept
step "a topic is deleted" client 0 delete second
pause_broker_beyond_its_session
step "the broker loses its session while it sleeps" expired_and_back
step "and registers again" client 0 brokers 1
step "a topic is created after that too" client 0 create third 1 1
step "a second broker starts" start_broker 1
step "both brokers are registered" client 0 brokers 2
step "a topic on both is created" client 0 create both 3 2
step "records go into both" client 0 produce both $records
stop_broker 0 KILL
step "the controller moves when its broker is killed" client 1 brokers 1
step "records come out of the other broker" client 1 consume both $records
step "a topic is created by the new controller" client 1 create fourth 1 1
stop_broker 1 TERM
exit 0
