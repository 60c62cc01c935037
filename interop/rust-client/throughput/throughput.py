#!/usr/bin/env python3
"""Pipelined operations with kazoo: throughput.py HOST:PORT OPERATION SECONDS IN_FLIGHT

Prints `OPERATIONS WALL_SECONDS CPU_SECONDS`. Answers are taken in order; each one sends the next request."""

import collections
import sys
import time

from kazoo.client import KazooClient

NODE = "/throughput/node"
DATA = b"x" * 100


def main():
    address, operation, seconds, window = sys.argv[1:]
    client = KazooClient(address, timeout=30)
    client.start()
    send = {
        "get": lambda: client.get_async(NODE),
        "exists": lambda: client.exists_async(NODE),
        "set": lambda: client.set_async(NODE, DATA),
        "create": lambda: client.create_async("/throughput/c-", DATA, sequence=True),
    }[operation]
    processor, start = time.process_time(), time.monotonic()
    end = start + float(seconds)
    waiting = collections.deque(send() for _ in range(int(window)))
    answered = 0
    while waiting:
        waiting.popleft().get()
        answered += 1
        if time.monotonic() < end:
            waiting.append(send())
    print(answered, f"{time.monotonic() - start:.3f}", f"{time.process_time() - processor:.3f}")
    client.stop()


main()
