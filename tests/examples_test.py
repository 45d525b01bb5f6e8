#!/usr/bin/env python3
"""Runs one example as a reader would, and checks its output.

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

# The command of each example, and patterns that its output must match.
EXAMPLES = {
    "01_see_the_machine.sh": (["sh", "{}"], [r"(?m)^next ", r"(?m)^ *\d+  \S+.*cores"]),
    "02_cpu_threads.py": (["berth", "run", "--cpu", "--", sys.executable, "{}"], [r"GPUs: -1"]),
    "03_pick_a_gpu.sh": (["sh", "{}"], [r"RTX 3090", r"(?m)^this job sees GPU \d$"]),
    "04_eval_env.sh": (["sh", "{}"], [r"GPUs: -1 +threads: [1-9]", r"Python sees the same: -1 [1-9]"]),
    "05_train_digits.py": ([DEBIAN_PYTHON, "{}", "--epochs", "8"], [r"PyTorch \S+ on ", r"(?m)^done +device=(cpu|cuda|xpu)"]),
    "07_three_jobs.sh": (["sh", "{}"], [r"job 3 waits for 1 GPU", r"(?m)^third on GPU [01]$", r"job 3 ended"]),
    "08_detect.py": ([DEBIAN_PYTHON, "{}"], [r"(?m)^this program has: ", r"(no GPU here|most free memory): "]),
    "09_matmul.py": ([DEBIAN_PYTHON, "{}", "--size", "700"], [r"(?m)^CPU, \d+ threads: 700² in "]),
    "10_fit_batch.py": ([DEBIAN_PYTHON, "{}"], [r"(?m)^done +device=\S+ batch=\d+ loss="]),
    "11_accumulate.py": ([DEBIAN_PYTHON, "{}"], [r"mean of means: gradients differ by \d\.\de-0[123]", r"berth.split_step: gradients differ by \d\.\de-0[789]"]),
    "12_amp.py": ([DEBIAN_PYTHON, "{}", "--precision", "bf16", "--steps", "5"], [r"(?m)^done +precision=bf16 loss=\d"]),
    "13_two_ranks.py": ([DEBIAN_PYTHON, "{}"], [r"step 0: 4 parts, 3 tries", r"rank 0: the same parameters as rank 0: True",
                                                r"rank 1: the same parameters as rank 0: True"]),
    "14_kernel.py": ([sys.executable, "{}"], [r"4 TiB do not fit: ", r"right for 1048576 numbers in \d"]),
    "15_two_jobs_one_gpu.sh": (["sh", "{}"], [r"(?m)^a got 2048 MiB$", r"(?m)^b got 4096 MiB$", r"(?m)^a: at most 2048 MiB, 1 refused, \d"]),
    "16_kernel_under_quota.py": ([sys.executable, "{}"], [r"(?s)two arrays of 100 MiB fit.*a third one does not.*the kernel ran|no device that only"]),
    "17_torch_extension.py": ([DEBIAN_PYTHON, "{}"], [r"(?s)two buffers of 80 MiB fit: right True.*of 160 MiB do not: .*E0584.*goes on: \[2.0|no device that"]),
    "06_read_json.py": ([sys.executable, "{}"], [r"cpu +\S+", r"most free memory: device \d+"]),
}
# Modules that the example's Python must have.
NEEDS = {"05_train_digits.py": "torch, sklearn", "14_kernel.py": "berth; berth.empty(1)", "16_kernel_under_quota.py": "berth; berth.empty(1)",
         "17_torch_extension.py": "torch, os; os.stat(os.path.join(os.path.dirname(torch.__file__), 'include/torch/extension.h'))",
         **dict.fromkeys(("09_matmul.py", "10_fit_batch.py", "11_accumulate.py", "12_amp.py", "13_two_ranks.py"), "torch")}


def needs_of(name):
    """Why the example cannot run here, or None."""
    modules = NEEDS.get(name)
    if modules is None:
        return None
    python = EXAMPLES[name][0][0]
    probe = subprocess.run([python, "-c", f"import {modules}"], capture_output=True, text=True,
                           env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    return None if probe.returncode == 0 else f"{python} lacks one of: {modules}"


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
    # What `pip install berth` would provide.
    environment.update(PYTHONPATH=str(ROOT / "python"), BERTH_PROGRAM=berth, BERTH_LIBRARY=str(pathlib.Path(berth).parent / "libberth.so"))
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
