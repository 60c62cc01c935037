#!/usr/bin/env python3
"""Kazoo's own test suite, unmodified, as it comes with the package.

The suite starts its servers with the command `java`. Against Zebu the program of that name beside this file is put
first in PATH; against Apache it is the real one. Each of its clusters has one server, or as many as --servers says.

    suite.py [--servers N] [PYTEST-WORD…]    words for pytest replace the selection: suite.py -k lock
"""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import environment

# A test that hangs must end before the caller's patience does. The longest one takes about 35 s.
TEST_LIMIT_SECONDS = 120
# Its client may wait for ever in a SASL exchange, and no signal ends its thread. Each of these tests therefore has a
# process of its own, which can be stopped.
ALONE = "test_sasl.py"
ALONE_LIMIT_SECONDS = 30
# Kazoo's start() is woken by the session and then asks for the state. If the refusal of a wrong password has arrived by
# then, it raises a time-out instead of AuthFailedError: 2 of 60 times with Apache, and as often with Zebu.
ALONE_REPEATS = 3
# The ports that one server of the suite uses, counted from its first.
PORTS_OF_A_SERVER = 5
# Reservations of the chosen ports, for as long as this process runs.
HELD = []


def is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def first_port(servers):
    """The suite counts up from a fixed port; find a place where it fits, below the ports of outgoing connections."""
    for base in range(20000, 32000, 10):
        ports = range(base, base + servers * PORTS_OF_A_SERVER)
        held = environment.hold_ports(ports)
        if held and all(is_free(port) for port in ports):
            HELD.extend(held)
            return base
    environment.fail("not ok start: not enough free ports between 20000 and 32000")


def quick_selection(tests):
    lines = (environment.HERE / "quick.txt").read_text().splitlines()
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return [f"{tests}/{name}" for name in names]


def variables(peer, work, servers):
    """The environment of pytest."""
    wanted = {
        "ZOOKEEPER_CLUSTER_SIZE": str(servers),
        "ZOOKEEPER_PORT_OFFSET": str(first_port(servers)),
        "KAZOO_SERVER_LOG": str(work / "server.log"),
        # The suite leaves directories behind; here they vanish with the run.
        "TMPDIR": str(work),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "ignore::DeprecationWarning",
    }
    if peer == "zebu":
        environment.required("ZEBU")
        shim = work / "path"
        shim.mkdir()
        (shim / "java").symlink_to(environment.HERE / "java")
        wanted["PATH"] = f"{shim}{os.pathsep}{os.environ['PATH']}"
        wanted["ZOOKEEPER_CLASSPATH"] = "none"
        # The version that the suite is to expect; it is asked only for the features of 3.4 and 3.5.
        wanted["ZOOKEEPER_VERSION"] = "3.9.0"
    else:
        wanted["ZOOKEEPER_CLASSPATH"] = environment.required("ZOOKEEPER_CLASSPATH")
        wanted["ZOOKEEPER_VERSION"] = "3.8.0"
    return {**os.environ, **wanted}


def one_line(text):
    return re.sub(r"\s+", " ", text or "").strip()[:300]


def print_results(report):
    """One line for each test of the JUnit file."""
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        where = case.get("classname", "").rpartition("kazoo.tests.")[2]
        name = f"{where}.{case.get('name')}"
        # A test can fail and then fail to clean up: the first one says why.
        bad = [part for part in case if part.tag in ("failure", "error")]
        skipped = case.find("skipped")
        if bad:
            print(f"not ok {name}: {one_line(bad[0].get('message') or bad[0].text)}")
        elif skipped is not None:
            print(f"skip {name}: {one_line(skipped.get('message'))}")
        else:
            print(f"ok {name}")
    sys.stdout.flush()


class Suite:
    """The installed tests, and how pytest is called on them."""

    def __init__(self, work, servers):
        self.interpreter = environment.python()
        self.work = work
        self.report = work / "junit.xml"
        self.variables = variables(os.environ.get("INTEROP_PEER", "zebu"), work, servers)
        where = [self.interpreter, "-c", "import kazoo.tests; print(kazoo.tests.__path__[0])"]
        self.tests = pathlib.Path(subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip())

    def pytest(self, words, **how):
        command = [self.interpreter, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", self.tests.parents[1], *words]
        environment_and_place = {"cwd": self.work, "env": self.variables, "stdin": subprocess.DEVNULL}
        return subprocess.Popen(command, text=True, start_new_session=True, **environment_and_place, **how)

    def run(self, words):
        """Runs tests in one process, prints their results and says with which status it ended."""
        self.report.unlink(missing_ok=True)
        limit = ["--timeout", str(TEST_LIMIT_SECONDS), "-v", "--tb=short", f"--junitxml={self.report}"]
        # pytest's own talk goes to the log.
        process = self.pytest([*limit, *words], stdout=sys.stderr)
        limit_of_all = ALONE_LIMIT_SECONDS if ALONE in words[-1] else None
        try:
            return process.wait(limit_of_all)
        except subprocess.TimeoutExpired:
            return None
        finally:
            stop_group(process)

    def run_many(self, words):
        status = self.run(words)
        if self.report.exists():
            print_results(self.report)
        # 0: all passed, 1: some failed. Anything else: it did not run to its end.
        if status not in (0, 1) or not self.report.exists():
            environment.fail(f"not ok pytest: ended with status {status}")

    def run_alone(self):
        collect = self.pytest(["--collect-only", "-q", f"{self.tests}/{ALONE}"], stdout=subprocess.PIPE)
        names = re.findall(re.escape(ALONE) + r"::(\S+)", collect.communicate()[0])
        if not names:
            environment.fail(f"not ok {ALONE}: no tests were found in it")
        for name in names:
            self.run_one_alone(name)

    def run_one_alone(self, name):
        for left in reversed(range(ALONE_REPEATS)):
            status = self.run([f"{self.tests}/{ALONE}::{name}"])
            if status != 1 or left == 0:
                break
            print(f"repeats {name}", flush=True)
        if self.report.exists():
            print_results(self.report)
        else:
            where = ALONE.removesuffix(".py") + "." + name.replace("::", ".")
            why = f"hangs: stopped after {ALONE_LIMIT_SECONDS} s" if status is None else f"status {status}"
            print(f"not ok {where}: {why}", flush=True)


def stop_group(process):
    """Stops a pytest and the servers that it left."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def main():
    print(f"version {environment.version()}", flush=True)
    # An end by signal must unwind, so that no server and no directory stays.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="zebu-kazoo-", ignore_cleanup_errors=True) as directory:
        words = sys.argv[1:]
        servers = 1
        if words[:1] == ["--servers"]:
            servers = int(words[1])
            words = words[2:]
        suite = Suite(pathlib.Path(directory), servers)
        if words:
            suite.run_many([*words, str(suite.tests)])
        elif environment.required("INTEROP_PART") == "full":
            suite.run_many([f"--ignore={suite.tests}/{ALONE}", str(suite.tests)])
            suite.run_alone()
        else:
            suite.run_many(quick_selection(suite.tests))


if __name__ == "__main__":
    main()
