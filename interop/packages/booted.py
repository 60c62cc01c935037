#!/usr/bin/env python3
"""The unit of the Debian package under a real systemd: a Debian 12 with the packages boots by systemd-nspawn in a network
namespace of its own, checks the service from inside and powers off.

Needs root, systemd-nspawn (Debian: systemd-container), mmdebstrap and dpkg-deb. Prints the lines of interop/README.md."""

import os
import shutil
import subprocess
import sys

from debian import CACHE, minimal_debian, need, next_version, packages, remove, run

BOOT_SECONDS = 600

# Each line of the result is a name and what was seen; the names are checked below.
SCRIPT = r"""#!/bin/bash
exec >/opt/results 2>/opt/errors
say() { echo "$1|$2"; }
ask() { zebu shell -server 127.0.0.1:2181 "$@" 2>&1 | tail -n 1; }
pid() { systemctl show -p MainPID --value zebu; }
await() { for _ in $(seq 300); do eval "$1" && return; sleep 0.2; done; }

await 'systemctl is-active --quiet zebu'
say active "$(systemctl is-active zebu)"
await '[ -n "$(systemctl show -p StatusText --value zebu)" ]'
say status "$(systemctl show -p StatusText --value zebu)"
say user "$(stat -c %U /proc/$(pid))"
say created "$(ask create /kept data)"
echo zebu.log.filter=debug >>/etc/zookeeper/conf/zoo.cfg
systemctl reload zebu
await 'journalctl --unit zebu | grep -q "the log filter was read again"'
say reload "$(systemctl is-active zebu) $(journalctl --unit zebu | grep -c 'the log filter was read again')"
journalctl --unit zebu --no-pager | tail -n 30 >&2
before=$(pid)
kill -KILL "$before"
await '[ "$(pid)" != 0 ] && [ "$(pid)" != "$before" ] && systemctl is-active --quiet zebu'
say restarted "$(systemctl show -p NRestarts --value zebu) $(ask get /kept)"
before=$(pid)
dpkg -i /opt/next-*.deb >&2
await '[ "$(pid)" != 0 ] && [ "$(pid)" != "$before" ] && systemctl is-active --quiet zebu'
say upgraded "$(dpkg-query -W -f '${Version}' zebu-server) $(ask get /kept)"
sed -i 's/^clientPort=.*/clientPort=none/' /etc/zookeeper/conf/zoo.cfg
systemctl restart zebu
await 'systemctl is-failed --quiet zebu'
say misconfigured "$(systemctl is-failed zebu) $(systemctl show -p ExecMainStatus --value zebu) $(systemctl show -p NRestarts --value zebu)"
sed -i 's/^clientPort=.*/clientPort=2181/' /etc/zookeeper/conf/zoo.cfg
systemctl reset-failed zebu
systemctl start zookeeper
say alias "$(systemctl is-active zebu)"
systemctl stop zebu
say stopped "$(systemctl show -p ExecMainStatus --value zebu) $(systemctl show -p Result --value zebu)"
dpkg --remove zebu-server >&2
say removed "$(systemctl is-active zebu) $(ls /var/lib/zookeeper/version-2 | wc -l)"
"""

UNIT = """[Unit]
After=zebu.service multi-user.target
[Service]
Type=oneshot
ExecStart=/opt/checks
ExecStopPost=/usr/bin/systemctl --no-block poweroff
TimeoutStartSec=500
[Install]
WantedBy=default.target
"""

EXPECTED = {
    "active": lambda seen: seen == "active",
    "status": lambda seen: seen.startswith("standalone"),
    "user": lambda seen: seen == "zookeeper",
    "created": lambda seen: seen == "Created /kept",
    "reload": lambda seen: seen == "active 1",
    "restarted": lambda seen: seen == "1 data",
    "upgraded": lambda seen: seen.endswith("+next data"),
    # 2 is a wrong configuration: systemd does not try again.
    "misconfigured": lambda seen: seen == "failed 2 0",
    "alias": lambda seen: seen == "active",
    "stopped": lambda seen: seen == "0 success",
    "removed": lambda seen: seen.split()[0] == "inactive" and int(seen.split()[1]) > 0,
}


def check(name, problem=None):
    print(f"ok {name}" if not problem else f"not ok {name}: {problem}", flush=True)


def main():
    program, service, _ = packages()
    root = CACHE / "booted"
    minimal_debian("bookworm-systemd", "adduser,init-system-helpers,systemd-sysv", root)
    for package in (program, service):
        shutil.copy(package, root / "opt")
        shutil.copy(next_version(package), root / "opt")
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    need("chroot", root, "dpkg", "-i", f"/opt/{program.name}", f"/opt/{service.name}")
    policy.unlink()
    (root / "opt/checks").write_text(SCRIPT)
    (root / "opt/checks").chmod(0o755)
    (root / "etc/systemd/system/checks.service").write_text(UNIT)
    need("chroot", root, "systemctl", "enable", "checks")
    booted = run("systemd-nspawn", "-D", root, "--register=no", "--keep-unit", "--private-network", "--boot", timeout=BOOT_SECONDS)
    print(booted.stdout[-3000:], booted.stderr[-1000:], file=sys.stderr)
    results = root / "opt/results"
    seen = dict(line.split("|", 1) for line in results.read_text().splitlines()) if results.exists() else {}
    if not seen:
        check("Debian boots with systemd", (booted.stderr or booted.stdout)[-400:].replace("\n", " ") or "no result")
    for name, holds in EXPECTED.items():
        check(f"systemd: {name}", None if name in seen and holds(seen[name]) else seen.get(name, "not reached"))
    errors = root / "opt/errors"
    print(errors.read_text() if errors.exists() else "", file=sys.stderr)
    remove(root)


if __name__ == "__main__":
    if os.environ.get("INTEROP_PEER") == "apache":
        print("skip the unit: it starts Zebu")
        sys.exit(0)
    missing = [tool for tool in ("systemd-nspawn", "mmdebstrap", "dpkg-deb") if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        print(f"not ok the unit can be tested: needs root and {', '.join(missing) or 'nothing else'}")
        sys.exit(0)
    print("version systemd of Debian 12")
    try:
        main()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        check("the suite ran to its end", str(error).replace("\n", " "))
