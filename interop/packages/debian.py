#!/usr/bin/env python3
"""The Debian packages in a clean Debian: over zookeeper and zookeeperd with their data, upgraded, removed, purged.

Needs root, dpkg-deb, mmdebstrap, lintian and apt-get. `ZEBU` is the binary in the packages. Prints the lines of
interop/README.md.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ["INTEROP_CACHE"])
ZEBU = os.environ.get("ZEBU", "")
DATA = TOP / "crates/storage/testdata/small/data"
SHUTDOWN_SECONDS = 30
# An address that is reserved for examples, which lintian notices.
MAINTAINER = "Zebu interop <interop@zebu.example>"
LINTIAN_ALLOWED = ("bogus-mail-host",)
failed = []


def check(name, holds, reason=""):
    """One line of the result."""
    if holds:
        print(f"ok {name}", flush=True)
    else:
        failed.append(name)
        print(f"not ok {name}: {reason or 'see the log'}", flush=True)


def run(*words, timeout=900, **options):
    print("+", *words, file=sys.stderr, flush=True)
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, **options)


def need(*words, **options):
    ended = run(*words, **options)
    print(ended.stdout, ended.stderr, file=sys.stderr, flush=True)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))} ended with {ended.returncode}: {ended.stderr.strip()[-300:]}")
    return ended.stdout


def minimal_debian(name, includes, root):
    """A copy of a minimal Debian 12, which is fetched once."""
    base = CACHE / name
    complete = CACHE / f"{name}.complete"
    if not complete.exists():
        remove(base)
        need("mmdebstrap", "--variant=minbase", f"--include={includes}", "bookworm", base)
        complete.touch()
    remove(root)
    # mmdebstrap may leave /proc mounted, which is endless to copy.
    need("cp", "-a", "--one-file-system", base, root)


def remove(directory):
    """Removes a directory, but nothing that is mounted in it."""
    need("rm", "-rf", "--one-file-system", directory)


def fresh_root():
    root = CACHE / "root"
    minimal_debian("bookworm", "adduser,init-system-helpers", root)
    # Nothing starts by itself in this directory.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    return root


def inside(root, *words):
    return need("chroot", root, *words, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"})


def install(root, *packages, force=()):
    for package in packages:
        shutil.copy(package, root / "tmp")
    inside(root, "dpkg", *force, "-i", *[f"/tmp/{package.name}" for package in packages])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve_and_ask(root, port, *question):
    """Serves as the unit does, asks with the shell, stops; the answer and the exit status of the server."""
    server = subprocess.Popen(
        ["chroot", "--userspec=zookeeper:zookeeper", root, "/usr/bin/zebu", "serve", "/etc/zookeeper/conf/zoo.cfg"],
        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        deadline = time.monotonic() + 60
        while run(ZEBU, "status", f"127.0.0.1:{port}").returncode != 0:
            if server.poll() is not None or time.monotonic() > deadline:
                server.kill()
                raise RuntimeError(f"the server does not serve: {server.communicate()[1][-500:]}")
            time.sleep(0.2)
        answer = need(ZEBU, "shell", "-server", f"127.0.0.1:{port}", *question)
    finally:
        server.terminate()
        try:
            server.communicate(timeout=SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
    return answer, server.returncode


def packages():
    out = CACHE / "dist"
    shutil.rmtree(out, ignore_errors=True)
    xtask = pathlib.Path(os.environ.get("XTASK", "")) if os.environ.get("XTASK") else None
    words = [xtask] if xtask else ["cargo", "run", "--quiet", "--package", "xtask", "--"]
    need(*words, "dist", "--deb", "--maintainer", MAINTAINER, "--binary", ZEBU, "--out", out, cwd=TOP)
    return sorted(out.glob("zebu_*.deb"))[0], sorted(out.glob("zebu-server_*.deb"))[0], out


def next_version(package):
    """The same package with a later version."""
    place = CACHE / "next" / package.name
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(exist_ok=True)
    need("dpkg-deb", "--raw-extract", package, place)
    control = place / "DEBIAN/control"
    text = control.read_text()
    version = next(line.split()[1] for line in text.splitlines() if line.startswith("Version:"))
    control.write_text(text.replace(f"Version: {version}", f"Version: {version}+next").replace(f"(= {version})", f"(= {version}+next)"))
    out = CACHE / "next" / f"next-{package.name}"
    need("dpkg-deb", "--root-owner-group", "-Znone", "--build", place, out)
    return out


def main():
    program, service, out = packages()
    lines = run("lintian", "--fail-on", "none", program, service).stdout.splitlines()
    tags = [line for line in lines if line[:2] in ("E:", "W:") and not any(tag in line for tag in LINTIAN_ALLOWED)]
    check("lintian finds nothing", not tags, "; ".join(tags))
    scripts = [TOP / "packaging/debian" / name for name in ("postinst", "prerm", "postrm")]
    if shutil.which("shellcheck"):
        check("shellcheck finds nothing", run("shellcheck", *scripts).returncode == 0)
    else:
        print("skip shellcheck finds nothing: shellcheck is not installed")
    pages = sorted((out / next(out.glob("zebu-*-linux")).name / "man").glob("*.1"))
    warnings = [run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page).stderr for page in pages]
    check("man has no warning about the pages", len(pages) > 20 and not any(warnings), "".join(warnings)[:200])

    root = fresh_root()
    old = CACHE / "debian-zookeeper"
    old.mkdir(exist_ok=True)
    need("apt-get", "download", "-qq", "zookeeper", "zookeeperd", cwd=old)
    # Without Java, which no server needs any more.
    install(root, *sorted(old.glob("*.deb")), force=("--force-depends",))
    port = free_port()
    config = root / "etc/zookeeper/conf_example/zoo.cfg"
    text = config.read_text().replace("dataDir=/tmp/zookeeper", "dataDir=/var/lib/zookeeper")
    config.write_text(text.replace("clientPort=2181", f"clientPort={port}\nclientPortAddress=127.0.0.1"))
    (root / "etc/default/zookeeper").write_text('JAVA_OPTS="-Xmx1g -Dzookeeper.snapCount=1234 -Djute.maxbuffer=2000000"\n')
    shutil.copytree(DATA / "version-2", root / "var/lib/zookeeper/version-2")
    inside(root, "chown", "-R", "zookeeper:zookeeper", "/var/lib/zookeeper/version-2")

    install(root, program, service)
    state = inside(root, "dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n")
    check("zookeeperd is replaced", "zebu-server ii" in state and "zookeeperd ii" not in state, state)
    link = inside(root, "readlink", "-f", "/etc/zookeeper/conf").strip()
    check("the configuration of zookeeper stays chosen", link == "/etc/zookeeper/conf_example", link)
    variables = (root / "etc/default/zebu").read_text()
    check("-D words of JAVA_OPTS are taken over",
          'SERVER_JVMFLAGS="-Dzookeeper.snapCount=1234 -Djute.maxbuffer=2000000"' in variables, variables)
    verified = run("systemd-analyze", "verify", "--man=no", f"--root={root}", "zebu.service")
    complaints = [line for line in verified.stderr.splitlines() if "zebu" in line]
    check("systemd accepts the unit", not complaints, "; ".join(complaints))
    # The delivered text is a sentence, with which ZooKeeper 3.8.0 ends with status 2, also without other servers.
    delivered = run("chroot", root, "/usr/bin/zebu", "check", "/etc/zookeeper/conf/zoo.cfg")
    check("the delivered myid is refused by its name, as by ZooKeeper",
          delivered.returncode == 2 and "/var/lib/zookeeper/myid" in delivered.stdout + delivered.stderr,
          f"{delivered.returncode}: {delivered.stdout} {delivered.stderr}")
    (root / "etc/zookeeper/conf_example/myid").write_text("1\n")
    answer, status = serve_and_ask(root, port, "ls", "-R", "/")
    check("the old data is served", len(answer.splitlines()) > 4 and status == 0, f"{status}: {answer}")
    need_same = serve_and_ask(root, port, "create", "/after-the-change", "x")
    check("writes work as the user zookeeper", need_same[1] == 0, str(need_same))

    (root / "etc/default/zebu").write_text("ZEBU_LOG=warn\n")
    install(root, *[next_version(package) for package in (program, service)])
    versions = inside(root, "dpkg-query", "-W", "-f", "${Version} ", "zebu", "zebu-server").split()
    check("the next version is installed over this one", len(versions) == 2 and all(v.endswith("+next") for v in versions),
          str(versions))
    check("an upgrade keeps changed variables", (root / "etc/default/zebu").read_text() == "ZEBU_LOG=warn\n")
    answer, status = serve_and_ask(root, port, "get", "/after-the-change")
    check("an upgrade keeps the data", "x" in answer and status == 0, answer)

    inside(root, "dpkg", "--remove", "--force-depends", "zookeeper")
    link = inside(root, "readlink", "-f", "/etc/zookeeper/conf").strip()
    check("the removal of zookeeper leaves the configuration", link == "/etc/zookeeper/conf_example", link)
    answer, status = serve_and_ask(root, port, "get", "/after-the-change")
    check("the removal of zookeeper leaves the data", "x" in answer and status == 0, answer)

    inside(root, "dpkg", "--remove", "zebu-server")
    check("a removal leaves the data", any((root / "var/lib/zookeeper/version-2").iterdir()))
    inside(root, "dpkg", "--purge", "zebu-server", "zebu")
    left = [path for path in ("etc/default/zebu", "etc/zookeeper/conf_zebu", "usr/bin/zebu", "usr/share/zebu",
                              "lib/systemd/system/zebu.service", "etc/systemd/system/zebu.service.d")
            if (root / path).exists()]
    check("a purge leaves no file of the package", not left, str(left))
    check("a purge leaves the data", any((root / "var/lib/zookeeper/version-2").iterdir()))
    owner = inside(root, "getent", "passwd", "zookeeper")
    check("a purge leaves the owner of the data", owner.startswith("zookeeper:"), owner)

    inside(root, "rm", "-rf", "/etc/zookeeper", "/var/lib/zookeeper")
    install(root, program, service)
    link = inside(root, "readlink", "-f", "/etc/zookeeper/conf").strip()
    check("without zookeeper the package brings a configuration", link == "/etc/zookeeper/conf_zebu", link)
    remove(root)


if __name__ == "__main__":
    if os.environ.get("INTEROP_PEER") == "apache":
        print("skip the packages: they hold Zebu")
        sys.exit(0)
    missing = [tool for tool in ("dpkg-deb", "mmdebstrap", "lintian", "apt-get", "man", "systemd-analyze") if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        print(f"not ok the packages can be tested: needs root and {', '.join(missing) or 'nothing else'}")
        sys.exit(0)
    print("version Debian 12, zookeeper and zookeeperd 3.8.0")
    try:
        main()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        check("the suite ran to its end", False, str(error).replace("\n", " "))
