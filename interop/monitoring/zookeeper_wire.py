"""A client of ZooKeeper's protocol in a few lines: it can stop pinging, keep requests unanswered and send what it likes.

Needs nothing but Python. It never reconnects by itself."""

import socket
import struct

CREATE, DELETE, EXISTS, GET, SET, LIST = 1, 2, 3, 4, 5, 8
AUTH, CLOSE = 100, -11
AUTH_XID = -4
EVENT_XID = -1
OPEN_ACL = struct.pack(">iii", 1, 31, 5) + b"world" + struct.pack(">i", 6) + b"anyone"
TIME_LIMIT = 30


class Refused(Exception):
    """A reply with an error code, or a connection that the server closed."""


def text(value):
    """A string or buffer with its length."""
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">i", len(data)) + data


class Client:
    """One connection with its session."""

    def __init__(self, address, timeout_ms=30000, session=(0, b"\0" * 16)):
        self.address, self.xid, self.events = address, 0, 0
        self.socket = socket.create_connection(address, timeout=TIME_LIMIT)
        identity, password = session
        self._send(struct.pack(">iqiq", 0, 0, timeout_ms, identity) + text(password) + b"\0")
        reply = self._receive()
        _, self.timeout_ms, identity = struct.unpack_from(">iiq", reply)
        if identity == 0:
            raise Refused("the session has expired")
        length = struct.unpack_from(">i", reply, 16)[0]
        self.session = (identity, reply[20:20 + length])

    def _send(self, body):
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise Refused("the server closed the connection")
            data += part
        return data

    def _receive(self):
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def send(self, kind, body=b""):
        """Sends a request and does not wait."""
        self.xid += 1
        self._send(struct.pack(">ii", self.xid, kind) + body)

    def answer(self):
        """The next reply that is no event; its error code and body."""
        while True:
            frame = self._receive()
            xid, _, code = struct.unpack_from(">iqi", frame)
            if xid == EVENT_XID:
                self.events += 1
                continue
            return code, frame[16:]

    def call(self, kind, body=b""):
        self.send(kind, body)
        code, reply = self.answer()
        if code != 0:
            raise Refused(f"operation {kind} answers {code}")
        return reply

    def authenticate(self, scheme, data):
        self._send(struct.pack(">iii", AUTH_XID, AUTH, 0) + text(scheme) + text(data))
        return self.answer()[0]

    def close(self):
        """Ends the session."""
        try:
            self.call(CLOSE)
        except (Refused, OSError):
            pass
        self.drop()

    def drop(self):
        """Closes the connection; the session lives on until it expires."""
        self.socket.close()


def create(path, data=b"", ephemeral=False):
    return text(path) + text(data) + OPEN_ACL + struct.pack(">i", 1 if ephemeral else 0)


def read(path, watch=False):
    return text(path) + (b"\1" if watch else b"\0")


def write(path, data):
    return text(path) + text(data) + struct.pack(">i", -1)


def delete(path):
    return text(path) + struct.pack(">i", -1)


def four_letter_word(address, word):
    with socket.create_connection(address, timeout=TIME_LIMIT) as connection:
        connection.sendall(word.encode())
        data = b""
        while part := connection.recv(65536):
            data += part
    return data.decode()
