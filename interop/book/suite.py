#!/usr/bin/env python3
"""suite.py HOST:PORT: the programs of docs/getting-started.md in Python, Java, Go and C, compiled and run.

Each program must print what the page promises. The address of the page is replaced by the given one, and nothing else.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "kazoo"))

import environment  # noqa: E402
from suite_program import fail, required  # noqa: E402

PAGE = HERE.parent.parent / "docs" / "getting-started.md"
PAGE_ADDRESS = "127.0.0.1:2181"
TIME_LIMIT = 600


class Wrong(Exception):
    """A program that does not do what the page says."""


def run(command, **how):
    """Runs a command to its end and gives its output."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, check=False, **how)
    except subprocess.TimeoutExpired:
        raise Wrong(f"{command[0]} did not end within {TIME_LIMIT} s") from None
    print(done.stdout, done.stderr, file=sys.stderr)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Wrong(f"{command[0]} ended with status {done.returncode}: {last}")
    return done.stdout


def blocks(server):
    """The programs of the page by language, with the address of the server."""
    found = re.findall(r"^```(python|java|go|c)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    programs = [(language, text.replace(PAGE_ADDRESS, server)) for language, text in found]
    if [language for language, _ in programs] != ["python", "java", "java", "go", "c"]:
        fail(f"not ok start: other programs than this suite knows: {[language for language, _ in programs]}")
    return [text for _, text in programs]


def java(place, name, text):
    """Compiles a class against Curator's jars, which include ZooKeeper's client, and runs it."""
    made = pathlib.Path(required("INTEROP_CACHE"))
    project = HERE.parent.parent
    script = f'. "{project}/interop/java/lib.sh" && fetch_jars curator "{project}/interop/java/curator/pom.xml"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail((done.stdout.strip().splitlines() or [f"not ok {name}: no jars: {done.stderr.strip()}"])[-1])
    (place / f"{name}.java").write_text(text)
    jars = f"{made}/curator/jars/*"
    run(["javac", "-J-Xmx256m", "-d", place, "-cp", jars, place / f"{name}.java"])
    logging = f"-Dlogback.configurationFile={project}/interop/java/logback.xml"
    return run(["java", "-Xmx256m", logging, "-cp", f"{place}:{jars}", name])


def go(place, text):
    """Builds a program beside the module that the suite `go` has."""
    place = place / "go"
    place.mkdir()
    for name in ["go.mod", "go.sum"]:
        shutil.copy(HERE.parent / "go" / name, place)
    (place / "main.go").write_text(text)
    variables = {**os.environ, "GOFLAGS": "-mod=readonly"}
    fetched = subprocess.run(["go", "mod", "download"], cwd=place, env=variables, capture_output=True, text=True, check=False)
    if fetched.returncode != 0:
        fail(f"unreachable Go's modules: {(fetched.stderr.strip().splitlines() or ['no reason'])[-1]}")
    run(["go", "build", "-o", "first", "."], cwd=place, env=variables)
    return run([place / "first"])


def c(place, text):
    """Compiles a program with the command of the page."""
    (place / "first.c").write_text(text)
    run(["cc", "-DTHREADED", "first.c", "-lzookeeper_mt", "-o", "first"], cwd=place)
    return run([place / "first"])


def check(name, program, expected):
    """Runs one program and prints the line of its test."""
    try:
        said = program()
        missing = [text for text in expected if text not in said]
        if missing:
            raise Wrong(f"{missing[0]!r} was not printed")
    except Wrong as reason:
        print(f"not ok {name}: {reason}", flush=True)
    else:
        print(f"ok {name}", flush=True)


def main():
    if len(sys.argv) != 2:
        fail("not ok start: usage: suite.py HOST:PORT")
    python_text, java_text, curator_text, go_text, c_text = blocks(sys.argv[1])
    place = pathlib.Path(required("INTEROP_CACHE")) / "book"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    print(f"version docs/getting-started.md, {environment.version()}", flush=True)
    interpreter = environment.python()
    python_event = "event: CHANGED /first/python"
    lock = "this process holds the lock"
    check("python", lambda: run([interpreter, "-c", python_text]), ["hello Python", python_event, lock])
    check("java", lambda: java(place, "FirstClient", java_text), ["hello Java", "NodeDataChanged"])
    check("curator", lambda: java(place, "FirstCurator", curator_text), ["hello Curator", lock])
    check("go", lambda: go(place, go_text), ["hello Go", "event: EventNodeDataChanged"])
    check("c", lambda: c(place, c_text), ["hello C"])


if __name__ == "__main__":
    main()
