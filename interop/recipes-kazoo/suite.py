#!/usr/bin/env python3
"""The recipes and Kazoo's, one process each, on the same nodes: suite.py HOST:PORT"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "kazoo"), str(HERE.parent / "recipes-peer")]

import driver  # noqa: E402
import environment  # noqa: E402
from driver import equal  # noqa: E402


def party(first, second, path):
    first.do("join", "a", path, "one")
    second.do("join", "b", path, "two")
    for peer in (first, second):
        equal("one,two", peer.do("members", path), f"members seen by {peer.name}")
    first.do("release", "a")
    equal("two", second.do("members", path), "members")
    second.do("release", "b")
    equal("", first.do("members", path), "nobody")


def election(first, second, path):
    first.do("acquire", "a", "election", path, "one")
    waiting = second.ask("acquire", "b", "election", path, "two").must_wait()
    for peer in (first, second):
        equal("one,two", peer.do("candidates", path), f"candidates seen by {peer.name}")
    first.do("release", "a")
    waiting.get()
    equal("two", first.do("candidates", path), "candidates")
    second.do("release", "b")


def priorities(first, second, path):
    first.do("push", "kazoo", path, "late", 500)
    second.do("push", "kazoo", path, "early", 7)
    first.do("push", "kazoo", path, "normal")
    equal(["early", "normal", "late"], [second.do("pop", "kazoo", path) for _ in range(3)], "by priority")


def locked_items(first, second, path):
    for item in ("1", "2", "3"):
        first.do("push", "locking", path, item)
    equal("1", second.do("lease", "locking", path), "an item")
    equal("2", first.do("lease", "locking", path), "an item")
    equal("3", second.do("lease", "locking", path), "an item")


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} HOST:PORT")
    address, timeout = sys.argv[1], driver.SESSION_TIMEOUT_MS
    print(f"version {environment.version()}", flush=True)
    rust, python = driver.build(), environment.python()
    suite = driver.Suite(
        lambda name: driver.Peer(name, [rust, address, "kazoo", timeout]),
        lambda name: driver.Peer(name, [python, HERE / "peer.py", address, timeout]),
    )
    suite.check("lock", driver.hand_over("mutex"))
    suite.check("lock under contention", driver.contention("mutex", 1))
    suite.check("lock of a killed holder", driver.killed_holder(suite, "mutex"))
    suite.check("read and write locks", driver.readers_and_writers)
    suite.check("semaphore", driver.permits)
    suite.check("semaphore under contention", driver.contention("semaphore", 2))
    suite.check("election", election)
    suite.check("party", party)
    suite.check("queue", driver.items("kazoo"))
    suite.check("queue with priorities", priorities)
    suite.check("locking queue", locked_items)
    suite.check("barrier", driver.barrier)
    suite.check("double barrier", driver.double_barrier)
    suite.end()


main()
