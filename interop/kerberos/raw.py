"""Frames of the client protocol by hand: SASL tokens that no client sends."""

import socket
import struct

SASL = 102


class RawClient:
    def __init__(self, port):
        self.connection = socket.create_connection(("127.0.0.1", port), 10)
        self.connection.settimeout(40)
        self.xid = 0
        self.send(struct.pack(">iqiqi", 0, 0, 10000, 0, 16) + bytes(16) + b"\0")
        self.receive()

    def send(self, payload):
        self.connection.sendall(struct.pack(">i", len(payload)) + payload)

    def receive(self):
        """The next frame, or None at the end of the connection."""
        length = self.read(4)
        return None if length is None else self.read(struct.unpack(">i", length)[0])

    def read(self, count):
        data = b""
        while len(data) < count:
            try:
                chunk = self.connection.recv(count - len(data))
            except ConnectionError:
                return None
            if not chunk:
                return None
            data += chunk
        return data

    def token(self, token):
        """Sends a token. The result is the error and the token of the reply, or None without a reply."""
        self.xid += 1
        body = struct.pack(">i", -1) if token is None else struct.pack(">i", len(token)) + token
        self.send(struct.pack(">ii", self.xid, SASL) + body)
        reply = self.receive()
        if reply is None:
            return None
        error, length = struct.unpack(">i", reply[12:16])[0], struct.unpack(">i", reply[16:20])[0]
        return error, None if length < 0 else reply[20:20 + length]

    def is_closed(self):
        return self.receive() is None

    def close(self):
        self.connection.close()
