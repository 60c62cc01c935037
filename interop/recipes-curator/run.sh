#!/bin/bash
# The recipes and Curator's, one process each, on the same nodes: run.sh HOST:PORT
. "$(dirname "$0")/../java/lib.sh"
[ $# -eq 1 ] || could_not_run "usage: $0 HOST:PORT"
here=$project/interop/recipes-curator
fetch_jars curator "$project/interop/java/curator/pom.xml"
say_version "Curator" curator curator-framework
mkdir -p "$made/recipes-curator"
ln -sfn "$made/curator/jars" "$made/recipes-curator/jars"
compile recipes-curator "$here"/src/*.java
exec python3 "$here/suite.py" "$1" java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
    "-Dlogback.configurationFile=$project/interop/java/logback.xml" -Dfile.encoding=UTF-8 \
    -cp "$made/recipes-curator/classes:$made/curator/jars/*" CuratorPeer
