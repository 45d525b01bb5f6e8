#!/usr/bin/env python3
"""Irrelevant changes do not change the findings, their order, severity or evidence: variables in another order, another language, another
user name and home folder, or additional packages, PCI functions, modules, processes and log lines without a relation to GPUs.

Tests every ninth machine, with BERTH_SOAK all of them.

usage: metamorphic_test.py BERTH [MACHINE…]
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import machine_file
from recorded import diagnosis, like, path_of, read, whole

HOMES = ("/home/user", "/home/u", "/home/ada", "/root")
NEW_HOME = "/home/zoe"


def essence(found):
    rows = [(one["id"], one["severity"], one["confidence"], one["explains"], one["explained_by"]) for one in found["findings"]]
    return rows, sorted(row["id"] for row in found["not_checked"])


def variables_in_another_order(machine):
    return "environment |\n" + "".join(f"  {row}\n" for row in reversed(machine.lines("environment"))) if machine.lines("environment") else ""


def unrelated_variables(machine):
    return "environment +\n  EDITOR=vi\n  PS1=$ \n  AAA=\n  ZZZ=nvidia\n  LS_COLORS=rs=0:di=01;34\n" if "environment" in machine.parts else ""


def unrelated_packages(machine):
    change = ""
    for folder in sorted(machine.all_folders()):
        if folder.endswith(("/site-packages", "/dist-packages")):
            for name in ("requests-2.32.3", "aaa_first-0.1", "zzz_last-99", "nvidia_ml_py-12.560.30"):
                path = f"{folder}/{name}.dist-info/METADATA"
                change += f"{machine_file.name_of(path)} |\n  Metadata-Version: 2.1\n  Name: {name.split('-')[0]}\n"
        if folder.endswith("/conda-meta"):
            change += machine_file.name_of(f"{folder}/zlib-1.3.1-hb9d3cd8_2.json") + " = {}\n"
    return change


def unrelated_hardware(machine):
    change = ""
    if "kernel.log" in machine.parts:
        change += "kernel.log +\n  [ 9000.000000] usb 1-2: new high-speed USB device number 5 using xhci_hcd\n"
    if "/sys/bus/pci/devices" in machine.all_folders():
        for address, vendor, kind in (("0000:00:1f.6", "0x8086", "0x020000"), ("0000:fe:00.0", "0x144d", "0x010802")):
            change += f"/sys/bus/pci/devices/{address}/\n  vendor = {vendor}\n  device = 0x1234\n  class = {kind}\n"
    modules = machine.files.get("/proc/modules")
    if isinstance(modules, bytes):
        rows = "aaa 16384 0 - Live 0x0\n" + modules.decode() + "zzz 16384 0 - Live 0x0\n"
        change += "/proc/modules |\n" + machine_file.block(rows, "  ")
    if "/proc/1/comm" in machine.files:
        change += "/proc/99999/comm = cron\n"
    return change


CHANGES = (variables_in_another_order, unrelated_variables, unrelated_packages, unrelated_hardware)
NAMING = ("/pyvenv.cfg", "/kernel.json", ".pth", "/direct_url.json")


def with_other_names(machine):
    """The text of the machine with a renamed home folder. Everything that contains its path changes, too."""
    homes = [home for home in HOMES if home in machine.all_folders()][:1]
    rename = lambda text: re.sub(r"(?<![\w.-])(?:%s)(?=/|:|\"|$)" % "|".join(HOMES), NEW_HOME, text, flags=re.M)
    moved = lambda path: next((NEW_HOME + path[len(home):] for home in homes if path == home or path.startswith(home + "/")), path)
    content = lambda path, one: (rename(one) if isinstance(one, str) else
                                 rename(one.decode()).encode() if path.endswith(NAMING) else one)
    machine.files = {moved(path): content(path, one) for path, one in machine.files.items()}
    machine.folders = set(map(moved, machine.folders))
    machine.modes = {moved(path): mode for path, mode in machine.modes.items()}
    machine.nodes = {rename(path): row for path, row in machine.nodes.items()}
    for name in ("environment", "process.json"):
        if name in machine.parts:
            machine.parts[name] = rename(machine.parts[name])
    return machine_file.write(machine)


def check(berth, name):
    machine, before, said = read(name), diagnosis(berth, path_of(name)), []
    chinese = json.loads(subprocess.run([berth, "--lang", "zh", "doctor", "--json", "--from", path_of(name)],
                                        capture_output=True, text=True, timeout=60).stdout)
    if essence(chinese) != essence(before):
        said.append(f"{name}: another language: {essence(chinese)}")
    for variables in ({"LC_ALL": "zh_CN.UTF-8"}, {"LC_ALL": "tr_TR.UTF-8"}):
        if essence(diagnosis(berth, path_of(name), **variables)) != essence(before):
            said.append(f"{name}: {variables}")
    for change in CHANGES:
        with tempfile.TemporaryDirectory() as folder:
            after = diagnosis(berth, like(folder, name, change(machine)))
        if essence(after) != essence(before):
            said.append(f"{name}: {change.__name__}:\n  {essence(before)}\n  {essence(after)}")
    with tempfile.NamedTemporaryFile("w", suffix=".machine") as renamed:
        renamed.write(with_other_names(machine))
        renamed.flush()
        after = diagnosis(berth, renamed.name)
    if essence(after) != essence(before):
        said.append(f"{name}: with other names:\n  {essence(before)}\n  {essence(after)}")
    return said


def main():
    berth, chosen = sys.argv[1], sys.argv[2:] or whole()
    if not sys.argv[2:] and "BERTH_SOAK" not in os.environ:
        chosen = chosen[::9]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        wrong = [line for said in pool.map(lambda name: check(berth, name), chosen) for line in said]
    print("\n".join(wrong))
    print(f"{len(chosen)} machines, {len(CHANGES) + 1} changes and three languages each: {len(wrong)} differences")
    assert chosen and not wrong


main()
