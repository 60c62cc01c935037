"""Starts one server of Zebu or of Apache ZooKeeper with a configuration, and ends it by its process id."""

import os
import pathlib
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from suite_program import hold_ports, required  # noqa: E402

START_LIMIT_SECONDS = 60
HELD = []


def free_ports(count):
    """Ports below those of outgoing connections, reserved while this process runs."""
    for base in range(21000, 32000, 10):
        ports = range(base, base + count)
        held = hold_ports(ports)
        if held and all(is_free(port) for port in ports):
            HELD.extend(held)
            return list(ports)
    raise RuntimeError("not enough free ports between 21000 and 32000")


def is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class Server:
    """A standalone server. `lines` are appended to its zoo.cfg, `properties` are its -D words."""

    def __init__(self, directory, class_path, lines, properties=()):
        self.directory = pathlib.Path(directory)
        (self.directory / "data").mkdir(parents=True)
        self.plain, self.secure = free_ports(2)
        config = [f"dataDir={self.directory}/data", "tickTime=2000", f"clientPort={self.plain}",
                  "clientPortAddress=127.0.0.1", "admin.enableServer=false", "4lw.commands.whitelist=*",
                  "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"]
        lines = [line.replace("@SECURE@", str(self.secure)) for line in lines]
        file = self.directory / "zoo.cfg"
        file.write_text("\n".join([*config, *lines]) + "\n")
        words = [f"-D{word}" for word in properties]
        if os.environ.get("INTEROP_PEER", "zebu") == "zebu":
            command = [required("ZEBU"), "serve", *words, str(file)]
        else:
            command = ["java", "-Xmx256m", "-cp", class_path, *words,
                       "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(file)]
        self.log = (self.directory / "server.log").open("wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.await_start()

    def await_start(self):
        end = time.monotonic() + START_LIMIT_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.plain), 2) as connection:
                    connection.sendall(b"ruok")
                    if connection.recv(4) == b"imok":
                        return
            except OSError:
                pass
            time.sleep(0.1)
        raise RuntimeError(f"the server did not start: {self.last_lines()}")

    def await_line(self, text):
        """Whether the server logs this in time."""
        end = time.monotonic() + START_LIMIT_SECONDS
        while time.monotonic() < end:
            self.log.flush()
            if text in (self.directory / "server.log").read_text(errors="replace"):
                return True
            time.sleep(0.2)
        return False

    def last_lines(self):
        self.log.flush()
        return " | ".join((self.directory / "server.log").read_text(errors="replace").splitlines()[-5:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()
