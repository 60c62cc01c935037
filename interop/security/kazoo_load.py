#!/usr/bin/env python3
"""Kazoo clients that write through TLS until their standard input ends.

    kazoo_load.py HOST:PORT ROOT OPTIONS    OPTIONS is JSON for KazooClient; prints "ready" when all are connected

The last line is "done" if no connection was lost and every write was answered, else a reason."""

import json
import sys
import threading

from kazoo.client import KazooClient

CLIENTS = 4


class Load:
    def __init__(self, address, root, options):
        self.stop = threading.Event()
        self.faults = []
        self.writes = 0
        self.clients = [KazooClient(address, timeout=30, **options) for _ in range(CLIENTS)]
        for client in self.clients:
            client.start(timeout=30)
            client.add_listener(lambda state: self.stop.is_set() or self.faults.append(f"a connection became {state}"))
        self.clients[0].ensure_path(root)
        self.threads = [threading.Thread(target=self.write, args=(client, f"{root}/{number}"))
                        for number, client in enumerate(self.clients)]

    def write(self, client, path):
        client.create(path)
        while not self.stop.is_set():
            try:
                client.set(path, b"x" * 1000)
                self.writes += 1
            except Exception as error:  # Whatever it is, the load must not end in silence.
                self.faults.append(f"a write failed: {error!r}")
                return

    def run(self):
        for thread in self.threads:
            thread.start()
        print("ready", flush=True)
        sys.stdin.read()
        self.stop.set()
        for thread in self.threads:
            thread.join(30)
        for client in self.clients:
            client.stop()
        print(f"{self.writes} writes", file=sys.stderr)
        print(self.faults[0] if self.faults else "done" if self.writes else "nothing was written", flush=True)


if __name__ == "__main__":
    Load(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])).run()
