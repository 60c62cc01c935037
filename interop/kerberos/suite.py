#!/usr/bin/env python3
"""Kerberos with a real KDC on loopback: clients, servers and ensembles of Zebu and of Apache ZooKeeper.

    suite.py [WORD…]    only the groups whose name contains one of the words

KERBEROS_ZEBU names a binary with the feature kerberos; without it the suite builds one.
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from kdc import FOREIGN, PATH, REALM, Kdc, missing_packages
from raw import RawClient, Recorder
from servers import KerberosServer, ask, free_ports, login

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
sys.path.append(str(HERE.parent / "kazoo"))
import environment  # noqa: E402
from suite_program import fail, required, run_or_fail  # noqa: E402

CHECK_LIMIT_SECONDS = 90
SERVER = f"zookeeper/localhost@{REALM}"
PEER = f"zkquorum/localhost@{REALM}"
CLIENT = f"client@{REALM}"
STRANGER = f"client@{FOREIGN}"
QUORUM_LINES = ["quorum.auth.enableSasl=true", "quorum.auth.learnerRequireSasl=true", "quorum.auth.serverRequireSasl=true",
                "quorum.auth.kerberos.servicePrincipal=zkquorum/_HOST", "initLimit=20", "syncLimit=10"]


class Programs:
    """What the suite fetches and builds."""

    def __init__(self):
        self.made = pathlib.Path(required("INTEROP_CACHE"))
        self.zebu = os.environ.get("KERBEROS_ZEBU") or self.build_zebu()
        java = HERE.parent / "java"
        script = (f". {shlex.quote(str(java / 'lib.sh'))}\nfetch_jars java-client {java}/java-client/pom.xml\n"
                  f"mkdir -p $made/kerberos; ln -sfn ../java-client/jars $made/kerberos/jars\n"
                  f"compile kerberos {HERE.parent}/security/src/SecureClient.java")
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            fail((done.stdout.strip().splitlines() or ["not ok start: see the log"])[-1])
        self.classes = f"{self.made}/kerberos/classes:{self.made}/kerberos/jars/*"
        self.python = self.make_python()

    def build_zebu(self):
        """The binary with the feature. The one without it takes its place in target/release again."""
        build = ["cargo", "build", "--release", "--quiet", "--package", "zebu"]
        run_or_fail([*build, "--features", "kerberos"], "not ok build: Zebu with --features kerberos", cwd=PROJECT)
        binary = self.made / "kerberos-zebu"
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target"))
        shutil.copy(target / "release" / "zebu", binary)
        run_or_fail(build, "not ok build: Zebu", cwd=PROJECT)
        return str(binary)

    def make_python(self):
        """kazoo with the module for GSSAPI, or None where it cannot be built."""
        interpreter = environment.python()
        install = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement",
                   HERE / "requirements.txt"]
        done = subprocess.run(install, capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            return None
        return interpreter


class Suite:
    def __init__(self, work, kdc, programs):
        self.work, self.kdc, self.programs = pathlib.Path(work), kdc, programs
        self.count = 0
        self.properties = [f"java.security.krb5.conf={kdc.config}"]
        self.server_keytab = kdc.keytab("server", [SERVER, PEER])
        self.client_keytab = kdc.keytab("client", [CLIENT])
        self.foreign_keytab = kdc.keytab("foreign", [STRANGER], FOREIGN)
        self.cache = kdc.ticket("client", self.client_keytab, CLIENT)
        self.client_jaas = self.file("client.jaas", login("Client", CLIENT, self.client_keytab))

    def file(self, name, text):
        path = self.work / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    def number(self):
        self.count += 1
        return self.count

    def server(self, kind="zebu", keytab=None, lines=(), principal=SERVER):
        jaas = login("Server", principal, keytab or self.server_keytab, "isInitiator=false")
        started = KerberosServer(kind, self.work / f"server-{self.number()}", self.programs, jaas, lines, self.properties)
        return started

    def run(self, command, variables=None):
        """The status and the output of a program."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("KRB5")}
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                  timeout=CHECK_LIMIT_SECONDS, env={**kept, **(variables or {})})
        except subprocess.TimeoutExpired:
            return 1, f"not at its end after {CHECK_LIMIT_SECONDS} s"
        print(done.stdout, done.stderr, file=sys.stderr)
        return done.returncode, done.stdout + done.stderr

    def report(self, name, problem):
        print(f"not ok {name}: {problem}" if problem else f"ok {name}", flush=True)

    def shell(self, address, words, variables=None):
        config = f"-Djava.security.krb5.conf={self.kdc.config}"
        return self.run([self.programs.zebu, "shell", "-server", address, config, *words, "whoami"], variables)

    def zebu(self, name, address, words, expected, variables=None):
        """The shell must see an id, or fail with a text."""
        status, output = self.shell(address, words, variables)
        is_id = expected.startswith("sasl: ")
        good = expected in output and (status == 0) == is_id
        self.report(name, None if good else f"status {status}, {expected!r} expected: {output.strip()[-300:]}")

    def java(self, name, address, jaas, expected):
        properties = [f"-Djava.security.auth.login.config={jaas}", f"-Djava.security.krb5.conf={self.kdc.config}"]
        logging = f"-Dlogback.configurationFile={HERE.parent}/java/logback.xml"
        _, output = self.run(["java", "-Xmx256m", "-XX:+UseSerialGC", logging, *properties, "-cp", self.programs.classes,
                              "SecureClient", address, f"/java-{self.number()}", expected])
        last = (output.strip().splitlines() or ["it printed nothing"])
        self.report(name, None if "done" in last else last[-1])

    def kazoo(self, name, address, cache, expected, authorization_id=None):
        if not self.programs.python:
            print(f"skip {name}: the Python package kerberos cannot be built; install python3-dev and libkrb5-dev", flush=True)
            return
        options = {"mechanism": "GSSAPI"}
        if authorization_id:
            options["authorization_id"] = authorization_id
        words = [address, f"/kazoo-{self.number()}", expected, json.dumps({"sasl_options": options})]
        variables = {"KRB5_CONFIG": str(self.kdc.config), "KRB5CCNAME": cache}
        _, output = self.run([self.programs.python, HERE.parent / "security" / "kazoo_client.py", *words], variables)
        lines = output.strip().splitlines() or ["it printed nothing"]
        self.report(name, None if "done" in lines else lines[-1])

    def refusal(self, server, name, attempt, line):
        """An attempt that the server must refuse, log and count."""
        before = server.counter("auth_failed_count")
        attempt()
        try:
            server.await_line(line)
            after = server.counter("auth_failed_count")
            self.report(f"{name}, log and counter", None if after > before else f"the counter is {before} and then {after}")
        except RuntimeError as error:
            self.report(f"{name}, log and counter", error)

    def clients(self):
        """Clients of all kinds at one server."""
        with self.server() as server:
            server.await_start()
            address, mine = f"localhost:{server.port}", f"sasl: {CLIENT}"
            jaas = f"-Djava.security.auth.login.config={self.client_jaas}"
            self.zebu("zebu keytab in JAAS", address, [jaas], mine)
            self.zebu("zebu keytab as argument", address, ["--kerberos-keytab", self.client_keytab], mine)
            self.zebu("zebu ticket cache", address, ["--kerberos"], mine, {"KRB5CCNAME": self.cache})
            by_cache = self.file("cache.jaas", 'Client { com.sun.security.auth.module.Krb5LoginModule required '
                                 f'useTicketCache=true ticketCache="{self.cache.removeprefix("FILE:")}"; }};\n')
            self.zebu("zebu ticket cache in JAAS", address, [f"-Djava.security.auth.login.config={by_cache}"], mine)
            self.zebu("zebu server principal", f"127.0.0.1:{server.port}",
                      [jaas, "-Dzookeeper.server.principal=zookeeper/localhost"], mine)
            self.zebu("zebu server realm", address, [jaas, f"-Dzookeeper.server.realm={REALM}"], mine)
            self.zebu("zebu host as written", address, [jaas, "-Dzookeeper.sasl.client.canonicalize.hostname=false"], mine)
            self.bench(address)
            self.java("java keytab", address, self.client_jaas, f"sasl:{CLIENT}")
            self.kazoo("kazoo", address, self.cache, f"sasl:{CLIENT}")
            self.kazoo("kazoo asks for another id", address, self.cache, f"sasl:{CLIENT}", "super")

    def bench(self, address):
        command = [self.programs.zebu, "bench", "--kerberos-keytab", self.client_keytab,
                   f"-Djava.security.krb5.conf={self.kdc.config}", "--server", address, "--seconds", "1", "--sessions", "4"]
        status, output = self.run(command)
        self.report("zebu bench", None if status == 0 else output.strip()[-300:])

    def refusals(self):
        """Each reason has a clear line, a refusal and a counter."""
        with self.server(lines=[f"superUser={STRANGER}", "superUser.2=super"]) as server:
            server.await_start()
            address = f"localhost:{server.port}"
            self.zebu("no ticket", address, ["--kerberos"], "run kinit", {"KRB5CCNAME": f"FILE:{self.work}/none"})
            short = self.kdc.ticket("short", self.client_keytab, CLIENT, ["-l", "2s"])
            time.sleep(3)
            self.zebu("expired ticket", address, ["--kerberos"], "has expired", {"KRB5CCNAME": short})
            self.zebu("unknown server", address, ["--kerberos", "-Dzookeeper.sasl.client.username=nosuch"],
                      "does not know the principal of the server", {"KRB5CCNAME": self.cache})
            self.zebu("principal that is not in the keytab", address,
                      ["--kerberos-keytab", self.client_keytab, "--kerberos-principal", "nobody"], "no Kerberos ticket")
            self.unknown_to_kdc(address)
            self.refusal(server, "ticket of another service",
                         lambda: self.zebu("ticket of another service", address,
                                           ["--kerberos", "-Dzookeeper.sasl.client.username=zkquorum"], "refused the SASL login",
                                           {"KRB5CCNAME": self.cache}), "Cannot decrypt ticket for zkquorum")
            foreign = self.kdc.ticket("foreign", self.foreign_keytab, STRANGER)
            no_rule = "no rule of auth_to_local applies"
            self.refusal(server, "other realm", lambda: self.zebu("other realm", address, ["--kerberos"],
                         "refused the SASL login", {"KRB5CCNAME": foreign}), no_rule)
            self.kazoo("other realm asks for a super user", address, foreign, "auth-failed", "super")
            self.clock_skew(server, address)
            self.raw_tokens(server)
            self.replay(server)
            self.zebu("still served", address, ["--kerberos"], f"sasl: {CLIENT}", {"KRB5CCNAME": self.cache})

    def unknown_to_kdc(self, address):
        """A principal that the KDC has forgotten."""
        gone = f"gone@{REALM}"
        keytab = self.kdc.keytab("gone", [gone])
        self.kdc.administer(REALM, f"delprinc -force {gone}")
        self.zebu("principal that the KDC does not know", address, ["--kerberos-keytab", keytab],
                  "does not know the own principal")

    def clock_skew(self, server, address):
        """The client's clock is ten minutes ahead; its ticket is in the cache, so that no KDC corrects it."""
        library = next(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
        if not library:
            print("skip clock skew: libfaketime is missing; install faketime", flush=True)
            return
        cache = self.kdc.ticket("skewed", self.client_keytab, CLIENT)
        self.kdc.service_ticket(cache, SERVER)
        variables = {"KRB5CCNAME": cache, "LD_PRELOAD": str(library), "FAKETIME": "+600s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        self.refusal(server, "clock skew", lambda: self.zebu("clock skew", address, ["--kerberos"], "refused the SASL login",
                                                             variables), "Clock skew too great")

    def raw_tokens(self, server):
        """Tokens that are garbage or out of order end with -115 and a close."""
        wrapped = bytes.fromhex("050400ff000c00000000000007429ffd01010000636c69656e74405a4542552e54455354dd910ca76c17a6309a308feb")
        for name, tokens in {
            "empty first token": [b""],
            "garbage": [b"garbage"],
            "DIGEST-MD5 response": [b'username="bob",realm="zk-sasl-md5"'],
            "last token first": [wrapped],
            "long token": [b"\x60" * (64 << 10)],
            "token over the limit": [b"\x60" * ((64 << 10) + 1)],
        }.items():
            client = RawClient(server.port)
            replies = [client.token(token) for token in tokens]
            problem = None if replies[-1] == (-115, None) else f"the reply is {replies}"
            self.report(f"raw {name}", problem or (None if client.is_closed() else "the connection stays open"))
            client.close()
        client = RawClient(server.port)
        reply = client.token(None)
        self.report("raw null token", None if reply is None else f"a reply {reply}")
        client.close()

    def replay(self, server):
        """A reader of the network sends the tokens of another client again."""
        recorder = Recorder(server.port)
        self.zebu("exchange that is recorded", f"localhost:{recorder.port}", ["--kerberos"], f"sasl: {CLIENT}",
                  {"KRB5CCNAME": self.cache})
        tokens = recorder.tokens()
        if len(tokens) < 2 or not tokens[0].startswith(b"\x60"):
            self.report("replayed AP-REQ", f"{len(tokens)} tokens were recorded")
            return

        def attempt():
            client = RawClient(server.port)
            reply = client.token(tokens[0])
            closed = reply == (-115, None) and client.is_closed()
            self.report("replayed AP-REQ", None if closed else f"the reply is {reply}")
            client.close()
        self.refusal(server, "replayed AP-REQ", attempt, "replay")

    def tls(self):
        """Kerberos inside TLS: the client has the ids of its certificate and of its ticket."""
        home = self.work / "tls"
        home.mkdir()
        for words in (["server", "localhost"], ["client", "shop"]):
            subprocess.run([self.programs.zebu, "cert", *words], cwd=home, check=True, capture_output=True)
        certificates = home / "zebu-certs"
        secure = free_ports(1)[0]
        lines = [f"secureClientPort={secure}", "secureClientPortAddress=127.0.0.1",
                 f"ssl.keyStore.location={certificates}/server.pem", f"ssl.trustStore.location={certificates}/ca.pem"]
        flags = ["--tls-ca", certificates / "ca.pem", "--tls-cert", certificates / "shop.pem", "--kerberos"]
        with self.server(lines=lines) as server:
            server.await_start()
            status, output = self.shell(f"localhost:{secure}", flags, {"KRB5CCNAME": self.cache})
            both = f"sasl: {CLIENT}" in output and "x509: CN=shop" in output
            self.report("zebu over TLS", None if status == 0 and both else f"status {status}: {output.strip()[-300:]}")

    def rules(self):
        """auth_to_local, and the parts of names that are removed."""
        rule = f"security.auth_to_local=RULE:[1:$1@$0](.*@{FOREIGN})s/@.*// DEFAULT"
        foreign = self.kdc.ticket("ruled", self.foreign_keytab, STRANGER)
        with self.server(lines=[rule, "kerberos.removeRealmFromPrincipal=true", "kerberos.removeHostFromPrincipal=true"]) as server:
            server.await_start()
            address = f"localhost:{server.port}"
            self.zebu("rule for another realm", address, ["--kerberos"], "sasl: client", {"KRB5CCNAME": foreign})
            keytab = self.kdc.keytab("service", [f"app/host1@{REALM}"])
            self.zebu("host and realm removed", address, ["--kerberos-keytab", keytab], "sasl: app\n")

    def enforced(self):
        """Clients must use SASL."""
        with self.server(lines=["sessionRequireClientSASLAuth=true"]) as server:
            server.await_start()
            address = f"localhost:{server.port}"
            self.java("java enforced", address, self.client_jaas, f"sasl:{CLIENT}")
            self.zebu("zebu enforced", address, ["--kerberos"], f"sasl: {CLIENT}", {"KRB5CCNAME": self.cache})

    def keys(self):
        """Keytabs that do not fit, and keys that change under a server."""
        principal = f"rotated/localhost@{REALM}"
        keytab = pathlib.Path(self.kdc.keytab("rotated", [principal]))
        with self.server(keytab=str(keytab), principal=principal) as server:
            server.await_start()
            address, words = f"localhost:{server.port}", ["--kerberos", "-Dzookeeper.sasl.client.username=rotated"]
            old = keytab.read_bytes()
            keytab.unlink()
            self.kdc.keytab("rotated", [principal])
            new = keytab.read_bytes()
            keytab.write_bytes(old)
            cache = self.kdc.ticket("rotated", self.client_keytab, CLIENT)
            self.refusal(server, "keytab out of date",
                         lambda: self.zebu("keytab out of date", address, words, "refused the SASL login", {"KRB5CCNAME": cache}),
                         "Cannot find key for rotated/localhost")
            keytab.write_bytes(new)
            self.zebu("new keytab without restart", address, words, f"sasl: {CLIENT}", {"KRB5CCNAME": cache})
        for name, keytab, line in (("keytab of another principal", self.client_keytab, f"no key of {SERVER} for clients"),
                                   ("missing keytab", str(self.work / "none.keytab"), f"no key of {SERVER} for clients")):
            with self.server(keytab=keytab) as server:
                status = server.process.wait(START_SECONDS)
                good = status == 1 and line in server.log() and "klist -k" in server.log()
                self.report(name, None if good else f"status {status}: {server.log()[-300:]}")

    def apache(self):
        """Zebu's client at Apache's server."""
        with self.server("apache") as server:
            server.await_start()
            address = f"localhost:{server.port}"
            jaas = f"-Djava.security.auth.login.config={self.client_jaas}"
            self.zebu("apache, zebu keytab", address, [jaas], f"sasl: {CLIENT}")
            self.zebu("apache, zebu ticket cache", address, ["--kerberos"], f"sasl: {CLIENT}", {"KRB5CCNAME": self.cache})
            self.zebu("apache, ticket of another service", address,
                      ["--kerberos", "-Dzookeeper.sasl.client.username=zkquorum"], "refused the SASL login",
                      {"KRB5CCNAME": self.cache})

    def ensemble(self, kinds, learner=PEER, learner_keytab=None):
        """Servers with SASL between them. The last one may have another login."""
        ports = free_ports(3 * len(kinds))
        peers = [f"server.{number}=localhost:{ports[3 * number - 3]}:{ports[3 * number - 2]}"
                 for number in range(1, len(kinds) + 1)]
        servers = []
        for number, kind in enumerate(kinds, 1):
            is_last = number == len(kinds)
            dialer = (learner, learner_keytab or self.server_keytab) if is_last else (PEER, self.server_keytab)
            jaas = (login("QuorumServer", PEER, self.server_keytab, "isInitiator=false") + login("QuorumLearner", *dialer)
                    + login("Server", SERVER, self.server_keytab, "isInitiator=false"))
            servers.append(KerberosServer(kind, self.work / f"member-{self.number()}", self.programs, jaas,
                                          [*QUORUM_LINES, *peers], self.properties, ports[3 * number - 1], number))
        return servers

    def serves(self, name, servers):
        """Writes at each server, reads at each other."""
        for server in servers:
            server.await_start()
        jaas = f"-Djava.security.auth.login.config={self.client_jaas}"
        config = f"-Djava.security.krb5.conf={self.kdc.config}"
        problem = None
        for writer in servers:
            path = f"/n{self.number()}"
            status, output = self.run([self.programs.zebu, "shell", "-server", f"localhost:{writer.port}", jaas, config,
                                       "create", path, "v"])
            problem = problem or (f"create: {output[-300:]}" if status else None)
            for reader in servers:
                words = [self.programs.zebu, "shell", "-server", f"localhost:{reader.port}", jaas, config, "-waitforconnection"]
                self.run([*words, "sync", path])
                status, output = self.run([*words, "get", path])
                problem = problem or (f"get: {output[-300:]}" if status or "v" not in output else None)
        self.report(name, problem)

    def quorum_of(self, kinds, name, life_seconds=0):
        servers = self.ensemble(kinds)
        try:
            self.serves(f"{name} serves", servers)
            time.sleep(life_seconds)
            leader = next(server for server in servers if server.is_leader())
            leader.stop()
            rest = [server for server in servers if server is not leader]
            self.serves(f"{name} after its leader ({leader.kind}) was killed", rest)
            leader.start()
            self.serves(f"{name} with its old leader again", servers)
            zebu = next(server for server in servers if server.kind == "zebu")
            self.report(f"{name} uses GSSAPI", None if "SASL (GSSAPI) between servers is on" in zebu.log() else "no line says so")
        finally:
            for server in servers:
                server.stop()

    def quorum_zebu(self):
        """Tickets between the servers live for some seconds: the library must fetch new ones."""
        self.kdc.administer(REALM, f"modprinc -maxlife {SHORT_LIFE_SECONDS}s {PEER}")
        self.quorum_of(["zebu", "zebu", "zebu"], "zebu ensemble", SHORT_LIFE_SECONDS)
        self.kdc.administer(REALM, f"modprinc -maxlife 1h {PEER}")

    def quorum_mixed(self):
        self.quorum_of(["apache", "zebu", "apache"], "mixed ensemble")
        self.quorum_of(["zebu", "apache", "zebu"], "mixed ensemble of two Zebu servers")

    def quorum_strangers(self):
        """A server whose login is no principal of the ensemble stays outside."""
        for name, principal, keytab in (
            ("client principal as peer", CLIENT, self.client_keytab),
            ("peer of an unlisted host", f"zkquorum/elsewhere@{REALM}",
             self.kdc.keytab("elsewhere", [f"zkquorum/elsewhere@{REALM}"])),
        ):
            servers = self.ensemble(["zebu", "zebu", "zebu"], principal, keytab)
            try:
                for server in servers[:2]:
                    server.await_start()
                servers[0].await_line("is no server of the ensemble")
                refused = sum(server.counter("quorum_auth_failed_count") or 0 for server in servers[:2])
                is_outside = "Mode: " not in ask(servers[2].port, "srvr")
                self.report(name, None if refused and is_outside else f"{refused} refused, outside: {is_outside}")
            finally:
                for server in servers:
                    server.stop()


START_SECONDS = 30
SHORT_LIFE_SECONDS = 6
GROUPS = ("clients", "refusals", "tls", "rules", "enforced", "keys", "apache", "quorum_zebu", "quorum_mixed", "quorum_strangers")


def main():
    lacking = missing_packages()
    if lacking:
        fail(f"not ok start: Debian packages are missing: {' '.join(lacking)}")
    print("version MIT Kerberos, Java 3.9.5, kazoo", flush=True)
    wanted = sys.argv[1:]
    programs = Programs()
    os.environ["PATH"] = PATH
    with tempfile.TemporaryDirectory(prefix="zebu-kerberos-", ignore_cleanup_errors=True) as work:
        kdc = Kdc(pathlib.Path(work) / "kdc", free_ports(1)[0])
        try:
            suite = Suite(work, kdc, programs)
            for group in GROUPS:
                if wanted and not any(word in group for word in wanted):
                    continue
                try:
                    getattr(suite, group)()
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    print(f"not ok {group}: {error}", flush=True)
        finally:
            kdc.stop()


if __name__ == "__main__":
    main()
