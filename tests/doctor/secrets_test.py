#!/usr/bin/env python3
"""Made-up words never leave the machine: unique words are added to each text of recorded machines, to folders, environment and kernel
log, as comments, keys, values, hosts, paths, names and links. A recording of such a machine must contain none of them.

usage: secrets_test.py BERTH"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import machine_file
from recorded import read, whole

WORD = "SECRETWORD"
# Text that only the kernel writes, so nobody can put a secret there.
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


def spoilt_text(path, data):
    """The text with the word in it; None to leave it unchanged."""
    if b"\0" in data or path[1:].startswith(KERNELS) or not data.strip():
        return None
    if path in ("/proc/sys/kernel/hostname", "/etc/hostname") or path.endswith("/comm"):
        return WORD.encode() + b"\n"
    if data.lstrip().startswith(b"{"):
        try:
            document = json.loads(data)
        except ValueError:
            return None
        return json.dumps({**document, WORD: {WORD: WORD, "registry-mirrors": [f"https://{WORD}"]}}).encode()
    if path == "/proc/cmdline":
        return data.strip() + f" root=UUID={WORD} rd.luks.key={WORD} ip={WORD} modprobe.blacklist=nouveau,{WORD}\n".encode()
    return data if path.endswith("/stat") else data + TEXT.encode()


def spoil(machine):
    """Adds the word everywhere. Returns the number of changed texts."""
    folders, texts = machine.all_folders(), 0
    for path, content in machine.files.items():
        spoilt = spoilt_text(path, content) if isinstance(content, bytes) else None
        if spoilt is not None:
            machine.files[path] = spoilt
            texts += 1
    for folder in folders:
        if folder.startswith(("/sys", "/proc")):
            continue
        for ending in (".conf", ".so", ".sock", ".icd", ".yaml", ".rules", ".py"):
            machine.files[f"{folder}/{WORD}{ending}"] = TEXT.encode()
        machine.files[f"{folder}/{WORD}-link.conf"] = f"/srv/{WORD}/target.conf"
        machine.files[f"{folder}/{WORD}/kernel.json"] = json.dumps({"argv": ["/usr/bin/python3", WORD], "display_name": WORD}).encode()
    machine.files[f"/srv/{WORD}/target.conf"] = TEXT.encode()
    for path in ("/etc/passwd", "/etc/nsswitch.conf", "/etc/wsl.conf", "/etc/crio/crio.conf", "/etc/containerd/config.toml", "/etc/nccl.conf", "/etc/hosts",
                 "/etc/modprobe.d/nvidia.conf", "/etc/nvidia-container-runtime/config.toml", "/run/reboot-required.pkgs", "/etc/ld.so.conf.d/cuda.conf",
                 "/proc/self/cgroup", "/proc/self/mountinfo", "/proc/modules", "/etc/pip.conf", "/etc/conda/.condarc", "/etc/xdg/uv/uv.toml"):
        if path not in machine.files and os.path.dirname(os.path.dirname(path)).rstrip("/") in folders:
            machine.files[path] = TEXT.encode()
            texts += 1
    # Longer than a scan by hand would read.
    machine.files["/etc/docker/daemon.json"] = json.dumps({"registry-mirrors": [WORD] * 60_000}, indent=1).encode()
    if "/proc" in folders:
        machine.files["/proc/1/environ"] = f"PASSWORD={WORD}\0container={WORD}\0".encode()
    for name, lines in (("environment", "".join(f"{name}={value}\n" for name, value in VARIABLES.items())), ("kernel.log", LOG)):
        machine.parts[name] = machine.parts.get(name, "") + lines
    return texts


def leaks(path):
    machine = machine_file.read(path.read_text())
    found = [f"{one}: its name" for one in (*machine.files, *machine.folders, *machine.nodes) if WORD in one]
    for one, content in [*machine.files.items(), *machine.parts.items()]:
        data = content if isinstance(content, bytes) else content.encode()
        if WORD.encode() in data:
            line = next(line for line in data.split(b"\n") if WORD.encode() in line)
            found.append(f"{one}: {line.decode(errors='replace')[:200]}")
    return found


def main():
    berth = os.path.abspath(sys.argv[1])
    machines, wrong, texts = whole()[::1 if os.environ.get("BERTH_SOAK") else 9], [], 0
    for name in machines:
        with tempfile.TemporaryDirectory() as folder:
            spoilt, told = pathlib.Path(folder) / "spoilt.machine", pathlib.Path(folder) / "told.machine"
            machine = read(name)
            texts += spoil(machine)
            spoilt.write_text(machine_file.write(machine))
            done = subprocess.run([berth, "doctor", "--from", spoilt, "--record", told], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "LC_ALL": "C"})
            assert done.returncode == 0, f"{name}: {done.stderr}"
            wrong += [f"{name}: {leak}" for leak in leaks(told)]
    assert len(machines) > 90 and texts > 2000 and not wrong, "\n".join(wrong[:80]) + f"\n{len(wrong)} in all, {texts} texts"
    print(f"{len(machines)} machines, {texts} texts: none of their words is in what was recorded")


main()
