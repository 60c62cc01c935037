"""Frames of the client protocol by hand: SASL tokens that no client sends, and tokens that a reader of the network has."""

import socket
import struct
import threading

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


class Recorder:
    """A port before a server. It passes one connection on and keeps what the client sends."""

    def __init__(self, port):
        self.target, self.sent = port, b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(60)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.pass_on, daemon=True)
        self.thread.start()

    def pass_on(self):
        client, _ = self.listener.accept()
        server = socket.create_connection(("127.0.0.1", self.target), 10)
        server.settimeout(None)
        client.settimeout(None)
        back = threading.Thread(target=self.copy, args=(server, client, None), daemon=True)
        back.start()
        self.copy(client, server, self.record)
        back.join(60)

    def record(self, data):
        self.sent += data

    @staticmethod
    def copy(source, target, record):
        try:
            while data := source.recv(65536):
                if record:
                    record(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def tokens(self):
        """The SASL tokens of the client, in order."""
        self.thread.join(60)
        self.listener.close()
        tokens, rest = [], self.sent
        while len(rest) >= 4:
            length = struct.unpack(">i", rest[:4])[0]
            frame, rest = rest[4:4 + length], rest[4 + length:]
            # The connect request has no operation code.
            if len(frame) >= 12 and struct.unpack(">i", frame[4:8])[0] == SASL:
                size = struct.unpack(">i", frame[8:12])[0]
                tokens.append(frame[12:12 + max(size, 0)])
        return tokens
