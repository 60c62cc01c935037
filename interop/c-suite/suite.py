#!/usr/bin/env python3
"""The C client's own tests (CppUnit), unmodified, from ZooKeeper's source release.

The tests start their servers with two scripts, tests/zkServer.sh and $ZKROOT/bin/zkServer.sh; here the first is server.sh
beside this file and the second is ours, or one that starts Apache ZooKeeper. Each fixture has a process of its own, so
that an abort ends only its own tests. TLS and SASL are left out of the build.

    suite.py [FIXTURE…]    names replace the selection: suite.py Zookeeper_multi
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
QUICK = ["Zookeeper_multi", "Zookeeper_readOnly", "Zookeeper_clientretry"]
FIXTURE_LIMIT_SECONDS = 600
# The scripts of the tests name this port.
PORT = 22181
# A test may print between its name and its result.
RESULT = re.compile(r"^(\w+)::(\w+)(.*?) : (OK|assertion|error)", re.MULTILINE | re.DOTALL)
APACHE = """#!/bin/bash
# start|stop|status FILE, for Apache ZooKeeper.
config=$2
pid=$config.pid
port=$(sed -n 's/^clientPort=//p' "$config")
case $1 in
    start) java -cp "$C_SUITE_JARS" ${SERVER_JVMFLAGS:-} org.apache.zookeeper.server.quorum.QuorumPeerMain "$config" >>"$config.log" 2>&1 & echo $! >"$pid" ;;
    stop) kill -9 "$(cat "$pid")"; rm -f "$pid"; sleep 0.2 ;;
    status) (exec 3<>"/dev/tcp/127.0.0.1/$port" && printf srvr >&3 && cat <&3) 2>/dev/null || true ;;
esac
"""


def fail(line):
    print(line, flush=True)
    sys.exit(1)


def required(name):
    value = os.environ.get(name)
    if not value:
        fail(f"not ok start: {name} is not set; cargo xtask interop sets it")
    return value


def run_or_fail(command, what, **how):
    done = subprocess.run(command, capture_output=True, text=True, **how)
    if done.returncode != 0:
        print(done.stdout, done.stderr, file=sys.stderr)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "rror" in line]
        fail(f"{what}: {lines[0] if lines else 'no reason was given'}")


class Build:
    """The jars, the source and zktest, below INTEROP_CACHE; made again when the pom changes."""

    def __init__(self):
        self.root = pathlib.Path(required("INTEROP_CACHE")) / "c-suite"
        self.jars = self.root / "jars"
        stamp = self.root / "made-from.txt"
        made_from = (HERE / "pom.xml").read_text()
        if not stamp.exists() or stamp.read_text() != made_from:
            self.make()
            stamp.write_text(made_from)
        self.client = self.find_client()
        # A script of the release's name that calls ours, wherever the project is.
        script = self.client / "tests/zkServer.sh"
        script.write_text(f'#!/bin/sh\nexec "{HERE}/server.sh" "$@"\n')
        script.chmod(0o755)

    def find_client(self):
        return next(self.root.glob("parent-*")) / "zookeeper-client/zookeeper-client-c"

    def make(self):
        print(f"makes {self.root}", flush=True)
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        run_or_fail(["mvn", "--quiet", "--batch-mode", "--file", HERE / "pom.xml", "dependency:copy-dependencies",
                     f"-DoutputDirectory={self.jars}", "-DincludeScope=runtime"],
                    "unreachable Maven's repository, or a package in it")
        with zipfile.ZipFile(next(self.jars.glob("parent-*-source-release.zip"))) as release:
            release.extractall(self.root)
        client = self.find_client()
        (client / "generated").mkdir(exist_ok=True)
        records = client.parent.parent / "zookeeper-jute/src/main/resources/zookeeper.jute"
        run_or_fail(["java", "-cp", f"{self.jars}/*", "org.apache.jute.compiler.generated.Rcc", "-l", "c", records],
                    "not ok records", cwd=client / "generated")
        options = ["-DWANT_CPPUNIT=ON", "-DWITH_OPENSSL=OFF", "-DWITH_CYRUS_SASL=OFF", "-DCMAKE_BUILD_TYPE=Debug",
                   "-DCMAKE_C_FLAGS=-w", "-DCMAKE_CXX_FLAGS=-w"]
        run_or_fail(["cmake", "-S", client, "-B", self.root / "build", *options], "not ok configure")
        run_or_fail(["cmake", "--build", self.root / "build", "--target", "zktest"], "not ok compile")

    def fixtures(self):
        names = set()
        for file in (self.client / "tests").glob("*.cc"):
            names.update(re.findall(r"CPPUNIT_TEST_SUITE\((\w+)\)", file.read_text(encoding="utf-8", errors="replace")))
        # Both need a JAAS file and a server with SASL.
        return sorted(names - {"Zookeeper_SASLAuth"})

    def version(self):
        return next(self.root.glob("parent-*")).name.removeprefix("parent-")


class Suite:
    def __init__(self, build, work):
        self.build = build
        self.work = work
        root = work / "root"
        (root / "bin").mkdir(parents=True)
        script = root / "bin/zkServer.sh"
        if os.environ.get("INTEROP_PEER", "zebu") == "apache":
            script.write_text(APACHE)
            script.chmod(0o755)
        else:
            shutil.copy(PROJECT / "bin/zkServer.sh", script)
            (root / "bin/zebu").symlink_to(required("ZEBU"))
        self.environment = {**os.environ, "C_SUITE_WORK": str(work), "C_SUITE_JARS": f"{build.jars}/*",
                            "ZKROOT": str(root), "TMPDIR": str(work)}

    def run(self, fixture):
        process = subprocess.Popen([self.build.root / "build/zktest", fixture], cwd=self.build.client,
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", start_new_session=True)
        try:
            output = process.communicate(timeout=FIXTURE_LIMIT_SECONDS)[0]
        except subprocess.TimeoutExpired:
            output = ""
        finally:
            self.end(process)
        print(output, file=sys.stderr, flush=True)
        results = RESULT.findall(output)
        for place, test, _, word in results:
            name = f"{place}.{test}"
            if word == "OK":
                print(f"ok {name}", flush=True)
            else:
                found = re.search(rf"{test}\(?\)?.*?\n((?:.*\n){{0,4}})", output[output.rfind(f"Test name: {name}"):])
                reason = re.sub(r"\s+", " ", found[1] if found else "")[:300]
                print(f"not ok {name}: {word} {reason}", flush=True)
        if process.returncode not in (0, 1):
            print(f"not ok {fixture}.(process): ended with status {process.returncode}", flush=True)
        elif not results:
            print(f"skip {fixture}: it has no tests in this build", flush=True)

    def end(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        subprocess.run([HERE / "server.sh", "stop"], env=self.environment, check=False)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    build = Build()
    print(f"version ZooKeeper {build.version()}'s C client, its own tests", flush=True)
    with tempfile.TemporaryDirectory(prefix="zebu-c-", ignore_cleanup_errors=True) as directory:
        suite = Suite(build, pathlib.Path(directory))
        chosen = sys.argv[1:] or (build.fixtures() if required("INTEROP_PART") == "full" else QUICK)
        for fixture in chosen:
            suite.run(fixture)


if __name__ == "__main__":
    main()
