#!/bin/bash
# The election of Hadoop's high availability on a server of its own: run-hadoop.sh
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../java/lib.sh"
. "$here/server.sh"
fetch_jars hadoop "$here/hadoop/pom.xml"
say_version "Apache Hadoop" hadoop hadoop-common
compile hadoop "$here"/../java/common/*.java "$here"/hadoop/src/*.java
open_scratch hadoop
start_server
java -Xmx256m -XX:+UseSerialGC \
    -cp "$made/hadoop/classes:$made/hadoop/jars/*" HadoopElection "127.0.0.1:$server_port" 2>"$scratch/errors"
