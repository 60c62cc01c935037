#!/usr/bin/env python3
"""The Rust client beside Apache's C client and kazoo, in turn, on one Zebu server that it starts:

    interop/rust-client/throughput/compare.py [--rounds 3] [--seconds 3] [--in-flight 500] [--only get,set]

Prints a table for docs/benchmarks.md. Builds the release of both, the C program with -O2 against the installed
libzookeeper_mt (Debian: libzookeeper-mt-dev), and makes the Python environment of the kazoo suites."""

import argparse
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target"))
CACHE = TARGET / "interop"
OPERATIONS = ["get", "exists", "set", "create"]


def build():
    """The commands of the three clients."""
    CACHE.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("INTEROP_CACHE", str(CACHE))
    cargo = ["cargo", "build", "--release", "--quiet", "--manifest-path", PROJECT / "Cargo.toml"]
    subprocess.run([*cargo, "--package", "zebu"], check=True)
    subprocess.run([*cargo, "--package", "zebu-client", "--example", "throughput"], check=True)
    program = CACHE / "throughput-c"
    compiler = ["cc", "-DTHREADED", "-Wall", "-Wextra", "-Werror", "-O2", "-o", program, HERE / "throughput.c"]
    subprocess.run([*compiler, "-lzookeeper_mt", "-lpthread"], check=True)
    sys.path.insert(0, str(PROJECT / "interop/kazoo"))
    import environment

    return {
        "Rust": [TARGET / "release/examples/throughput"],
        "C": [program],
        "kazoo": [environment.python(), HERE / "throughput.py"],
    }


def start(directory):
    """A server on a free port; its address and process."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    config = pathlib.Path(directory) / "zoo.cfg"
    config.write_text(f"tickTime=2000\ndataDir={directory}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n")
    log = open(pathlib.Path(directory) / "server.log", "w")
    server = subprocess.Popen([TARGET / "release/zebu", "serve", config], cwd=directory, stdout=log, stderr=log)
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return f"127.0.0.1:{port}", server
        except OSError:
            time.sleep(0.02)
    server.kill()
    sys.exit("the server does not listen")


def measure(command, address, operation, options):
    """Operations per second, and per second of the client's processor time."""
    words = [*command, address, operation, str(options.seconds), str(options.in_flight)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=options.seconds * 10 + 60)
    if done.returncode != 0:
        sys.exit(f"{command[0]} {operation} failed:\n{done.stderr}")
    count, wall, processor = done.stdout.split()
    return float(count) / float(wall), float(count) / float(processor)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--in-flight", type=int, default=500)
    parser.add_argument("--only", default=",".join(OPERATIONS))
    options = parser.parse_args()
    clients = build()
    print(f"load average {os.getloadavg()[0]:.1f} at the start; {options.rounds} rounds of {options.seconds:g} s, "
          f"{options.in_flight} in flight\n")
    print("| operation | client | operations per CPU second | of the C client | operations/s |")
    print("|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory(dir=CACHE) as directory:
        address, server = start(directory)
        try:
            # Makes the node that the others use.
            measure(clients["Rust"], address, "get", argparse.Namespace(seconds=0.1, in_flight=1))
            for operation in options.only.split(","):
                seen = {name: [] for name in clients}
                for _ in range(options.rounds):
                    for name, command in clients.items():
                        seen[name].append(measure(command, address, operation, options))
                middle = {name: [statistics.median(column) for column in zip(*runs)] for name, runs in seen.items()}
                for name, (wall, processor) in middle.items():
                    ratio = processor / middle["C"][1]
                    print(f"| {operation} | {name} | {processor:,.0f} | {ratio:.2f} | {wall:,.0f} |", flush=True)
        finally:
            server.terminate()
            server.wait()
    print(f"\nload average {os.getloadavg()[0]:.1f} at the end")


main()
