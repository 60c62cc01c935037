#!/usr/bin/env python3
"""Drives a ZooKeeper-compatible server with the unmodified kazoo client.

    kazoo_smoke.py HOST:PORT

Prints one line per check, as interop/README.md says. The first wrong result ends the program with status 1. It
writes "@restart" to have the server restarted and waits for "@restarted" on standard input.
"""

import argparse
import logging
import socket
import sys
import threading
import time
import uuid

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import EventType
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

PATIENCE = 20.0


class Wrong(Exception):
    """A result that a correct server would not have given."""


def expect(what, actual, expected):
    if actual != expected:
        raise Wrong(f"{what}: expected {expected!r}, got {actual!r}")


def expect_error(what, error, call, *arguments, **named):
    try:
        result = call(*arguments, **named)
    except error:
        return
    except Exception as other:  # the wrong error is a finding, not a crash of this program
        raise Wrong(f"{what}: expected {error.__name__}, got {type(other).__name__}: {other}") from other
    raise Wrong(f"{what}: expected {error.__name__}, got the result {result!r}")


def wait_for(what, condition):
    """Waits until condition() is true. The bound is a limit for a broken server, not a delay."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.01)
    raise Wrong(f"{what}: did not happen within {PATIENCE:.0f} s")


class Relay:
    """A TCP relay in front of the server, so that a test can cut a connection as a server would."""

    def __init__(self, host, port):
        self.target = (host, port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pairs = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.target, timeout=PATIENCE)
                far.settimeout(None)
            except OSError:
                return
            self.pairs.append((near, far))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        pairs, self.pairs = self.pairs, []
        for near, far in pairs:
            for end in (near, far):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes the accept; close alone would let one more in
        self.listener.close()
        self.cut()


class Smoke:
    def __init__(self, host, port):
        self.host, self.port = host, port
        self.root = f"/kazoo-{uuid.uuid4().hex[:12]}"
        self.clients = []
        self.passed = 0

    def connect(self, port=None, **named):
        client = KazooClient(hosts=f"{self.host}:{port or self.port}", timeout=named.pop("timeout", 10.0), **named)
        self.clients.append(client)
        client.start(timeout=PATIENCE)
        return client

    def run(self):
        self.zk = self.connect()
        self.zk.create(self.root, b"")
        checks = [getattr(self, name) for name in dir(type(self)) if name.startswith("check_")]
        checks.sort(key=lambda check: check.__func__.__code__.co_firstlineno)
        for check in checks:
            name = check.__name__.removeprefix("check_").replace("_", " ")
            try:
                note = check()
            except Wrong as wrong:
                print(f"not ok {name}: {wrong}", flush=True)
                return 1
            except Exception as error:
                print(f"not ok {name}: {type(error).__name__}: {error}", flush=True)
                return 1
            if note:
                print(f"skip {name}: {note}", flush=True)
                continue
            self.passed += 1
            print(f"ok {name}", flush=True)
        self.zk.delete(self.root, recursive=True)
        print(f"{self.passed} checks passed", flush=True)
        return 0

    def stop(self):
        for client in self.clients:
            try:
                client.stop()
                client.close()
            except Exception:
                pass

    def path(self, name):
        return f"{self.root}/{name}"

    # The checks, in the order in which they run.

    def check_four_letter_words(self):
        expect("ruok", self.zk.command(b"ruok"), "imok")
        srvr = self.zk.command(b"srvr")
        for line in ("Zookeeper version:", "Latency min/avg/max:", "Zxid: 0x", "Mode:", "Node count:"):
            if line not in srvr:
                raise Wrong(f"srvr has no line with {line!r}: {srvr!r}")
        version = self.zk.server_version()
        if len(version) < 2 or version < (3, 4):
            raise Wrong(f"server_version() gave {version!r}")

    def check_create_get_set_delete(self):
        path = self.path("plain")
        expect("create", self.zk.create(path, b"one"), path)
        data, stat = self.zk.get(path)
        expect("data", data, b"one")
        expect("version after create", (stat.version, stat.cversion, stat.aversion), (0, 0, 0))
        expect("data length and children", (stat.dataLength, stat.numChildren), (3, 0))
        expect("owner of a persistent node", stat.ephemeralOwner, 0)
        expect("czxid and mzxid of a new node", stat.czxid, stat.mzxid)
        expect("pzxid of a new node", stat.pzxid, stat.czxid)
        if abs(stat.ctime / 1000 - time.time()) > 60:
            raise Wrong(f"ctime is not now: {stat.ctime}")
        after = self.zk.set(path, b"three", version=0)
        expect("version after set", (after.version, after.dataLength), (1, 5))
        if not after.mzxid > stat.mzxid or after.czxid != stat.czxid:
            raise Wrong(f"zxids after set: {after}")
        expect_error("set with an old version", BadVersionError, self.zk.set, path, b"x", version=0)
        expect_error("create of a node that exists", NodeExistsError, self.zk.create, path, b"")
        expect_error("delete with an old version", BadVersionError, self.zk.delete, path, version=7)
        self.zk.delete(path, version=1)
        expect("exists after delete", self.zk.exists(path), None)
        expect_error("get after delete", NoNodeError, self.zk.get, path)
        expect_error("create below a missing node", NoNodeError, self.zk.create, path + "/child", b"")

    def check_empty_and_large_data(self):
        path = self.path("data")
        self.zk.create(path, b"")
        expect("empty data", self.zk.get(path)[0], b"")
        large = bytes(range(256)) * 3600
        expect("length of large data", self.zk.set(path, large).dataLength, len(large))
        expect("large data", self.zk.get(path)[0] == large, True)
        name = self.path("größe-日本")
        self.zk.create(name, b"utf-8")
        expect("a name that is not ASCII", self.zk.get(name)[0], b"utf-8")
        if "größe-日本" not in self.zk.get_children(self.root):
            raise Wrong("the name that is not ASCII is missing among the children")

    def check_create_with_stat(self):
        path, stat = self.zk.create(self.path("create2"), b"abc", include_data=True)
        expect("path", path, self.path("create2"))
        expect("stat of the new node", (stat.version, stat.dataLength), (0, 3))
        expect("stat by exists", self.zk.exists(path), stat)

    def check_children(self):
        path = self.path("children")
        self.zk.create(path, b"p")
        for name in ("a", "b", "c"):
            self.zk.create(f"{path}/{name}", b"")
        children, stat = self.zk.get_children(path, include_data=True)
        expect("children", sorted(children), ["a", "b", "c"])
        expect("cversion and count", (stat.cversion, stat.numChildren), (3, 3))
        self.zk.delete(path + "/b")
        stat = self.zk.exists(path)
        expect("cversion and count after a delete", (stat.cversion, stat.numChildren), (4, 2))
        expect_error("delete of a parent", NotEmptyError, self.zk.delete, path)
        expect_error("children of a missing node", NoNodeError, self.zk.get_children, path + "/b")

    def check_sequence(self):
        path = self.path("sequence")
        self.zk.create(path, b"")
        names = [self.zk.create(path + "/item-", b"", sequence=True) for _ in range(3)]
        expect("sequence names", names, [f"{path}/item-{n:010d}" for n in range(3)])
        self.zk.delete(names[2])
        expect("a number is not used twice", self.zk.create(path + "/", b"", sequence=True), f"{path}/{3:010d}")

    def check_ephemeral(self):
        other = self.connect()
        path = self.path("ephemeral")
        other.create(path, b"", ephemeral=True)
        expect("owner", self.zk.exists(path).ephemeralOwner, other.client_id[0])
        expect_error("a child of an ephemeral", NoChildrenForEphemeralsError, self.zk.create, path + "/x", b"")
        numbered = other.create(path + "-", b"", ephemeral=True, sequence=True)
        gone = threading.Event()
        if self.zk.exists(path, watch=lambda event: gone.set()) is None:
            raise Wrong("the ephemeral node is missing before its session ended")
        other.stop()
        wait_for("event for the ephemeral node when its session closes", gone.is_set)
        expect("ephemeral after close", self.zk.exists(path), None)
        expect("second ephemeral after close", self.zk.exists(numbered), None)

    def check_session_expiry(self):
        relay = Relay(self.host, self.port)
        other = self.connect(port=relay.port, timeout=2.0)
        path = self.path("expires")
        other.create(path, b"", ephemeral=True)
        gone = threading.Event()
        self.zk.exists(path, watch=lambda event: gone.set())
        relay.close()
        wait_for("ephemeral node of a silent session removed", gone.is_set)
        expect("ephemeral after expiry", self.zk.exists(path), None)
        other.stop()

    def check_one_shot_watches(self):
        path = self.path("watched")
        events = []
        self.zk.exists(path, watch=events.append)
        self.zk.create(path, b"1")
        wait_for("created event", lambda: len(events) == 1)
        expect("created", (events[0].type, events[0].path), (EventType.CREATED, path))
        self.zk.get(path, watch=events.append)
        self.zk.get_children(path, watch=events.append)
        self.zk.set(path, b"2")
        wait_for("changed event", lambda: len(events) == 2)
        expect("changed", events[1].type, EventType.CHANGED)
        self.zk.set(path, b"3")
        self.zk.create(path + "/child", b"")
        wait_for("child event", lambda: len(events) == 3)
        expect("child", (events[2].type, events[2].path), (EventType.CHILD, path))
        self.zk.get(path + "/child", watch=events.append)
        self.zk.delete(path + "/child")
        wait_for("deleted event", lambda: len(events) == 4)
        expect("deleted", events[3].type, EventType.DELETED)
        self.zk.sync(path)
        expect("number of events", len(events), 4)

    def check_data_watch_and_children_watch(self):
        path = self.path("recipes")
        self.zk.create(path, b"v0")
        other = self.connect()
        data_seen, children_seen = [], []

        @other.DataWatch(path)
        def on_data(data, stat):
            data_seen.append(data)

        @other.ChildrenWatch(path)
        def on_children(children):
            children_seen.append(sorted(children))

        for number in range(1, 4):
            value = b"v%d" % number
            self.zk.set(path, value)
            wait_for(f"DataWatch sees {value!r}", lambda: data_seen[-1] == value)
        self.zk.create(path + "/a", b"")
        wait_for("ChildrenWatch sees a", lambda: children_seen[-1] == ["a"])
        self.zk.create(path + "/b", b"")
        wait_for("ChildrenWatch sees a and b", lambda: children_seen[-1] == ["a", "b"])
        self.zk.delete(path + "/a")
        wait_for("ChildrenWatch sees b", lambda: children_seen[-1] == ["b"])
        self.zk.delete(path, recursive=True)
        wait_for("DataWatch sees the delete", lambda: data_seen[-1] is None)
        other.stop()

    def check_acl_with_digest_auth(self):
        path = self.path("acl")
        owner = self.connect(auth_data=[("digest", "ann:secret")])
        acl = make_digest_acl("ann", "secret", all=True)
        owner.create(path, b"private", acl=[acl])
        expect("the owner reads", owner.get(path)[0], b"private")
        expect_error("a stranger reads", NoAuthError, self.zk.get, path)
        expect_error("a stranger writes", NoAuthError, self.zk.set, path, b"")
        expect_error("a stranger creates below", NoAuthError, self.zk.create, path + "/x", b"")
        expect_error("a stranger changes the ACL", NoAuthError, self.zk.set_acls, path, OPEN_ACL_UNSAFE)
        acls, stat = owner.get_acls(path)
        expect("ACL as the owner sees it", acls, [acl])
        readable = [acl, make_acl("world", "anyone", read=True)]
        expect("aversion", owner.set_acls(path, readable, version=stat.aversion).aversion, stat.aversion + 1)
        expect_error("setACL with an old version", BadVersionError, owner.set_acls, path, readable, version=stat.aversion)
        expect("a stranger reads now", self.zk.get(path)[0], b"private")
        expect_error("a stranger still cannot write", NoAuthError, self.zk.set, path, b"")
        late = self.connect()
        late.add_auth("digest", "ann:secret")
        expect("write after add_auth", late.set(path, b"changed").version, 1)
        expect_error("a digest ACL without a hash", InvalidACLError, self.zk.create, path + "2", b"",
                     acl=[make_acl("digest", "nobody", all=True)])
        expect_error("an unknown scheme", InvalidACLError, self.zk.create, path + "2", b"",
                     acl=[make_acl("nosuchscheme", "x", all=True)])
        owner.create(path + "-auth", b"", acl=[make_acl("auth", "", all=True)])
        expect("ACL of the scheme auth", owner.get_acls(path + "-auth")[0], [acl])
        owner.delete(path)
        owner.delete(path + "-auth")
        for client in (owner, late):
            client.stop()

    def check_transactions(self):
        path = self.path("multi")
        self.zk.create(path, b"")
        with_all = self.zk.transaction()
        with_all.create(path + "/a", b"1")
        with_all.create(path + "/a/b", b"2")
        with_all.set_data(path + "/a", b"3")
        with_all.check(path + "/a", 1)
        with_all.delete(path + "/a/b")
        with_all.create(path + "/n-", b"", sequence=True)
        results = with_all.commit()
        expect("created paths", results[:2], [path + "/a", path + "/a/b"])
        expect("version in the reply", results[2].version, 1)
        expect("check and delete", results[3:5], [True, True])
        expect("sequence in a transaction", results[5], f"{path}/n-{1:010d}")
        expect("children", sorted(self.zk.get_children(path)), ["a", "n-0000000001"])

        failing = self.zk.transaction()
        failing.create(path + "/never", b"")
        failing.check(path + "/a", 99)
        failing.create(path + "/never2", b"")
        results = failing.commit()
        expect("errors of a failed transaction", [type(result) for result in results],
               [RolledBackError, BadVersionError, RuntimeInconsistency])
        expect("nothing of it happened", self.zk.exists(path + "/never"), None)
        expect("sync", self.zk.sync(path), path)

    def check_pipelined_requests(self):
        path = self.path("pipeline")
        self.zk.create(path, b"")
        writes = [self.zk.set_async(path, b"%d" % number) for number in range(200)]
        read = self.zk.get_async(path)
        versions = [write.get(timeout=PATIENCE).version for write in writes]
        expect("versions of pipelined writes", versions, list(range(1, 201)))
        expect("a read after them", read.get(timeout=PATIENCE)[0], b"199")

    def check_lock(self):
        path = self.path("lock")
        other = self.connect()
        first, second = self.zk.Lock(path, "first"), other.Lock(path, "second")
        expect("first acquires", first.acquire(timeout=PATIENCE), True)
        expect("second does not get it", second.acquire(blocking=False), False)
        expect("contenders", first.contenders(), ["first"])
        order = []

        def contend():
            with second:
                order.append("second")

        thread = threading.Thread(target=contend)
        thread.start()
        wait_for("second waits", lambda: first.contenders() == ["first", "second"])
        order.append("first")
        first.release()
        thread.join(PATIENCE)
        expect("order", order, ["first", "second"])
        other.stop()

    def check_counters(self):
        path = self.path("counter")
        clients = [self.zk, self.connect(), self.connect()]
        failures = []

        def add(client):
            try:
                counter = client.Counter(path)
                for _ in range(20):
                    counter += 1
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=add, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE * 3)
        expect("errors", failures, [])
        expect("sum of concurrent additions", self.zk.Counter(path).value, 60)
        for client in clients[1:]:
            client.stop()

    def check_ten_thousand_children(self):
        path = self.path("many")
        self.zk.create(path, b"")
        waiting = []
        for number in range(10000):
            waiting.append(self.zk.create_async(f"{path}/node-{number:05d}", b"x"))
            if len(waiting) == 500:
                for create in waiting:
                    create.get(timeout=PATIENCE)
                waiting.clear()
        children, stat = self.zk.get_children(path, include_data=True)
        expect("count in the stat", stat.numChildren, 10000)
        expect("all names", sorted(children), [f"node-{number:05d}" for number in range(10000)])
        deletes = []
        for name in children:
            deletes.append(self.zk.delete_async(f"{path}/{name}"))
            if len(deletes) == 500:
                for delete in deletes:
                    delete.get(timeout=PATIENCE)
                deletes.clear()
        expect("children after the deletes", self.zk.get_children(path), [])

    def check_reconnect_keeps_the_session(self):
        relay = Relay(self.host, self.port)
        other = self.connect(port=relay.port)
        path = self.path("reconnect")
        other.create(path, b"old", ephemeral=True)
        session, values, states = other.client_id[0], [], []
        other.add_listener(states.append)
        other.DataWatch(path, lambda data, stat: values.append(data))
        expect("first value", values, [b"old"])
        relay.cut()
        wait_for("the client notices the cut", lambda: KazooState.SUSPENDED in states)
        self.zk.set(path, b"while away")
        wait_for("the client is back", lambda: other.connected)
        expect("session after the reconnect", other.client_id[0], session)
        expect("the ephemeral node is still there", self.zk.exists(path).ephemeralOwner, session)
        wait_for("the missed change is seen", lambda: values[-1] == b"while away")
        self.zk.set(path, b"new")
        wait_for("the watch works again", lambda: values[-1] == b"new")
        expect("the session was never lost", KazooState.LOST in states, False)
        other.stop()
        relay.close()

    def check_restart_keeps_data_and_sessions(self):
        path = self.path("restart")
        self.zk.create(path, b"durable")
        self.zk.create(path + "/child-", b"", sequence=True)
        self.zk.create(path + "-ephemeral", b"", ephemeral=True)
        before, session = self.zk.exists(path), self.zk.client_id[0]
        print("@restart", flush=True)
        if sys.stdin.readline().strip() != "@restarted":
            return "the caller cannot restart this server"
        wait_for("the client is back", lambda: self.zk.connected)
        data, after = self.zk.retry(self.zk.get, path)
        expect("data after a restart", data, b"durable")
        expect("stat after a restart", after, before)
        expect("session after a restart", self.zk.client_id[0], session)
        ephemeral = self.zk.exists(path + "-ephemeral")
        expect("the ephemeral node survived", ephemeral and ephemeral.ephemeralOwner, session)
        expect("the sequence goes on", self.zk.create(path + "/child-", b"", sequence=True),
               f"{path}/child-{1:010d}")


def main():
    parser = argparse.ArgumentParser(description="kazoo against a ZooKeeper-compatible server")
    parser.add_argument("server", metavar="HOST:PORT")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    host, _, port = arguments.server.rpartition(":")
    smoke = Smoke(host, int(port))
    try:
        return smoke.run()
    except Exception as error:
        print(f"not ok to begin or to clean up: {type(error).__name__}: {error}", flush=True)
        return 1
    finally:
        smoke.stop()


if __name__ == "__main__":
    sys.exit(main())
