#!/usr/bin/env python3
"""Counts the instructions that builds of Zebu take for a pipelined get and a pipelined set: instructions.py ZEBU[,LINE...]...

Lines of zoo.cfg may follow a build, so that one build is compared with and without a feature: zebu zebu,zebu.top.sampling=0.

Seconds of a busy machine say little; instructions hardly change. Each build runs below valgrind (cachegrind without its
caches), once with few requests and once with many; the difference of both, by request, is printed. The requests come 100 at a
time from one session. Needs Debian's valgrind."""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import zookeeper_wire as wire
from lab import eventually, free_port

FEW, MANY = 2_000, 12_000
BATCH = 100
ROUNDS = int(os.environ.get("ROUNDS", "3"))
START_SECONDS = 300


def instructions(build, home, requests, kind):
    """All instructions of a server that has answered so many requests."""
    told = run_server(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"], build, home, requests, kind)
    return int(re.search(r"I\s+refs:\s+([\d,]+)", told).group(1).replace(",", ""))


def run_server(tool, build, home, requests, kind):
    """Runs a server below valgrind while it answers so many requests; returns what valgrind says."""
    zebu, *lines = build.split(",")
    with tempfile.TemporaryDirectory(dir=home) as directory:
        port = free_port()
        config = pathlib.Path(directory) / "zoo.cfg"
        config.write_text(f"dataDir={directory}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
                          + "\n".join(["admin.enableServer=false", "maxSessionTimeout=900000", *lines, ""]))
        server = subprocess.Popen(["valgrind", *tool, zebu, "serve", config], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
        try:
            send(port, requests, kind)
        finally:
            server.terminate()
            told = server.communicate(timeout=START_SECONDS)[1]
        return told


def send(port, requests, kind):
    def connected():
        try:
            return wire.Client(("127.0.0.1", port), timeout_ms=900_000)
        except OSError:
            return None
    client = eventually(connected, START_SECONDS)
    client.socket.settimeout(START_SECONDS)
    client.call(wire.CREATE, wire.create("/node", b"x" * 100))
    body = wire.read("/node") if kind == wire.GET else wire.write("/node", b"y" * 100)
    for _ in range(requests // BATCH):
        frames = b""
        for _ in range(BATCH):
            client.xid += 1
            frame = client.xid.to_bytes(4, "big") + kind.to_bytes(4, "big") + body
            frames += len(frame).to_bytes(4, "big") + frame
        client.socket.sendall(frames)
        for _ in range(BATCH):
            code, _ = client.answer()
            assert code == 0, code
    client.close()


def main():
    builds = sys.argv[1:] or sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as home:
        for name, kind in (("get", wire.GET), ("set", wire.SET)):
            figures = {build: [] for build in builds}
            for _ in range(ROUNDS):
                for build in builds:
                    few, many = (instructions(build, home, count, kind) for count in (FEW, MANY))
                    figures[build].append((many - few) / (MANY - FEW))
            first = statistics.median(figures[builds[0]])
            for build, values in figures.items():
                median = statistics.median(values)
                rounds = ", ".join(f"{value:.0f}" for value in values)
                print(f"{name} {build}: {median:.0f} instructions ({rounds}), {100 * (median / first - 1):+.1f} %", flush=True)


if __name__ == "__main__":
    main()
