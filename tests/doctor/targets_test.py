#!/usr/bin/env python3
"""Real targets, each as it is on the disk: this machine, Debian's PyTorch, and, with BERTH_SOAK where PyPI and a mirror
of Debian are in reach, NVIDIA's NCCL wheels for two majors in one environment and a root made by debootstrap. A recorded
GPU is put beside a real Python to see what the doctor makes of it.

usage: targets_test.py BERTH
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

DEBIAN_TORCH = pathlib.Path("/usr/lib/python3/dist-packages/torch/version.py")
GPU = {"nvml_init": 0, "cuda_init": 0, "driver_version": "570.133.20", "cuda_version": "12.8",
       "gpus": [{"pci_address": "0000:01:00.0", "error": None, "name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0"}]}


def doctor(berth, *words):
    done = subprocess.run([berth, "doctor", "--json", *map(str, words)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "LC_ALL": "C"})
    assert done.returncode in (0, 1) and not done.stderr, (words, done.returncode, done.stderr)
    return done.returncode, json.loads(done.stdout)


def with_gpu(berth, folder, *target):
    """What is found of the target on a machine that is this one with a GPU."""
    recorded = folder / f"bundle{len(list(folder.iterdir()))}"
    subprocess.run([berth, "doctor", "--static", "--record", recorded, *map(str, target)], check=True, capture_output=True, timeout=120)
    (recorded / "driver.json").write_text(json.dumps(GPU))
    return {one["id"]: one for one in doctor(berth, "--from", recorded)[1]["findings"]}


def this_machine(berth):
    code, found = doctor(berth)
    serious = [one["id"] for one in found["findings"] if one["severity"] in ("error", "fatal")]
    print(f"this machine: {found['verdict']}; {[one['id'] for one in found['findings']]}, {len(found['not_checked'])} not checked")
    if not os.path.exists("/proc/driver/nvidia") and not os.path.exists("/dev/kfd"):
        assert code == 0 and not serious, found


def debian_torch(berth, folder):
    if not DEBIAN_TORCH.exists():
        return print("skipped: Debian's python3-torch is not installed")
    code, found = doctor(berth, "--python", "/usr/bin/python3")
    assert code == 0, found
    wrong = with_gpu(berth, folder, "--python", "/usr/bin/python3")["FW01"]
    assert str(DEBIAN_TORCH) in " ".join(wrong["evidence"]), wrong
    print(f"Debian's PyTorch beside a GPU: {wrong['title']}")


def two_nccls(berth, folder):
    venv = folder / "venv"
    made = subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], capture_output=True)
    site = next(venv.glob("lib/python3*/site-packages"), None)
    if made.returncode or subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", site,
                                          "nvidia-nccl-cu12", "nvidia-nccl-cu13"], capture_output=True).returncode:
        return print("skipped: NCCL's wheels cannot be had")
    code, found = doctor(berth, "--venv", venv)
    first = found["findings"][0]
    print(f"NCCL for two majors: {first['id']} {first['title']}")
    assert code == 1 and first["id"] == "LIB03", found


def foreign_root(berth, folder):
    bundle = folder / "foreign"
    bundle.mkdir()
    if os.geteuid() != 0 or subprocess.run(["sh", "-c", "command -v debootstrap"], capture_output=True).returncode or subprocess.run(
            ["debootstrap", "--variant=minbase", "bookworm", bundle / "root"], capture_output=True, timeout=1000).returncode:
        return print("skipped: debootstrap is not there, or cannot reach a mirror")
    code, found = doctor(berth, "--from", bundle)
    print(f"a root made by debootstrap: {found['verdict']}")
    assert code == 0, found


def main():
    berth = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        this_machine(berth)
        debian_torch(berth, folder)
        if "BERTH_SOAK" not in os.environ:
            return print("not asked for (BERTH_SOAK): NCCL's wheels, debootstrap")
        two_nccls(berth, folder)
        foreign_root(berth, folder)


if __name__ == "__main__":
    main()
