#!/usr/bin/env python3
"""The Kubernetes manifests, without a cluster: each object against the schemas of several versions of Kubernetes, and the facts
that the objects must agree on with each other and with the binary.

The schemas come with the package kubernetes-validate of PyPI. Unknown fields are errors (strict). Prints the lines of
interop/README.md."""

import copy
import os
import pathlib
import re
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
MANIFESTS = HERE.parent.parent / "packaging/kubernetes"
sys.path.insert(0, str(HERE.parent))
from suite_program import fail, required, run_or_fail  # noqa: E402

PACKAGE = "kubernetes-validate==1.37.0"
# preStop.sleep is on by default since 1.30.
VERSIONS = ("1.30", "1.31", "1.34", "1.37")
# A server that was told to stop needs this long after zebu.drainTime at most, as docs/operations.md says.
STOP_SECONDS = 10


def check(name, problem=None):
    print(f"ok {name}" if not problem else f"not ok {name}: {problem}", flush=True)


def use_environment():
    """Makes the virtual environment once and goes on in it."""
    home = pathlib.Path(required("INTEROP_CACHE")) / "kubernetes-validate"
    made = home / "made-from.txt"
    python = home / "bin/python"
    if not made.exists() or made.read_text() != PACKAGE + sys.version:
        venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(home)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]
        run_or_fail(install, "unreachable the Python package index, or a package in it")
        made.write_text(PACKAGE + sys.version)
    if pathlib.Path(sys.prefix).resolve() != home.resolve():
        os.execv(python, [python, __file__])


def schema_problem(document, version):
    """The first problem that the schema of a version has with an object."""
    import kubernetes_validate
    try:
        kubernetes_validate.validate(document, version, strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
        return str(getattr(error, "message", error)).splitlines()[0]
    return None


def check_schemas(documents):
    for document in documents:
        name = f"{document['kind']} {document['metadata']['name']}"
        problems = {version: schema_problem(document, version) for version in VERSIONS}
        check(f"{name} has the fields of its schema", "; ".join(f"{version}: {told}" for version, told in problems.items() if told))
    broken = copy.deepcopy(next(one for one in documents if one["kind"] == "StatefulSet"))
    broken["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    check("a misspelt field is refused", None if schema_problem(broken, VERSIONS[-1]) else "it was accepted")


def one(documents, kind, name):
    return next(found for found in documents if found["kind"] == kind and found["metadata"]["name"] == name)["spec"]


def check_objects(documents):
    """Facts in which objects must agree."""
    servers = one(documents, "StatefulSet", "zebu")
    pod = servers["template"]
    labels, container = pod["metadata"]["labels"], pod["spec"]["containers"][0]
    budget = one(documents, "PodDisruptionBudget", "zebu")
    check("the disruption budget keeps a quorum",
          None if 2 * budget["maxUnavailable"] < servers["replicas"] else f"{budget['maxUnavailable']} of {servers['replicas']}")
    selectors = {"PodDisruptionBudget": budget["selector"]["matchLabels"], "StatefulSet": servers["selector"]["matchLabels"],
                 **{f"Service {name}": one(documents, "Service", name)["selector"] for name in ("zebu", "zebu-headless")}}
    check("all selectors find the pods", ", ".join(name for name, found in selectors.items() if found != labels))
    settings = next(found for found in documents if found["kind"] == "ConfigMap")["data"]
    lines = re.findall(r"server\.(\d+)=(\S+?):", settings["ZOO_SERVERS"])
    wanted = [(str(number + 1), f"zebu-{number}.{servers['serviceName']}") for number in range(servers["replicas"])]
    check("each pod has its server line", None if lines == wanted else f"{lines}, not {wanted}")
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = re.search(r"zebu\.drainTime=(\d+)", settings["ZOO_CFG_EXTRA"])
    needed = pause + (int(drain.group(1)) / 1000 if drain else 5) + STOP_SECONDS
    given = pod["spec"]["terminationGracePeriodSeconds"]
    check("a pod has the time to drain", None if needed <= given else f"{needed} s needed, {given} given")
    probes = {probe: container[probe]["exec"]["command"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    asked = {probe: command[-1] for probe, command in probes.items()}
    check("the probes ask for life and readiness",
          None if asked == {"startupProbe": "live", "livenessProbe": "live", "readinessProbe": "ready"} else str(asked))
    return settings, container, probes


def check_binary(documents, settings, probes):
    """What the manifests call, the binary knows."""
    zebu = required("ZEBU")
    # The id comes from the name of a pod, which this machine does not have.
    variables = {name: value for name, value in settings.items() if name != "ZEBU_FIRST_ID"}
    told = subprocess.run([zebu, "container", "--print"], env={**variables, "ZOO_MY_ID": "2"}, capture_output=True, text=True,
                          timeout=60)
    printed = told.stdout + told.stderr
    wanted = ["server.3=zebu-2.zebu-headless:2888:3888;2181", "quorumListenOnAllIPs=true", "zebu.log.format=json",
              "autopurge.purgeInterval=24", "4lw.commands.whitelist=srvr,ruok,mntr"]
    lost = [line for line in wanted if line not in printed.splitlines()]
    check("the variables give the lines of zoo.cfg", None if told.returncode == 0 and not lost else f"{lost}; {printed[-300:]!r}")
    for probe, command in probes.items():
        # No server runs at this address: 1 says so, and 2 would say that the arguments are wrong.
        limit = [zebu, *command[1:], "--timeout", "1"]
        told = subprocess.run(limit, env={"ZOO_CONF_DIR": "/nonexistent"}, capture_output=True, text=True, timeout=60)
        check(f"the {probe} of a pod without a server fails", None if told.returncode == 1 else f"{told.returncode}: {told.stderr.strip()}")
    for kind, name, path in (("Deployment", "zebu-backup", ("template",)),
                             ("CronJob", "zebu-backup-verify", ("jobTemplate", "spec", "template"))):
        found = one(documents, kind, name)
        for step in path:
            found = found[step]
        backup = found["spec"]["containers"][0]
        words = [*backup["command"][1:], *backup.get("args", [])]
        help_text = subprocess.run([zebu, *words[:2], "--help"], capture_output=True, text=True, timeout=60).stdout
        unknown = [word for word in words if word.startswith("--") and word not in help_text]
        check(f"the options of {kind} {name} exist", None if help_text and not unknown else f"{unknown}")


def main():
    use_environment()
    import yaml
    print(f"version {PACKAGE.replace('==', ' ')}, schemas of Kubernetes {', '.join(VERSIONS)}", flush=True)
    documents = [document for file in sorted(MANIFESTS.glob("*.yaml")) for document in yaml.safe_load_all(file.read_text())]
    check_schemas(documents)
    settings, _, probes = check_objects(documents)
    check_binary(documents, settings, probes)


if __name__ == "__main__":
    if os.environ.get("INTEROP_PEER") == "apache":
        print("skip the manifests: they are of Zebu")
        sys.exit(0)
    try:
        main()
    except (KeyError, StopIteration, subprocess.TimeoutExpired) as error:
        fail(f"not ok the manifests have the expected objects: {error!r}")
