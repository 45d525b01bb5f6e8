"""Helpers for the tests of the guard: the program under test, and commands on a simulated machine.

The first word after a test's name is BERTH; `program_paths` takes more."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(FOLDER, "program.py")
SOAK = "BERTH_SOAK" in os.environ
MIB, GIB = 1 << 20, 1 << 30


def program_paths(count):
    """Takes the first words of the command line: unittest must not see them."""
    return [os.path.abspath(sys.argv.pop(1)) for _ in range(count)]


def environment(*without):
    """Plain English, and no variables that begin with these words."""
    return {**{key: value for key, value in os.environ.items() if not key.startswith(("LC_", *without))}, "LANG": "C"}


def simulated(berth, *command, machine="workstation-4090", at=None, **keywords):
    """Runs the command on a simulated machine. `at`: its time stands still there."""
    keywords.setdefault("timeout", 3000 if SOAK else 100)
    return subprocess.run([berth, "sim", "--machine", machine, *(("--at", str(at)) if at is not None else ()), "--", *command],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment("CUDA_"), **keywords)


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def report(self, name="report.json"):
        with open(os.path.join(self.folder, name)) as file:
            return json.load(file)
