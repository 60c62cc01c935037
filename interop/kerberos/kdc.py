"""A KDC of MIT Kerberos on loopback, with a directory, a port and a process of its own.

It serves two realms. Principals of OTHER.TEST get tickets for services of ZEBU.TEST."""

import os
import pathlib
import shutil
import socket
import subprocess
import time

REALM = "ZEBU.TEST"
FOREIGN = "OTHER.TEST"
START_LIMIT_SECONDS = 20
PROGRAMS = {"krb5kdc": "krb5-kdc", "kdb5_util": "krb5-kdc", "kadmin.local": "krb5-admin-server", "kinit": "krb5-user"}
PATH = os.environ.get("PATH", "") + ":/usr/sbin"


def missing_packages():
    return sorted({package for program, package in PROGRAMS.items() if not shutil.which(program, path=PATH)})


class Kdc:
    def __init__(self, directory, port):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.port = port
        self.config = self.write_config("krb5.conf")
        profile = self.directory / "kdc.conf"
        databases = "".join(f" {realm} = {{\n  database_name = {self.directory}/{realm}\n  key_stash_file = "
                            f"{self.directory}/{realm}.stash\n  max_life = 1h\n }}\n" for realm in (REALM, FOREIGN))
        profile.write_text(f"[kdcdefaults]\n kdc_listen = \"\"\n kdc_tcp_listen = 127.0.0.1:{port}\n[realms]\n{databases}"
                           f"[logging]\n kdc = FILE:{self.directory}/kdc.log\n admin_server = FILE:{self.directory}/admin.log\n")
        self.environment = {**os.environ, "PATH": PATH, "KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(profile)}
        for realm in (REALM, FOREIGN):
            self.run(["kdb5_util", "create", "-s", "-r", realm, "-P", "master"])
            # Both sides of the trust have the same key.
            self.administer(realm, f"addprinc -pw trust krbtgt/{REALM}@{FOREIGN}")
        log = (self.directory / "kdc.out").open("wb")
        self.process = subprocess.Popen(["krb5kdc", "-n", "-r", REALM, "-r", FOREIGN], env=self.environment,
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.await_start()

    def write_config(self, name, more=""):
        realms = "".join(f" {realm} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n" for realm in (REALM, FOREIGN))
        file = self.directory / name
        file.write_text(f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
                        f" rdns = false\n dns_canonicalize_hostname = false\n udp_preference_limit = 1\n{more}"
                        f"[realms]\n{realms}[domain_realm]\n localhost = {REALM}\n")
        return file

    def await_start(self):
        end = time.monotonic() + START_LIMIT_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 2).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"the KDC did not start: {(self.directory / 'kdc.out').read_text(errors='replace')[-300:]}")

    def run(self, command, more=None):
        done = subprocess.run(command, env={**self.environment, **(more or {})}, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def administer(self, realm, query):
        return self.run(["kadmin.local", "-r", realm, "-q", query])

    def keytab(self, name, principals, realm=REALM):
        """Makes new keys of the principals and writes them into a file."""
        file = self.directory / f"{name}.keytab"
        for principal in principals:
            if "does not exist" in self.run(["sh", "-c", f"kadmin.local -r {realm} -q 'getprinc {principal}' 2>&1"]):
                self.administer(realm, f"addprinc -randkey {principal}")
            self.administer(realm, f"ktadd -k {file} {principal}")
        return str(file)

    def ticket(self, name, keytab, principal, options=()):
        """A ticket cache with a ticket-granting ticket."""
        cache = f"FILE:{self.directory}/{name}.cache"
        self.run(["kinit", *options, "-c", cache, "-k", "-t", keytab, principal])
        return cache

    def service_ticket(self, cache, service):
        self.run(["kvno", "-c", cache, service])

    def stop(self):
        self.process.terminate()
        self.process.wait()
