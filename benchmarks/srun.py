"""What the SPANK plugin adds to srun, in a real Slurm with one node on this machine and simulated GPUs. Prints one JSON document.

  plain_ms   srun --gres=gpu:1 true
  plugin_ms  the same with --berth-memory and --berth-report

The two take turns, so that other work on the machine disturbs both. It needs root and `./dev test --slurm`'s packages.
usage: srun.py BERTH [RUNS]
"""
import json
import os
import subprocess
import sys
import time

from measuring import ROOT, machine

sys.path.insert(0, str(ROOT / "tests/engines"))
import slurm_bed  # noqa: E402

OPTIONS = {"plain_ms": (), "plugin_ms": ("--berth-memory=2G", "--berth-report=report-%j.json")}


def simulated(berth, *words):
    return [berth, "sim", "--machine", "lab-4x3090", "--", *words]


def lines(berth, name):
    words = simulated(berth, berth, "slurm", "gres", "--only", name, "--node", "n1")
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


def main(berth, runs=40):
    slurm = slurm_bed.Slurm(lines(berth, "gres.conf"), lines(berth, "slurm.conf"))
    slurm.run(berth, "slurm", "plugin", "--install", "--conf", slurm.folder, "--prefix", slurm.path("lib"))
    times = {name: [] for name in OPTIONS}
    with slurm, subprocess.Popen(simulated(berth, "sh", "-c", "echo $BERTH_SIM_DIR; exec sleep 86400"), stdout=subprocess.PIPE, text=True) as simulation:
        folder = simulation.stdout.readline().strip()
        variables = {"BERTH_SIM_DIR": folder, "LD_LIBRARY_PATH": folder + "/lib", "BERTH_RUNTIME_DIR": folder + "/run"}
        for _ in range(runs):
            for name, options in OPTIONS.items():
                begun = time.monotonic()
                done = slurm.run("srun", "--gres=gpu:1", *options, "true", variables=variables, cwd=slurm.folder)
                times[name].append((time.monotonic() - begun) * 1000)
                if done.returncode:
                    raise SystemExit(done.stderr + slurm.logs())
        simulation.terminate()
    found = {name: {"median": round(sorted(all_of)[len(all_of) // 2], 1), "min": round(min(all_of), 1), "runs": runs} for name, all_of in times.items()}
    added = {key: round(found["plugin_ms"][key] - found["plain_ms"][key], 1) for key in ("median", "min")}
    print(json.dumps({"schema": 1, "machine": machine(), "load": os.getloadavg()[0], **found, "added_ms": added}, indent=1))


if __name__ == "__main__":
    if slurm_bed.why_not():
        print("null")
        sys.exit(0)
    main(os.path.abspath(sys.argv[1]), *map(int, sys.argv[2:]))
