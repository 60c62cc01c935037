#!/usr/bin/env python3
"""Curator's own test suites, unmodified, from its source release.

Curator's TestingServer and TestingCluster run Apache ZooKeeper through one adapter class. Against Zebu the class of that
name below java/ stands before it in the class path and starts processes; against Apache it stays away.
Each test class has a JVM of its own, and a failed test is repeated up to twice, as in Curator's own build.

    suite.py [MODULE/CLASS[.METHOD]…]    names replace the selection: suite.py curator-framework/TestFramework
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from source_release import SourceRelease  # noqa: E402
from suite_program import fail, required, run_or_fail  # noqa: E402

JAVA = HERE.parent / "java"
# In the order in which they are compiled: a module sees those before it.
MODULES = ["curator-test", "curator-client", "curator-framework", "curator-recipes", "curator-x-discovery", "curator-x-async"]
# curator-test's own tests are about Apache's classes inside the JVM.
TESTED = MODULES[1:]
REPEATS = 2
CLASS_LIMIT_SECONDS = 900
# What Curator's build opens on newer JDKs.
OPENED = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in
          ("java.lang", "java.math", "java.util", "java.util.concurrent", "java.net", "java.io")]
RESULT = re.compile(r"(ok|not ok|skip) (\S+?)(?:: (.*))?$")


class Build(SourceRelease):
    """Curator's source release, its classes and ours; made again when a file of ours changes."""

    def __init__(self):
        super().__init__("curator-suite", HERE / "pom.xml", "apache-curator", sorted((HERE / "java").rglob("*.java")))

    @property
    def classes(self):
        return self.root / "classes"

    @property
    def ours(self):
        return self.root / "zebu-classes"

    def build(self):
        for module in MODULES:
            self.compile(module, "main", [])
        for module in TESTED:
            before = ["curator-framework/test"] if module == "curator-recipes" else []
            self.compile(module, "test", before)
        path = os.pathsep.join([str(self.classes / "curator-test/main"), f"{self.jars}/*"])
        self.javac(self.ours / "adapter", path, (HERE / "java/org").rglob("*.java"))
        self.javac(self.ours / "runner", path, [HERE / "java/RunTests.java"])

    def compile(self, module, part, before):
        files = list((self.source / module / "src" / part / "java").rglob("*.java"))
        path = os.pathsep.join([*self.main_classes(), *(str(self.classes / name) for name in before), f"{self.jars}/*"])
        self.javac(self.classes / module / part, path, files)
        resources = self.source / module / "src" / part / "resources"
        if resources.exists():
            shutil.copytree(resources, self.classes / module / part, dirs_exist_ok=True)

    def javac(self, target, path, files):
        target.mkdir(parents=True)
        listed = self.root / "files.txt"
        listed.write_text("\n".join(str(file) for file in files))
        run_or_fail(["javac", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-J-Xmx512m", "-d", target, "-cp", path,
                     f"@{listed}"], "not ok compile")

    def main_classes(self):
        return [str(self.classes / module / "main") for module in MODULES]

    def class_path(self, module, peer):
        ours = [str(self.ours / "adapter")] if peer == "zebu" else []
        tests = [str(self.classes / name / "test") for name in dict.fromkeys((module, "curator-framework"))
                 if name == module or module == "curator-recipes"]
        return os.pathsep.join([*ours, str(self.ours / "runner"), *tests, *self.main_classes(), f"{self.jars}/*"])

    def test_classes(self, module):
        """Names of the classes that JUnit would look at, by the rule of Maven's test plugin."""
        top = self.source / module / "src/test/java"
        for file in sorted(top.rglob("*.java")):
            if not (file.stem.startswith("Test") or file.stem.endswith(("Test", "Tests"))):
                continue
            if re.search(r"^public abstract class", file.read_text(encoding="utf-8"), re.MULTILINE):
                continue
            yield ".".join(file.relative_to(top).with_suffix("").parts)


class Suite:
    def __init__(self, build, work):
        self.build = build
        self.work = work
        self.peer = os.environ.get("INTEROP_PEER", "zebu")
        self.zebu = required("ZEBU") if self.peer == "zebu" else ""

    def run_class(self, module, name, methods):
        """Lines of one class: results as (word, test, reason)."""
        results = self.run_once(module, name, methods)
        for _ in range(REPEATS):
            failed = {test.partition("[")[0] for word, test, _ in results.values() if word == "not ok"}
            if not failed:
                break
            print(f"repeats {module}/{name}: {' '.join(sorted(failed))}", flush=True)
            again = sorted(failed) if all(test.isidentifier() for test in failed) else methods
            results.update(self.run_once(module, name, again))
        return results

    def run_once(self, module, name, methods):
        place = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", *OPENED, f"-Djava.io.tmpdir={place}",
                   f"-Dlogback.configurationFile={JAVA / 'logback.xml'}", "-Dfile.encoding=UTF-8",
                   f"-Dzebu.binary={self.zebu}", f"-Dzebu.log={self.work / 'servers.log'}",
                   "-cp", self.build.class_path(module, self.peer), "RunTests", name, *methods]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, cwd=place,
                                   start_new_session=True)
        try:
            output = process.communicate(timeout=CLASS_LIMIT_SECONDS)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0] + f"\nnot ok (class): stopped after {CLASS_LIMIT_SECONDS} s"
        finally:
            shutil.rmtree(place, ignore_errors=True)
        results = {}
        for line in output.splitlines():
            found = RESULT.match(line)
            if found:
                results[found[2]] = (found[1], found[2], found[3] or "")
        if process.returncode != 0 and "(class)" not in results:
            results["(class)"] = ("not ok", "(class)", f"the JVM ended with status {process.returncode}")
        return results

    def run(self, selection, jobs):
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            runs = [(module, name, pool.submit(self.run_class, module, name, methods))
                    for module, name, methods in selection]
            for module, name, run in runs:
                for word, test, reason in run.result().values():
                    line = f"{word} {module.removeprefix('curator-')}/{name.rpartition('.')[2]}.{test}"
                    print(f"{line}: {reason}" if word != "ok" else line, flush=True)


def selected(build, names):
    """MODULE/CLASS[.METHOD] -> (module, full class name, methods)."""
    known = {(module, name.rpartition(".")[2]): name for module in TESTED for name in build.test_classes(module)}
    chosen = {}
    for text in names:
        module, _, rest = text.partition("/")
        short, _, method = rest.partition(".")
        if (module, short) not in known:
            fail(f"not ok start: there is no test class {text}")
        methods = chosen.setdefault((module, known[module, short]), [])
        if method:
            methods.append(method)
    return [(module, name, methods) for (module, name), methods in chosen.items()]


def quick_names():
    lines = (HERE / "quick.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    build = Build()
    print(f"version Curator {build.version()}'s own tests", flush=True)
    with tempfile.TemporaryDirectory(prefix="zebu-curator-", ignore_cleanup_errors=True) as directory:
        suite = Suite(build, pathlib.Path(directory))
        if sys.argv[1:]:
            selection = selected(build, sys.argv[1:])
        elif required("INTEROP_PART") == "full":
            selection = [(module, name, []) for module in TESTED for name in build.test_classes(module)]
        else:
            selection = selected(build, quick_names())
        suite.run(selection, jobs=2)


if __name__ == "__main__":
    main()
