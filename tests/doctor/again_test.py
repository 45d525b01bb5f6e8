#!/usr/bin/env python3
"""A recording has the same findings as its machine: each machine in tests/machines is recorded again, and both files have the same
findings.

usage: again_test.py BERTH"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

from recorded import diagnosis, names, path_of

# Known differences: folders that were listed without their files, programs behind two links, and nodes that only a side table has.
KNOWN = {"drv-rhel-udev-did-not-make-the-nodes", "env-old-nvcc-first", "unseen-g-healthy-eight-h100-on-550-with-a-12-6-image",
         "unseen-h-pyarrow-environment-with-numba-0-46", "unseen-h-singularity-on-a-freshly-booted-centos-7-4",
         "unseen-j-focal-with-apt-s-nvcc-10-1-and-torch-cu113"}


def findings(document):
    return [(one["id"], one["severity"]) for one in document["findings"]]


def record(berth, name, again):
    done = subprocess.run([berth, "doctor", "--from", path_of(name), "--record", again], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "LC_ALL": "C"})
    return done.stderr if done.returncode else ""


def differs(berth, name, folder):
    again = folder / f"{name}.machine"
    if problem := record(berth, name, again):
        return f"{name}: {problem}"
    first, second = findings(diagnosis(berth, path_of(name))), findings(diagnosis(berth, again))
    return "" if first == second else f"{name}: {first}, recorded again: {second}"


def folder_differs(berth, name, folder):
    """A folder must have the same findings as a file. Returns the difference, or ""."""
    for again in (folder / name, folder / f"{name}-file.machine"):
        if problem := record(berth, name, again):
            return f"{name}: {problem}"
    first, second = diagnosis(berth, folder / name), diagnosis(berth, folder / f"{name}-file.machine")
    return "" if first == second else f"{name}: as a folder {findings(first)}, as a file {findings(second)}"


def main():
    berth = os.path.abspath(sys.argv[1])
    machines = [one for one in names() if one not in KNOWN]
    assert len(machines) > 700
    if "BERTH_SOAK" not in os.environ:
        machines = machines[::6]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as workers:
        folder = pathlib.Path(folder)
        wrong = [one for one in workers.map(lambda one: differs(berth, one, folder), machines) if one]
        wrong += [one for one in workers.map(lambda one: folder_differs(berth, one, folder), machines[::25]) if one]
    assert not wrong, "\n".join(wrong)
    print(f"{len(machines)} machines, recorded again: the same findings")


main()
