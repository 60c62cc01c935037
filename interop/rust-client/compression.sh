#!/bin/bash
# The Rust client and Curator read each other's compressed data: compression.sh HOST:PORT, on a server without
# /gzip-exchange. suite.py calls it.
. "$(dirname "$0")/../java/lib.sh"
[ $# -eq 1 ] || could_not_run "usage: $0 HOST:PORT"
fetch_jars curator "$project/interop/java/curator/pom.xml"
mkdir -p "$made/gzip-exchange"
ln -sfn "$made/curator/jars" "$made/gzip-exchange/jars"
compile gzip-exchange "$project/interop/rust-client/GzipExchange.java"
exchange() {
    cargo run --quiet --manifest-path "$project/Cargo.toml" --package zebu-client --example gzip_exchange -- "$1" "$2" ||
        could_not_run "the example gzip_exchange $1 failed"
}
exchange write "$1"
java -Xmx128m -XX:+UseSerialGC "-Dlogback.configurationFile=$project/interop/java/logback.xml" \
    -cp "$made/gzip-exchange/classes:$made/curator/jars/*" GzipExchange "$1" || could_not_run "Curator's part failed"
exchange read "$1"
