#!/bin/bash
# SolrCloud, two nodes, on a server of its own: run-solr.sh
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../java/lib.sh"
. "$here/server.sh"
fetch_jars solr "$here/solr/pom.xml"
say_version "Apache Solr" solr solr-core
compile solr "$here"/solr/src/*.java
open_scratch solr
documents=2000
system_pids=
declare -A node_pid node_port
cat >"$scratch/log4j2.properties" <<END
rootLogger.level = ${ZEBU_SYSTEMS_LOG:-info}
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ABSOLUTE} %p %c{1} %m%n
END

start_node() { # NAME
    [ -n "${node_port[$1]:-}" ] || node_port[$1]=$(free_port)
    mkdir -p "$scratch/$1"
    java -Xmx512m -XX:+UseSerialGC "-Dlog4j2.configurationFile=$scratch/log4j2.properties" -Djetty.testMode=true \
        "-Dsolr.install.dir=$scratch" -cp "$made/solr/classes:$made/solr/jars/*" \
        SolrNode "$scratch/$1" "${node_port[$1]}" "127.0.0.1:$server_port" >>"$scratch/$1.log" 2>&1 &
    node_pid[$1]=$!
    system_pids="$system_pids $!"
    wait_for_port "${node_port[$1]}" "$!" "node $1" || { grep -v INFO "$scratch/$1.log" | tail -1 >&2; return 1; }
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

client() {
    timeout 240 java -Xmx192m -XX:+UseSerialGC -Dlog4j2.level=OFF -cp "$made/solr/classes:$made/solr/jars/*" \
        SolrDocuments "127.0.0.1:$server_port" "$@"
}

restart_server() {
    kill_server
    start_server
}

start_server
step "a configuration is uploaded" client upload "$here/solr/conf"
step "the first node starts" start_node one
step "the second node starts" start_node two
step "both are live" client nodes 2
step "a collection of two shards with two replicas is created" client create first 2
step "$documents documents go in" client index first $documents
step "$documents documents are found" client query first $documents
step "the server is killed and started under the running nodes" restart_server
step "documents are found after that" client query first $documents
step "a collection is created after that" client create second 1
step "documents go into it" client index second $documents
step "and are found" client query second $documents
kill -9 "${node_pid[one]}"
wait "${node_pid[one]}" 2>/dev/null
step "a killed node is noticed by its session" client nodes 1
step "its replicas are replaced: documents are found" client query first $documents
step "documents go in without it" client index first $((documents + 500))
step "the node starts again" start_node one
step "both are live again" client nodes 2
step "its replicas recover" client active first
step "all documents are found" client query first $((documents + 500))
step "a collection is dropped" client drop second
exit 0
