#!/usr/bin/env python3
"""Measures the cost of waiting OpenMP threads. Two programs with one thread per core run with each way to wait, on a quiet machine and
beside other load. Prints one row each, with medians.

usage: waiting.py [--repeat N] [--load N,N,…] [--nice N] [--only WORD] [--json FILE]

`--nice -10` (root) shields the figures from other activity: the programs and their load both run with it.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
TREES = """
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
pixels, digits = load_digits(return_X_y=True)
HistGradientBoostingClassifier(max_iter=15, early_stopping=False).fit(pixels, digits)
"""
PROGRAMS = {"PyTorch, digits": [PYTHON, str(ROOT / "examples/05_train_digits.py")], "scikit-learn, trees": [PYTHON, "-c", TREES]}
WAITING = {"not set": {}, "passive": {"OMP_WAIT_POLICY": "passive"}, "spin 1000": {"GOMP_SPINCOUNT": "1000"},
           "spin 10000": {"GOMP_SPINCOUNT": "10000"}, "spin 30000": {"GOMP_SPINCOUNT": "30000"}}
LIMIT = 120  # seconds; a run that takes longer counts as this long


def seconds(command, variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    start = time.monotonic()
    try:
        subprocess.run(command, env={**clean, **variables}, stdout=subprocess.DEVNULL, check=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return LIMIT
    return time.monotonic() - start


def beside(load, command, repeat):
    """Medians for each way to wait, measured alternately while `load` programs compute."""
    others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(load)]
    threads = {"OMP_NUM_THREADS": str(len(os.sched_getaffinity(0)))}
    taken = {name: [] for name in WAITING}
    try:
        for _ in range(repeat):
            for name, variables in WAITING.items():
                taken[name].append(seconds(command, {**threads, **variables}))
    finally:
        for other in others:
            other.kill()
            other.wait()
    return {name: round(statistics.median(values), 2) for name, values in taken.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--load", default="0,2,4")
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    options = parser.parse_args()
    os.nice(options.nice)
    rows = []
    print("program | others | " + " | ".join(WAITING))
    for name, command in PROGRAMS.items():
        if options.only not in name:
            continue
        for load in map(int, options.load.split(",")):
            rows.append({"program": name, "load": load, "seconds": beside(load, command, options.repeat)})
            print(f"{name} | {load} | " + " | ".join(f"{value:.2f} s" for value in rows[-1]["seconds"].values()), flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
