#!/usr/bin/env python3
"""Makes what a diagnosis reads unreadable, one thing at a time, on every bundle (unreadable_probe.cpp tells how).

usage: unreadable_test.py PROBE
"""
import os
import pathlib
import subprocess
import sys

BUNDLES = pathlib.Path(__file__).resolve().parent.parent / "bundles"

strides = ["1", "1"] if "BERTH_SOAK" in os.environ else ["4", "401"]
done = subprocess.run([sys.argv[1], BUNDLES, *strides], timeout=7000)
sys.exit(done.returncode)
