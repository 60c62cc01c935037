"""Key and trust stores for the suite, made by OpenSSL and keytool as an operator would make them.

It owns the files of one directory and starts no server."""

import pathlib
import subprocess

PASSWORD = "secret"
AUTHORITY = "/O=Zebu Test/CN=Test CA"
CLIENT_SUBJECT = "/C=DE/O=Zebu Test/CN=client1"
# The client's subject as Java writes it: in reverse order.
CLIENT_ID = "CN=client1,O=Zebu Test,C=DE"


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words[:3])}: {done.stderr.strip() or done.stdout.strip()}")


class Stores:
    """One authority, a server and three clients: v3, X.509 v1, and one of an authority that nobody trusts."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.make_authority("ca", AUTHORITY)
        self.make_authority("other-ca", "/O=Zebu Test/CN=Another CA")
        server = "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n"
        self.make_leaf("server", "/O=Zebu Test/CN=localhost", "ca", server)
        self.make_leaf("client", CLIENT_SUBJECT, "ca", "extendedKeyUsage=clientAuth\n")
        self.make_leaf("v1", CLIENT_SUBJECT, "ca", None)
        self.make_leaf("stranger", CLIENT_SUBJECT, "other-ca", "extendedKeyUsage=clientAuth\n")
        for name in ("server", "client", "v1", "stranger"):
            self.make_stores(name)
        self.make_trust_stores()

    def path(self, name):
        return str(self.directory / name)

    def renewed_server(self):
        """Another key and certificate of the server, as a PEM store."""
        server = "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n"
        self.make_leaf("renewed", "/O=Zebu Test/CN=localhost", "ca", server)
        self.make_stores("renewed")
        return self.directory / "renewed.pem"

    def make_authority(self, name, subject):
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-keyout", self.path(f"{name}.key"),
            "-out", self.path(f"{name}.crt"), "-subj", subject, "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign")

    def make_leaf(self, name, subject, authority, extensions):
        """Without extensions OpenSSL writes an X.509 v1 certificate."""
        run("openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", self.path(f"{name}.key"), "-out",
            self.path(f"{name}.csr"), "-subj", subject)
        sign = ["openssl", "x509", "-req", "-in", self.path(f"{name}.csr"), "-CA", self.path(f"{authority}.crt"), "-CAkey",
                self.path(f"{authority}.key"), "-CAcreateserial", "-days", "30", "-out", self.path(f"{name}.crt")]
        if extensions is not None:
            (self.directory / f"{name}.ext").write_text(extensions)
            sign += ["-extfile", self.path(f"{name}.ext")]
        run(*sign)

    def make_stores(self, name):
        parts = [(self.directory / f"{name}.{part}").read_text() for part in ("key", "crt")]
        (self.directory / f"{name}.pem").write_text("".join(parts))
        run("openssl", "pkcs12", "-export", "-name", name, "-inkey", self.path(f"{name}.key"), "-in",
            self.path(f"{name}.crt"), "-out", self.path(f"{name}.p12"), "-passout", f"pass:{PASSWORD}")
        run("keytool", "-importkeystore", "-noprompt", "-srckeystore", self.path(f"{name}.p12"), "-srcstoretype", "PKCS12",
            "-srcstorepass", PASSWORD, "-destkeystore", self.path(f"{name}.jks"), "-deststoretype", "JKS", "-deststorepass",
            PASSWORD)

    def make_trust_stores(self):
        (self.directory / "trust.pem").write_text((self.directory / "ca.crt").read_text())
        for kind, ending in (("JKS", "jks"), ("PKCS12", "p12")):
            run("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", self.path("ca.crt"), "-keystore",
                self.path(f"trust.{ending}"), "-storetype", kind, "-storepass", PASSWORD)
