#!/usr/bin/env python3
"""Unmodified foreign clients through TLS and SASL.

Stores are made by OpenSSL and keytool. Each group of checks has a server of its own, of Zebu or of Apache.

    suite.py [WORD…]    only the checks whose name contains one of the words
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

from certificates import CLIENT_ID, PASSWORD, Stores
from servers import Server, required

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "kazoo"))
import environment  # noqa: E402

CHECK_LIMIT_SECONDS = 90
CURRENT = "java-client"
OLD_RELEASES = ["3.5.10", "3.6.4", "3.7.2", "3.8.6"]
X509 = f"x509:{CLIENT_ID}"
SASL_PROVIDER = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
SERVER_JAAS = """Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_bob="bobsecret"
    user_zoë="café";
};
"""
CLIENT_JAAS = """Client {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="%s"
    password="%s";
};
"""


def shell(text):
    done = subprocess.run(["bash", "-c", f". {shlex.quote(str(HERE.parent / 'java' / 'lib.sh'))}\n{text}"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        environment.fail((done.stdout.strip().splitlines() or ["not ok start: see the log"])[-1])


class Clients:
    """The programs, fetched and compiled once."""

    def __init__(self, full):
        self.made = pathlib.Path(required("INTEROP_CACHE"))
        java = HERE.parent / "java"
        sources = shlex.quote(str(HERE / "src"))
        shell(f"fetch_jars {CURRENT} {java}/{CURRENT}/pom.xml\n"
              f"mkdir -p $made/security; ln -sfn ../{CURRENT}/jars $made/security/jars\n"
              f"compile security {sources}/SecureClient.java")
        self.classes = {CURRENT: self.class_path("security")}
        shell(f"fetch_jars curator {java}/curator/pom.xml\n"
              f"mkdir -p $made/security-curator; ln -sfn ../curator/jars $made/security-curator/jars\n"
              f"compile security-curator {sources}/SecureCurator.java")
        self.classes["curator"] = self.class_path("security-curator")
        for release in OLD_RELEASES if full else []:
            name = f"security-{release}"
            shell(f"mkdir -p $made/{name}; sed s/@VERSION@/{release}/ {java}/old-clients/pom.xml >$made/{name}/pom.xml\n"
                  f"fetch_jars {name} $made/{name}/pom.xml\ncompile {name} {sources}/SecureClient.java")
            self.classes[release] = self.class_path(name)
        self.python = environment.python()
        self.go = self.build_go()

    def class_path(self, name):
        return f"{self.made}/{name}/classes:{self.made}/{name}/jars/*"

    def build_go(self):
        program = self.made / "security" / "go-client"
        build = subprocess.run(["go", "build", "-o", str(program), "."], cwd=HERE / "go", capture_output=True, text=True,
                               env={**os.environ, "GOFLAGS": "-mod=readonly"})
        if build.returncode != 0:
            environment.fail(f"unreachable Go's modules, or the program does not build: {build.stderr.strip()[-200:]}")
        return str(program)

    def java(self, release, properties, words, main="SecureClient"):
        settings = [f"-D{key}={value}" for key, value in properties.items()]
        logging = f"-Dlogback.configurationFile={HERE.parent}/java/logback.xml"
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", logging, *settings, "-cp",
                self.classes[release], main, *words]


def serial_of(text):
    """The serial number of the first certificate in a text."""
    return subprocess.run(["openssl", "x509", "-noout", "-serial"], input=text, capture_output=True, text=True).stdout.strip()


def serial(file):
    return serial_of(pathlib.Path(file).read_text())


def replace(file, text):
    """Replaces a file as a whole, as tools that renew certificates do."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)


class Suite:
    def __init__(self, work, wanted):
        self.work = pathlib.Path(work)
        self.wanted = wanted
        self.full = os.environ.get("INTEROP_PART") == "full"
        self.clients = Clients(self.full)
        self.stores = Stores(self.work / "stores")
        self.count = 0

    def is_wanted(self, name):
        return not self.wanted or any(word in name for word in self.wanted)

    def server(self, lines, properties=()):
        self.count += 1
        return Server(self.work / f"server-{self.count}", self.clients.classes[CURRENT], lines, properties)

    def check(self, name, command, variables=None):
        """Runs a client to its end. Its last line is "done", or says why it is not."""
        if not self.is_wanted(name):
            return
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                                  timeout=CHECK_LIMIT_SECONDS, stdin=subprocess.DEVNULL,
                                  env={**os.environ, **(variables or {})})
            lines = done.stdout.strip().splitlines()
            result = lines[-1] if lines else (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            print(done.stdout, done.stderr, file=sys.stderr)
        except subprocess.TimeoutExpired:
            result = f"not at its end after {CHECK_LIMIT_SECONDS} s"
        print(f"ok {name}" if result == "done" else f"not ok {name}: {result}", flush=True)

    def root(self):
        self.count += 1
        return f"/root-{self.count}"

    def tls_properties(self, key="client.pem", trust="trust.pem", more=None):
        properties = {
            "zookeeper.client.secure": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.trustStore.location": self.stores.path(trust),
            "zookeeper.ssl.trustStore.password": "" if trust.endswith("pem") else PASSWORD,
        }
        if key:
            properties["zookeeper.ssl.keyStore.location"] = self.stores.path(key)
            properties["zookeeper.ssl.keyStore.password"] = "" if key.endswith("pem") else PASSWORD
        return {**properties, **(more or {})}

    def tls_lines(self, key, trust, *more):
        password = [] if key.endswith("pem") else [f"ssl.keyStore.password={PASSWORD}"]
        trust_password = [] if trust.endswith("pem") else [f"ssl.trustStore.password={PASSWORD}"]
        return ["secureClientPort=@SECURE@", "secureClientPortAddress=127.0.0.1",
                f"ssl.keyStore.location={self.stores.path(key)}", *password,
                f"ssl.trustStore.location={self.stores.path(trust)}", *trust_password,
                "ssl.enabledProtocols=TLSv1.2,TLSv1.3", *more]

    def jaas(self, name, text):
        file = self.work / f"{name}.conf"
        file.write_text(text, encoding="utf-8")
        return str(file)

    def stores_of_all_kinds(self):
        """The server and the Java client with each type of store."""
        for ending in ("jks", "p12", "pem"):
            if not self.is_wanted(f"java {ending} tls"):
                continue
            with self.server(self.tls_lines(f"server.{ending}", f"trust.{ending}")) as server:
                properties = self.tls_properties(f"client.{ending}", f"trust.{ending}")
                words = [f"localhost:{server.secure}", self.root(), X509]
                self.check(f"java {ending} tls", self.clients.java(CURRENT, properties, words))

    def tls_clients(self):
        with self.server(self.tls_lines("server.pem", "trust.pem")) as server:
            address = f"localhost:{server.secure}"
            for release in OLD_RELEASES if self.full else []:
                # Releases before 3.5.10's PEM support would need JKS; all of these read JKS.
                properties = self.tls_properties("client.jks", "trust.jks")
                self.check(f"java {release} tls", self.clients.java(release, properties, [address, self.root(), X509]))
            for version in ("TLSv1.2", "TLSv1.3"):
                more = {"zookeeper.ssl.protocol": version, "zookeeper.ssl.enabledProtocols": version}
                properties = self.tls_properties(more=more)
                words = [address, self.root(), X509]
                self.check(f"java {version}", self.clients.java(CURRENT, properties, words))
            words = [address, self.root(), X509]
            self.check("curator tls", self.clients.java("curator", self.tls_properties(), words, "SecureCurator"))
            self.check("java v1 certificate", self.clients.java(
                CURRENT, self.tls_properties("v1.pem"), [address, self.root(), X509]))
            self.check("java unknown authority", self.clients.java(
                CURRENT, self.tls_properties("stranger.pem"), [address, self.root(), "refused"]))
            self.check("java no certificate", self.clients.java(
                CURRENT, self.tls_properties(key=None), [address, self.root(), "refused"]))
            plain = {"zookeeper.sasl.client": "false"}
            self.check("java plain on the TLS port", self.clients.java(
                CURRENT, plain, [address, self.root(), "refused"]))
            self.kazoo("kazoo tls", address, X509, self.kazoo_tls("client"))
            self.kazoo("kazoo v1 certificate", address, X509, self.kazoo_tls("v1"))
            self.kazoo("kazoo unknown authority", address, "refused", self.kazoo_tls("stranger"))
            certificate = [self.stores.path("ca.crt"), self.stores.path("client.crt"), self.stores.path("client.key")]
            self.check("go tls", [self.clients.go, address, self.root(), X509, *certificate])
            for version in ("-tls1_2", "-tls1_3"):
                self.four_letter_word(f"openssl {version} ruok", server, version)

    def kazoo_tls(self, name):
        return {"use_ssl": True, "ca": self.stores.path("ca.crt"), "certfile": self.stores.path(f"{name}.crt"),
                "keyfile": self.stores.path(f"{name}.key"), "verify_certs": True, "check_hostname": True}

    def kazoo(self, name, address, expected, options):
        program = [self.clients.python, HERE / "kazoo_client.py", address, self.root(), expected, json.dumps(options)]
        self.check(name, program)

    def four_letter_word(self, name, server, version):
        connect = ["openssl", "s_client", "-quiet", version, "-connect", f"127.0.0.1:{server.secure}", "-servername",
                   "localhost", "-cert", self.stores.path("client.crt"), "-key", self.stores.path("client.key"), "-CAfile",
                   self.stores.path("ca.crt"), "-verify_return_error"]
        text = f"(sleep 1; printf ruok; sleep 1) | {shlex.join(connect)} 2>/dev/null"
        self.check(name, ["bash", "-c", f'[ "$({text})" = imok ] && echo done || echo "no imok"'])

    def optional_certificates(self):
        lines = self.tls_lines("server.pem", "trust.pem", "ssl.clientAuth=want",
                               "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider")
        with self.server(lines) as server:
            address = f"localhost:{server.secure}"
            self.check("java want, with certificate", self.clients.java(
                CURRENT, self.tls_properties(), [address, self.root(), X509]))
            # The server names its authorities; Java sends no certificate of another one.
            self.check("java want, unknown authority", self.clients.java(
                CURRENT, self.tls_properties("stranger.pem"), [address, "/", "connected"]))
            self.check("openssl want, without certificate", ["bash", "-c", (
                f"r=$( (sleep 1; printf ruok; sleep 1) | openssl s_client -quiet -connect 127.0.0.1:{server.secure} "
                f"-CAfile {self.stores.path('ca.crt')} 2>/dev/null); [ \"$r\" = imok ] && echo done || echo no imok")])

    def one_port_for_both(self):
        lines = self.tls_lines("server.pem", "trust.pem", "client.portUnification=true",
                               "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider")
        with self.server(lines) as server:
            address = f"localhost:{server.plain}"
            self.check("java tls on the unified port", self.clients.java(
                CURRENT, self.tls_properties(), [address, self.root(), X509]))
            plain = {"zookeeper.sasl.client": "false"}
            words = [address, "/", "connected"]
            self.check("java plain on the unified port", self.clients.java(CURRENT, plain, words))

    def certificates_replaced(self):
        """New connections get the new certificate, and no connection of clients at work is lost."""
        name = "kazoo keeps its connections while certificates change"
        if not self.full or not self.is_wanted(name):
            return
        store = self.work / "changing.pem"
        store.write_text((self.stores.directory / "server.pem").read_text())
        lines = self.tls_lines("server.pem", "trust.pem")
        lines = [f"ssl.keyStore.location={store}" if line.startswith("ssl.keyStore.location") else line for line in lines]
        with self.server(lines) as server:
            load = subprocess.Popen(
                [self.clients.python, HERE / "kazoo_load.py", f"localhost:{server.secure}", self.root(),
                 json.dumps(self.kazoo_tls("client"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            try:
                result = load.stdout.readline().strip()
                if result == "ready":
                    result = self.change_certificates(server, store)
                last = load.communicate(timeout=CHECK_LIMIT_SECONDS)[0].strip()
                result = last if result == "done" else result
            finally:
                load.kill()
                load.wait()
        print(f"ok {name}" if result == "done" else f"not ok {name}: {result}", flush=True)

    def change_certificates(self, server, store):
        """ "done", or what is wrong."""
        renewed = self.stores.renewed_server()
        replace(store, renewed.read_text())
        if not self.await_certificate(server, renewed):
            return "new connections do not get the new certificate"
        if os.environ.get("INTEROP_PEER") == "apache":
            # It refuses all connections while the file is bad.
            return "done"
        replace(store, "no store at all")
        if not server.await_line("the old ones stay in use"):
            return "the bad file is not reported"
        return "done" if self.shown_certificate(server) == serial(renewed) else "the bad file ended the service"

    def shown_certificate(self, server):
        connect = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.secure}", "-cert", self.stores.path("client.crt"),
                   "-key", self.stores.path("client.key")]
        shown = subprocess.run(connect, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return serial_of(shown.stdout)

    def await_certificate(self, server, file):
        end = time.monotonic() + CHECK_LIMIT_SECONDS
        while time.monotonic() < end:
            if self.shown_certificate(server) == serial(file):
                return True
            time.sleep(0.2)
        return False

    def sasl_clients(self):
        server_file = self.jaas("server", SERVER_JAAS)
        properties = [f"java.security.auth.login.config={server_file}", "zookeeper.fips-mode=false"]
        lines = [SASL_PROVIDER, *self.tls_lines("server.pem", "trust.pem")]
        with self.server(lines, properties) as server:
            address = f"localhost:{server.plain}"
            for name, password in (("bob", "bobsecret"), ("zoë", "café")):
                self.check(f"java sasl {name}", self.clients.java(
                    CURRENT, self.sasl_properties(name, password), [address, self.root(), f"sasl:{name}"]))
            self.check("java sasl wrong password", self.clients.java(
                CURRENT, self.sasl_properties("bob", "wrong"), [address, self.root(), "auth-failed"]))
            for release in OLD_RELEASES if self.full else []:
                self.check(f"java {release} sasl", self.clients.java(
                    release, self.sasl_properties("bob", "bobsecret"), [address, self.root(), "sasl:bob"]))
            words = [address, self.root(), "sasl:bob"]
            self.check("curator sasl", self.clients.java(
                "curator", self.sasl_properties("bob", "bobsecret"), words, "SecureCurator"))
            options = {"mechanism": "DIGEST-MD5", "username": "bob", "password": "bobsecret"}
            self.kazoo("kazoo sasl", address, "sasl:bob", {"sasl_options": options})
            wrong = {**options, "password": "wrong"}
            self.kazoo("kazoo sasl wrong password", address, "auth-failed", {"sasl_options": wrong})
            both = {**self.tls_properties("client.p12", "trust.p12"), **self.sasl_properties("bob", "bobsecret")}
            for expected in (X509, "sasl:bob"):
                self.check(f"java tls and sasl, {expected.partition(':')[0]}", self.clients.java(
                    CURRENT, both, [f"localhost:{server.secure}", self.root(), expected]))

    def sasl_properties(self, user, password):
        file = self.jaas(f"client-{self.count}", CLIENT_JAAS % (user, password))
        return {"java.security.auth.login.config": file, "zookeeper.fips-mode": "false"}

    def enforced(self):
        server_file = self.jaas("enforcing", SERVER_JAAS)
        properties = [f"java.security.auth.login.config={server_file}", "zookeeper.fips-mode=false"]
        with self.server([SASL_PROVIDER, "sessionRequireClientSASLAuth=true"], properties) as server:
            address = f"localhost:{server.plain}"
            self.check("java enforced sasl", self.clients.java(
                CURRENT, self.sasl_properties("bob", "bobsecret"), [address, self.root(), "sasl:bob"]))
            options = {"mechanism": "DIGEST-MD5", "username": "bob", "password": "bobsecret"}
            self.kazoo("kazoo enforced sasl", address, "sasl:bob", {"sasl_options": options})


def main():
    print("version Java 3.9.5, Curator 5.9.0, kazoo, go-zookeeper, OpenSSL", flush=True)
    with tempfile.TemporaryDirectory(prefix="zebu-security-", ignore_cleanup_errors=True) as work:
        suite = Suite(work, sys.argv[1:])
        for group in (suite.stores_of_all_kinds, suite.tls_clients, suite.optional_certificates, suite.one_port_for_both,
                      suite.certificates_replaced, suite.sasl_clients, suite.enforced):
            try:
                group()
            except RuntimeError as error:
                print(f"not ok {group.__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
