# Shared by the Java suites: fetch what a pom.xml names, compile, start servers. Sourced, not run.
# Everything that is made goes into target/interop of the project; nothing of it is committed.

set -u
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
made=${CARGO_TARGET_DIR:-$project/target}/interop
mkdir -p "$made"

could_not_run() {
    echo "could not run: $*" >&2
    exit 1
}

# fetch_jars NAME POM: the jars of the pom and of all that it needs, in $made/NAME/jars; again only when the pom changed.
fetch_jars() {
    local directory=$made/$1
    if ! cmp -s "$2" "$directory/complete"; then
        rm -rf "$directory/jars" "$directory/complete"
        mkdir -p "$directory"
        mvn --quiet --batch-mode --file "$2" dependency:copy-dependencies \
            "-DoutputDirectory=$directory/jars" -DincludeScope=runtime >"$directory/maven.log" 2>&1 ||
            could_not_run "Maven cannot fetch what $2 names; see $directory/maven.log"
        cp "$2" "$directory/complete"
    fi
}

# compile NAME SOURCE...: into $made/NAME/classes, against the jars of NAME.
compile() {
    local directory=$made/$1
    shift
    rm -rf "$directory/classes"
    javac -nowarn -proc:none -J-Xmx256m -d "$directory/classes" -cp "$directory/jars/*" "$@" >"$directory/javac.log" 2>&1 ||
        { cat "$directory/javac.log" >&2; could_not_run "the program does not compile"; }
}
