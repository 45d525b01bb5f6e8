#!/usr/bin/env python3
"""A bundle that is recorded of a machine is diagnosed as the machine: each machine in tests/bundles is recorded again, and the second bundle has
the findings of the first.

usage: again_test.py BERTH"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

from recorded import BUNDLES, diagnosis

# Not the same yet: folders that were listed alone, programs behind two links, and nodes that only a side table has.
KNOWN = {"drv-rhel-udev-did-not-make-the-nodes", "env-old-nvcc-first", "unseen-g-healthy-eight-h100-on-550-with-a-12-6-image",
         "unseen-h-pyarrow-environment-with-numba-0-46", "unseen-h-singularity-on-a-freshly-booted-centos-7-4",
         "unseen-j-focal-with-apt-s-nvcc-10-1-and-torch-cu113"}


def findings(document):
    return [(one["id"], one["severity"]) for one in document["findings"]]


def differs(berth, bundle, folder):
    again = folder / bundle.name
    done = subprocess.run([berth, "doctor", "--from", bundle, "--record", again], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        return f"{bundle.name}: {done.stderr}"
    first, second = findings(diagnosis(berth, bundle)), findings(diagnosis(berth, again))
    return "" if first == second else f"{bundle.name}: {first}, recorded again: {second}"


def main():
    berth = os.path.abspath(sys.argv[1])
    bundles = [one for one in sorted(BUNDLES.iterdir()) if one.is_dir() and one.name not in KNOWN]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as workers:
        wrong = [one for one in workers.map(lambda one: differs(berth, one, pathlib.Path(folder)), bundles) if one]
    assert len(bundles) > 700 and not wrong, "\n".join(wrong)
    print(f"{len(bundles)} machines, recorded again: the same findings")


main()
