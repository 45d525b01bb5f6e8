#!/usr/bin/env python3
"""Real targets on disk: this machine and Debian's PyTorch. With BERTH_SOAK also an environment with PyPI's CPU wheels, a debootstrap root,
plain and as a container, and NVIDIA's NCCL wheels for two major versions in one environment. Downloads are kept in the cache folder;
without network and cache, a part is skipped with the reason. A recorded GPU combined with a real Python shows what the doctor makes of
it.

usage: targets_test.py BERTH
"""
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

from packages import cache, wheels

DEBIAN_TORCH = pathlib.Path("/usr/lib/python3/dist-packages/torch/version.py")
GPU = {"nvml_init": 0, "cuda_init": 0, "driver_version": "570.133.20", "cuda_version": "12.8",
       "gpus": [{"pci_address": "0000:01:00.0", "error": None, "name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0"}]}


def doctor(berth, *words):
    done = subprocess.run([berth, "doctor", "--json", *map(str, words)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "LC_ALL": "C"})
    assert done.returncode in (0, 1) and not done.stderr, (words, done.returncode, done.stderr)
    return done.returncode, json.loads(done.stdout)


def with_gpu(berth, folder, *target):
    """The findings for the target if this machine also had a GPU."""
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


def wheels_for_the_processor(berth, folder):
    """numpy and onnxruntime, unpacked as pip does it. They are fine here. With a GPU, the doctor says that they do not use it."""
    kept = wheels("cpu_wheels.lock")
    if kept is None:
        return
    venv = folder / "cpu"
    if subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], capture_output=True).returncode:
        return print("skipped: this Python makes no environments")
    site = next(venv.glob("lib/python3*/site-packages"))
    for wheel in kept.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(site)
    code, found = doctor(berth, "--venv", venv)
    assert code == 0 and not [one for one in found["findings"] if one["severity"] in ("error", "fatal")], found
    beside = with_gpu(berth, folder, "--venv", venv)["FW15"]
    assert beside["severity"] == "info" and "CPU" in beside["title"], beside
    # With --deep there is nothing to run and nothing hangs.
    tried = {one["framework"]: one["state"] for one in doctor(berth, "--deep", "--venv", venv)[1]["probe"]}
    assert tried == {"onnxruntime": "cpu_build"}, tried
    print(f"wheels for the processor: {found['verdict']}; beside a GPU: {beside['title']}; tried: {tried}")


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


def debian_root():
    """A tar of a minimal Debian root. Prints the reason and returns None if it cannot be made."""
    kept = cache() / "debian-bookworm-minbase.tar"
    if kept.exists():
        return kept
    if os.geteuid() != 0:
        return print("skipped: debootstrap wants root")
    if subprocess.run(["sh", "-c", "command -v debootstrap"], capture_output=True).returncode:
        return print("skipped: debootstrap is not installed")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "root"
        try:
            done = subprocess.run(["debootstrap", "--variant=minbase", "--include=python3-minimal", "bookworm", root],
                                  capture_output=True, text=True, timeout=400)
        except subprocess.TimeoutExpired:
            return print("skipped: debootstrap took more than 400 s")
        if done.returncode:
            return print(f"skipped: debootstrap: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
        for name in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "dev", "proc", "sys"):
            subprocess.run(["rm", "-rf", root / name], check=False)
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(".part")
        with tarfile.open(part, "w") as archive:
            archive.add(root, "root")
        part.rename(kept)
    return kept


def foreign_root(berth, folder):
    """Diagnoses the root as a machine without a GPU, and as a container on a machine with a GPU, started with the GPU and without it."""
    kept = debian_root()
    if kept is None:
        return
    bundle = folder / "foreign"
    with tarfile.open(kept) as archive:
        members = [one for one in archive.getmembers() if one.isreg() or one.isdir() or one.issym() or one.islnk()]
        archive.extractall(bundle, members)
    root = bundle / "root"
    code, found = doctor(berth, "--from", bundle)
    print(f"a root made by debootstrap: {found['verdict']}")
    assert code == 0 and not found["findings"], found
    (root / ".dockerenv").touch()
    files = {"proc/sys/kernel/osrelease": "6.1.0-28-amd64\n", "proc/modules": "nvidia 56537088 10 - Live 0x0000000000000000\n",
             "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.20  Release Build\n",
             "sys/module/nvidia/version": "570.133.20\n", "usr/lib/x86_64-linux-gnu/libcuda.so.570.133.20": "",
             "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.133.20": ""}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in ("libcuda.so", "libnvidia-ml.so"):
        (root / f"usr/lib/x86_64-linux-gnu/{name}.1").symlink_to(f"{name}.570.133.20")
    (bundle / "environment").write_text("PATH=/usr/bin:/bin\nNVIDIA_VISIBLE_DEVICES=all\nNVIDIA_DRIVER_CAPABILITIES=compute,utility\n")
    nodes = [{"path": f"/dev/{name}", "type": "char", "mode": "0666", "uid": 0, "gid": 0, "major": major, "minor": minor}
             for name, major, minor in (("nvidia0", 195, 0), ("nvidiactl", 195, 255), ("nvidia-uvm", 511, 0))]
    (bundle / "nodes.jsonl").write_text("".join(json.dumps(one) + "\n" for one in nodes))
    (bundle / "driver.json").write_text(json.dumps(GPU))
    code, found = doctor(berth, "--from", bundle)
    assert code == 0 and not [one for one in found["findings"] if one["severity"] in ("error", "fatal")], found
    (bundle / "nodes.jsonl").write_text("")
    (bundle / "driver.json").write_text(json.dumps({"nvml_init": 9, "cuda_init": 100, "gpus": []}))
    code, without = doctor(berth, "--from", bundle)
    assert code == 1 and without["findings"][0]["id"].startswith("CTR"), without
    print(f"as a container with a GPU: {found['verdict']}; without its nodes: {without['findings'][0]['id']} {without['findings'][0]['title']}")


def main():
    berth = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        this_machine(berth)
        debian_torch(berth, folder)
        if "BERTH_SOAK" not in os.environ:
            return print("only with BERTH_SOAK: wheels from PyPI, a Debian made by debootstrap, NCCL's wheels")
        wheels_for_the_processor(berth, folder)
        foreign_root(berth, folder)
        two_nccls(berth, folder)


if __name__ == "__main__":
    main()
