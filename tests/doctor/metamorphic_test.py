#!/usr/bin/env python3
"""What does not matter changes nothing: the same findings in the same order, of the same severity and for the same
reason, when variables stand in another order, the language is another, the user and his folders have other names, or
packages, PCI functions, modules, processes and lines of the log are there that have nothing to do with a GPU.

Over every third bundle; over all of them with BERTH_SOAK.

usage: metamorphic_test.py BERTH [BUNDLE…]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from recorded import BUNDLES, Machine, diagnosis

HOMES = ("/home/user", "/home/u", "/home/ada", "/root")
NEW_HOME = "/home/zoe"


def essence(found):
    rows = [(one["id"], one["severity"], one["confidence"], one["explains"], one["explained_by"]) for one in found["findings"]]
    return rows, sorted(row["id"] for row in found["not_checked"])


def variables_in_another_order(machine):
    rows = machine.lines("environment")
    if rows:
        machine.put(machine.folder / "environment", "".join(row + "\n" for row in reversed(rows)))


def unrelated_variables(machine):
    if (machine.folder / "environment").exists():
        machine.change(variables={"EDITOR": "vi", "PS1": "$ ", "AAA": "", "ZZZ": "nvidia", "LS_COLORS": "rs=0:di=01;34"})


def unrelated_packages(machine):
    root = machine.folder / "root"
    for folder in [*root.rglob("site-packages"), *root.rglob("dist-packages")]:
        for name in ("requests-2.32.3", "aaa_first-0.1", "zzz_last-99", "nvidia_ml_py-12.560.30"):
            machine.put(folder / f"{name}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name.split('-')[0]}\n")
    for folder in root.rglob("conda-meta"):
        machine.put(folder / "zlib-1.3.1-hb9d3cd8_2.json", "{}")


def unrelated_hardware(machine):
    if (machine.folder / "root/sys/bus/pci/devices").exists():
        for address, vendor, kind in (("0000:00:1f.6", "0x8086", "0x020000"), ("0000:fe:00.0", "0x144d", "0x010802")):
            machine.change(files={f"/sys/bus/pci/devices/{address}/{name}": value + "\n"
                                  for name, value in (("vendor", vendor), ("device", "0x1234"), ("class", kind))})
    modules = machine.folder / "root/proc/modules"
    if modules.exists():
        machine.put(modules, "aaa 16384 0 - Live 0x0\n" + modules.read_text() + "zzz 16384 0 - Live 0x0\n")
    if (machine.folder / "root/proc/1/comm").exists():
        machine.change(files={"/proc/99999/comm": "cron\n"})
    if (machine.folder / "kernel.log").exists():
        machine.change(log=["[ 9000.000000] usb 1-2: new high-speed USB device number 5 using xhci_hcd"])


def other_names(machine):
    """The user's home moves, and with it whatever names it."""
    root = machine.folder / "root"
    homes = [home for home in HOMES if (root / home[1:]).is_dir()]
    rename = lambda text: re.sub(r"(?<![\w.-])(?:%s)(?=/|:|\"|$)" % "|".join(HOMES), NEW_HOME, text, flags=re.M)
    for path in [*root.rglob("pyvenv.cfg"), *root.rglob("kernel.json"), *root.rglob("*.pth"), *root.rglob("direct_url.json"),
                 *(machine.folder / name for name in ("environment", "process.json", "nodes.jsonl"))]:
        if path.is_file() and rename(path.read_text()) != path.read_text():
            path.write_text(rename(path.read_text()))
    for path in root.rglob("*"):
        if path.is_symlink() and rename(os.readlink(path)) != os.readlink(path):
            target = rename(os.readlink(path))
            path.unlink()
            path.symlink_to(target)
    for home in homes[:1]:
        (root / "home").mkdir(exist_ok=True)
        (root / home[1:]).rename(root / NEW_HOME[1:])


CHANGES = (variables_in_another_order, unrelated_variables, unrelated_packages, unrelated_hardware, other_names)


def check(berth, name, folder):
    machine = Machine(name, pathlib.Path(folder) / name)
    before = diagnosis(berth, machine.folder)
    said = []
    chinese = json.loads(subprocess.run([berth, "--lang", "zh", "doctor", "--json", "--from", machine.folder],
                                        capture_output=True, text=True, timeout=60).stdout)
    if essence(chinese) != essence(before):
        said.append(f"{name}: another language: {essence(chinese)}")
    for variables in ({"LC_ALL": "zh_CN.UTF-8"}, {"LC_ALL": "tr_TR.UTF-8"}):
        if essence(diagnosis(berth, machine.folder, **variables)) != essence(before):
            said.append(f"{name}: {variables}")
    for change in CHANGES:
        change(machine)
        after = diagnosis(berth, machine.folder)
        if essence(after) != essence(before):
            said.append(f"{name}: {change.__name__}:\n  {essence(before)}\n  {essence(after)}")
        if change is not other_names:  # the last
            machine.undo()
    return said


def main():
    berth, names = sys.argv[1], sys.argv[2:] or sorted(path.name for path in BUNDLES.iterdir() if (path / "root").exists())
    if not sys.argv[2:] and "BERTH_SOAK" not in os.environ:
        names = names[::3]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        wrong = [line for said in pool.map(lambda name: check(berth, name, folder), names) for line in said]
    print("\n".join(wrong))
    print(f"{len(names)} bundles, {len(CHANGES)} changes and three languages each: {len(wrong)} differences")
    assert names and not wrong


main()
