#!/bin/bash
# Curator's framework, recipes, discovery and asynchronous interface against a running server: run-curator.sh HOST:PORT
# ZEBU_INTEROP_ONLY=WORD runs only the checks with WORD in their name.
. "$(dirname "$0")/lib.sh"
[ $# -eq 1 ] || could_not_run "usage: $0 HOST:PORT"
here=$project/interop/java
fetch_jars curator "$here/curator/pom.xml"
say_version "Curator" curator curator-framework
compile curator "$here"/common/*.java "$here"/curator/src/*.java
exec java -Xmx384m -XX:+UseSerialGC "-Dlogback.configurationFile=$here/logback.xml" -Dfile.encoding=UTF-8 \
    ${ZEBU_INTEROP_ONLY:+"-Donly=$ZEBU_INTEROP_ONLY"} \
    -cp "$made/curator/classes:$made/curator/jars/*" Curator "$1"
