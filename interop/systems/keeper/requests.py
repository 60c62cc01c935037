"""The requests of ClickHouse Keeper, encoded without any code of Zebu: requests.py --print, or requests.py HOST:PORT.

The first form prints the bodies that the Rust tests have as vectors. The second one sends every request to a server and
prints "ok" or "not ok" for each step.
"""

import socket
import struct
import sys


def text(value):
    data = value.encode()
    return struct.pack(">i", len(data)) + data


def stat(*fields):
    return struct.pack(">qqqqiiiqiiq", *fields)


ANY = stat(*[-1] * 11)
OPEN = struct.pack(">i", 1) + struct.pack(">i", 31) + text("world") + text("anyone")


def create(path, data, flags):
    return text(path) + struct.pack(">i", len(data)) + data + OPEN + struct.pack(">i", flags)


def vectors():
    return [
        (500, text("/a") + bytes([0, 0])),
        (500, text("/a") + bytes([1, 1])),
        (500, text("/a") + bytes([0, 2])),
        (501, text("/a") + struct.pack(">i", -1)),
        (501, text("/a") + struct.pack(">i", 7)),
        (502, create("/a", b"x", 1)),
        (503, text("/a") + struct.pack(">I", 0xFFFFFFFF)),
        (504, text("/a") + struct.pack(">i", 5) + stat(1, -1, 3, -1, 5, -1, 7, -1, 9, -1, 11)),
        (505, text("/a") + struct.pack(">i", 3)),
        (506, text("/a") + bytes([0, 0, 1, 0])),
        (506, text("/a") + bytes([1, 2, 0, 1])),
        (507, text("/a") + struct.pack(">I", 100)),
    ]


class Client:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), 10)
        self.socket.settimeout(10)
        body = struct.pack(">iqiq", 0, 0, 10000, 0) + struct.pack(">i", 16) + bytes(16) + b"\0"
        self.send(body)
        self.frame()
        self.xid = 0

    def send(self, body):
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise EOFError("the server closed the connection")
            data += more
        return data

    def frame(self):
        return self.exactly(struct.unpack(">i", self.exactly(4))[0])

    def call(self, op, body):
        self.xid += 1
        self.send(struct.pack(">ii", self.xid, op) + body)
        while True:
            reply = self.frame()
            xid, zxid, error = struct.unpack(">iqi", reply[:16])
            if xid == self.xid:
                return error, reply[16:], zxid


def multi(parts):
    body = b"".join(struct.pack(">i?i", op, False, -1) + part for op, part in parts)
    return body + struct.pack(">i?i", -1, True, -1)


def names(body):
    count = struct.unpack(">i", body[:4])[0]
    at, found = 4, []
    for _ in range(count):
        length = struct.unpack(">i", body[at : at + 4])[0]
        found.append(body[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return found, body[at:]


def steps(client):
    def call(op, body):
        return client.call(op, body)

    def flags():
        error, body, _ = call(4, text("/keeper/feature_flags") + b"\0")
        return (error, body[4:6]), (0, b"\xff\xfe")

    yield "the flags are shown", flags
    yield "createIfNotExists creates", lambda: (call(502, create("/py", b"x", 0))[:2], (0, text("/py")))
    yield "and does nothing a second time", lambda: (call(502, create("/py", b"y", 0))[:2], (0, text("/py")))
    yield "a sequential one is refused", lambda: (call(502, create("/py/s", b"", 2))[0], -8)
    yield "a child", lambda: (call(502, create("/py/a", b"data", 0))[0], 0)
    yield "an ephemeral child", lambda: (call(502, create("/py/e", b"", 1))[0], 0)
    yield "filteredList, all", lambda: (sorted(names(call(500, text("/py") + bytes([0, 0]))[1])[0]), ["a", "e"])
    yield "filteredList, persistent", lambda: (names(call(500, text("/py") + bytes([0, 1]))[1])[0], ["a"])
    yield "filteredList, ephemeral", lambda: (names(call(500, text("/py") + bytes([0, 2]))[1])[0], ["e"])

    def with_data():
        found, rest = names(call(506, text("/py") + bytes([0, 1, 1, 1]))[1])
        return (found, len(rest), rest[-8:]), (["a"], 68 + 4 + 68 + 4 + 8, text("data"))

    yield "listWithStatsAndData", with_data
    recursive = text("/py") + struct.pack(">I", 1)
    yield "listRecursive with a limit", lambda: (len(names(call(507, recursive)[1])[0]), 1)
    yield "checkNotExists finds", lambda: (call(501, text("/py/a") + struct.pack(">i", -1))[0], -110)
    yield "checkNotExists, another version", lambda: (call(501, text("/py/a") + struct.pack(">i", 3))[0], 0)
    yield "checkStat of anything", lambda: (call(504, text("/py/a") + struct.pack(">i", -1) + ANY)[0], 0)
    yield "checkStat, another version", lambda: (call(504, text("/py/a") + struct.pack(">i", 4) + ANY)[0], -103)
    yield "tryRemove, another version", lambda: (call(505, text("/py/a") + struct.pack(">i", 4))[:2], (0, b""))
    yield "tryRemove with children", lambda: (call(505, text("/py") + struct.pack(">i", -1))[:2], (0, b""))
    yield "removeRecursive over its limit", lambda: (call(503, text("/py") + struct.pack(">I", 2))[0], -111)

    def in_multi():
        parts = [
            (501, text("/py/none") + struct.pack(">i", -1)),
            (503, text("/py") + struct.pack(">I", 3)),
            (505, text("/py") + struct.pack(">i", -1)),
            (502, create("/py", b"", 0)),
            (504, text("/py") + struct.pack(">i", 0) + ANY),
        ]
        error, body, _ = call(14, multi(parts))
        results = [struct.pack(">i?i", op, False, 0) + (text("/py") if op == 502 else b"") for op, _ in parts]
        return (error, body), (0, b"".join(results) + struct.pack(">i?i", -1, True, -1))

    yield "all of them in a multi", in_multi

    def in_multi_read():
        error, body, _ = call(22, multi([(4, text("/none") + b"\0"), (500, text("/py") + bytes([0, 0]))]))
        failed = struct.pack(">i?i", 4, False, -101)
        listed = struct.pack(">i?i", 500, False, 0) + struct.pack(">i", 0)
        return (error, body[: len(failed + listed)]), (0, failed + listed)

    yield "lists in a multiRead, and a failed part", in_multi_read
    yield "removeRecursive", lambda: (call(503, text("/py") + struct.pack(">I", 1))[:2], (0, b""))
    yield "and nothing is left", lambda: (call(3, text("/py") + b"\0")[0], -101)


def main():
    if sys.argv[1] == "--print":
        for op, body in vectors():
            print(op, body.hex())
        return
    host, port = sys.argv[1].rsplit(":", 1)
    client = Client(host, int(port))
    for name, step in steps(client):
        try:
            seen, expected = step()
        except (OSError, EOFError, struct.error) as fault:
            seen, expected = fault, "an answer"
        print(f"ok {name}" if seen == expected else f"not ok {name}: {seen} instead of {expected}", flush=True)


main()
