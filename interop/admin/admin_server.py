#!/usr/bin/env python3
"""The admin server of Zebu beside that of a live Apache ZooKeeper 3.9.5: the same requests, the same answers.

Both servers get the same zoo.cfg and the same nodes, standalone and as ensembles of three. A snapshot that Zebu sends is
restored by Apache, and the other way round a Zebu server restores a snapshot that Apache sends and starts from it."""

import glob
import http.client
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from suite_program import fail, required, run_or_fail

VERSION = "3.9.5"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>zebu</groupId><artifactId>admin</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
{}  </dependencies>
</project>
"""
ARTIFACTS = [
    ("org.apache.zookeeper", "zookeeper", VERSION),
    ("org.eclipse.jetty", "jetty-server", "9.4.58.v20250814"),
    ("org.eclipse.jetty", "jetty-servlet", "9.4.58.v20250814"),
    ("com.fasterxml.jackson.core", "jackson-databind", "2.15.2"),
    ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    ("commons-cli", "commons-cli", "1.5.0"),
    ("commons-io", "commons-io", "2.17.0"),
    ("org.slf4j", "slf4j-nop", "1.7.30"),
]
SUPER = {"Authorization": "digest super:secret"}
SUPER_DIGEST = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="
TIME_LIMIT = 60

# Method, path, headers, body.
REQUESTS = [
    ("GET", f"/commands/{name}", {}, None)
    for name in (
        "configuration conf connection_stat_reset crst connections cons dirs dump environment get_trace_mask gtmk hash "
        "initial_configuration icfg is_read_only isro last_snapshot lsnp leader lead observer_connection_stat_reset "
        "observers obsr ruok server_stats srvr stat_reset stats voting_view watch_summary wchs watches watches_by_path "
        "zabstate nothing RUOK ruok/ ruok/more %72uok set_trace_mask set_trace_mask?traceMask=5 "
        "set_trace_mask?traceMask=x set_trace_mask?traceMask=1&traceMask=y gtmk?unknown=1 snapshot"
    ).split()
] + [
    ("HEAD", "/commands/ruok", {}, None),
    ("OPTIONS", "/commands/ruok", {}, None),
    ("PUT", "/commands/ruok", {}, b""),
    ("DELETE", "/commands/ruok", {}, None),
    ("TRACE", "/commands/ruok", {}, None),
    ("GET", "/nothing", {}, None),
    ("POST", "/commands/nothing", {}, b""),
    ("POST", "/commands/restore", {}, b"x"),
    ("GET", "/commands/snapshot", {"Authorization": "Basic dTpw"}, None),
    ("GET", "/commands/snapshot", {"Authorization": "world anyone"}, None),
    ("GET", "/commands/snapshot", {"Authorization": "digest"}, None),
    ("GET", "/commands/snapshot", {"Authorization": "digest a b"}, None),
    ("GET", "/commands/snapshot", {"Authorization": "x509"}, None),
    ("GET", "/commands/snapshot?streaming=false", SUPER, None),
]
# Texts that depend on the program, its directory or time.
FREE = {"version", "data_dir", "data_log_dir", "initial_configuration", "zxid", "last_zxid", "last_operation"}
# The same requests are sent to the leader and to a follower of each ensemble.
ENSEMBLE_REQUESTS = [
    ("GET", f"/commands/{name}", {}, None)
    for name in (
        "configuration connections dirs dump environment hash is_read_only last_snapshot leader "
        "observers ruok server_stats stats voting_view watch_summary watches watches_by_path zabstate nothing snapshot"
    ).split()
] + [
    ("GET", "/commands/snapshot?streaming=false", SUPER, None),
    ("POST", "/commands/restore", {}, b"x"),
]
# Answers of which only the status, the type and the first and last lines count.
FRAME = {"environment"}
# The order inside is that of a Java machine.
UNORDERED = {"server_stats", "srvr", "stats"}


def fetch():
    """The class path of Apache with its admin server."""
    home = pathlib.Path(required("INTEROP_CACHE")) / f"apache-admin-{VERSION}"
    jars = home / "jars"
    if not (home / "complete").exists():
        home.mkdir(parents=True, exist_ok=True)
        dependency = "    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>\n"
        (home / "pom.xml").write_text(POM.format("".join(dependency.format(*artifact) for artifact in ARTIFACTS)))
        command = ["mvn", "-B", "-q", "-f", str(home / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        run_or_fail(command, "unreachable Apache ZooKeeper with Jetty")
        (home / "complete").touch()
    return ":".join(sorted(glob.glob(str(jars / "*.jar"))))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server with an admin port; standalone without further lines."""

    def __init__(self, name, command, home, lines="", number=None):
        self.name, self.command, self.home = name, command, home / name
        self.client, self.admin = free_port(), free_port()
        self.data = self.home / "data"
        self.data.mkdir(parents=True)
        self.config = self.home / "zoo.cfg"
        self.config.write_text(
            f"tickTime=2000\ndataDir={self.data}\nclientPort={self.client}\nclientPortAddress=127.0.0.1\n"
            f"admin.serverAddress=127.0.0.1\nadmin.serverPort={self.admin}\nadmin.rateLimiterIntervalInMS=0\n"
            f"4lw.commands.whitelist=*\nDigestAuthenticationProvider.superDigest={SUPER_DIGEST}\n{lines}"
        )
        if number is not None:
            (self.data / "myid").write_text(f"{number}\n")
        self.process = None

    def launch(self):
        log = open(self.home / "log", "ab")
        self.process = subprocess.Popen([*self.command, str(self.config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start(self):
        self.launch()
        self.await_service()

    def await_service(self):
        end = time.monotonic() + TIME_LIMIT
        while time.monotonic() < end:
            try:
                status, _, body = self.ask("GET", "/commands/ruok", {}, None)
                if status == 200 and b'"error" : null' in body:
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        fail(f"not ok start: {self.name} does not serve; {(self.home / 'log').read_text(errors='replace')[-500:]!r}")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(TIME_LIMIT)

    def ask(self, method, path, headers, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=TIME_LIMIT)
        try:
            connection.request(method, path, body=body, headers={"Connection": "close", **headers})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def node_count(self):
        text = self.ask("GET", "/commands/server_stats", {}, None)[2].decode()
        return int(re.search(r'"node_count" : (\d+)', text).group(1))


def create_nodes(zebu, server, names):
    """Creates nodes with Zebu's shell, which serves both."""
    script = "".join(f"create {name} data\n" for name in names)
    command = [zebu, "shell", "-server", f"127.0.0.1:{server.client}"]
    subprocess.run(command, input=script.encode(), capture_output=True, timeout=TIME_LIMIT, check=True)


def masked(text):
    lines = []
    for line in text.splitlines():
        found = re.match(r'(\s*"(\w+)" : )"', line)
        if found and found.group(2) in FREE:
            line = found.group(1) + '"*"' + ("," if line.endswith(",") else "")
        lines.append(re.sub(r"(?<![\w])-?\d+\.\d+", "#.#", line) if "." in line else line)
    lines = [re.sub(r"(?<![\w#.])-?\d+(?![\w.#])", "#", line) for line in lines]
    # Empty sets of sessions come and go with time.
    text = "\n".join(line for line in lines if not line.strip().startswith('"#" : [ ]'))
    return re.sub(r"\{\n\s*\}", "{ }", text).splitlines()


def difference(request, zebu, apache):
    """What differs between two answers; None if nothing that counts does."""
    (status, headers, body), (other_status, other_headers, other_body) = zebu, apache
    if status != other_status:
        return f"status {status}, Apache {other_status}"
    if status == 404:
        return None
    for name in ("content-type", "strict-transport-security"):
        if headers.get(name) != other_headers.get(name):
            return f"{name} {headers.get(name)!r}, Apache {other_headers.get(name)!r}"
    if status == 200 and headers.get("allow") != other_headers.get("allow"):
        return f"allow {headers.get('allow')!r}, Apache {other_headers.get('allow')!r}"
    for name in ("last_zxid", "snapshot_size"):
        if (name in headers) != (name in other_headers):
            return f"{name} is on one side only"
    ours, theirs = masked(body.decode()), masked(other_body.decode())
    command = request[1].split("/")[-1]
    if command in UNORDERED:
        ours, theirs = ([sorted(line.rstrip(",") for line in lines)] for lines in (ours, theirs))
    if command in FRAME:
        keys = lambda lines: [line.split(" : ")[0] for line in lines]
        ours, theirs = keys(ours), keys(theirs)
    return None if ours == theirs else f"{ours} is not Apache's {theirs}"


def check(name, problem):
    print(f"ok {name}" if problem is None else f"not ok {name}: {problem}", flush=True)


def compare(zebu, apache, requests, where=""):
    for request in requests:
        method, path, headers, _ = request
        name = f"{method} {path}" + (f" with {headers['Authorization']}" if headers else "") + where
        check(name, difference(request, zebu.ask(*request), apache.ask(*request)))


def list_of_commands(zebu, apache):
    ours, theirs = (server.ask("GET", "/commands", {}, None)[2].decode() for server in (zebu, apache))
    common = ours
    # Of ZooKeeper 3.10, and of Zebu.
    for name in ("shed_connections", "drain"):
        common = common.replace(f'<a href="/commands/{name}">{name}</a>\n<br/>\n', "")
    check("GET /commands", None if common == theirs else f"{ours!r} is not Apache's {theirs!r}")


def snapshots(binary, zebu, apache):
    create_nodes(binary, zebu, [f"/only-zebu-{number}" for number in range(20)])
    wanted = zebu.node_count()
    status, headers, snapshot = zebu.ask("GET", "/commands/snapshot", SUPER, None)
    check("Zebu sends a snapshot", None if status == 200 and len(snapshot) == int(headers["snapshot_size"]) else f"{status} {headers}")
    status, _, body = apache.ask("POST", "/commands/restore", {**SUPER, "Content-Type": "application/octet-stream"}, snapshot)
    count = apache.node_count()
    check("Apache restores it", None if status == 200 and count == wanted else f"{status}, {count} nodes of {wanted}, {body!r}")
    status, headers, snapshot = apache.ask("GET", "/commands/snapshot", SUPER, None)
    zebu.stop()
    directory = zebu.data / "version-2"
    shutil.rmtree(directory)
    directory.mkdir()
    (directory / f"snapshot.{int(headers['last_zxid'], 16):x}").write_bytes(snapshot)
    zebu.start()
    count = zebu.node_count()
    check("Zebu starts from Apache's", None if count == wanted else f"{count} nodes of {wanted}")
    create_nodes(binary, zebu, ["/after"])
    status, _, body = zebu.ask("POST", "/commands/restore", SUPER, snapshot)
    count = zebu.node_count()
    check("Zebu restores Apache's", None if status == 200 and count == wanted else f"{status}, {count} nodes of {wanted}, {body!r}")
    zebu.stop()
    zebu.start()
    count = zebu.node_count()
    check("Zebu keeps what it restored", None if count == wanted else f"{count} nodes of {wanted}")


class Ensemble:
    """Three servers, of which the third leads because the first one comes last."""

    def __init__(self, name, command, home):
        lines = "initLimit=20\nsyncLimit=10\n"
        lines += "".join(f"server.{number}=127.0.0.1:{free_port()}:{free_port()}\n" for number in (1, 2, 3))
        self.servers = [Server(f"{name}-{number}", command, home, lines, number) for number in (1, 2, 3)]

    def start(self):
        for server in self.servers[1:]:
            server.launch()
        for server in self.servers[1:]:
            server.await_service()
        self.servers[0].start()

    def stop(self):
        for server in self.servers:
            server.stop()


def ensembles(binary, zebu, apache):
    for ensemble in (zebu, apache):
        ensemble.start()
        create_nodes(binary, ensemble.servers[2], ["/app", "/app/config", "/locks"])
    for index, role in ((2, "leader"), (1, "follower")):
        pair = [ensemble.servers[index] for ensemble in (zebu, apache)]
        states = [re.search(rb'"server_state" : "(\w+)"', server.ask("GET", "/commands/srvr", {}, None)[2]).group(1) for server in pair]
        check(f"both are {role}", None if states == [role.encode()] * 2 else f"{states}")
        compare(*pair, ENSEMBLE_REQUESTS, f" of a {role}")
        # A named difference: Apache has the file of a standalone server only.
        files = [b'"initial_configuration" : null' not in server.ask("GET", "/commands/icfg", {}, None)[2] for server in pair]
        check(f"only Zebu shows the file of a {role}", None if files == [True, False] else f"{files}")


def main():
    print(f"version Apache ZooKeeper {VERSION} with Jetty", flush=True)
    binary = os.environ.get("ZEBU")
    if os.environ.get("INTEROP_PEER") == "apache" or not binary:
        print("skip admin server: it compares Zebu with Apache, so it needs Zebu")
        print("ok Apache is not compared with itself")
        return
    java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", fetch()]
    with tempfile.TemporaryDirectory() as home:
        zebu = Server("zebu", [binary, "serve"], pathlib.Path(home))
        apache = Server("apache", [*java, "org.apache.zookeeper.server.quorum.QuorumPeerMain"], pathlib.Path(home))
        try:
            for server in (zebu, apache):
                server.start()
                create_nodes(binary, server, ["/app", "/app/config", "/locks"])
            list_of_commands(zebu, apache)
            compare(zebu, apache, REQUESTS)
            snapshots(binary, zebu, apache)
        finally:
            zebu.stop()
            apache.stop()
        zebu = Ensemble("zebu-member", [binary, "serve"], pathlib.Path(home))
        apache = Ensemble("apache-member", [*java, "org.apache.zookeeper.server.quorum.QuorumPeerMain"], pathlib.Path(home))
        try:
            ensembles(binary, zebu, apache)
        finally:
            zebu.stop()
            apache.stop()


if __name__ == "__main__":
    main()
