"""The virtual environment of the kazoo suites: below INTEROP_CACHE, made once per list of requirements."""

import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from suite_program import fail, hold_ports, required  # noqa: E402, F401

REQUIREMENTS = HERE / "requirements.txt"


def version():
    """`kazoo 2.11.0`, from the requirements."""
    return next(line.replace("==", " ").strip() for line in REQUIREMENTS.open() if line.startswith("kazoo=="))


def python():
    """The environment's interpreter; makes the environment if it is missing or was made from another list."""
    directory = pathlib.Path(required("INTEROP_CACHE")) / "kazoo-environment"
    interpreter = directory / "bin" / "python"
    made_from = directory / "made-from.txt"
    wanted = REQUIREMENTS.read_text() + sys.version
    if made_from.exists() and made_from.read_text() == wanted:
        return interpreter
    print(f"makes {directory}", flush=True)
    venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(directory)
    install = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*install, "--requirement", REQUIREMENTS], capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        fail(f"unreachable the Python package index, or a package in it: {last}")
    made_from.write_text(wanted)
    return interpreter
