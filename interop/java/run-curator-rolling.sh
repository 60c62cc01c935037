#!/bin/bash
# Writes with Curator until standard input ends: run-curator-rolling.sh HOST:PORT PREFIX
. "$(dirname "$0")/lib.sh"
[ $# -eq 2 ] || could_not_run "usage: $0 HOST:PORT PREFIX"
here=$project/interop/java
fetch_jars curator "$here/curator/pom.xml"
exec java -Xmx96m -XX:+UseSerialGC "-Dlogback.configurationFile=$here/logback.xml" \
    -cp "$made/curator/jars/*" "$here/rolling/CuratorWriter.java" "$1" "$2"
