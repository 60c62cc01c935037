#!/usr/bin/env python3
"""A real Prometheus scrapes three servers and one that stands alone. Each step does something to them and looks, by
Prometheus' query API, whether the metrics of families.toml move. promtool checks the text, the rules and their tests.

Names of steps as arguments run these only."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import zookeeper_wire as wire
from lab import EXPORTER, TIME_LIMIT, TOP, Member, Prometheus, eventually, leader_and_followers, slow_sync_library
from suite_program import fail, required, run_or_fail

SUPER_DIGEST = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="
# promtool prefers other names; these are ZooKeeper's, and dashboards know them.
LINTS_OF_NAMES = ("should have \"_total\" suffix", "should not have \"_count\" suffix", "abbreviated units",
                  "should not include type", "use base unit \"seconds\" instead of \"days\"")
MOVEMENTS = {
    "rises": "({0} > {0} @ {1}) or ({0} unless {0} @ {1})",
    "falls": "{0} < {0} @ {1}",
    "changes": "({0} != {0} @ {1}) or ({0} unless {0} @ {1})",
    "positive": "{0} > 0",
    "present": "{0}",
}
MOVEMENT_SECONDS = 30
# Longer than the suite.
SESSION_MS = 900_000


def check(name, problem=None):
    print(f"ok {name}" if not problem else f"not ok {name}: {problem}", flush=True)


class Lab:
    """The servers, the Prometheus, and the connections that steps leave open."""

    def __init__(self, home, zebu):
        self.home, self.zebu = home, zebu
        self.library = slow_sync_library(home)
        run_or_fail([zebu, "cert", "server", "localhost", "127.0.0.1"], "not ok start", cwd=home)
        self.members = [self.member(number) for number in (1, 2, 3)]
        self.observer, self.without_vote, self.single = (self.member(number) for number in (4, 5, 6))
        self.prometheus = Prometheus(home, [*self.members, self.observer, self.without_vote, self.single])
        self.open = []
        # The time before each step, for Prometheus.
        self.begun = {}

    def member(self, number):
        member = Member([self.zebu, "serve"], self.home, number)
        member.environment = {"LD_PRELOAD": str(self.library)}
        return member

    def configure(self):
        voters = [member.server_line() for member in self.members]
        observer = self.observer.server_line("observer")
        for member in self.members:
            self.write(member, [*voters, observer])
        self.write(self.observer, [*voters, observer, "peerType=observer"])
        self.write(self.without_vote, [*voters, observer, self.without_vote.server_line()])
        self.write(self.single, [
            "netty.server.outstandingHandshake.limit=2", "maxClientCnxns=12", "nio.sessionlessCnxnTimeout=500",
            "connection_throttle_tokens=8", "connection_throttle_fill_time=10000", "connection_throttle_fill_count=1",
            "connection_throttle_freeze_time=1", "connection_throttle_drop_increase=0.2",
            "authProvider.2=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider", "ensembleAuthName=east",
        ])

    def write(self, member, lines):
        stores = self.home / "zebu-certs"
        member.config.write_text("\n".join([
            "tickTime=200", "initLimit=100", "syncLimit=50", f"dataDir={member.data}", f"maxSessionTimeout={SESSION_MS}",
            f"clientPort={member.client}", "clientPortAddress=127.0.0.1",
            f"secureClientPort={member.secure}", "secureClientPortAddress=127.0.0.1",
            f"ssl.keyStore.location={stores}/server.pem", f"ssl.trustStore.location={stores}/ca.pem", "ssl.clientAuth=none",
            f"admin.serverPort={member.admin}", "admin.rateLimiterIntervalInMS=0", "4lw.commands.whitelist=*",
            f"DigestAuthenticationProvider.superDigest={SUPER_DIGEST}",
            f"metricsProvider.className={EXPORTER}", "metricsProvider.httpHost=127.0.0.1",
            f"metricsProvider.httpPort={member.exporter}", "fsync.warningthresholdms=100", "globalOutstandingLimit=60",
            "localSessionsEnabled=true", "localSessionsUpgradingEnabled=true", *lines, "",
        ]))

    def stop(self):
        for client in self.open:
            client.drop() if isinstance(client, wire.Client) else client.close()
        self.prometheus.stop()
        for member in [*self.members, self.observer, self.without_vote, self.single]:
            member.stop()

    def client(self, member):
        """A connection that stays open until the end; its session would live as long without a ping."""
        client = wire.Client(member.address(), timeout_ms=SESSION_MS)
        self.open.append(client)
        return client

    def global_client(self, member, path, timeout_ms=SESSION_MS):
        """A session with an ephemeral node, which the whole ensemble knows."""
        client = wire.Client(member.address(), timeout_ms=timeout_ms)
        client.call(wire.CREATE, wire.create(path, b"", ephemeral=True))
        return client

    def roles(self):
        return leader_and_followers(self.members)


# The steps. What stands before `yield` happens first; then the metrics are looked at; the rest ends the step.

def start(lab):
    yield


def load(lab):
    leader, followers = lab.roles()
    writer = lab.client(followers[0])
    writer.call(wire.CREATE, wire.create("/app", b"data"))
    watcher = lab.client(followers[0])
    for server in (leader, followers[1]):
        lab.client(server)
    writer.call(wire.CREATE, wire.create("/app/ephemeral", b"", ephemeral=True))
    lab.leaving = lab.global_client(followers[1], "/app/leaves")
    watcher.call(wire.LIST, wire.read("/app", watch=True))
    watcher.send(wire.EXISTS, wire.read("/app/later", watch=True))
    watcher.answer()
    writer.call(wire.CREATE, wire.create("/app/later", b"x" * 500))
    watcher.call(wire.GET, wire.read("/app/later", watch=True))
    writer.call(wire.SET, wire.write("/app/later", b"x" * 700))
    watcher.call(wire.GET, wire.read("/app/later", watch=True))
    writer.call(wire.DELETE, wire.delete("/app/later"))
    for number in range(50):
        writer.call(wire.CREATE, wire.create(f"/app/node-{number}", b"x" * 100))
        watcher.call(wire.GET, wire.read(f"/app/node-{number}", watch=True))
    yield


def flood(client, end, failures):
    """Writes, reads behind them and syncs, twenty at a time, until the step is over."""
    try:
        while not end.is_set():
            for number in range(20):
                client.send(wire.SET, wire.write(f"/app/node-{number}", b"y" * 100))
            client.send(wire.GET, wire.read("/app"))
            client.send(9, wire.text("/app"))
            for _ in range(22):
                client.answer()
    except (OSError, wire.Refused) as error:
        failures.append(error)


def slow_disk(lab):
    leader, followers = lab.roles()
    for member in lab.members:
        member.slow_sync.write_text("150\n")
    end, failures = threading.Event(), []
    clients = [wire.Client(server.address()) for server in (leader, *followers) for _ in range(3)]
    writers = [threading.Thread(target=flood, args=(client, end, failures)) for client in clients]
    for writer in writers:
        writer.start()
    yield
    end.set()
    for writer in writers:
        writer.join()
    for client in clients:
        client.close()
    if failures:
        check("clients are served while the disk is slow", str(failures[0]))


def slow_minimum(lab):
    # The session begins first: only writes with a slow fsync follow the reset.
    leader, _ = lab.roles()
    client = lab.client(leader)
    wire.four_letter_word(leader.address(), "srst")
    client.call(wire.SET, wire.write("/app", b"slow"))
    yield
    for member in lab.members:
        member.slow_sync.unlink()


def expired_sessions(lab):
    _, followers = lab.roles()
    for number in range(3):
        lab.global_client(followers[0], f"/app/expires-{number}", timeout_ms=400).drop()
    lab.leaving.close()
    yield


def moved_session(lab):
    _, followers = lab.roles()
    client = lab.global_client(followers[0], "/app/moves")
    client.drop()
    moved = wire.Client(followers[1].address(), session=client.session)
    yield
    moved.close()


def refused(lab):
    address = lab.single.address()
    client = wire.Client(address)
    for name in (b"east", b""):
        client.authenticate("ensemble", name)
    for scheme, data in (("nonsense", b"x"), ("ensemble", b"north")):
        other = wire.Client(address)
        try:
            other.authenticate(scheme, data)
        except wire.Refused:
            pass
        other.drop()
    client.socket.sendall(b"\x7f\xff\xff\xff and more")
    # Silent ones: each is closed without a session, and more than maxClientCnxns are refused.
    silent = [socket.create_connection(address) for _ in range(20)]
    eventually(lambda: lab.prometheus.query("sessionless_connections_expired > 0"), 10)
    for connection in silent:
        connection.close()
    secure = ("127.0.0.1", lab.single.secure)
    with socket.create_connection(secure) as bad:
        bad.sendall(b"no TLS at all\n")
        try:
            bad.recv(100)
        except OSError:
            pass
    waiting = [socket.create_connection(secure) for _ in range(4)]
    yield
    for connection in waiting:
        connection.close()


def throttled_connects(lab):
    for _ in range(60):
        try:
            wire.Client(lab.single.address()).close()
        except (wire.Refused, OSError):
            pass
    yield


def multi(operations):
    """The body of a multi with these creates."""
    header = struct.Struct(">ibi")
    return b"".join(header.pack(wire.CREATE, 0, -1) + operation for operation in operations) + header.pack(-1, 1, -1)


def large_transaction(lab):
    leader, _ = lab.roles()
    clients = [lab.client(leader) for _ in range(4)]
    for turn in range(3):
        for number, client in enumerate(clients):
            client.send(14, multi([wire.create(f"/app/many-{turn}-{number}-{node}") for node in range(6000)]))
        for client in clients:
            code, _ = client.answer()
            if code != 0:
                check("a large transaction is carried out", f"error {code}")
    yield


def snapshot(lab):
    leader, _ = lab.roles()
    leader.slow_sync.write_text("50\n")
    request = urllib.request.Request(f"http://127.0.0.1:{leader.admin}/commands/snapshot?streaming=false",
                                     headers={"Authorization": "digest super:secret"})
    urllib.request.urlopen(request, timeout=TIME_LIMIT).read()
    leader.slow_sync.unlink()
    yield


def stopped_follower(lab):
    leader, followers = lab.roles()
    client = lab.client(leader)
    followers[0].send(signal.SIGSTOP)
    for number in range(16):
        client.send(wire.CREATE, wire.create(f"/app/large-{number}", b"z" * 900_000))
    for _ in range(16):
        client.answer()
    yield


def continued_follower(lab):
    for member in lab.members:
        member.send(signal.SIGCONT)
    lab.roles()
    yield


def observer(lab):
    lab.observer.start()
    leader_and_followers([*lab.members, lab.observer])
    yield


def follower_without_vote(lab):
    lab.without_vote.start()
    leader_and_followers([*lab.members, lab.without_vote])
    yield
    lab.without_vote.stop()
    lab.observer.stop()


def election(lab):
    lab.old_leader, followers = lab.roles()
    lab.old_leader.stop(signal.SIGKILL)
    leader_and_followers(followers)
    wire.Client(followers[0].address()).close()
    yield
    answer = lab.prometheus.query(f'up{{instance="127.0.0.1:{lab.old_leader.exporter}"}} == 0')
    check("Prometheus sees the killed server", None if answer else "up is not 0")
    alerts = eventually(lambda: [alert for alert in lab.prometheus.get("alerts")["alerts"]
                                 if alert["labels"]["alertname"] == "ZebuServerDown"], 10)
    check("the rule ZebuServerDown waits for its minute", None if alerts else "no such alert")


def restarted_server(lab):
    lab.old_leader.start()
    lab.roles()
    yield


def run_step(lab, step):
    """One step and its checks."""
    lab.begun[step["name"]] = f"{lab.prometheus.await_next_scrape():.3f}"
    before = lab.begun.get(step.get("since", step["name"]))
    if before is None:
        fail(f"not ok {step['name']}: it needs the step {step['since']} before it")
    actions = globals()[step["name"]](lab)
    next(actions)
    expected = [(kind, name) for kind in MOVEMENTS for name in step.get(kind, ())]

    # Each that has moved once is done: a gauge may go back before the last one has moved.
    left, end = expected, time.monotonic() + MOVEMENT_SECONDS
    while left and time.monotonic() < end:
        left = [(kind, name) for kind, name in left if not lab.prometheus.query(MOVEMENTS[kind].format(name, before))]
        if left:
            time.sleep(0.2)
    for kind, name in expected:
        check(f"{step['name']}: {name} {kind}", "it did not" if (kind, name) in left else None)
    next(actions, None)


def check_table(families, steps):
    """Each name of the dashboard and of the rules has its place, and docs/metrics.md gives the reasons for the zeros."""
    moving = {name for step in steps for kind in MOVEMENTS for name in step.get(kind, ())}
    known = moving | set(families["always_zero"]) | set(families["moved_by_tests"])
    names = set(families["dashboard"]) | set(families["alert_rules"])
    lost = sorted(name for name in names - known if not name.startswith(families["absent_prefix"]))
    check("every name of the dashboard moves or has a reason", ", ".join(lost))
    check("the dashboard has 132 names", None if len(set(families["dashboard"])) == 132 else str(len(set(families["dashboard"]))))
    page = (TOP / "docs/metrics.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z_]+)` \|.*\| ([^|]*) \|$", page, re.MULTILINE))
    family = lambda name: name if name in rows else re.sub(r"_(sum|count)$", "", name)
    without = [name for name in families["always_zero"] if not rows.get(family(name), "").startswith("Always 0. ")]
    check("docs/metrics.md has the reason of each zero", ", ".join(without))
    for name, test in families["moved_by_tests"].items():
        check(f"{test} moves {name}", None if name in (TOP / test).read_text() else "the test does not name it")


def check_series(lab, families):
    """Every name has a series, and the zeros are zeros."""
    for name in [*families["dashboard"], *families["alert_rules"]]:
        found = lab.prometheus.query(f"count({{__name__=\"{name}\"}})")
        if name.startswith(families["absent_prefix"]):
            check(f"{name} is not made up", "there is a series" if found else None)
        elif not found:
            check(f"{name} has a series", "there is none")
    for name in families["always_zero"]:
        # A set without keys has no sample, and so no value but 0.
        found = lab.prometheus.query(f"{name} != 0")
        check(f"{name} is 0", f"{found}" if found else None)


def check_panels(lab):
    """Every expression of Zebu's own dashboard and rules is understood by Prometheus, and those of the dashboard have data."""
    text = (TOP / "packaging/monitoring/zebu-dashboard.json").read_text()
    empty = []
    for expression in sorted(set(expressions(json.loads(text)))):
        expression = re.sub(r"\$\w+", ".*", expression.replace("$__rate_interval", "1m").replace("$__interval", "1m"))
        if not lab.prometheus.query(expression):
            empty.append(expression)
    check("every panel of Zebu's dashboard has data", "; ".join(empty))
    rules = [rule for group in lab.prometheus.get("rules")["groups"] for rule in group["rules"]]
    sick = [f"{rule['name']}: {rule.get('lastError')}" for rule in rules if rule["health"] == "err"]
    check("Prometheus evaluates every rule", "; ".join(sick) if sick or not rules else None)


def expressions(value):
    if isinstance(value, dict):
        if isinstance(value.get("expr"), str):
            yield value["expr"]
        for inner in value.values():
            yield from expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)


def check_exposition(lab):
    for member in (*lab.members, lab.single):
        with urllib.request.urlopen(f"http://127.0.0.1:{member.exporter}/metrics", timeout=TIME_LIMIT) as answer:
            text = answer.read()
        lint = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=TIME_LIMIT)
        lines = (lint.stdout + lint.stderr).decode().splitlines()
        other = [line for line in lines if not any(known in line for known in LINTS_OF_NAMES)]
        # 3 says that there are lints; 1 is a text that cannot be parsed.
        check(f"promtool reads /metrics of server {member.number}",
              "; ".join(other[:3]) if other or lint.returncode not in (0, 3) else None)


def check_rules():
    rules = TOP / "packaging/monitoring"
    for words in (["check", "rules", "zebu-alerts.yml"], ["test", "rules", "zebu-alerts-test.yml"]):
        done = subprocess.run(["promtool", *words], cwd=rules, capture_output=True, text=True, timeout=TIME_LIMIT)
        check(f"promtool {' '.join(words)}", done.stderr[-300:].replace("\n", " ") if done.returncode else None)


def main():
    if os.environ.get("INTEROP_PEER") == "apache":
        print("skip prometheus: the steps and the slow disk are Zebu's")
        print("ok Apache is not measured")
        return
    missing = [tool for tool in ("prometheus", "promtool", "cc") if not shutil.which(tool)]
    if missing:
        fail(f"not ok start: {', '.join(missing)} is missing (Debian: prometheus, gcc)")
    told = subprocess.run(["prometheus", "--version"], capture_output=True, text=True)
    print("version Prometheus", (told.stdout + told.stderr).split()[2], flush=True)
    families = tomllib.loads((pathlib.Path(__file__).resolve().parent / "families.toml").read_text())
    part = os.environ.get("INTEROP_PART", "quick")
    steps = [step for step in families["step"] if part == "full" or step.get("part") != "full"]
    if sys.argv[1:]:
        steps = [step for step in families["step"] if step["name"] in sys.argv[1:]]
    check_table(families, families["step"])
    check_rules()
    with tempfile.TemporaryDirectory() as home:
        lab = Lab(pathlib.Path(home), required("ZEBU"))
        lab.configure()
        try:
            lab.prometheus.start()
            for member in [*lab.members, lab.single]:
                member.start()
            lab.roles()
            lab.prometheus.await_scrapes(4)
            for step in steps:
                begin = time.monotonic()
                run_step(lab, step)
                print(f"{step['name']}: {time.monotonic() - begin:.1f} s", flush=True)
            check_series(lab, families)
            check_panels(lab)
            check_exposition(lab)
        finally:
            lab.stop()


if __name__ == "__main__":
    main()
