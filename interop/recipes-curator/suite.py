#!/usr/bin/env python3
"""The recipes and Curator's, one process each, on the same nodes: suite.py HOST:PORT COMMAND…, where COMMAND starts
Curator's. run.sh calls it."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "recipes-peer"))

import driver  # noqa: E402
from driver import equal, eventually  # noqa: E402


def latch(first, second, path):
    first.do("latch", "a", path, "one")
    first.do("lead", "a")
    second.do("latch", "b", path, "two")
    for peer, handle in ((first, "a"), (second, "b")):
        eventually(f"participants seen by {peer.name}", lambda: peer.do("participants", handle) == "one,two")
    equal("no", second.do("leads", "b"), "one leads")
    waiting = second.ask("lead", "b").must_wait()
    first.do("release", "a")
    waiting.get()
    equal("yes", second.do("leads", "b"), "two leads")
    first.do("latch", "a", path, "one")
    eventually("it is back", lambda: second.do("participants", "b") == "two,one")
    second.do("release", "b")
    first.do("lead", "a")
    first.do("release", "a")


def killed_leader(suite):
    def scenario(first, second, path):
        first.do("latch", "a", path, "one")
        first.do("lead", "a")
        second.do("latch", "b", path, "two")
        waiting = second.ask("lead", "b").must_wait()
        first.kill()
        waiting.get()
        second.do("release", "b")
        suite.renew(first.name)

    return scenario


def priorities(first, second, path):
    first.do("push", "priority", path, "late", 5)
    second.do("push", "priority", path, "early", -5)
    first.do("push", "priority", path, "middle", 0)
    equal(["early", "middle", "late"], [second.do("lease", "priority", path) for _ in range(3)], "by priority")


def shared_count(first, second, path):
    equal("0", first.do("count", path), "a new one")
    second.do("set-count", path, 7)
    equal("7", first.do("count", path), "what the other has set")
    first.do("set-count", path, -3)
    equal("-3", second.do("count", path), "what the other has set")


def discovery(first, second, path):
    first.do("register", "a", path, "shop", "one", 1, "p1")
    second.do("register", "b", path, "shop", "two", 2, "p2")
    for peer in (first, second):
        equal("one:1:p1,two:2:p2", peer.do("instances", path, "shop"), f"instances seen by {peer.name}")
        equal("one,one,two,two", peer.do("pick", path, "shop", 4), f"turns taken by {peer.name}")
    first.do("release", "a")
    equal("two:2:p2", second.do("instances", path, "shop"), "what is left")
    second.do("release", "b")
    equal("", first.do("instances", path, "shop"), "nothing is left")


def main():
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} HOST:PORT COMMAND…")
    address, command, timeout = sys.argv[1], sys.argv[2:], driver.SESSION_TIMEOUT_MS
    rust = driver.build()
    suite = driver.Suite(
        lambda name: driver.Peer(name, [rust, address, "curator", timeout]),
        lambda name: driver.Peer(name, [*command, address, timeout]),
    )
    suite.check("mutex", driver.hand_over("mutex"))
    suite.check("mutex under contention", driver.contention("mutex", 1))
    suite.check("mutex of a killed holder", driver.killed_holder(suite, "mutex"))
    suite.check("read-write lock", driver.readers_and_writers)
    suite.check("semaphore", driver.permits)
    suite.check("semaphore under contention", driver.contention("semaphore", 2))
    suite.check("latch", latch)
    if driver.FULL:
        suite.check("latch of a killed leader", killed_leader(suite))
    suite.check("barrier", driver.barrier)
    suite.check("double barrier", driver.double_barrier)
    suite.check("simple queue", driver.items("simple"))
    suite.check("framed queue", driver.items("fifo", "lease"))
    suite.check("queue with priorities", priorities)
    suite.check("counter", driver.counting)
    suite.check("shared count", shared_count)
    suite.check("discovery", discovery)
    suite.end()


main()
