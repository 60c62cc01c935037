#!/usr/bin/env python3
"""go-zookeeper's own tests, as they come with the module.

The tests start their servers with zkServer.sh from the directory that ZOOKEEPER_BIN_PATH names: ours with the zebu binary
beside it, or a script that starts Apache ZooKeeper. One line of their support code is replaced in a copy: it waits for
servers by a form of `srvr` that no server since 3.6 writes.

    own_tests.py [PATTERN]    a pattern for go test -run
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from suite_program import fail, required  # noqa: E402

PROJECT = HERE.parent.parent
PACKAGE = "github.com/go-zookeeper/zk"
# The module's own limit is 500 s, for a machine of its own.
LIMIT = "900s"
QUICK = "TestIntegration_(Create|Multi|GetSet|Children|SetWatchers|Auth|Reconfig)|TestLock"
# How the support code waits for servers, and what takes its place: every server has a role.
WAITS = "_, ok := FLWSrvr(serverAddrs, time.Second)"
WAITS_FOR_ROLES = "ok := haveRoles(serverAddrs)"
ROLES = """
// haveRoles reports whether every server says which role it has.
func haveRoles(servers []string) bool {
	for _, server := range servers {
		answer, err := fourLetterWord(server, "srvr", time.Second)
		if err != nil || !strings.Contains(string(answer), "Mode: ") {
			return false
		}
	}
	return true
}
"""
APACHE = """#!/bin/sh
exec java -cp "$ZOOKEEPER_CLASSPATH" $SERVER_JVMFLAGS org.apache.zookeeper.server.quorum.QuorumPeerMain "$2"
"""


def server_directory(work):
    """A directory with zkServer.sh for the peer that is asked for."""
    place = work / "bin"
    place.mkdir()
    script = place / "zkServer.sh"
    if os.environ.get("INTEROP_PEER", "zebu") == "apache":
        script.write_text(APACHE)
        script.chmod(0o755)
    else:
        shutil.copy(PROJECT / "bin" / "zkServer.sh", script)
        (place / "zebu").symlink_to(required("ZEBU"))
    return place


def go(*words):
    environment = {**os.environ, "GOFLAGS": "-mod=readonly"}
    return subprocess.run(["go", *words], cwd=HERE, env=environment, capture_output=True, text=True)


def copied_module(work):
    """A copy of the module that can be written to, with the one line replaced."""
    found = go("list", "-m", "-f", "{{.Dir}}", PACKAGE)
    copy = work / "module"
    shutil.copytree(found.stdout.strip(), copy, copy_function=shutil.copyfile)
    for directory in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        directory.chmod(0o755)
    support = copy / "server_help_test.go"
    text = support.read_text()
    if WAITS not in text:
        fail(f"not ok start: {support.name} does not hold the line: {WAITS}")
    support.write_text(text.replace(WAITS, WAITS_FOR_ROLES) + ROLES)
    return copy


def print_results(lines):
    """One line for each top-level test; a failed one with the first line that says why."""
    said = {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            print(line, file=sys.stderr)
            continue
        test = event.get("Test", "")
        if event["Action"] == "output":
            said.setdefault(test.partition("/")[0], []).append(event["Output"].strip())
            continue
        if not test or "/" in test:
            continue
        if event["Action"] == "pass":
            print(f"ok {test}", flush=True)
        elif event["Action"] in ("fail", "skip"):
            word = "not ok" if event["Action"] == "fail" else "skip"
            why = [text for text in said.get(test, []) if re.match(r"\S+_test\.go:\d+: ", text)]
            print(f"{word} {test}: {(why or ['no reason was given'])[-1][:300]}", flush=True)


def main():
    fetched = go("mod", "download")
    if fetched.returncode != 0:
        fail(f"unreachable Go's modules: {(fetched.stderr.strip().splitlines() or ['go said nothing'])[-1]}")
    version = go("list", "-m", "-f", "{{.Path}} {{.Version}}'s own tests", PACKAGE)
    print(f"version {version.stdout.strip()}", flush=True)
    pattern = sys.argv[1] if sys.argv[1:] else "" if os.environ.get("INTEROP_PART") == "full" else QUICK
    with tempfile.TemporaryDirectory(prefix="zebu-go-", ignore_cleanup_errors=True) as directory:
        work = pathlib.Path(directory)
        environment = {**os.environ, "GOFLAGS": "-mod=readonly", "TMPDIR": directory,
                       "ZOOKEEPER_BIN_PATH": str(server_directory(work)), "ZOO_LOG_DIR": directory, "ZK_VERSION": "3.9.5"}
        command = ["go", "test", "-json", "-count=1", f"-timeout={LIMIT}", f"-run={pattern}", "."]
        process = subprocess.Popen(command, cwd=copied_module(work), env=environment, stdout=subprocess.PIPE, stderr=sys.stderr,
                                   text=True, start_new_session=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            print_results(process.stdout)
            # 0: all passed, 1: some failed; both are results.
            if process.wait() not in (0, 1):
                fail(f"not ok go test: ended with status {process.returncode}")
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


if __name__ == "__main__":
    main()
