#!/usr/bin/env python3
"""The build and the index that `berth setup` chooses under simulated drivers 470, 535, 550 and 580 and on ten GPUs, for Python 3.12. The
table was written by hand from the release notes' rows in data/compat.toml; it is not output of the program.

usage: setup_table_test.py BERTH
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import setup_fakes

BERTH = os.path.abspath(sys.argv[1])
DRIVERS = ("470.82", "535.161", "550.54", "580.95")
OWN = "https://download.pytorch.org/whl/"  # PyTorch's own index has one folder for each CUDA version; "pypi" in the table means PyPI
# "no" is followed by the oldest driver that works. Ada and Hopper need driver 520.61.05, Blackwell 570.26. CUDA 13 does not support Pascal
# and Volta.
TORCH = """
                  470.82           535.161          550.54           580.95
  GTX 1080 Ti     torch==2.7 cu118 torch==2.14 cu126 torch==2.14 cu126 torch==2.14 cu126
  V100            torch==2.7 cu118 torch==2.14 cu126 torch==2.14 cu126 torch==2.14 cu126
  T4              torch==2.7 cu118 torch==2.14 cu126 torch==2.14 cu126 torch==2.15 pypi
  A100            torch==2.7 cu118 torch==2.14 cu126 torch==2.14 cu126 torch==2.15 pypi
  RTX 3090        torch==2.7 cu118 torch==2.14 cu126 torch==2.14 cu126 torch==2.15 pypi
  RTX 4090        no 520.61.05     torch==2.14 cu126 torch==2.14 cu126 torch==2.15 pypi
  L40S            no 520.61.05     torch==2.14 cu126 torch==2.14 cu126 torch==2.15 pypi
  H100            no 520.61.05     torch==2.14 cu126 torch==2.14 cu126 torch==2.15 pypi
  RTX 5090        no 570.26        no 570.26         no 570.26         torch==2.15 pypi
  B200            no 570.26        no 570.26         no 570.26         torch==2.15 pypi
"""
OTHERS = """
  jax GTX 1080 Ti          no 525.60.13  jax[cuda12]==0.12 pypi              jax[cuda12]==0.12 pypi              jax[cuda12]==0.12 pypi
  jax A100                 no 525.60.13  jax[cuda12]==0.12 pypi              jax[cuda12]==0.12 pypi              jax[cuda13]==0.12 pypi
  jax RTX 5090             no 570.26     no 570.26                           no 570.26                           jax[cuda13]==0.12 pypi
  tensorflow V100          no 525.60.13  tensorflow[and-cuda]==2.21 pypi     tensorflow[and-cuda]==2.21 pypi     tensorflow[and-cuda]==2.21 pypi
  tensorflow H100          no 545.23.06  no 545.23.06                        tensorflow[and-cuda]==2.17 pypi     tensorflow[and-cuda]==2.21 pypi
  cupy T4                  cupy-cuda11x==13 pypi  cupy-cuda12x[ctk]==14 pypi cupy-cuda12x[ctk]==14 pypi          cupy-cuda13x[ctk]==14 pypi
  onnxruntime RTX 3090     no 525.60.13  onnxruntime-gpu[cuda,cudnn]==1.26 pypi onnxruntime-gpu[cuda,cudnn]==1.26 pypi onnxruntime-gpu[cuda,cudnn]==1.31 pypi
  onnxruntime GTX 1080 Ti  no 525.60.13  onnxruntime-gpu[cuda,cudnn]==1.26 pypi onnxruntime-gpu[cuda,cudnn]==1.26 pypi onnxruntime-gpu[cuda,cudnn]==1.26 pypi
"""


def rows():
    for line in TORCH.strip().splitlines()[1:] + OTHERS.strip().splitlines():
        words = line.split()
        cells = [" ".join(words[at:at + 2]) for at in range(len(words) - 8, len(words), 2)]
        name = words[:-8]
        yield (name[0], " ".join(name[1:]), cells) if name[0] in ("jax", "tensorflow", "cupy", "onnxruntime") else ("torch", " ".join(name), cells)


def chosen(done):
    """Formats the result like a cell of the table."""
    if done.returncode != 0:
        found = re.search(r"the driver is too old: it must be (\S+) or newer", done.stderr)
        return f"no {found[1] if found else done.stderr}"
    document = json.loads(done.stdout)
    [one] = document["frameworks"]
    own = [word[len(OWN):] for word in document["commands"][-1].split() if word.startswith(OWN)]
    return f"{one['packages'][0].split('.*')[0]} {own[0] if own else 'pypi'}"


def main():
    wrong, count = [], 0
    with tempfile.TemporaryDirectory() as home:
        setup_fakes.programs(pathlib.Path(home) / "bin", pathlib.Path(home) / "envs")
        variables = {"PATH": f"{home}/bin:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "HOME": home, "PIP_CONFIG_FILE": "/dev/null"}
        for framework, gpu, cells in rows():
            for driver, cell in zip(DRIVERS, cells, strict=True):
                done = subprocess.run([BERTH, "setup", framework, "--driver", driver, "--gpu", gpu, "--uv", "--python", "3.12", "--dry-run", "--json"],
                                      cwd=home, env=variables, capture_output=True, text=True, timeout=60)
                count += 1
                if chosen(done) != cell:
                    wrong.append(f"{framework} on {gpu} under {driver}: {chosen(done)}, the table has {cell}")
                if done.returncode != 0 and "E0831" not in done.stderr:
                    wrong.append(f"{framework} on {gpu} under {driver}: {done.stderr}")
    print("\n".join(wrong))
    print(f"{count} choices")
    assert not wrong and count == 4 * (10 + 8)


main()
