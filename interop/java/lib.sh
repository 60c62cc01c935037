# Shared by the Java suites: fetch what a pom.xml names, compile, start servers. Sourced, not run.
# Everything that is made goes into target/interop of the project; nothing of it is committed.

set -u
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
made=${INTEROP_CACHE:-${CARGO_TARGET_DIR:-$project/target}/interop}
mkdir -p "$made"

could_not_run() {
    echo "could not run: $*" >&2
    exit 1
}

# unreachable WHAT: something could not be fetched.
unreachable() {
    echo "unreachable $*"
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
            unreachable "Maven's repository, or a package in it: $(grep -m 1 ERROR "$directory/maven.log")"
        cp "$2" "$directory/complete"
    fi
}

# say_version WORDS NAME ARTIFACT: what runs, by the jar that was fetched.
say_version() {
    local jar
    jar=$(basename "$(echo "$made/$2/jars/$3"-[0-9]*.jar)" .jar)
    echo "version $1 ${jar#"$3-"}"
}

# compile NAME SOURCE...: into $made/NAME/classes, against the jars of NAME.
compile() {
    local directory=$made/$1
    shift
    rm -rf "$directory/classes"
    javac -nowarn -proc:none -J-Xmx256m -d "$directory/classes" -cp "$directory/jars/*" "$@" >"$directory/javac.log" 2>&1 ||
        { cat "$directory/javac.log" >&2; could_not_run "the program does not compile"; }
}
