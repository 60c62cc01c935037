"""A source release of another project, fetched with its jars by Maven and built once, below INTEROP_CACHE.

It owns the directory and when it is made again. The subclass in a suite knows how to build the source."""

import pathlib
import shutil
import zipfile

from suite_program import required, run_or_fail


class SourceRelease:
    """The jars and the source that a pom.xml names; made again when one of `inputs` changes.

    root      directory below INTEROP_CACHE
    jars      every jar of the pom, and the archive of the source
    source    the unpacked source, `ARTIFACT-VERSION`
    """

    def __init__(self, name, pom, artifact, inputs=()):
        self.root = pathlib.Path(required("INTEROP_CACHE")) / name
        self.jars = self.root / "jars"
        self.artifact = artifact
        made_from = "".join(path.read_text() for path in [pom, *inputs])
        stamp = self.root / "made-from.txt"
        if not stamp.exists() or stamp.read_text() != made_from:
            print(f"makes {self.root}", flush=True)
            self.fetch(pom)
            self.build()
            stamp.write_text(made_from)

    @property
    def source(self):
        return next(self.root.glob(f"{self.artifact}-*"))

    def fetch(self, pom):
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        run_or_fail(["mvn", "--quiet", "--batch-mode", "--file", pom, "dependency:copy-dependencies",
                     f"-DoutputDirectory={self.jars}", "-DincludeScope=runtime"],
                    "unreachable Maven's repository, or a package in it")
        with zipfile.ZipFile(next(self.jars.glob(f"{self.artifact}-*-source-release.zip"))) as release:
            release.extractall(self.root)

    def build(self):
        """Compiles the source. Called once after each fetch."""
        raise NotImplementedError

    def version(self):
        return self.source.name.removeprefix(f"{self.artifact}-")
