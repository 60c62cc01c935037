#!/bin/bash
# Apache's Java client with three servers that lose their quorum; it starts them itself: Zebu's, or Apache's of the
# same release if INTEROP_PEER is apache. ZEBU_INTEROP_ONLY=WORD runs only the checks with WORD in their name.
. "$(dirname "$0")/lib.sh"
here=$project/interop/java
fetch_jars java-client "$here/java-client/pom.xml"
say_version "Apache's Java client" java-client zookeeper
mkdir -p "$made/read-only"
ln -sfn "$made/java-client/jars" "$made/read-only/jars"
compile read-only "$here"/common/*.java "$here/java-client/src/Client.java" "$here"/read-only/src/*.java
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
java -Xmx128m -XX:+UseSerialGC "-Dlogback.configurationFile=$here/logback.xml" -Dfile.encoding=UTF-8 \
    ${ZEBU_INTEROP_ONLY:+"-Donly=$ZEBU_INTEROP_ONLY"} \
    -cp "$made/read-only/classes:$made/read-only/jars/*" ReadOnly "$work"
