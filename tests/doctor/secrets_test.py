#!/usr/bin/env python3
"""What somebody has made up stays on the machine: each text of recorded machines, each folder, the environment and the kernel's log get words that
nobody else has, as comments, keys, values, hosts, paths, names and links. A bundle that is recorded of such a machine holds none of them.

usage: secrets_test.py BERTH"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from recorded import BUNDLES

WORD = "SECRETWORD"
# The kernel's own words, in which nobody can write.
KERNELS = ("sys/", "proc/sys/kernel/osrelease", "proc/driver/nvidia/params", "proc/device-tree/", "proc/self/uid_map")
TEXT = f"""
# {WORD} in a comment
{WORD}=key
KEY={WORD}
NCCL_SERVER={WORD}
NCCL_COMM_ID={WORD}:1
OLLAMA_ORIGINS={WORD}
Environment="TOKEN={WORD}"
options nvidia {WORD}
install nvidia /bin/sh -c "curl {WORD}"
"{WORD}" = "{WORD}"
[{WORD}.{WORD}]
name: {WORD}
  hostPath: /opt/{WORD}/x
10.11.12.13 {WORD} {WORD}.corp
url = https://{WORD}:{WORD}@{WORD}.corp/{WORD}/simple
index-url = {WORD}/simple
channels:
  - {WORD}
https://{WORD}:{WORD}@{WORD}.corp/{WORD}
passwd: files {WORD}
group: {WORD}
/opt/{WORD}/lib
include /opt/{WORD}/*.conf
import {WORD}
36 35 0:9 /{WORD} /mnt/{WORD} rw,relatime shared:1 - nfs4 nas.{WORD}:/{WORD} rw,addr={WORD}
0::/user.slice/{WORD}.scope
{WORD} 1 0 - Live 0x0
9 {WORD}
nvidia error: {WORD}
command = {WORD}
prompt = {WORD}
"""
LOG = f"""[ 1.0] Command line: root=UUID={WORD} token={WORD}
[ 2.0] NVRM: Xid (PCI:0000:01:00): 31, pid=4711, name={WORD}, Ch 8
[ 3.0] traps: {WORD}[4711] general protection fault in libcuda.so nvidia
[ 4.0] amdgpu 0000:03:00.0: amdgpu: Process information: process {WORD} pid 1 thread {WORD}:cs0 pid 2
[ 5.0] i915 0000:00:02.0: GPU HANG: ecode 12:1, in {WORD} [4711]
[ 6.0] Lockdown: {WORD}: unsigned module loading is restricted
[ 7.0] audit: type=1400 apparmor="DENIED" profile="{WORD}" name="/proc/driver/nvidia" comm="{WORD}"
[ 8.0] CPU: 1 PID: 2 Comm: {WORD} Tainted: P nvidia
[ 9.0] oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/{WORD},task={WORD},pid=4,uid=1
[ 10.0] Out of memory: Killed process 6154 ({WORD}) total-vm:18109076kB
[ 11.0] usb 1-1: SerialNumber: {WORD}
Nov 23 01:28:19 {WORD} kernel: NVRM: GPU 0000:01:00.0: nothing
"""
VARIABLES = {"OLLAMA_ORIGINS": WORD, "OLLAMA_REMOTES": f"{WORD},{WORD}.corp", "MASTER_ADDR": WORD, "NO_PROXY": WORD, "HOSTNAME": WORD, "GPU_SERVER": WORD,
             "NVIDIA_NODE_NAME": WORD, "KUBERNETES_SERVICE_HOST": WORD, "SLURM_JOB_NODELIST": WORD, "SLURMD_NODENAME": WORD, "DOCKER_HOST": f"tcp://{WORD}:1",
             "NCCL_SERVER_ADDR": WORD, "CUDA_MY_PEER": WORD, "HF_TOKEN": WORD, "PIP_INDEX_URL": f"{WORD}.corp/simple", "CONDA_CHANNELS": WORD,
             "UV_INDEX": f"{WORD}=https://{WORD}.corp/{WORD}/simple", "NV_PEER": f"{WORD}.corp.example", "XLA_HOST": WORD, "BACKUP_DEVICE": f"/dev/{WORD}"}


def spoil_text(path, name):
    data = path.read_bytes()
    if b"\0" in data or name.startswith(KERNELS) or not data.strip():
        return 0
    if name in ("proc/sys/kernel/hostname", "etc/hostname") or name.endswith("/comm"):
        path.write_text(WORD + "\n")
    elif data.lstrip().startswith(b"{"):
        try:
            document = json.loads(data)
        except ValueError:
            return 0
        path.write_text(json.dumps({**document, WORD: {WORD: WORD, "registry-mirrors": [f"https://{WORD}"]}}))
    elif name == "proc/cmdline":
        path.write_bytes(data.strip() + f" root=UUID={WORD} rd.luks.key={WORD} ip={WORD} modprobe.blacklist=nouveau,{WORD}\n".encode())
    elif not name.endswith("/stat"):
        path.write_bytes(data + TEXT.encode())
    return 1


def spoil(machine):
    """The texts that now hold the word."""
    root = machine / "root"
    folders = [path for path in root.rglob("*") if path.is_dir() and not path.is_symlink()]
    texts = sum(spoil_text(path, str(path.relative_to(root))) for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink())
    for folder in folders:
        name = str(folder.relative_to(root))
        if name.startswith(("sys", "proc")):
            continue
        for ending in (".conf", ".so", ".sock", ".icd", ".yaml", ".rules", ".py"):
            (folder / (WORD + ending)).write_text(TEXT)
        (folder / (WORD + "-link.conf")).symlink_to(f"/srv/{WORD}/target.conf")
        (folder / WORD).mkdir()
        (folder / WORD / "kernel.json").write_text(json.dumps({"argv": ["/usr/bin/python3", WORD], "display_name": WORD}))
    (root / "srv" / WORD).mkdir(parents=True)
    (root / "srv" / WORD / "target.conf").write_text(TEXT)
    for path in ("etc/passwd", "etc/nsswitch.conf", "etc/wsl.conf", "etc/crio/crio.conf", "etc/containerd/config.toml", "etc/nccl.conf", "etc/hosts",
                 "etc/modprobe.d/nvidia.conf", "etc/nvidia-container-runtime/config.toml", "run/reboot-required.pkgs", "etc/ld.so.conf.d/cuda.conf",
                 "proc/self/cgroup", "proc/self/mountinfo", "proc/modules", "etc/pip.conf", "etc/conda/.condarc", "etc/xdg/uv/uv.toml"):
        if not (root / path).exists() and (root / path).parent.parent.exists():
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_text(TEXT)
            texts += 1
    # Longer than anybody would look through by hand.
    (root / "etc/docker").mkdir(parents=True, exist_ok=True)
    (root / "etc/docker/daemon.json").write_text(json.dumps({"registry-mirrors": [WORD] * 60_000}, indent=1))
    if (root / "proc").is_dir():
        (root / "proc/1").mkdir(exist_ok=True)
        (root / "proc/1/environ").write_bytes(f"PASSWORD={WORD}\0container={WORD}\0".encode())
    for name, lines in (("environment", "".join(f"{name}={value}\n" for name, value in VARIABLES.items())), ("kernel.log", LOG)):
        path = machine / name
        path.write_text((path.read_text(errors="replace") if path.exists() else "") + lines)
    return texts


def leaks(folder):
    found = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if WORD in str(name):
            found.append(f"{name}: its name")
        if path.is_symlink():
            found += [f"{name} → {os.readlink(path)}"] if WORD in os.readlink(path) else []
        elif path.is_file() and WORD.encode() in path.read_bytes():
            line = next(line for line in path.read_bytes().split(b"\n") if WORD.encode() in line)
            found.append(f"{name}: {line.decode(errors='replace')[:200]}")
    return found


def main():
    berth = os.path.abspath(sys.argv[1])
    bundles = [one for one in sorted(BUNDLES.iterdir()) if one.is_dir()][::1 if os.environ.get("BERTH_SOAK") else 9]
    wrong, texts = [], 0
    for one in bundles:
        with tempfile.TemporaryDirectory() as folder:
            machine, told = pathlib.Path(folder) / "machine", pathlib.Path(folder) / "told"
            shutil.copytree(one, machine, symlinks=True)
            texts += spoil(machine)
            done = subprocess.run([berth, "doctor", "--from", machine, "--record", told], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "LC_ALL": "C"})
            assert done.returncode == 0, f"{one.name}: {done.stderr}"
            wrong += [f"{one.name}: {leak}" for leak in leaks(told)]
    assert len(bundles) > 90 and texts > 2000 and not wrong, "\n".join(wrong[:80]) + f"\n{len(wrong)} in all, {texts} texts"
    print(f"{len(bundles)} machines, {texts} texts: none of their words is in a bundle")


main()
