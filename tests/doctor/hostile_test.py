#!/usr/bin/env python3
"""Hostile machines: huge files, circular links, a FIFO, folder or device instead of each file that is read, a driver library that never
answers. The doctor must not crash or hang, and must use at most 64 MiB. Recorded machines are used, because the same code reads real
ones.

usage: hostile_test.py BERTH HANGING_NVML
"""
import json
import os
import pathlib
import shutil
import stat
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import machine_file
import recorded

MACHINES = ("healthy-python-torch-venv", "healthy-python-jax", "healthy-python-conda", "healthy-docker-host", "healthy-idle-link",
            "healthy-amd", "healthy-wsl", "healthy-rootless-podman")
MOST_KIB = 64 << 10
MOST_SECONDS = 60  # it takes about 10 ms, with many packages 2 s; only a hang takes longer
PARTS = ("nodes.jsonl", "environment", "kernel.log", "driver.json", "process.json")


class Machine:
    """A recorded machine as a folder, in which files can be replaced by things that a .machine file cannot contain."""

    def __init__(self, name, folder):
        self.folder = folder
        machine_file.to_folder(recorded.read(name), folder)


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def run(words, variables=None, limit=MOST_SECONDS):
    """Returns (exit code, stdout, peak KiB, seconds). A child that does not end is killed and counts as an error. The peak includes this
    process's own memory when the child started, so this process must stay small."""
    out = os.memfd_create("out")
    begin = time.monotonic()
    child = os.posix_spawn(words[0], [str(word) for word in words], {**os.environ, "LC_ALL": "C", **(variables or {})},
                           file_actions=[(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, out, 2)])
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() - begin > limit:
            os.kill(child, 9)
            os.wait4(child, 0)
            raise AssertionError(f"{words}: not done after {limit} s")
        time.sleep(0.002)
    text = os.pread(out, os.fstat(out).st_size, 0).decode(errors="replace")
    os.close(out)
    return os.waitstatus_to_exitcode(status), text, usage.ru_maxrss, time.monotonic() - begin


def diagnosed(berth, folder, what, codes=(0, 1)):
    code, text, peak, _ = run([berth, "doctor", "--json", "--from", folder])
    assert code in codes, f"{what}: exit code {code}\n{text[:2000]}"
    assert peak <= MOST_KIB, f"{what}: {peak} KiB"
    return json.loads(text) if code in (0, 1) else None


def files_of(machine):
    return sorted(path for path in (machine.folder / "root").rglob("*") if path.is_file() and not path.is_symlink())


def as_fifo(path):
    os.mkfifo(path)


def as_folder(path):
    path.mkdir()


def as_device(path):
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero


def as_circle(path):
    path.symlink_to(path.name)


def as_endless(path):
    with open(path, "wb") as file:
        file.truncate(100 << 20)


def replaced(path, make):
    before = path.with_name(path.name + ".before-the-test")
    path.rename(before)
    make(path)
    return before


def put_back(path, before):
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    before.rename(path)


def shapes():
    made = [as_fifo, as_folder, as_circle, as_endless]
    with tempfile.TemporaryDirectory() as folder:
        try:  # these need root and a file system that allows devices
            as_device(pathlib.Path(folder) / "zero")
            os.close(os.open(pathlib.Path(folder) / "zero", os.O_RDONLY))
            made.append(as_device)
        except OSError:
            print("no devices in place of files: they cannot be made here")
    return made


def in_place_of_files(berth, name, folder):
    """Replaces one file after another, and then all at once."""
    machine = Machine(name, folder / name)
    done = 0
    files = files_of(machine)
    for shape in shapes():
        for path in files:
            before = replaced(path, shape)
            diagnosed(berth, machine.folder, f"{name}: {shape.__name__} in place of {path.relative_to(machine.folder)}")
            put_back(path, before)
            done += 1
        kept = [(path, replaced(path, shape)) for path in files]
        diagnosed(berth, machine.folder, f"{name}: {shape.__name__} in place of every file")
        for path, before in kept:
            put_back(path, before)
        for part in PARTS:
            path = machine.folder / part
            if path.exists():
                before = replaced(path, shape)
                # If a part is not a valid document, the doctor prints an error.
                diagnosed(berth, machine.folder, f"{name}: {shape.__name__} in place of {part}", codes=(0, 1, 2))
                put_back(path, before)
                done += 1
    return done


def enormous_log(berth, folder):
    """A log of one gigabyte. Only its last lines matter, because they are the newest."""
    machine = Machine("healthy-idle-link", folder / "log")
    with open(machine.folder / "kernel.log", "ab") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\n[ 900.0] NVRM: Xid (PCI:0000:01:00): 119, pid=911, name=python, Timeout after 6s of waiting for RPC response\n")
    found = diagnosed(berth, machine.folder, "a log of 1 GiB")["findings"]
    assert [one["id"] for one in found] == ["DRV23"], found
    line = "[ 1.0] NVRM: Xid (PCI:0000:01:00): 13, pid=1, Graphics Exception\n"
    with open(machine.folder / "kernel.log", "w") as file:
        file.writelines(line for _ in range(500_000))  # 30 MB of relevant lines
    diagnosed(berth, machine.folder, "half a million Xids")
    with open(machine.folder / "kernel.log", "wb") as file:
        file.writelines(b"NVRM" for _ in range(8 << 20))  # a single line
    diagnosed(berth, machine.folder, "a line of 32 MB")


def enormous_files(berth, folder):
    machine = Machine("healthy-docker-host", folder / "files")
    for path in ("etc/ld.so.cache", "var/lib/dpkg/status", "lib/modules/6.5.0/modules.dep", "etc/hosts", "etc/passwd",
                 "etc/docker/daemon.json", "etc/ld.so.conf.d/a.conf", "proc/self/mountinfo"):
        remove(machine.folder / "root" / path)
        (machine.folder / "root" / path).parent.mkdir(parents=True, exist_ok=True)
        as_endless(machine.folder / "root" / path)
    diagnosed(berth, machine.folder, "files of 100 MB")


def crowds(berth, folder):
    """More files, variables and packages than any real machine has."""
    machine = Machine("healthy-python-torch-venv", folder / "many")
    root = machine.folder / "root"
    site = next(root.rglob("site-packages"))
    for i in range(20_000):
        (site / f"p{i}-1.0.dist-info").mkdir()
    for i in range(1_000):
        (site / f"p{i}.pth").write_text("\n".join(f"/more/{i}/{j}" for j in range(3)))
        place = root / f"sys/bus/pci/devices/0000:{i % 256:02x}:{i // 256:02x}.0"
        if not place.exists():
            place.mkdir()
            for key, value in (("vendor", "0x10de"), ("device", "0x2684"), ("class", "0x030200")):
                (place / key).write_text(value)
        (root / f"proc/{100000 + i}").mkdir()
        (root / f"proc/{100000 + i}/comm").write_text("python\n")
    (machine.folder / "environment").write_text("".join(f"V{i}=" + "x" * 100 + "\n" for i in range(8_000)) +
                                                "LD_LIBRARY_PATH=" + ":".join(f"/opt/{i}" for i in range(3_000)) + "\n" +
                                                "PYTHONPATH=" + ":".join(f"/opt/{i}" for i in range(3_000)) + "\n")
    diagnosed(berth, machine.folder, "many packages")


def circles(berth, folder):
    """Folders that are links to themselves, to each other, or to a folder above them."""
    machine = Machine("healthy-python-torch-venv", folder / "circles")
    root = machine.folder / "root"
    gpu, site = root / "sys/bus/pci/devices/0000:01:00.0", next(root.rglob("site-packages"))
    for path, target in ((gpu, gpu.name), (site, site.name), (root / "usr/lib", "../usr/lib"), (root / "proc/driver", ".")):
        before = replaced(path, lambda place: place.symlink_to(target))
        diagnosed(berth, machine.folder, f"{path.name} → {target}")
        put_back(path, before)
    deep = root / "opt" / "/".join(["d"] * 1500)
    (machine.folder / "environment").write_text(f"PYTHONPATH=/opt/{'d/' * 1500}\nCUDA_HOME=/{'../' * 2000}etc\n")
    assert not deep.exists()
    diagnosed(berth, machine.folder, "a path of 1500 folders")


def hanging_library(berth, nvml):
    """Runs on this machine with an NVML that never answers."""
    code, text, peak, seconds = run([berth, "doctor", "--json"], {"BERTH_NVML_LIBRARY": nvml}, limit=60)
    print(f"a library of the driver that never answers: done in {seconds:.1f} s, {peak} KiB")
    assert code in (0, 1), text
    assert seconds < 3 * 20, seconds  # the goal is 3 s; more than this means a hang


def main():
    berth, nvml = os.path.abspath(sys.argv[1]), sys.argv[2]
    names = MACHINES if "BERTH_SOAK" not in os.environ else recorded.whole()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        folder = pathlib.Path(folder)
        for scene in (enormous_log, enormous_files, crowds, circles):
            scene(berth, folder)
        hanging_library(berth, nvml)
        done = sum(pool.map(lambda name: in_place_of_files(berth, name, folder), names))
    print(f"{done} things in place of files on {len(names)} machines: no crash, no hang, at most {MOST_KIB >> 10} MiB")


if __name__ == "__main__":
    main()
