#!/usr/bin/env python3
"""scripts/gpu.py on a simulated machine: it compares Berth with another reader of the same driver, detects differences, and skips with a
reason without a GPU. Results from real GPUs are in benchmarks/results."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BERTH = pathlib.Path(sys.argv[1]).resolve()


def gpu_script(machine, processes, **more):
    environment = dict(os.environ, PATH=f"{ROOT / 'tests/gpu'}:{os.environ['PATH']}", BERTH_PROGRAM=str(BERTH), **more)
    command = [BERTH, "sim", "--machine", machine, "--processes", processes, "--at", "60", "--", sys.executable,
               ROOT / "scripts/gpu.py", "--allow-simulated"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, timeout=110)
    return done.returncode, done.stdout + done.stderr


def main() -> int:
    code, said = gpu_script("lab-4x3090", "2")
    assert code == 0 and "FAILED" not in said, said
    assert said.count("held ") > 40, said
    code, said = gpu_script("workstation-4090", "0", BERTH_TEST_LIE="memory.total=1")
    assert code == 1 and "FAILED       GPU 0 memory_total_bytes" in said, said
    code, said = gpu_script("none", "0")
    assert code == 0 and said.startswith("skipped: there is no NVIDIA GPU here"), said
    return 0


if __name__ == "__main__":
    sys.exit(main())
