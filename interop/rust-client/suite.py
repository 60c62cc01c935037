#!/usr/bin/env python3
"""The Rust client's own tests against the server of `cargo xtask interop`: suite.py HOST:PORT

Those that only use a server get the given one; those that end and start servers start their own, of the same kind
(crates/client/tests/common says how). With Apache ZooKeeper those that Zebu cannot do yet run too. At the end
Curator and the client read each other's compressed data."""

import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
TESTS = ["operations", "sessions", "watches", "servers", "tls"]
# What only Apache ZooKeeper can serve so far.
APACHE_ONLY = "foreign"


def say(line):
    print(line, flush=True)


def executables(tests):
    """The test programs, built now."""
    command = ["cargo", "test", "--package", "zebu-client", "--no-run"]
    for test in tests:
        command += ["--test", test]
    built = subprocess.run(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(built.stderr)
    if built.returncode != 0:
        say("not ok build: the tests of zebu-client do not build; the log says why")
        sys.exit(1)
    found = dict(re.findall(r"Executable tests/(\w+)\.rs \((.*)\)", built.stderr))
    return {test: PROJECT / found[test] for test in tests}


def reason(output, name):
    """The message of the panic that ended a test."""
    start = output.find(f"---- {name} stdout ----")
    message = re.search(r"panicked at .*\n(.*)", output[start:]) if start >= 0 else None
    return message.group(1).strip() if message else "see the log"


def run(test, program, address):
    environment = dict(os.environ, ZEBU_TEST_SERVER=address, RUST_BACKTRACE="0")
    command = [program, "--test-threads=4"]
    done = subprocess.run(command, cwd=PROJECT / "crates/client", env=environment, capture_output=True, text=True)
    sys.stderr.write(done.stdout + done.stderr)
    verdicts = re.findall(r"^test (\S+) (?:- should panic )?\.\.\. (ok|FAILED|ignored)(?:, (.*))?$", done.stdout, re.M)
    if not verdicts:
        say(f"not ok {test}: the program said nothing; the log has its output")
    for name, verdict, why in verdicts:
        if verdict == "ok":
            say(f"ok {test}::{name}")
        elif verdict == "FAILED":
            say(f"not ok {test}::{name}: {reason(done.stdout, name)}")
        else:
            say(f"skip {test}::{name}: {why or 'not run'}")


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} HOST:PORT")
    address = sys.argv[1]
    apache = os.environ.get("INTEROP_PEER") == "apache"
    say("version zebu-client, with Curator 5.9.0 for compressed data")
    for test, program in executables(TESTS + [APACHE_ONLY] * apache).items():
        run(test, program, address)
    if not apache:
        say(f"skip {APACHE_ONLY}: Zebu has neither ensembles nor a secure port yet")
    sys.exit(subprocess.run([HERE / "compression.sh", address]).returncode)


main()
