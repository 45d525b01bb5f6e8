#!/usr/bin/env python3
"""The inventory of `berth doctor --json` on every healthy recorded machine, compared with what its files say: the driver in its documents,
dist-info folders and torch/version.py in the sys.path of its Python, and the nvcc that the machine has. Reads the files by itself.

usage: inventory_test.py BERTH [NAME…]
"""
import pathlib
import re
import sys

from recorded import diagnosis, expected, names, path_of, read

DIST = re.compile(r"/([A-Za-z0-9_.]+)-([0-9][^/]*)\.dist-info/")
PACKAGES = {"torch": "torch", "tensorflow": "tensorflow", "tensorflow_gpu": "tensorflow", "tensorflow_cpu": "tensorflow", "jax": "jax",
            "onnxruntime": "onnxruntime", "onnxruntime_gpu": "onnxruntime", "numba": "numba"}


def text_of(machine, path):
    data = machine.files.get(path)
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else ""


def real(machine, path, depth=0):
    """Resolves all links of the machine in this path."""
    done = ""
    for part in [word for word in path.split("/") if word]:
        done += "/" + part
        link = machine.files.get(done)
        if isinstance(link, str) and depth < 40:
            done = real(machine, str(pathlib.PurePosixPath(done).parent / link), depth + 1)
    parts = []
    for part in done.split("/"):
        parts = parts[:-1] if part == ".." else [*parts, part] if part not in ("", ".") else parts
    return "/" + "/".join(parts)


def driver_of(machine):
    """The version from the live driver, or else from the kernel's module."""
    live = machine.document("driver.json").get("driver_version")
    if isinstance(live, str) and live:
        return live
    for path in ("/sys/module/nvidia/version", "/proc/driver/nvidia/version"):
        if found := re.search(r"\b(\d{3}\.\d+(?:\.\d+)*)\b", text_of(machine, path)):
            return found[1]
    return None


def problems(berth, name):
    machine = read(name)
    document = diagnosis(berth, path_of(name))
    inventory = document["inventory"]
    wants = driver_of(machine)
    has = (inventory["driver"] or {}).get("version")
    if wants != has:
        yield f"driver {has}, but its files say {wants}"
    cuda = machine.document("driver.json").get("cuda_version")
    if isinstance(cuda, str) and (inventory["driver"] or {}).get("cuda") is None:
        yield f"the driver allows CUDA {cuda}, and the inventory does not say so"
    if inventory["toolkit"] and inventory["toolkit"]["folder"]:
        nvcc = inventory["toolkit"]["nvcc"]
        if nvcc not in machine.files and nvcc not in machine.nodes:
            yield f"{nvcc} is not on the machine"
    everything = set(machine.files) | set(machine.nodes) | machine.folders
    for kind in ("cudnn", "nccl"):
        for one in inventory[kind] or []:
            if one["path"] not in everything and real(machine, one["path"]) not in everything:
                yield f"{one['path']} is not on the machine"
            if one["version"] is not None and not re.match(r"\d+(\.\d+)*", one["version"]):
                yield f"{kind} has no version: {one['version']}"
    python = (document["python"] or {}).get("path")
    if inventory["frameworks"] is None:
        return
    seen = {one["name"]: one for one in inventory["frameworks"]}
    for one in seen.values():
        # Each reported framework is on the machine, with that version and below that path.
        folder = one["path"] if one["path"] in everything else one["path"].rstrip("/")
        if not any(path == folder or path.startswith(folder + "/") for path in everything):
            yield f"{one['path']} is not on the machine"
        if one["path"].endswith("version.py"):
            if f"'{one['version']}'" not in text_of(machine, one["path"]) and f'"{one["version"]}"' not in text_of(machine, one["path"]):
                yield f"{one['path']} does not say {one['version']}"
        elif one["version"] not in one["path"]:
            yield f"{one['path']} is not of version {one['version']}"
        if one["name"] == "torch" and one["path"].endswith("version.py"):
            built = re.search(r"^cuda\b[^=]*= ['\"](\d+\.\d+)", text_of(machine, one["path"]), re.M)
            if (built[1] if built else None) != one["cuda"]:
                yield f"torch was built with CUDA {built and built[1]}, not {one['cuda']}"
    if not python:
        return
    # Every framework in the environment's own site-packages is reported.
    prefix = str(pathlib.PurePosixPath(python).parent.parent)
    for path in machine.files:
        found = DIST.search(path)
        if found and path.startswith(f"{prefix}/lib/python") and "/site-packages/" in path and path.count("/site-packages/") == 1:
            word = PACKAGES.get(found[1].lower()) or ("cupy" if found[1].startswith("cupy_cuda") else None)
            if word and path[:found.start()].endswith("/site-packages") and word not in seen:
                yield f"{path[:found.end()]} is not in the inventory"


def main():
    berth, chosen = sys.argv[1], sys.argv[2:]
    healthy = [name for name in chosen or names() if chosen or "healthy" in expected(name)]
    wrong, counts = [], {"driver": 0, "toolkit": 0, "cudnn": 0, "nccl": 0, "frameworks": 0}
    for name in healthy:
        wrong += [f"{name}: {one}" for one in problems(berth, name)]
        inventory = diagnosis(berth, path_of(name))["inventory"]
        for key in counts:
            one = inventory[key]
            counts[key] += bool(one.get("version") if isinstance(one, dict) else one)
    print("\n".join(wrong))
    print(f"{len(healthy)} healthy machines: {', '.join(f'{count} with {key}' for key, count in counts.items())}")
    assert not wrong
    if not chosen:
        assert len(healthy) > 100 and min(counts.values()) > 20, "the machines hardly show anything"


main()
