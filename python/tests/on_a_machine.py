"""Helpers for tests that run the package on a simulated machine."""
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests/broker"))
from machine import Machine, wait_until  # noqa: E402, F401


class OnAMachine(Machine):
    """Base of tests whose code runs in its own process on a simulated machine."""

    library = ""
    maxDiff = None

    def setUp(self):
        super().setUp()
        self.variables |= {"PYTHONPATH": f"{HERE.parent}:{HERE}", "LC_ALL": "C.UTF-8", "BERTH_LIBRARY": self.library, "BERTH_PROGRAM": self.berth}

    def python(self, code, *words, **more):
        return subprocess.run([sys.executable, "-c", "import os, sys, berth\n" + textwrap.dedent(code), *words], env={**self.variables, **more},
                              capture_output=True, text=True, timeout=60)

    def prints(self, code, **more):
        done = self.python(code, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def states(self):
        return {one["id"]: one["state"] for one in self.call("GET", "/v1/jobs?all")["jobs"]}


def main():
    """usage: test_….py BERTH LIBRARY"""
    OnAMachine.library = os.path.abspath(sys.argv.pop(2))
    Machine.berth = os.path.abspath(sys.argv.pop(1))
    unittest.main()
