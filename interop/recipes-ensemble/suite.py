#!/usr/bin/env python3
"""The recipes on an ensemble of three whose members are killed and paused all the time: suite.py

Two processes take the same lock again and again and write down that they had it, under its fence. At the end every
round stands there once, and the numbers of the holders never fall."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "recipes-peer")]

import driver  # noqa: E402
from driver import equal  # noqa: E402
from suite_program import fail, hold_ports  # noqa: E402

FIRST_PORT = int(os.environ.get("RECIPES_ENSEMBLE_PORT", 24800))
ROUNDS = 1000 if driver.FULL else 300
PAUSE = 1.0


class Member:
    def __init__(self, directory, number):
        self.directory = directory / str(number)
        (self.directory / "data").mkdir(parents=True)
        (self.directory / "data" / "myid").write_text(f"{number}\n")
        self.port = FIRST_PORT + number
        peers = "".join(
            f"server.{one}=127.0.0.1:{FIRST_PORT + 10 + one}:{FIRST_PORT + 20 + one}\n" for one in (1, 2, 3)
        )
        (self.directory / "zoo.cfg").write_text(
            f"tickTime=300\ninitLimit=20\nsyncLimit=5\ndataDir={self.directory / 'data'}\nclientPort={self.port}\n"
            f"clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n{peers}"
        )
        self.start()

    def start(self):
        config = str(self.directory / "zoo.cfg")
        if os.environ.get("INTEROP_PEER") == "apache":
            main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            command = ["java", "-Xmx256m", "-cp", os.environ["ZOOKEEPER_CLASSPATH"], main, config]
        else:
            command = [os.environ["ZEBU"], "serve", config]
        log = (self.directory / "log").open("ab")
        self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Trouble(threading.Thread):
    """Kills and pauses one member after the other; there are always two left."""

    def __init__(self, members):
        super().__init__(daemon=True)
        self.members, self.over, self.count = members, threading.Event(), 0
        self.start()

    def run(self):
        while not self.over.wait(PAUSE):
            member = self.members[self.count % 3]
            if self.count % 4 == 3:
                member.process.send_signal(signal.SIGSTOP)
                self.over.wait(PAUSE)
                member.process.send_signal(signal.SIGCONT)
            else:
                member.kill()
                self.over.wait(PAUSE / 3)
                member.start()
            self.count += 1

    def end(self):
        self.over.set()
        self.join()


def endured(kind, first, second):
    path = f"/endure-{kind}"
    log = path + "-log"
    first.do("make", log)
    asked = [one.ask("endure", kind, path, log, ROUNDS, name) for one, name in ((first, "a"), (second, "b"))]
    for one in asked:
        one.get(patience=150)
    lines = [line.split(":") for line in second.do("read", log).split(";") if line]
    wanted = sorted(f"{name}.{number}" for name in "ab" for number in range(ROUNDS))
    equal(wanted, sorted(entry for entry, _ in lines), "every round once")
    tokens = [int(token) for _, token in lines]
    equal(sorted(tokens), tokens, "numbers of holders never fall")


def counted(first, second):
    """A write whose answer is lost together with the session may have happened: that is the only doubt."""
    sure = doubtful = 0
    for number in range(ROUNDS):
        asked = [one.ask("add", "/counted", 1) for one in (first, second)]
        for one in asked:
            try:
                one.get(patience=60)
                sure += 1
            except AssertionError as failure:
                equal(True, "may have been carried out" in str(failure), str(failure))
                doubtful += 1
    total = int(first.do("get", "/counted"))
    equal(True, sure <= total <= sure + doubtful, f"{sure} counted, {doubtful} unknown, {total} in the end")


def queued(first, second):
    pushed, doubtful = set(), set()
    for number in range(ROUNDS):
        try:
            first.ask("push", "simple", "/queued", f"n{number}").get(patience=60)
            pushed.add(f"n{number}")
        except AssertionError as failure:
            equal(True, "may have been carried out" in str(failure), str(failure))
            doubtful.add(f"n{number}")
    seen = set()
    while not pushed <= seen:
        try:
            seen.add(second.ask("lease", "simple", "/queued").get(patience=60))
        except AssertionError as failure:
            # It was leased and its lock was lost: it comes again, or somebody has finished it.
            equal(True, "not held" in str(failure), str(failure))
    equal(True, seen <= pushed | doubtful, "nothing that nobody pushed")


def main():
    rust = driver.build()
    held = hold_ports(range(FIRST_PORT, FIRST_PORT + 30))
    if not held:
        fail(f"not ok start: another test program uses one of 30 ports from {FIRST_PORT} on")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="recipes-ensemble-"))
    members = [Member(directory, number) for number in (1, 2, 3)]
    print("version three servers, killed and paused", flush=True)
    servers = ",".join(f"127.0.0.1:{member.port}" for member in members)
    make = lambda name: driver.Peer(name, [rust, servers, "curator", 4000])  # noqa: E731
    try:
        first, second = make("first"), make("second")
        checks = [(kind, lambda kind=kind: endured(kind, first, second)) for kind in
                  ("mutex", "write", "semaphore", "latch")]
        checks += [("counter", lambda: counted(first, second)), ("queue", lambda: queued(first, second))]
        for name, check in checks:
            trouble = Trouble(members)
            began = time.monotonic()
            try:
                check()
                equal(True, trouble.count > 1, "there was trouble")
                print(f"{name}: {trouble.count} faults in {time.monotonic() - began:.1f} s", flush=True)
                print(f"ok {name} on an ensemble in trouble", flush=True)
            except (AssertionError, driver.Waiting) as failure:
                print(f"not ok {name} on an ensemble in trouble: {failure}", flush=True)
                break
            finally:
                trouble.end()
    finally:
        for member in members:
            member.process.send_signal(signal.SIGCONT)
            member.kill()
        shutil.rmtree(directory, ignore_errors=True)


main()
