#!/bin/bash
# Former releases of Apache's Java client against a running server: run-old-clients.sh HOST:PORT
# One program, compiled and run with the jars of each. ZEBU_INTEROP_ONLY=WORD runs only the checks with WORD in their name.
. "$(dirname "$0")/lib.sh"
[ $# -eq 1 ] || could_not_run "usage: $0 HOST:PORT"
here=$project/interop/java
# 3.4.13 and 3.4.14 cannot read the addresses that Java prints since version 14, and never connect.
versions="3.4.12 3.5.10 3.6.4 3.7.2 3.8.6"
echo "version Apache's Java client $(echo "$versions" | sed 's/ /, /g')"
for version in $versions; do
    name=old-client-$version
    mkdir -p "$made/$name"
    sed "s/@VERSION@/$version/" "$here/old-clients/pom.xml" >"$made/$name/pom.xml"
    fetch_jars "$name" "$made/$name/pom.xml"
    compile "$name" "$here"/common/*.java "$here/java-client/src/Client.java" "$here"/old-clients/src/*.java
    java -Xmx128m -XX:+UseSerialGC -Dfile.encoding=UTF-8 "-Dlogback.configurationFile=$here/logback.xml" \
        ${ZEBU_INTEROP_ONLY:+"-Donly=$ZEBU_INTEROP_ONLY"} \
        -cp "$made/$name/classes:$made/$name/jars/*" OldClient "$1" "$version" ||
        could_not_run "the program for $version ended with $?"
done
