#!/bin/bash
# Dubbo's ZooKeeper registry, and a provider and a consumer that meet through it: run-dubbo.sh
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../java/lib.sh"
. "$here/server.sh"
fetch_jars dubbo "$here/dubbo/pom.xml"
say_version "Apache Dubbo" dubbo dubbo
compile dubbo "$here"/../java/common/*.java "$here"/dubbo/src/*.java
open_scratch dubbo
start_server
mkdir -p "$scratch/home"
# Dubbo keeps copies of what it read under the home directory.
java -Xmx384m -XX:+UseSerialGC -Dorg.slf4j.simpleLogger.defaultLogLevel="${ZEBU_SYSTEMS_LOG:-off}" -Ddubbo.application.logger=slf4j \
    "-Duser.home=$scratch/home" \
    -cp "$made/dubbo/classes:$made/dubbo/jars/*" DubboRegistry "127.0.0.1:$server_port" 2>"$scratch/errors"
status=$?
[ -n "${ZEBU_SYSTEMS_LOG:-}" ] && cat "$scratch/errors" >&2
exit $status
