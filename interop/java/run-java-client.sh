#!/bin/bash
# Every public method of Apache's Java client against a running server: run-java-client.sh HOST:PORT
# ZEBU_INTEROP_ONLY=WORD runs only the checks with WORD in their name.
. "$(dirname "$0")/lib.sh"
[ $# -eq 1 ] || could_not_run "usage: $0 HOST:PORT"
here=$project/interop/java
fetch_jars java-client "$here/java-client/pom.xml"
say_version "Apache's Java client" java-client zookeeper
compile java-client "$here"/common/*.java "$here"/java-client/src/*.java
exec java -Xmx256m -XX:+UseSerialGC "-Dlogback.configurationFile=$here/logback.xml" -Dfile.encoding=UTF-8 \
    ${ZEBU_INTEROP_ONLY:+"-Donly=$ZEBU_INTEROP_ONLY"} \
    -cp "$made/java-client/classes:$made/java-client/jars/*" JavaClient "$1"
