#!/usr/bin/env python3
"""The document of the HTTP API, checked by the validator of the OpenAPI specification."""

import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from suite_program import fail, required

VERSION = "0.9.0"
DOCUMENT = HERE.parent.parent / "crates/admin/src/v1/openapi.json"


def python():
    """An interpreter with the validator; its environment is made once per version."""
    directory = pathlib.Path(required("INTEROP_CACHE")) / f"openapi-environment-{VERSION}"
    interpreter = directory / "bin" / "python"
    done_mark = directory / "made.txt"
    if done_mark.exists() and done_mark.read_text() == sys.version:
        return interpreter
    print(f"makes {directory}", flush=True)
    venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(directory)
    install = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*install, f"openapi-spec-validator=={VERSION}"], capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        fail(f"unreachable the Python package index, or a package in it: {last}")
    done_mark.write_text(sys.version)
    return interpreter


def main():
    print(f"version openapi-spec-validator {VERSION}", flush=True)
    command = [python(), "-m", "openapi_spec_validator", DOCUMENT]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout, done.stderr, file=sys.stderr)
        fail("not ok document: the validator refuses it")
    print("ok document", flush=True)


main()
