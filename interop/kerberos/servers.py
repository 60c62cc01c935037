"""Servers of Zebu and of Apache ZooKeeper with Kerberos logins, alone or as an ensemble. Each ends by its process id."""

import os
import pathlib
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "security"))

import importlib.util  # noqa: E402

START_LIMIT_SECONDS = 90


def load_security_servers():
    """The module of the same name in the directory of the other suite."""
    spec = importlib.util.spec_from_file_location("security_servers", HERE.parent / "security" / "servers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


free_ports = load_security_servers().free_ports


def login(section, principal, keytab, more=""):
    return (f'{section} {{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="{keytab}" '
            f'storeKey=true useTicketCache=false {more} principal="{principal}"; }};\n')


def ask(port, word):
    """The answer of a four-letter word, or nothing."""
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as connection:
            connection.sendall(word.encode())
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
            return answer.decode(errors="replace")
    except OSError:
        return ""


class KerberosServer:
    """`kind` is zebu or apache. `lines` are appended to zoo.cfg; `properties` are -D words."""

    def __init__(self, kind, directory, programs, jaas, lines, properties, port=None, server_id=None):
        self.kind = kind
        self.directory = pathlib.Path(directory)
        (self.directory / "data").mkdir(parents=True)
        if server_id is not None:
            (self.directory / "data" / "myid").write_text(str(server_id))
        self.port = port or free_ports(1)[0]
        login_file = self.directory / "jaas.conf"
        login_file.write_text(jaas)
        config = [f"dataDir={self.directory}/data", "tickTime=500", f"clientPort={self.port}",
                  "clientPortAddress=127.0.0.1", "admin.enableServer=false", "4lw.commands.whitelist=*",
                  "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", *lines]
        file = self.directory / "zoo.cfg"
        file.write_text("\n".join(config) + "\n")
        words = [f"-D{word}" for word in [f"java.security.auth.login.config={login_file}", *properties]]
        if kind == "zebu":
            self.command = [programs.zebu, "serve", *words, str(file)]
        else:
            logging = f"-Dlogback.configurationFile={HERE}/server-log.xml"
            self.command = ["java", "-Xmx256m", "-XX:+UseSerialGC", logging, "-cp", programs.classes, *words,
                            "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(file)]
        self.log_file = self.directory / "server.log"
        self.process = None
        self.start()

    def start(self):
        with self.log_file.open("ab") as log:
            environment = {key: value for key, value in os.environ.items() if not key.startswith("KRB5")}
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=environment)

    def log(self):
        return self.log_file.read_text(errors="replace")

    def await_line(self, text, limit=30):
        """Waits until the log has a text."""
        end = time.monotonic() + limit
        while text not in self.log():
            if time.monotonic() > end:
                raise RuntimeError(f"no line with {text!r} in the log: {self.log()[-400:]}")
            time.sleep(0.05)

    def await_start(self):
        end = time.monotonic() + START_LIMIT_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if "Mode: " in ask(self.port, "srvr"):
                return
            time.sleep(0.1)
        raise RuntimeError(f"the {self.kind} server did not start: {self.log()[-600:]}")

    def counter(self, name):
        for line in ask(self.port, "mntr").splitlines():
            if line.startswith(f"zk_{name}\t"):
                return int(float(line.split("\t")[1]))
        return None

    def is_leader(self):
        return "Mode: leader" in ask(self.port, "srvr")

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
