#!/usr/bin/env python3
"""The shell beside zkCli: the same commands through Apache's zkCli 3.9 with Apache's server and through `zebu shell`
with Zebu must print the same text, apart from times, zxids, session ids, addresses, the order of lists that come from
a hash table, and what Apache's logging writes.

The commands are those of zkcli_smoke.txt and the ones below; what differs on purpose (docs/differences.md) is not among
them. After each command a read of a missing node is sent; the
answer to it marks where the output ends. With INTEROP_PEER=apache zkCli is compared with itself: what then differs is
a fault of this program.
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from suite_program import required  # noqa: E402

RELEASE = "3.9.5"
PATIENCE = 120

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>zebu</groupId><artifactId>shell</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId><version>{RELEASE}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>2.0.13</version></dependency>
    <dependency><groupId>io.dropwizard.metrics</groupId><artifactId>metrics-core</artifactId><version>4.1.12.1</version></dependency>
    <dependency><groupId>org.xerial.snappy</groupId><artifactId>snappy-java</artifactId><version>1.1.10.5</version></dependency>
    <dependency><groupId>commons-cli</groupId><artifactId>commons-cli</artifactId><version>1.5.0</version></dependency>
  </dependencies>
</project>
"""

# Usage, options, mistakes and the less common commands.
MORE = """
create /s first
ls
ls /s watch
ls -z /s
ls -R -s /s
ls -sR /zookeeper/config
get
get /s watch
get -q /s
set
set /s
set -s /s "x y"
set -s -v 1 /s again
set /s data -v 9
set -b /s aGVsbG8=
get -b /s
get -x /s
create /s/hex "0123456789abcdef0123456789ABCDEF xyz"
get -x /s/hex
get -b -x /s/hex
create
create /s/null
create /s/empty ""
get /s/null
get -b /s/null
get -x /s/null
get /s/empty
get -b /s/empty
get -x /s/empty
delete
stat
stat /s/hex watch
stat /s/none
deleteall
deleteall /s/hex
getAcl
setAcl
setAcl /s
addauth
setquota
setquota /s
setquota -n /s
setquota -n 5
setquota -n 0 /s
setquota -n -1 /s
setquota -b -1 /s
setquota -n 5 -b 5 /s
setquota -n 5 /zookeeper/quota
setquota -n 5 /s/nothere
create /s/q
create /s/q/c hello
setquota -n 1 /s/q
setquota -b 1 /s/q
setquota -N 1 /s/q
setquota -B 1 /s/q
listquota
listquota /s/q
listquota /
setquota -n 1 /s/q/c
setquota -n 9 /s
delquota
delquota -n -b /s/q
delquota -N /s/q
delquota -B /s/q
listquota /s/q
delquota -n /s/q
delquota -b /s/q
delquota /s/q
delquota /s/q
setquota -n 5 /
delquota /
setquota -N 1 /s/q
delquota /s/q
sync
sync nothing
config -s
config -c
config extra
reconfig
reconfig -file /nothing
reconfig -members a -add b
reconfig -remove 1 -add 2
reconfig -members a
addWatch
addWatch -m x /s
removewatches
removewatches /s -q
removewatches /s/none
getEphemerals
getEphemerals /s b
getEphemerals s
getAllChildrenNumber
getAllChildrenNumber s
whoami x
version x
printwatches
printwatches x
printwatches
printwatches on
redo 9999
create /s/n1
create /s/n1/n2
create /s/n1/n2/n3
get -w /s/n1
ls -w /s/n1
stat -w /s/n1/nope
addWatch -m PERSISTENT_RECURSIVE /s/n1
addWatch -m persistent /s/n1/n2
removewatches /s/n1 -d
removewatches /s/n1 -c
removewatches /s/n1/nope -d
removewatches /s/n1 -p
removewatches /s/n1 -r
removewatches /s/n1/n2 -p
removewatches /s/n1/n2 -a
get -w /s/n1
ls -w /s/n1
removewatches /s/n1 -a
config -w
removewatches /zookeeper/config
ls -w -R /s/n1
create /s/n1/new
removewatches /s/n1
create /s/n1/some x world:anyone:r,bad,ip:127.0.0.1:cdrwa
setAcl -R /s/n1 world:anyone:cdrwa,x
create -t abc /s/n1/t
create -c -t 5 /s/n1/t
create -t /s/n1/t
create -v 5 /s/n1/t
set -v /s/n1
ls '/s/n1'
ls "/s/n1" 'x y'
deleteall /s/n1/n2 -b 0
deleteall /s/n1 -b
create -e /s/eee
getEphemerals
getEphemerals /s
delete -v -1 /s/eee
deleteall /s
close
ls /
whoami
connect
ls /
redo 0
history
"""

ONE_SHOT = [["get", "/zookeeper/none"], ["get", "/zookeeper/config"], ["ls"], ["create", "/one", "x"],
            ["get", "/one"], ["delete", "/one"], ["ls", "-z", "/"], ["version", "x"]]


def say(line):
    print(line, flush=True)


def class_path():
    """Apache's classes without a log; fetched once."""
    directory = pathlib.Path(required("INTEROP_CACHE")) / f"shell-zookeeper-{RELEASE}"
    jars, complete = directory / "jars", directory / "complete"
    if not (complete.exists() and complete.read_text() == POM):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        pom = directory / "pom.xml"
        pom.write_text(POM)
        maven = ["mvn", "--quiet", "--batch-mode", "--file", pom, "dependency:copy-dependencies",
                 f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
        done = subprocess.run(maven, capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stdout, done.stderr, file=sys.stderr)
            say(f"unreachable Apache ZooKeeper {RELEASE} by Maven")
            sys.exit(1)
        complete.write_text(POM)
    return ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))


class Server:
    """A standalone server on a free port with a directory of its own."""

    def __init__(self, launch):
        self.home = tempfile.mkdtemp(prefix="shell-transcripts-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        config = pathlib.Path(self.home) / "zoo.cfg"
        config.write_text(f"dataDir={self.home}/data\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
                          "admin.enableServer=false\n4lw.commands.whitelist=*\n")
        self.log = open(pathlib.Path(self.home) / "log", "wb")
        self.process = subprocess.Popen([*launch, str(config)], stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT)
        end = time.monotonic() + PATIENCE
        while not self.serves():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                say(f"not ok start: {launch[0]} does not serve")
                sys.exit(1)
            time.sleep(0.1)

    def serves(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as stream:
                stream.sendall(b"srvr")
                return b"Mode: standalone" in stream.makefile("rb").read()
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)


# Answered differently on purpose; so are ACLs without any readable entry, which stand nowhere here.
OTHERWISE = {"nosuchcommand"}


def commands():
    """The commands of the zkCli script, then our own."""
    script = (HERE / "zkcli_smoke.txt").read_text().splitlines()
    smoke = [re.sub(r"^>>? ", "", line).replace("$ROOT", "/r") for line in script if re.match(r">>? ", line)]
    return [line for line in smoke + MORE.splitlines() if line and line not in OTHERWISE]


def play(client, address, listed):
    """Runs a session; gives the output of each command and all watch events."""
    lines = "".join(f"{command}\nget /mark-{number}\n" for number, command in enumerate(listed))
    done = subprocess.run([*client, "-server", address], input=lines.encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=PATIENCE)
    outputs, events, output = [], [], []
    for line in done.stdout.decode().splitlines():
        command = listed[len(outputs)] if len(outputs) < len(listed) else ""
        # Without a session the mark is answered with the same words as the command before it.
        answered = output or command == "close"
        closed = line == "Not connected" and answered and without_session(listed, len(outputs))
        if line == f"Node does not exist: /mark-{len(outputs)}" or closed:
            outputs.append(sorted(output) if command.startswith("whoami") else output)
            output = []
        elif line.startswith("WatchedEvent "):
            events.append(masked(line, address))
        elif line and line != "WATCHER::":
            output.append(masked(line, address))
    return outputs, sorted(events), output


def without_session(listed, number):
    """Whether the command runs between `close` and `connect`."""
    before = [command for command in listed[:number + 1] if command.split()[0] in ("close", "connect")]
    return bool(before) and before[-1] == "close"


def masked(line, address):
    line = line.replace(address, "SERVER")
    line = re.sub(r"^([cmp]Zxid = 0x|[cm]time = ).*", r"\1…", line)
    line = re.sub(r"^(ephemeralOwner = 0x)(?!0$).*", r"\1…", line)
    line = re.sub(r" zxid: \d+$", " zxid: …", line)
    if line.startswith("[") and line.endswith("]"):
        line = "[" + ", ".join(sorted(line[1:-1].split(", "))) + "]"
    return line


def difference(apache, ours):
    for index in range(max(len(apache), len(ours))):
        expected = apache[index] if index < len(apache) else "nothing more"
        got = ours[index] if index < len(ours) else "nothing more"
        if expected != got:
            return f"zkCli prints {expected!r}, the shell {got!r}"
    return None


def report(name, wrong):
    say(f"not ok {name}: {wrong}" if wrong else f"ok {name}")


def compare_sessions(zkcli, apache, shell, other):
    listed = commands()
    theirs, their_events, their_rest = play(zkcli, apache.address, listed)
    ours, our_events, our_rest = play(shell, other.address, listed)
    for number, command in enumerate(listed):
        if number >= len(theirs) or number >= len(ours):
            rest = (their_rest if number >= len(theirs) else our_rest)[-3:]
            who = "zkCli" if number >= len(theirs) else "the shell"
            report(command, f"{who} gave no answer to the mark behind it; last lines {rest}")
            return
        report(command, difference(theirs[number], ours[number]))
    connection = [" type:None " in event for event in their_events]
    report("watch events", difference(
        [event for event, own in zip(their_events, connection) if not own],
        [event for event in our_events if " type:None " not in event]))


def compare_one_shots(zkcli, apache, shell, other):
    def one(client, address, words):
        done = subprocess.run([*client, "-server", address, *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE)
        # Whether the connection's own event is printed in time is a matter of luck.
        shown = [line for line in done.stdout.splitlines()
                 if line and line != "WATCHER::" and " type:None " not in line]
        clean = [masked(line, address) for line in shown]
        return clean, done.stderr.splitlines(), done.returncode

    for words in ONE_SHOT:
        theirs, ours = one(zkcli, apache.address, words), one(shell, other.address, words)
        wrong = difference(theirs[0], ours[0]) or difference(theirs[1], ours[1])
        if not wrong and theirs[2] != ours[2]:
            wrong = f"zkCli ends with {theirs[2]}, the shell with {ours[2]}"
        report("one-shot " + " ".join(words), wrong)


def main():
    jars = class_path()
    java = ["java", "-Xmx256m", "-Dfile.encoding=UTF-8", "-Dzookeeper.extendedTypesEnabled=true", "-cp", jars]
    zkcli = [*java, "org.apache.zookeeper.ZooKeeperMain"]
    apache_server = [*java, "org.apache.zookeeper.server.quorum.QuorumPeerMain"]
    say(f"version zkCli {RELEASE}")
    itself = os.environ.get("INTEROP_PEER") == "apache"
    zebu = None if itself else required("ZEBU")
    shell = zkcli if itself else [zebu, "shell"]
    other_server = apache_server if itself else [zebu, "serve", "-Dzookeeper.extendedTypesEnabled=true"]
    servers = []
    try:
        servers.append(Server(apache_server))
        servers.append(Server(other_server))
        compare_sessions(zkcli, servers[0], shell, servers[1])
        compare_one_shots(zkcli, servers[0], shell, servers[1])
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
