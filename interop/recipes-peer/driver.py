"""Plays recipes of two libraries against each other. Both run as programs that speak the lines of src/main.rs; the
suites import this, start one of each and write down what has to happen."""

import itertools
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent.parent

# How long anything may take, and how long something must not have happened to count as waiting.
PATIENCE = 30
A_WHILE = 0.25

# Short enough for a test that waits for a session to end.
SESSION_TIMEOUT_MS = 4000

FULL = os.environ.get("INTEROP_PART") == "full"


class Waiting(Exception):
    pass


class Pending:
    """The answer to one line."""

    def __init__(self, what):
        self.what = what
        self.answers = queue.Queue()

    def get(self, patience=PATIENCE):
        try:
            word, _, value = self.answers.get(timeout=patience).partition(" ")
        except queue.Empty:
            raise Waiting(f"{self.what}: no answer after {patience} s") from None
        if word != "ok":
            raise AssertionError(f"{self.what}: {value}")
        return value

    def must_wait(self):
        try:
            value = self.answers.get(timeout=A_WHILE)
        except queue.Empty:
            return self
        raise AssertionError(f"{self.what}: should wait, but got {value}")


class Peer:
    """A program that has one library's recipes."""

    def __init__(self, name, command):
        self.name = name
        self.numbers = itertools.count(1)
        self.pending = {"0": Pending(f"{name} starts")}
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        threading.Thread(target=self.listen, daemon=True).start()
        self.pending["0"].get()

    def listen(self):
        for line in self.process.stdout:
            number, _, answer = line.rstrip("\n").partition(" ")
            if number in self.pending:
                self.pending[number].answers.put(answer)
        for pending in self.pending.values():
            pending.answers.put("error the program has ended")

    def ask(self, *words):
        """Sends a line; the answer may come later."""
        number = str(next(self.numbers))
        words = [str(word) for word in words]
        self.pending[number] = pending = Pending(f"{self.name}: {' '.join(words)}")
        self.process.stdin.write(" ".join([number, *words]) + "\n")
        self.process.stdin.flush()
        return pending

    def do(self, *words):
        return self.ask(*words).get()

    def kill(self):
        self.process.kill()
        self.process.wait()


def build():
    """The Rust program, built now."""
    command = ["cargo", "build", "--quiet", "--package", "zebu-recipes-peer"]
    if subprocess.run(command, cwd=PROJECT, stdout=sys.stderr).returncode != 0:
        print("not ok build: zebu-recipes-peer does not build; the log says why", flush=True)
        sys.exit(1)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target"))
    return target / "debug" / "zebu-recipes-peer"


class Suite:
    """`rust` and `other` make new programs; a check gets two of them, in both orders."""

    def __init__(self, rust, other):
        self.makers = {"rust": rust, "other": other}
        self.peers = {name: make(name) for name, make in self.makers.items()}
        self.only = os.environ.get("ZEBU_INTEROP_ONLY", "")
        self.failed = False

    def check(self, name, scenario):
        for first, second in (("rust", "other"), ("other", "rust")):
            title = f"{name}, {first} first"
            if self.only not in title:
                continue
            path = f"/recipes-{time.time_ns():x}-" + re.sub(r"\W+", "-", title)
            try:
                scenario(self.peers[first], self.peers[second], path)
                print(f"ok {title}", flush=True)
            except (AssertionError, Waiting, OSError) as failure:
                print(f"not ok {title}: {failure}", flush=True)
                # What is held would disturb the next check.
                self.renew("rust", "other")

    def renew(self, *names):
        for name in names:
            self.peers[name].kill()
            self.peers[name] = self.makers[name](name)

    def end(self):
        for peer in self.peers.values():
            peer.kill()


def all_of(asked):
    """The answers to all of them. If one is missing, what another one has found is the better reason."""
    answers, reason = [], None
    for one in asked:
        try:
            answers.append(one.get())
        except AssertionError as failure:
            raise AssertionError(failure) from None
        except Waiting as failure:
            reason = failure
    if reason:
        raise reason
    return answers


def equal(expected, actual, what):
    if expected != actual:
        raise AssertionError(f"{what}: expected {expected!r}, got {actual!r}")


def eventually(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: did not happen within {PATIENCE} s")
        time.sleep(0.02)


# What has to happen with every lock, whoever has made it.


def hand_over(kind, *rest):
    """One has it, the other waits and gets it."""

    def scenario(first, second, path):
        first.do("acquire", "a", kind, path, *rest)
        if kind != "election":
            equal("no", second.do("try", "b", kind, path, *rest), "somebody else has it")
        waiting = second.ask("acquire", "b", kind, path, *rest).must_wait()
        first.do("release", "a")
        waiting.get()
        third = first.ask("acquire", "a", kind, path, *rest).must_wait()
        second.do("release", "b")
        third.get()
        first.do("release", "a")

    return scenario


ROUNDS = 12


def contention(kind, limit):
    """Both take it again and again; they look for each other inside. With a limit of one both write a log."""

    def scenario(first, second, path):
        room = path + "-room"
        first.do("make", room)
        first.do("make", room + "-log")
        names = {first: "a", second: "b"}
        # Nobody begins before both are there.
        starts = [f"start-{number}" for number in range(limit)]
        for start in starts:
            first.do("acquire", start, kind, path, limit)
        asked = [one.ask("contend", kind, path, room, ROUNDS, limit, name) for one, name in names.items()]
        if limit > 1:
            # More contenders than permits.
            asked += [first.ask("contend", kind, path, room, ROUNDS, limit, "c")]
        for one in asked:
            one.must_wait()
        if limit == 1:
            rust = first if first.name == "rust" else second
            rust.do("crowd", path, 3)
        for start in starts:
            first.do("release", start)
        most = max(int(answer) for answer in all_of(asked))
        if limit > 1:
            equal(True, 1 < most <= limit, f"{most} at once")
            return
        log = second.do("read", room + "-log")
        equal(["a"] * ROUNDS + ["b"] * ROUNDS, sorted(log), "every round once")
        turns = sum(one != next_one for one, next_one in zip(log, log[1:]))
        equal(True, turns >= ROUNDS // 2, f"they take turns: {log}")

    return scenario


def killed_holder(suite, kind, *rest):
    """The holder's program is killed; the other one gets it when the session has timed out."""

    def scenario(first, second, path):
        first.do("acquire", "a", kind, path, *rest)
        waiting = second.ask("acquire", "b", kind, path, *rest).must_wait()
        first.kill()
        waiting.get()
        second.do("release", "b")
        suite.renew(first.name)

    return scenario


def readers_and_writers(first, second, path):
    first.do("acquire", "a", "read", path)
    second.do("acquire", "b", "read", path)
    writer = first.ask("acquire", "w", "write", path).must_wait()
    late = second.ask("acquire", "late", "read", path).must_wait()
    first.do("release", "a")
    writer.must_wait()
    second.do("release", "b")
    writer.get()
    late.must_wait()
    equal("no", second.do("try", "x", "write", path), "a writer has it")
    first.do("release", "w")
    late.get()
    second.do("release", "late")
    # And both kinds at once.
    room = path + "-room"
    first.do("make", room)
    first.do("make", room + "-log")
    asked = [
        first.ask("contend", "write", path, room, ROUNDS // 2, 1, "a"),
        second.ask("contend", "write", path, room, ROUNDS // 2, 1, "b"),
        first.ask("contend", "read", path, room, ROUNDS // 2, 9, "c"),
        second.ask("contend", "read", path, room, ROUNDS // 2, 9, "d"),
    ]
    all_of(asked)
    equal(ROUNDS, len(second.do("read", room + "-log")), "every round once")


def permits(first, second, path):
    first.do("acquire", "a", "semaphore", path, 2)
    second.do("acquire", "b", "semaphore", path, 2)
    third = first.ask("acquire", "c", "semaphore", path, 2).must_wait()
    second.do("release", "b")
    third.get()
    fourth = second.ask("acquire", "b", "semaphore", path, 2).must_wait()
    first.do("release", "a")
    fourth.get()
    first.do("release", "c")
    second.do("release", "b")


def barrier(first, second, path):
    first.do("raise", path)
    mine, theirs = first.ask("wait", path).must_wait(), second.ask("wait", path).must_wait()
    second.do("lower", path)
    mine.get()
    theirs.get()


def double_barrier(first, second, path):
    for _ in range(2):
        mine = first.ask("enter", "m", path, 2).must_wait()
        theirs = second.ask("enter", "m", path, 2)
        mine.get()
        theirs.get()
        leaving = first.ask("release", "m").must_wait()
        second.do("release", "m")
        leaving.get()


def items(order, take="pop"):
    """What one pushes the other takes, in the order of coming, and a waiting one is woken. `lease` is for consumers
    that lock what they take."""

    def scenario(first, second, path):
        for item in ("1", "2", "3"):
            first.do("push", order, path, item)
        equal(["1", "2", "3"], [second.do(take, order, path) for _ in range(3)], "items")
        waiting = second.ask(take, order, path).must_wait()
        first.do("push", order, path, "4")
        equal("4", waiting.get(), "the item that it waited for")
        # Two consumers, and nothing is taken twice.
        taken = [one.ask(take, order, path) for _ in range(5) for one in (first, second)]
        for number in range(10):
            (first if number % 2 else second).do("push", order, path, f"n{number}")
        equal(sorted(f"n{number}" for number in range(10)), sorted(one.get() for one in taken), "each once")

    return scenario


def counting(first, second, path):
    asked = [first.ask("add", path, 20), second.ask("add", path, 20)]
    for one in asked:
        one.get()
    equal("40", first.do("get", path), "the sum here")
    equal("40", second.do("get", path), "the sum there")
