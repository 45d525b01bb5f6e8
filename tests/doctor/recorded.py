"""Recorded machines for tests: NAME.machine files (docs/recorded-machine.md), and variants of other machines."""
import base64
import json
import os
import pathlib
import re
import subprocess

import machine_file

MACHINES = pathlib.Path(__file__).resolve().parent.parent / "machines"
SERIOUS = ("error", "fatal")
EXPECTATION = re.compile(r"^expect\.json \|\n((?:  .*\n)*)", re.M)
COPY = re.compile(r"^(/\S+) <- (\S+) (\S+)$", re.M)


def names():
    return sorted(path.stem for path in MACHINES.glob("*.machine"))


def whole():
    """The names of machines that have no base."""
    return [name for name in names() if not path_of(name).read_text().startswith(f"{machine_file.HEAD}\nlike = ")]


def path_of(name):
    return MACHINES / f"{name}.machine"


def read(name):
    return machine_file.read(path_of(name).read_text())


def expected(name):
    """The findings that the machine's file expects."""
    return json.loads(EXPECTATION.search(path_of(name).read_text())[1])


def diagnosis(berth, machine, **variables):
    done = subprocess.run([berth, "doctor", "--json", "--from", machine], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "LANG": "C", "LC_ALL": "C", **variables})
    assert done.returncode in (0, 1) and not done.stderr, f"{machine}: exit code {done.returncode}\n{done.stderr}"
    return json.loads(done.stdout)


def rules(berth):
    """The rules about machines and frameworks. Rules about source files are tested elsewhere."""
    listed = json.loads(subprocess.run([berth, "doctor", "--list", "--json"], check=True, capture_output=True).stdout)["rules"]
    return {rule["id"]: rule for rule in listed if rule["layer"] != "source"}


def like(folder, name, *changes):
    """Writes a machine based on `name` with these changes, one after the other. Each is the text of a .machine file without its head.
    Returns the path."""
    folder = pathlib.Path(folder)
    if not (folder / f"{name}.machine").exists():
        (folder / f"{name}.machine").symlink_to(path_of(name))
    base = name
    for number, change in enumerate(changes):
        path = folder / f"{name}+{number}.machine"
        path.write_text(f"{machine_file.HEAD}\nlike = {base}\n{COPY.sub(copied, change)}")
        base = path.stem
    return folder / f"{base}.machine"


def copied(line):
    """Copies a file into a change. "PATH <- host HERE" copies from this machine; "PATH <- NAME THERE" copies from another recorded machine.
    """
    path, name, there = line.groups()
    if name == "host":
        data = pathlib.Path(os.path.realpath(there)).read_bytes()
        rows = [f"  {at:x}: {base64.b64encode(data[at:at + 48]).decode()}\n" for at in range(0, len(data), 48)]
        return f"{path} base64 {len(data)}\n" + "".join(rows)
    source, part = read(name), machine_file.Recorded()
    for table, into in ((source.files, part.files), (source.modes, part.modes)):
        into.update({path + one[len(there):]: what for one, what in table.items() if one == there or one.startswith(there + "/")})
    return f"- {path}\n{machine_file.folder_text(part, '/', machine_file.tree_of(part))}"
