#!/usr/bin/env python3
"""The recipes and Kazoo's, one process each, on the same nodes: suite.py HOST:PORT"""

import pathlib
import signal
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


def locked_items_stay(first, second, path):
    """What Kazoo has locked is not taken by a consumer of ours that does not lock."""
    rust, kazoo = (first, second) if first.name == "rust" else (second, first)
    first.do("push", "locking", path, "1")
    second.do("push", "locking", path, "2")
    kazoo.do("lock", "a", path)
    equal("2", rust.do("pop", "locking", path), "the item that is free")
    waiting = rust.ask("pop", "locking", path).must_wait()
    kazoo.do("release", "a")
    equal("1", waiting.get(), "the item that was given back")


def double_barrier_left_at_once(first, second, path):
    """Kazoo enters and leaves before our member has looked: its process stands still meanwhile."""
    rust, kazoo = (first, second) if first.name == "rust" else (second, first)
    entering = rust.ask("enter", "m", path, 2).must_wait()
    rust.process.send_signal(signal.SIGSTOP)
    try:
        passing = kazoo.ask("pass", path, 2)
        # The flag is gone again, and Kazoo waits for our member.
        driver.eventually("Kazoo has left", lambda: kazoo_has_left(kazoo, path))
        passing.must_wait()
    finally:
        rust.process.send_signal(signal.SIGCONT)
    entering.get()
    rust.do("release", "m")
    passing.get()


def kazoo_has_left(kazoo, path):
    # Five changes of the list: our member, Kazoo's, the flag, and both of Kazoo's gone again.
    return len(kazoo.do("children", path).split(",")) == 1 and int(kazoo.do("changes", path)) >= 5


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
    suite.check("locking queue and one that does not lock", locked_items_stay)
    suite.check("barrier", driver.barrier)
    suite.check("double barrier", driver.double_barrier)
    suite.check("double barrier that Kazoo leaves at once", double_barrier_left_at_once)
    suite.end()


main()
