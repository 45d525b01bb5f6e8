#!/usr/bin/env python3
"""Makes files that a diagnosis reads unreadable, one at a time, on every recorded machine (see unreadable_probe.cpp).

usage: unreadable_test.py PROBE
"""
import os
import pathlib
import subprocess
import sys

MACHINES = pathlib.Path(__file__).resolve().parent.parent / "machines"

strides = ["1", "1"] if "BERTH_SOAK" in os.environ else ["16", "1601"]
done = subprocess.run([sys.argv[1], MACHINES, *strides], timeout=7000)
sys.exit(done.returncode)
