#!/usr/bin/env python3
"""Plays NVIDIA's container runtime: adds the driver's libraries and the GPUs in NVIDIA_VISIBLE_DEVICES to a container, then calls runc. The
driver is the simulated one, so its state (BERTH_SIM_DIR) is added too. RUNC and SIMULATION are replaced when the node starts."""
import json
import os
import sys

RUNC, SIMULATION = "@RUNC@", "@SIMULATION@"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def bind(source, target, *options):
    return {"source": source, "destination": target, "type": "bind", "options": ["bind", *options]}


def add_gpus(path):
    with open(path) as file:
        spec = json.load(file)
    environment = spec["process"]["env"]
    values = dict(one.split("=", 1) for one in environment)
    wanted = values.get("NVIDIA_VISIBLE_DEVICES", "")
    if wanted in ("", "void", "none"):
        return
    spec["mounts"] += [bind(f"{SIMULATION}/lib/{name}", f"{LIBRARIES}/{name}", "ro") for name in ("libcuda.so.1", "libnvidia-ml.so.1")]
    spec["mounts"].append(bind(SIMULATION, SIMULATION, "rw"))
    # On a machine, the locks of brokers are in /run/lock. Each container has its own.
    spec["mounts"].append({"source": "tmpfs", "destination": SIMULATION + "/locks", "type": "tmpfs", "options": ["mode=1777"]})
    environment.append(f"BERTH_SIM_DIR={SIMULATION}")
    if wanted != "all":
        environment.append(f"CUDA_VISIBLE_DEVICES={wanted}")
    with open(path, "w") as file:
        json.dump(spec, file)


words = sys.argv[1:]
if "create" in words:
    at = next(i for i, word in enumerate(words) if word.startswith("--bundle") or word == "-b")
    folder = words[at].split("=", 1)[1] if "=" in words[at] else words[at + 1]
    add_gpus(os.path.join(folder, "config.json"))
os.execv(RUNC, [RUNC, *words])
