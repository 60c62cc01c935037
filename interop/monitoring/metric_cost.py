#!/usr/bin/env python3
"""Says which part of the instructions of a pipelined get and set goes into metrics: metric_cost.py ZEBU[,LINE...]

The server runs below valgrind (callgrind), once with few requests and once with many; the difference of both counts. To the
metrics belong calls of their functions from elsewhere, with all that they do, and their lines in functions of others, into
which the compiler has put them. An atomic addition in such a line counts for the standard library: it is one instruction.
The binary needs line numbers (profile release) and the names of its functions. Needs Debian's valgrind."""

import pathlib
import re
import sys
import tempfile

from instructions import BATCH, FEW, MANY, run_server
import zookeeper_wire as wire

# Functions and files that only measure.
FUNCTIONS = re.compile(r"zebu_metrics::|zebu_node::(metrics|traffic|stats|connection::observed)::|zebu_server::(metrics|traffic)::"
                       r"|ServerCore>?::record_")
FILES = re.compile(r"crates/(metrics/src|node/src/(metrics|traffic|stats|connection/observed)|server/src/(metrics|traffic))")
NAME = re.compile(r"\((\d+)\)(?: (.*))?")


class Profile:
    """The sums of a callgrind file."""

    def __init__(self, text):
        self.total = self.metrics = 0
        self.parts = {}
        self.names = {"fn": {}, "fl": {}}
        function = file = called = ""
        is_call = False
        for line in text.splitlines():
            kind, _, value = line.partition("=")
            if kind in ("fl", "fi", "fe"):
                file = self.name("fl", value)
            elif kind == "fn":
                function = self.name("fn", value)
            elif kind == "cfn":
                called = self.name("fn", value)
            elif kind in ("cfi", "cfl"):
                self.name("fl", value)
            elif kind == "calls":
                is_call = True
            elif line and line[0] in "0123456789+-*":
                cost = int(line.split()[1])
                if is_call:
                    is_call = False
                    if FUNCTIONS.search(called) and not FUNCTIONS.search(function):
                        self.add(called, cost)
                else:
                    self.total += cost
                    if FILES.search(file) and not FUNCTIONS.search(function):
                        self.add(f"lines of {pathlib.PurePath(file).name}", cost)

    def name(self, kind, value):
        number, text = NAME.match(value).groups()
        return self.names[kind].setdefault(number, text or "")

    def add(self, part, cost):
        self.metrics += cost
        self.parts[part] = self.parts.get(part, 0) + cost


def profile(build, home, requests, kind):
    with tempfile.TemporaryDirectory(dir=home) as directory:
        output = pathlib.Path(directory) / "callgrind.out"
        run_server(["--tool=callgrind", f"--callgrind-out-file={output}"], build, home, requests, kind)
        return Profile(output.read_text())


def main():
    build = sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as home:
        for name, kind in (("get", wire.GET), ("set", wire.SET)):
            few, many = (profile(build, home, count, kind) for count in (FEW, MANY))
            requests = MANY - FEW
            total, metrics = (many.total - few.total) / requests, (many.metrics - few.metrics) / requests
            print(f"{name}: {total:.0f} instructions, {metrics:.0f} of them for metrics: "
                  f"{100 * metrics / (total - metrics):.1f} % more ({BATCH} requests at a time)")
            costs = {part: (cost - few.parts.get(part, 0)) / requests for part, cost in many.parts.items()}
            for part, cost in sorted(costs.items(), key=lambda item: -item[1]):
                if cost >= 1:
                    print(f"    {cost:6.0f} {part}", flush=True)


if __name__ == "__main__":
    main()
