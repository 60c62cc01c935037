#!/usr/bin/env python3
"""kazoo_rolling.py HOST:PORT PREFIX: writes until standard input ends.

Each write creates the sequential node PREFIX-<number>-, and is never repeated. Lines on standard output:
"ready", "ok NUMBER", "unknown NUMBER", "lost" for each lost connection, and "done" at the end.
"""

import sys
import threading
import time

from kazoo.client import KazooClient, KazooState

server, prefix = sys.argv[1], sys.argv[2]
output = threading.Lock()
stop = threading.Event()


def say(text):
    with output:
        print(text, flush=True)


def listen(state):
    if state != KazooState.CONNECTED and not stop.is_set():
        say("lost")


def wait_for_end():
    sys.stdin.read()
    stop.set()


client = KazooClient(hosts=server, timeout=30.0)
client.start(timeout=60)
client.add_listener(listen)
threading.Thread(target=wait_for_end, daemon=True).start()
say("ready")
number = 0
while not stop.is_set():
    if not client.connected:
        time.sleep(0.01)
        continue
    number += 1
    try:
        client.create(f"{prefix}-{number}-", b"", sequence=True)
        say(f"ok {number}")
    except Exception as error:  # Each failure leaves the outcome open.
        say(f"unknown {number} {type(error).__name__}")
    time.sleep(0.002)
say("done")
client.stop()
