#!/usr/bin/env python3
"""The container image, built by buildah from the Containerfile and started as a container engine would start it: its
entry point, its user, its variables, its health check, SIGTERM. The official image's variables and Bitnami's.

Needs root and buildah. `ZEBU_STATIC` names a static binary; without it `cargo xtask dist --static` builds one. There is
no network of its own: the ports are those of the machine. Prints the lines of interop/README.md."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ["INTEROP_CACHE"]) / "container"
TIME_LIMIT = 120
BUILDAH = ["buildah", "--root", str(CACHE / "images"), "--runroot", str(CACHE / "run"), "--storage-driver", "vfs"]


def check(name, problem=None):
    print(f"ok {name}" if not problem else f"not ok {name}: {problem}", flush=True)


def need(*words, **options):
    ended = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=1800, **options)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))} ended with {ended.returncode}: {ended.stderr.strip()[-400:]}")
    return ended.stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def release():
    """The build context: the directory of `cargo xtask dist`."""
    out = CACHE / "dist"
    shutil.rmtree(out, ignore_errors=True)
    words = [os.environ["XTASK"]] if os.environ.get("XTASK") else ["cargo", "run", "--quiet", "--package", "xtask", "--"]
    static = os.environ.get("ZEBU_STATIC")
    need(*words, "dist", "--out", out, *(["--binary", static] if static else ["--static"]), cwd=TOP)
    return next(out.glob("zebu-*-linux"))


class Container:
    """A working container of the image, with the variables of one case and a volume for its data."""

    def __init__(self, image, variables, mounted="data", user=None):
        self.image, self.variables, self.user = image, variables, user or image["User"]
        self.name = need(*BUILDAH, "from", "zebu-test").strip()
        self.process = None
        self.mounted = mounted
        # buildah would give each run fresh volumes of its own.
        for volume in image["Volumes"]:
            need(*BUILDAH, "config", "--volume", f"{volume}-", self.name)
        # An engine copies owner and rights of the directory in the image.
        root = pathlib.Path(need(*BUILDAH, "mount", self.name).strip())
        (CACHE / "volumes").mkdir(exist_ok=True)
        self.volume = pathlib.Path(tempfile.mkdtemp(dir=CACHE / "volumes"))
        inside = (root / mounted).stat()
        os.chown(self.volume, inside.st_uid, inside.st_gid)
        self.volume.chmod(inside.st_mode & 0o7777)

    def run_words(self, *command):
        words = [*BUILDAH, "run", "--isolation", "chroot", "--user", self.user, "--volume", f"{self.volume}:/{self.mounted}"]
        for name, value in self.variables.items():
            words += ["--env", f"{name}={value}"]
        return [*words, self.name, "--", *command]

    def start(self):
        # As an engine: the entry point and the command of the image, unchanged.
        self.process = subprocess.Popen(self.run_words(*self.image["Entrypoint"], *self.image["Cmd"]),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def is_healthy(self):
        test = self.image["Healthcheck"]["Test"][1:]
        return subprocess.run(self.run_words(*test), capture_output=True, timeout=TIME_LIMIT).returncode == 0

    def await_health(self):
        end = time.monotonic() + TIME_LIMIT
        while time.monotonic() < end and self.process.poll() is None:
            if self.is_healthy():
                return True
            time.sleep(0.2)
        return False

    def server_pid(self):
        """The server among the processes that buildah has started."""
        children = {}
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    children.setdefault((entry / "stat").read_text().rsplit(")", 1)[1].split()[1], []).append(entry.name)
                except OSError:
                    pass
        waiting = [str(self.process.pid)]
        while waiting:
            pid = waiting.pop()
            try:
                # The container's program is the binary itself, below the image's root.
                if os.readlink(f"/proc/{pid}/exe").endswith("/usr/bin/zebu"):
                    return int(pid)
            except OSError:
                pass
            waiting += children.get(pid, [])
        return None

    def stop(self):
        """SIGTERM to the server, as an engine sends it to its first process; the server's status and its output."""
        pid = self.server_pid()
        if pid:
            os.kill(pid, signal.SIGTERM)
        try:
            output = self.process.communicate(timeout=TIME_LIMIT)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            output = self.process.communicate()[0]
        return self.process.returncode, output

    def remove(self):
        if self.process and self.process.poll() is None:
            self.stop()
        subprocess.run([*BUILDAH, "rm", self.name], capture_output=True, timeout=TIME_LIMIT)


def check_case(client, name, container, port):
    """Starts the image with variables, uses it with a client, starts it again on its data."""
    try:
        container.start()
        healthy = container.await_health()
        check(f"{name}: the health check succeeds", None if healthy else container.stop()[1][-400:].replace("\n", " "))
        if not healthy:
            return
        address = f"127.0.0.1:{port}"
        need(client, "shell", "-server", address, "create", "/from-outside", "data")
        pid = container.server_pid()
        user = pathlib.Path(f"/proc/{pid}/status").read_text().split("Uid:\t")[1].split("\t")[0]
        check(f"{name}: the server is not root", None if user == container.user.split(":")[0] else user)
        check(f"{name}: the data is where the image has it",
              None if list(container.volume.rglob("version-2/*")) else str(list(container.volume.rglob("*"))))
        status, output = container.stop()
        check(f"{name}: SIGTERM ends it in order", None if status == 0 else f"{status}: {output[-300:]!r}")
        check(f"{name}: an ended server is not healthy", "it is" if container.is_healthy() else None)
        container.start()
        if not container.await_health():
            check(f"{name}: it starts again on its data", container.stop()[1][-400:].replace("\n", " "))
            return
        answer = need(client, "shell", "-server", address, "get", "/from-outside")
        check(f"{name}: it starts again on its data", None if "data" in answer else answer)
    finally:
        container.remove()


def check_ensemble(image, client):
    """Three containers, as compose.yaml has them, on loopback."""
    ports = [[free_port() for _ in range(3)] for _ in range(3)]
    servers = " ".join(f"server.{number}=127.0.0.1:{quorum}:{election};{port}"
                       for number, (quorum, election, port) in enumerate(ports, 1))
    containers = [Container(image, {"ZOO_MY_ID": number, "ZOO_SERVERS": servers, "ZOO_ADMINSERVER_ENABLED": "false"})
                  for number in (1, 2, 3)]
    try:
        for container in containers:
            container.start()
        # An engine would look at each; the ports differ from the default, so clients look.
        addresses = ",".join(f"127.0.0.1:{port}" for _, _, port in ports)
        end = time.monotonic() + TIME_LIMIT
        while subprocess.run([client, "status", addresses], capture_output=True).returncode != 0 and time.monotonic() < end:
            time.sleep(0.2)
        status = subprocess.run([client, "status", addresses], capture_output=True, text=True)
        check("three containers: one leads, two follow",
              None if status.returncode == 0 and status.stdout.count("follower") == 2 else status.stdout + status.stderr)
    finally:
        for container in containers:
            container.remove()


def main():
    context = release()
    client = context / "bin/zebu"
    for directory in ("images", "volumes"):
        shutil.rmtree(CACHE / directory, ignore_errors=True)
    need(*BUILDAH, "bud", "--isolation", "chroot", "--format", "docker", "-f", TOP / "packaging/container/Containerfile",
         "-t", "zebu-test", context)
    image = json.loads(need(*BUILDAH, "inspect", "--type", "image", "zebu-test"))["Docker"]["config"]
    check("the image is built")
    check("the image ends its server by SIGTERM", None if image.get("StopSignal") == "SIGTERM" else str(image.get("StopSignal")))
    port, quorum, election = (free_port() for _ in range(3))
    official = {"ZOO_SERVERS": f"server.1=127.0.0.1:{quorum}:{election};{port}", "ZOO_TICK_TIME": 1000,
                "ZOO_ADMINSERVER_ENABLED": "false", "ZOO_4LW_COMMANDS_WHITELIST": "srvr,ruok,mntr"}
    check_case(client, "official variables", Container(image, official), port)
    check_case(client, "any user of group 0", Container(image, official, user="4711:0"), port)
    port = free_port()
    bitnami = {"ALLOW_EMPTY_PASSWORD": "yes", "ZOO_PORT_NUMBER": port, "ZOO_SERVER_ID": 1}
    check_case(client, "Bitnami's variables", Container(image, bitnami, "bitnami/zookeeper/data"), port)
    port = free_port()
    confluent = {"ZOOKEEPER_CLIENT_PORT": port, "ZOOKEEPER_TICK_TIME": 1000}
    check_case(client, "Confluent's variables", Container(image, confluent, "var/lib/zookeeper/data"), port)
    check_ensemble(image, client)


if __name__ == "__main__":
    if os.environ.get("INTEROP_PEER") == "apache":
        print("skip the container image: it holds Zebu")
        sys.exit(0)
    if not shutil.which("buildah") or os.geteuid() != 0:
        print("not ok the image can be built: needs root and buildah")
        sys.exit(0)
    print("version", need("buildah", "--version").strip())
    try:
        main()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        check("the suite ran to its end", str(error).replace("\n", " "))
