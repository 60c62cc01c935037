#!/usr/bin/env python3
"""rolling.py HOST:PORT PREFIX: runs clients/kazoo_rolling.py in the environment that has kazoo."""

import os
import sys

import environment

interpreter = environment.python()
program = environment.HERE.parent / "clients" / "kazoo_rolling.py"
os.execv(interpreter, [interpreter, program, *sys.argv[1:]])
