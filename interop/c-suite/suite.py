#!/usr/bin/env python3
"""The C client's own tests (CppUnit), unmodified, from ZooKeeper's source release.

The tests start their servers with two scripts, tests/zkServer.sh and $ZKROOT/bin/zkServer.sh; here the first is server.sh
beside this file and the second is ours, or one that starts Apache ZooKeeper. Each fixture has a process of its own, so
that an abort ends only its own tests. A fixture with a failed test is repeated up to twice. The client has OpenSSL and
Cyrus SASL; its key stores are those of its own script gencerts.sh.

    suite.py [FIXTURE…]    names replace the selection: suite.py Zookeeper_multi Zookeeper_SASLAuth::testClientSASL
"""

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

from source_release import SourceRelease  # noqa: E402
from suite_program import fail, hold_ports, required, run_or_fail  # noqa: E402

PROJECT = HERE.parent.parent
OPTIONS = HERE / "cmake-options.txt"
# Of fixtures with many restarts only some tests.
QUICK = ["Zookeeper_multi", "Zookeeper_readOnly", "Zookeeper_clientretry", "Zookeeper_SASLAuth::testServerRequireClientSASL",
         "Zookeeper_SASLAuth::testClientSASL", "Zookeeper_simpleSystem::testSSL"]
# The place where the tests look for certificates.
CERTIFICATES = pathlib.Path("/tmp/certs")
FIXTURE_LIMIT_SECONDS = 600
# An ensemble has ten seconds to start. The watcher of testHangingClient does not expect ZINVALIDSTATE, which the client returns
# if the handle is closed at that moment: 3 of 25 runs with Apache, 2 of 25 with Zebu, on a busy machine.
REPEATS = 2
# Its testcycleNextServer fails in four of ten runs, without a server: it expects that a server chosen among ten hosts at random
# is none of four of them.
REPEATS_BY_CHANCE = {"Zookeeper_reconfig": 12}
# The ports in server.sh; the tests name the first one.
PORTS = [22181, 22281, 22881, 22882, 22883, 23881, 23882, 23883]
# A test may print between its name and its result.
RESULT = re.compile(r"^(\w+)::(\w+)(.*?) : (OK|assertion|error)", re.MULTILINE | re.DOTALL)
APACHE = """#!/bin/bash
# start|stop|status FILE, for Apache ZooKeeper, which moves the client's port out of the file.
config=$2
pid=$config.pid
port=$(sed -n 's/^clientPort=//p' "$config")
[ -z "$port" ] || echo "$port" >"$config.port"
port=$(cat "$config.port")
case $1 in
    start) java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$C_SUITE_JARS" "-Dlogback.configurationFile=$C_SUITE_LOGGING" ${SERVER_JVMFLAGS:-} org.apache.zookeeper.server.quorum.QuorumPeerMain "$config" >>"$config.log" 2>&1 & echo $! >"$pid" ;;
    stop) kill -9 "$(cat "$pid")"; rm -f "$pid"; sleep 0.2 ;;
    status) timeout 2 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0" && printf srvr >&3 && cat <&3' "$port" 2>/dev/null || true ;;
esac
"""


class Build(SourceRelease):
    """ZooKeeper's source release and the program zktest."""

    def __init__(self):
        super().__init__("c-suite", HERE / "pom.xml", "parent", [OPTIONS])
        # A script of the release's name that calls ours, wherever the project is.
        script = self.client / "tests/zkServer.sh"
        script.write_text(f'#!/bin/sh\nexec "{HERE}/server.sh" "$@"\n')
        script.chmod(0o755)

    @property
    def client(self):
        return self.source / "zookeeper-client/zookeeper-client-c"

    def build(self):
        (self.client / "generated").mkdir(exist_ok=True)
        records = self.source / "zookeeper-jute/src/main/resources/zookeeper.jute"
        run_or_fail(["java", "-cp", f"{self.jars}/*", "org.apache.jute.compiler.generated.Rcc", "-l", "c", records],
                    "not ok records", cwd=self.client / "generated")
        certificates = self.root / "certificates"
        certificates.mkdir()
        # Its name is in no certificate check of these tests.
        run_or_fail(["bash", self.client / "ssl/gencerts.sh", "tests.zookeeper.apache.org"], "not ok certificates",
                    cwd=certificates)
        for header, package in (("openssl/ssl.h", "libssl-dev"), ("sasl/sasl.h", "libsasl2-dev")):
            if not (pathlib.Path("/usr/include") / header).exists():
                fail(f"not ok configure: {header} is missing; install {package}")
        options = OPTIONS.read_text().split()
        run_or_fail(["cmake", "-S", self.client, "-B", self.root / "build", *options], "not ok configure")
        run_or_fail(["cmake", "--build", self.root / "build", "--target", "zktest"], "not ok compile")

    def fixtures(self):
        names = set()
        for file in (self.client / "tests").glob("*.cc"):
            names.update(re.findall(r"CPPUNIT_TEST_SUITE\((\w+)\)", file.read_text(encoding="utf-8", errors="replace")))
        return sorted(names)


class Certificates:
    """The client's certificates at the place that is written in the tests."""

    def __init__(self, made):
        self.made = made

    def __enter__(self):
        # A link that an earlier run left behind leads to certificates of this suite.
        if CERTIFICATES.is_symlink() and CERTIFICATES.readlink().name == self.made.name:
            CERTIFICATES.unlink()
        try:
            CERTIFICATES.symlink_to(self.made)
        except FileExistsError:
            fail(f"not ok start: {CERTIFICATES} exists; the tests want their own certificates there")

    def __exit__(self, *_):
        CERTIFICATES.unlink(missing_ok=True)


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
        self.environment = {**os.environ, "C_SUITE_WORK": str(work), "C_SUITE_CERTS": str(build.root / "certificates"), "C_SUITE_JARS": f"{build.jars}/*",
                            "C_SUITE_LOGGING": str(HERE.parent / "java/logback.xml"), "ZKROOT": str(root),
                            "TMPDIR": str(work)}

    def run(self, fixture):
        """Prints the results of a fixture; one with a failure runs again, and the later result of a test counts."""
        results = self.run_once(fixture)
        for _ in range(REPEATS_BY_CHANCE.get(fixture, REPEATS)):
            failed = [name for name, (word, _) in results.items() if word == "not ok"]
            if not failed:
                break
            print(f"repeats {fixture}: {' '.join(failed)}", flush=True)
            results.pop(f"{fixture}.(process)", None)
            results.update(self.run_once(fixture))
        for name, (word, reason) in results.items():
            print(f"{word} {name}: {reason}" if reason else f"{word} {name}", flush=True)

    def run_once(self, fixture):
        """Test -> (word, reason)."""
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
        results = {}
        for place, test, _, word in RESULT.findall(output):
            name = f"{place}.{test}"
            found = re.search(rf"{test}\(?\)?.*?\n((?:.*\n){{0,4}})", output[output.rfind(f"Test name: {name}"):])
            reason = re.sub(r"\s+", " ", found[1] if found else "")[:300]
            results[name] = ("ok", "") if word == "OK" else ("not ok", f"{word} {reason}")
        if process.returncode not in (0, 1):
            results[f"{fixture}.(process)"] = ("not ok", f"ended with status {process.returncode}")
        elif not results:
            results[fixture] = ("skip", "it has no tests in this build")
        return results

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
    held = hold_ports(PORTS)
    if not held:
        fail(f"not ok start: another test program uses one of the ports {PORTS}")
    print(f"version ZooKeeper {build.version()}'s C client, its own tests", flush=True)
    with (tempfile.TemporaryDirectory(prefix="zebu-c-", ignore_cleanup_errors=True) as directory,
          Certificates(build.root / "certificates")):
        suite = Suite(build, pathlib.Path(directory))
        chosen = sys.argv[1:] or (build.fixtures() if required("INTEROP_PART") == "full" else QUICK)
        for fixture in chosen:
            suite.run(fixture)


if __name__ == "__main__":
    main()
