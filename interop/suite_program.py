"""What every suite program in Python needs: its environment, and an end that says why.

It owns no fetched file and starts no server."""

import os
import socket
import subprocess
import sys


def fail(line):
    """Prints the last line of the suite and ends it."""
    print(line, flush=True)
    sys.exit(1)


def required(name):
    """A variable that the caller of a suite must have set."""
    value = os.environ.get(name)
    if not value:
        fail(f"not ok start: {name} is not set; cargo xtask interop sets it")
    return value


def run_or_fail(command, what, **how):
    """Runs a command to its end. If it fails, the suite ends with `what` and the first line about an error."""
    done = subprocess.run(command, capture_output=True, text=True, **how)
    if done.returncode != 0:
        print(done.stdout, done.stderr, file=sys.stderr)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "rror" in line]
        fail(f"{what}: {lines[0] if lines else 'no reason was given'}")


def hold_ports(ports):
    """Keeps other test programs from these ports while this process lives.

    The UDP socket of a number reserves the TCP port of the same number, as in crates/testing/src/port.rs. Returns the
    sockets, or None if a port is reserved already; TCP itself is not looked at.
    """
    held = []
    for port in ports:
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            reservation.bind(("127.0.0.1", port))
        except OSError:
            for other in [*held, reservation]:
                other.close()
            return None
        held.append(reservation)
    return held
