#!/usr/bin/env python3
"""smoke.py HOST:PORT: runs clients/kazoo_smoke.py in the environment that has kazoo."""

import os
import sys

import environment

print(f"version {environment.version()}", flush=True)
interpreter = environment.python()
program = environment.HERE.parent / "clients" / "kazoo_smoke.py"
os.execv(interpreter, [interpreter, program, *sys.argv[1:]])
