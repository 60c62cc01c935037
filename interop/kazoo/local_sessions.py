#!/usr/bin/env python3
"""Local sessions as kazoo sees them: local_sessions.py

Starts three servers with localSessionsEnabled, once with localSessionsUpgradingEnabled and once without, and uses them
with the unmodified client. The same is wanted from Zebu and from Apache ZooKeeper. One line per check, as
interop/README.md says."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import environment

try:
    from kazoo.client import KazooClient, KazooState
    from kazoo.exceptions import KazooException, RolledBackError
except ImportError:
    interpreter = environment.python()
    os.execv(interpreter, [interpreter, __file__, *sys.argv[1:]])

SERVERS = (1, 2, 3)
PATIENCE = 30.0
EPHEMERAL_ON_LOCAL_SESSION = -120


class Wrong(Exception):
    """A result that a correct server would not have given."""


def equal(what, actual, expected):
    if actual != expected:
        raise Wrong(f"{what}: {actual!r} instead of {expected!r}")


def eventually(what, look, expected):
    deadline = time.monotonic() + PATIENCE
    while (seen := look()) != expected:
        if time.monotonic() > deadline:
            raise Wrong(f"{what}: {seen!r} instead of {expected!r}")
        time.sleep(0.05)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Ensemble:
    def __init__(self, upgrading):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="local-sessions-"))
        ports = free_ports(9)
        self.ports = dict(zip(SERVERS, ports))
        peers = "".join(f"server.{one}=127.0.0.1:{ports[2 + one]}:{ports[5 + one]}\n" for one in SERVERS)
        self.processes = []
        for one in SERVERS:
            home = self.directory / str(one)
            (home / "data").mkdir(parents=True)
            (home / "data" / "myid").write_text(f"{one}\n")
            (home / "zoo.cfg").write_text(
                f"tickTime=500\ninitLimit=40\nsyncLimit=20\ndataDir={home / 'data'}\nclientPort={self.ports[one]}\n"
                f"clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n"
                f"4lw.commands.whitelist=*\nlocalSessionsEnabled=true\n"
                f"localSessionsUpgradingEnabled={upgrading}\n{peers}"
            )
            log = (home / "log").open("ab")
            self.processes.append(subprocess.Popen(command(home / "zoo.cfg"), stdout=log, stderr=log))
        eventually("servers", lambda: sorted(map(self.mode, SERVERS)), ["follower", "follower", "leader"])
        first = self.client(1)
        first.create("/begun")
        first.stop()

    def ask(self, one, word):
        with socket.create_connection(("127.0.0.1", self.ports[one]), timeout=5) as connection:
            connection.sendall(word)
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def mode(self, one):
        try:
            text = self.ask(one, b"srvr")
        except OSError:
            return ""
        return next((line[6:] for line in text.splitlines() if line.startswith("Mode: ")), "")

    def zxids(self):
        texts = [self.ask(one, b"srvr") for one in SERVERS]
        return [line for text in texts for line in text.splitlines() if line.startswith("Zxid: ")]

    def counts(self, one):
        lines = dict(line.split("\t", 1) for line in self.ask(one, b"mntr").splitlines() if "\t" in line)
        return int(lines["zk_local_sessions"]), int(lines["zk_global_sessions"])

    def client(self, *members, timeout=10.0, client_id=None):
        hosts = ",".join(f"127.0.0.1:{self.ports[one]}" for one in members)
        client = KazooClient(hosts=hosts, timeout=timeout, client_id=client_id)
        client.states = []
        client.add_listener(client.states.append)
        client.start(timeout=PATIENCE)
        return client

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def command(config):
    if os.environ.get("INTEROP_PEER") == "apache":
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return ["java", "-Xmx256m", "-cp", environment.required("ZOOKEEPER_CLASSPATH"), main, str(config)]
    return [environment.required("ZEBU"), "serve", str(config)]


def cut(client):
    """The connection breaks; the client comes back by itself."""
    back = threading.Event()
    client.add_listener(lambda state: back.set() if state == KazooState.CONNECTED else None)
    client._connection._socket.shutdown(socket.SHUT_RDWR)
    if not back.wait(PATIENCE):
        raise Wrong("the client never came back")


def unseen(ensemble):
    """Sessions that only read leave no trace."""
    # A quorum has the first transactions; the third server may come later.
    eventually("servers with the same state", lambda: len(set(ensemble.zxids())), 1)
    before = ensemble.zxids()
    clients = [ensemble.client(one) for one in SERVERS for _ in range(5)]
    for client in clients:
        equal("what is there", client.exists("/begun") is not None, True)
    equal("counts", [ensemble.counts(one) for one in SERVERS], [(5, 0)] * 3)
    for client in clients:
        client.stop()
    eventually("counts", lambda: [ensemble.counts(one) for one in SERVERS], [(0, 0)] * 3)
    equal("transactions", ensemble.zxids(), before)


def comes_back(ensemble):
    """A lost connection costs nothing at the same server."""
    for one in SERVERS:
        client = ensemble.client(one)
        kept = client.client_id[0]
        client.create(f"/back-{one}", b"1")
        changed = threading.Event()
        client.get(f"/back-{one}", watch=lambda event: changed.set())
        cut(client)
        equal("session", client.client_id[0], kept)
        client.set(f"/back-{one}", b"2")
        equal("watch", changed.wait(PATIENCE), True)
        equal("states", KazooState.LOST in client.states, False)
        client.stop()


def expires_elsewhere(ensemble):
    """Another server does not know it: kazoo hears that it is lost and begins a new one."""
    client = ensemble.client(1)
    moved = ensemble.client(2, client_id=client.client_id)
    equal("session", moved.client_id[0] == client.client_id[0], False)
    client.create("/at-home")
    moved.stop()
    client.stop()


def upgrades(ensemble):
    """With an ephemeral node it is everybody's."""
    for one in SERVERS:
        client = ensemble.client(one)
        kept, path = client.client_id, f"/mine-{one}"
        client.create(path, ephemeral=True)
        equal("owner", client.exists(path).ephemeralOwner, kept[0])
        eventually("counts", lambda: [ensemble.counts(each)[1] for each in SERVERS], [1] * 3)
        moved = ensemble.client(one % 3 + 1, client_id=kept)
        equal("session", moved.client_id[0], kept[0])
        moved.set(path, b"moved")
        moved.stop()
        other = ensemble.client(one)
        eventually("node", lambda: other.exists(path), None)
        other.stop()
        client.stop()


def upgrades_in_transaction(ensemble):
    client = ensemble.client(1)
    transaction = client.transaction()
    transaction.create("/transaction", b"")
    transaction.create("/transaction/mine", b"", ephemeral=True)
    equal("results", transaction.commit(), ["/transaction", "/transaction/mine"])
    equal("counts", ensemble.counts(1), (0, 1))
    client.stop()


def locks(ensemble):
    """A recipe that needs ephemeral nodes, at two servers."""
    first, second = ensemble.client(1), ensemble.client(2)
    one, other = first.Lock("/lock", "one"), second.Lock("/lock", "other")
    equal("first", one.acquire(timeout=PATIENCE), True)
    equal("second", other.acquire(blocking=False), False)
    first.stop()
    equal("after the first has gone", other.acquire(timeout=PATIENCE), True)
    other.release()
    second.stop()


def refuses(ensemble):
    """Without upgrading there are no ephemeral nodes, and the session goes on."""
    for one in SERVERS:
        client = ensemble.client(one)
        try:
            client.create("/refused", ephemeral=True)
            raise Wrong("an ephemeral node was made")
        except KazooException as refusal:
            equal("code", getattr(refusal, "code", refusal), EPHEMERAL_ON_LOCAL_SESSION)
        transaction = client.transaction()
        transaction.create("/undone", b"")
        transaction.create("/undone/mine", b"", ephemeral=True)
        results = transaction.commit()
        equal("rolled back", isinstance(results[0], RolledBackError), True)
        equal("refused", isinstance(results[1], Exception), True)
        client.create(f"/goes-on-{one}")
        equal("counts", ensemble.counts(one), (1, 0))
        client.stop()


CHECKS = {
    "true": (unseen, comes_back, expires_elsewhere, upgrades, upgrades_in_transaction, locks),
    "false": (unseen, comes_back, expires_elsewhere, refuses),
}


def main():
    print(f"version {environment.version()}", flush=True)
    for upgrading, checks in CHECKS.items():
        ensemble = Ensemble(upgrading)
        try:
            for check in checks:
                name = f"upgrading {upgrading} {check.__name__}"
                try:
                    check(ensemble)
                    print(f"ok {name}", flush=True)
                except Exception as failure:  # a check of its own
                    print(f"not ok {name}: {type(failure).__name__} {failure}", flush=True)
        finally:
            ensemble.end()


main()
