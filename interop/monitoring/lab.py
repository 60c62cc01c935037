"""Servers of Zebu with an exporter's port, and a Prometheus that scrapes them; all on loopback, ended with the lab."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from suite_program import fail, hold_ports, run_or_fail
from zookeeper_wire import four_letter_word

TOP = pathlib.Path(__file__).resolve().parents[2]
TIME_LIMIT = 60
SCRAPE_SECONDS = 0.5
EXPORTER = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
_held = []


def free_port():
    """A port that other test programs keep away from while this process lives."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        held = hold_ports([port])
        if held:
            _held.extend(held)
            return port
    fail("not ok start: no free port")


def eventually(holds, seconds=TIME_LIMIT):
    """Waits until `holds` returns something true, and returns it; the last value after the time."""
    end = time.monotonic() + seconds
    while True:
        value = holds()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.1)


class Member:
    """One server of an ensemble, or a standalone one."""

    def __init__(self, command, home, number):
        self.command, self.number = command, number
        self.home = home / str(number)
        self.data = self.home / "data"
        self.data.mkdir(parents=True)
        (self.data / "myid").write_text(f"{number}\n")
        self.config = self.home / "zoo.cfg"
        self.slow_sync = self.home / "slow-sync"
        self.client, self.secure, self.admin, self.exporter, self.quorum, self.election = (free_port() for _ in range(6))
        self.process = None
        self.environment = {}

    def address(self):
        return ("127.0.0.1", self.client)

    def server_line(self, role="participant"):
        return f"server.{self.number}=127.0.0.1:{self.quorum}:{self.election}:{role}"

    def start(self):
        log = open(self.home / "log", "ab")
        environment = {**os.environ, "ZEBU_SLOW_SYNC": str(self.slow_sync), **self.environment}
        self.process = subprocess.Popen([*self.command, str(self.config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        env=environment)

    def log(self):
        return (self.home / "log").read_text(errors="replace")

    def values(self):
        """`mntr` as a map; empty while the server does not answer."""
        try:
            answer = four_letter_word(self.address(), "mntr")
        except OSError:
            return {}
        return dict(line.split("\t", 1) for line in answer.splitlines() if "\t" in line)

    def state(self):
        return self.values().get("zk_server_state")

    def send(self, number):
        self.process.send_signal(number)

    def stop(self, number=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.wait(TIME_LIMIT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None


def leader_and_followers(members):
    """Waits for an ensemble in which all of these serve."""
    def roles():
        if any(member.process and member.process.poll() is not None for member in members):
            return "ended"
        states = {member: member.state() for member in members}
        leaders = [member for member, state in states.items() if state == "leader"]
        if len(leaders) == 1 and all(state in ("leader", "follower", "observer") for state in states.values()):
            return leaders[0], [member for member in members if member is not leaders[0]]
        return None
    found = eventually(roles)
    if not found or found == "ended":
        logs = "\n".join(member.log()[-1500:] for member in members)
        fail(f"not ok start: no ensemble of {len(members)} servers; {logs!r}")
    return found


def slow_sync_library(home):
    """The library of the tests that makes fsync slow."""
    library = home / "slow_sync.so"
    source = TOP / "crates/cli/tests/common/slow_sync.c"
    run_or_fail(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], "not ok start")
    return library


class Prometheus:
    """A Prometheus of its own, with Zebu's alert rules."""

    def __init__(self, home, members):
        self.home = home / "prometheus"
        self.home.mkdir()
        self.port = free_port()
        self.process = None
        targets = ", ".join(f"'127.0.0.1:{member.exporter}'" for member in members)
        (self.home / "prometheus.yml").write_text(
            f"global:\n  scrape_interval: {int(SCRAPE_SECONDS * 1000)}ms\n  scrape_timeout: {int(SCRAPE_SECONDS * 1000)}ms\n"
            f"  evaluation_interval: 1s\n"
            f"rule_files: ['{TOP}/packaging/monitoring/zebu-alerts.yml']\n"
            f"scrape_configs:\n  - job_name: zebu\n    static_configs:\n      - targets: [{targets}]\n"
        )

    def start(self):
        log = open(self.home / "log", "ab")
        command = ["prometheus", f"--config.file={self.home}/prometheus.yml", f"--storage.tsdb.path={self.home}/data",
                   f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(TIME_LIMIT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def get(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=TIME_LIMIT) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expression):
        """The vector of an expression: pairs of labels and value."""
        result = self.get("query", query=expression)["result"]
        return [(series["metric"], float(series["value"][1])) for series in result]

    def await_scrapes(self, count):
        """Waits until Prometheus has this many servers up."""
        def are_up():
            try:
                return len([1 for _, value in self.query("up") if value == 1]) >= count
            except OSError:
                return False
        if not eventually(are_up):
            fail(f"not ok start: Prometheus does not scrape {count} servers; {(self.home / 'log').read_text()[-800:]!r}")

    def await_next_scrape(self):
        """Returns a time after which nothing was scraped yet, once a scrape before it has arrived."""
        begin = time.time()
        eventually(lambda: self.query(f"timestamp(up) > {begin:.3f}"))
        return time.time()
