#!/usr/bin/env python3
"""Collectors of Telegraf, OpenTelemetry, Netdata and collectd read `mntr` of Zebu and of Apache ZooKeeper 3.9.5, each alone
and as leader and follower of three. They must find the same fields of the same types.

The first three come as Go modules into a small program each (collectors/*.go), collectd from Debian's package, which is unpacked
and not installed."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "admin"))
import zookeeper_wire as wire
from admin_server import VERSION, fetch
from lab import Member, eventually, leader_and_followers
from suite_program import fail, required, run_or_fail

# Name, file of the program, and the module that it is built with.
COLLECTORS = (("Telegraf", "telegraf.go", "github.com/influxdata/telegraf/plugins/inputs/zookeeper@v1.33.3"),
              ("OpenTelemetry", "opentelemetry.go",
               "github.com/open-telemetry/opentelemetry-collector-contrib/scraper/zookeeperscraper@v0.144.0"),
              ("Netdata", "netdata.go", "github.com/netdata/go.d.plugin/modules/zookeeper@v0.58.1"))
HERE = pathlib.Path(__file__).resolve().parent
# Fields of Apache that Zebu does not have: there is no Java machine; packets do not wait in a queue with times; no
# election writes a configuration node.
WITHOUT = re.compile(r"^[a-z0-9]+_(jvm_pause_time_ms|\d+_learner_handler_qp_time_ms|zookeeper_write_per_namespace)$")
COLLECTD_SECONDS = 60
# collectd reads once a second; the set is whole when so many readings add nothing.
COLLECTD_STEADY_SECONDS = 4


def check(name, problem=None):
    print(f"ok {name}" if not problem else f"not ok {name}: {problem}", flush=True)


def build_collector(cache, file, module):
    """A program with a collector."""
    home = cache / f"{file}-{module.rpartition('@')[2]}"
    program = home / "collector"
    home.mkdir(parents=True, exist_ok=True)
    source = (HERE / "collectors" / file).read_text()
    kept = home / "main.go"
    if not program.exists() or kept.read_text() != source:
        kept.write_text(source)
        (home / "go.mod").write_text("module zebu/collectors\n\ngo 1.24.0\n")
        run_or_fail(["go", "get", module], f"unreachable {module}", cwd=home)
        run_or_fail(["go", "build", "-mod=mod", "-o", str(program), "."], "not ok start", cwd=home)
    return program


def unpack_collectd(cache):
    home = cache / "collectd"
    if not (home / "usr/lib/collectd/zookeeper.so").exists():
        home.mkdir(parents=True, exist_ok=True)
        run_or_fail(["apt-get", "download", "-qq", "collectd-core"], "unreachable Debian's collectd", cwd=home)
        run_or_fail(["dpkg-deb", "-x", str(next(home.glob("collectd-core_*.deb"))), str(home)], "not ok start")
    return home


def fields_of(program, member):
    """State, and fields with their types; an error as text."""
    done = subprocess.run([program, f"127.0.0.1:{member.client}"], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        return done.stderr.strip(), {}
    lines = [line.split(" ") for line in done.stdout.splitlines()]
    return " ".join(lines[-1][1:]), {line[1]: line[2] for line in lines if line[0] == "field"}


def collectd_values(collectd, member, home):
    """The names of the values that collectd writes."""
    place = home / f"collectd-{member.client}"
    place.mkdir()
    config = place / "collectd.conf"
    config.write_text(
        f'PluginDir "{collectd}/usr/lib/collectd"\nTypesDB "{collectd}/usr/share/collectd/types.db"\nBaseDir "{place}"\n'
        f'PIDFile "{place}/pid"\nHostname "host"\nInterval 1\nLoadPlugin csv\nLoadPlugin zookeeper\n'
        f'<Plugin csv>\n  DataDir "{place}/csv"\n</Plugin>\n'
        f'<Plugin zookeeper>\n  Host "127.0.0.1"\n  Port "{member.client}"\n</Plugin>\n')
    with open(place / "log", "wb") as log:
        process = subprocess.Popen([collectd / "usr/sbin/collectd", "-f", "-C", config], stdout=log, stderr=log)
    names = lambda: {re.sub(r"-\d{4}-\d\d-\d\d$", "", path.name) for path in (place / "csv").rglob("*-20*")}
    try:
        eventually(names, COLLECTD_SECONDS)
        seen = set()
        while names() != seen:
            seen = names()
            eventually(lambda: names() != seen, COLLECTD_STEADY_SECONDS)
        return seen
    finally:
        process.terminate()
        process.wait(COLLECTD_SECONDS)


def write_config(member, lines):
    member.config.write_text("\n".join([
        "tickTime=2000", "initLimit=10", "syncLimit=5", f"dataDir={member.data}", f"clientPort={member.client}",
        "clientPortAddress=127.0.0.1", "admin.enableServer=false", "4lw.commands.whitelist=*", *lines, ""]))


def measured(command, home):
    """The servers of one edition by role: alone, leader, follower. The caller stops them."""
    home.mkdir()
    members = [Member(command, home, number) for number in (1, 2, 3)]
    single = Member(command, home, 4)
    (single.data / "myid").unlink()
    lines = [member.server_line() for member in members]
    for member in members:
        write_config(member, lines)
    write_config(single, [])
    return members, single


def serve(zebu, classpath, home):
    java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath]
    editions = {"Zebu": measured([zebu, "serve"], home / "zebu"),
                "Apache": measured([*java, "org.apache.zookeeper.server.quorum.QuorumPeerMain"], home / "apache")}
    servers = [member for members, single in editions.values() for member in (*members, single)]
    try:
        for member in servers:
            member.start()
        roles = {}
        for edition, (members, single) in editions.items():
            leader, followers = leader_and_followers(members)
            if not eventually(lambda: single.state() == "standalone"):
                fail(f"not ok start: {edition} does not serve alone; {single.log()[-500:]!r}")
            roles[edition] = {"standalone": single, "leader": leader, "follower": followers[0]}
            write_nodes(leader)
        yield roles
    finally:
        for member in servers:
            member.stop()


def write_nodes(leader):
    """Some fields of a leader are there once its learners have had proposals."""
    client = wire.Client(leader.address())
    for number in range(100):
        client.call(wire.CREATE, wire.create(f"/node-{number}", b"x" * 1000))
    client.close()


def compare_fields(roles, name, program):
    for role in ("standalone", "leader", "follower"):
        (state, ours), (apache_state, theirs) = (fields_of(program, roles[edition][role]) for edition in ("Zebu", "Apache"))
        check(f"{name} reads mntr of a {role}", None if ours else state)
        check(f"{name} reads mntr of Apache as {role}", None if theirs else apache_state)
        check(f"{name}'s state of a {role}", None if state == apache_state else f"{state}, Apache {apache_state}")
        lost = sorted(name for name in theirs if name not in ours and not WITHOUT.match(name))
        check(f"{name} finds every field of Apache in a {role} ({len(theirs)})", ", ".join(lost))
        other = [f"{name}: {ours[name]}, Apache {theirs[name]}" for name in theirs if name in ours and ours[name] != theirs[name]]
        # An average is an integer or a decimal number by its value, in both.
        other = [line for line in other if not line.startswith("avg_")]
        check(f"{name} finds the same types in a {role}", "; ".join(sorted(other)))
        print(f"fields of {name} that only Zebu has as {role}: {', '.join(sorted(set(ours) - set(theirs)))}")


def compare_collectd(roles, collectd, home):
    for role in ("standalone", "leader", "follower"):
        values, apache_values = (collectd_values(collectd, roles[edition][role], home) for edition in ("Zebu", "Apache"))
        # Zebu still tells the number of followers, which ZooKeeper does not since 3.6.
        check(f"collectd finds every value of Apache in a {role} ({len(apache_values)})",
              None if values - {"count-followers"} == apache_values and values else f"{sorted(values)}, Apache {sorted(apache_values)}")


def main():
    if os.environ.get("INTEROP_PEER") == "apache":
        print("skip collectors: they compare Zebu with Apache, so they need Zebu")
        print("ok Apache is not compared with itself")
        return
    missing = [tool for tool in ("go", "apt-get", "dpkg-deb", "java", "mvn") if not shutil.which(tool)]
    if missing:
        fail(f"not ok start: {', '.join(missing)} is missing")
    versions = ", ".join(f"{name} {module.rpartition('@')[2]}" for name, _, module in COLLECTORS)
    print(f"version {versions}, collectd, Apache ZooKeeper {VERSION}", flush=True)
    cache = pathlib.Path(required("INTEROP_CACHE"))
    programs = {name: build_collector(cache, file, module) for name, file, module in COLLECTORS}
    collectd = unpack_collectd(cache)
    with tempfile.TemporaryDirectory() as directory:
        home = pathlib.Path(directory)
        for roles in serve(required("ZEBU"), fetch(), home):
            for name, program in programs.items():
                compare_fields(roles, name, program)
            compare_collectd(roles, collectd, home)


if __name__ == "__main__":
    main()
