#!/usr/bin/env python3
"""Runs one example as its reader would, and looks at what it says.

usage: examples_test.py BERTH NAME
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEBIAN_PYTHON = "/usr/bin/python3"

# What each is called with, and what must be found in its output.
EXAMPLES = {
    "01_see_the_machine.sh": (["sh", "{}"], [r"(?m)^next ", r"(?m)^ *\d+  \S+.*cores"]),
    "02_cpu_threads.py": (["berth", "run", "--cpu", "--", sys.executable, "{}"], [r"GPUs: -1"]),
    "03_pick_a_gpu.sh": (["sh", "{}"], [r"RTX 3090", r"(?m)^this job sees GPU \d$"]),
    "04_eval_env.sh": (["sh", "{}"], [r"GPUs: -1 +threads: [1-9]", r"Python sees the same: -1 [1-9]"]),
    "05_train_digits.py": ([DEBIAN_PYTHON, "{}", "--epochs", "8"], [r"PyTorch \S+ on ", r"(?m)^done +device=(cpu|cuda|xpu)"]),
    "07_three_jobs.sh": (["sh", "{}"], [r"job 3 waits for 1 GPU", r"(?m)^third on GPU [01]$", r"job 3 ended"]),
    "06_read_json.py": ([sys.executable, "{}"], [r"cpu +\S+", r"most free memory: device \d+"]),
}


def needs_of(name):
    """Why it cannot run here; None where it can."""
    if name != "05_train_digits.py":
        return None
    probe = subprocess.run([DEBIAN_PYTHON, "-c", "import torch, sklearn"], capture_output=True, text=True)
    return None if probe.returncode == 0 else f"{DEBIAN_PYTHON} has no PyTorch or no scikit-learn"


def main():
    berth, name = sys.argv[1:]
    listed = {path.name for path in (ROOT / "examples").iterdir() if re.match(r"\d\d_", path.name)}
    assert listed == set(EXAMPLES), f"examples and tests differ: {listed ^ set(EXAMPLES)}"
    reason = needs_of(name)
    if reason:
        print("skipped:", reason)
        return 77
    words, expected = EXAMPLES[name]
    words = [word.replace("{}", str(ROOT / "examples" / name)) for word in words]
    environment = {key: value for key, value in os.environ.items() if not key.endswith(("_VISIBLE_DEVICES", "_NUM_THREADS"))}
    environment["PATH"] = str(pathlib.Path(berth).parent) + ":" + environment["PATH"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, timeout=110)
        left = os.listdir(folder)
    print(done.stdout, done.stderr, sep="")
    assert done.returncode == 0, f"exit code {done.returncode}"
    assert not left, f"left behind: {left}"
    for pattern in expected:
        assert re.search(pattern, done.stdout), f"not in its output: {pattern}"
    accuracy = re.search(r"accuracy=([\d.]+)", done.stdout)
    assert accuracy is None or float(accuracy.group(1)) > 0.95
    return 0


if __name__ == "__main__":
    sys.exit(main())
