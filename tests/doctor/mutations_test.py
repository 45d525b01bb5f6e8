#!/usr/bin/env python3
"""One mutation per rule: a small change of a healthy recorded machine (tests/doctor/mutations/*.json) gives that rule
first, and undoing the change gives the diagnosis of before, which has neither this rule nor any error. Every rule of
`berth doctor --list` about machines and frameworks has one; a "branch" is another way in which a rule holds.

Pairs: for every rule that explains others, its change and another rule's hold together on one machine: the explaining
one stands first of the two and the other says who explains it. The partners are found among the mutations.

usage: mutations_test.py BERTH [RULE…]
"""
import json
import os
import pathlib
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from recorded import SERIOUS, Machine, diagnosis, rules

MUTATIONS = pathlib.Path(__file__).resolve().parent / "mutations"
PARTS = ("files", "nodes", "variables", "log", "driver", "gpu", "gpus", "process")

# Rules that no change of a recorded machine can give first, and why.
NO_MUTATION = {
    "CMD01": "it is about a command, which is given on the command line",
    "RT02": "it is about a pasted error (asked_test.py)",
    "PRB01": "it tries a kernel in a program of this machine",
    "FW12": "it holds beside FW03 or FW04 alone, which are proven",
}
# Rules whose table says that they explain others, of which none can be made to hold beside them, and why.
NO_PAIR = {
    # No public case has shown the first right, and what they explain was shown: until then they may not.
    "DRV17": "DRV05 is proven",
    "DRV24": "DRV15 is proven",
    **dict.fromkeys(("DRV10", "ENV19"), "all that it explains is proven, but FW12"),
}

PACKAGES = "/usr/lib/python3/dist-packages"
PYTHON = {"/usr/lib/python3.11/os.py": "", "/lib64/ld-linux-x86-64.so.2": ""}


def torch(cuda, hip):
    return {**PYTHON, f"{PACKAGES}/torch/version.py": f"__version__ = '2.8.0'\ncuda = {cuda!r}\nhip = {hip!r}\n"}


# What can be wrong beside nearly everything: a Python of the distribution with packages that do not fit.
ANYWHERE = [
    {"rule": "FW05", "files": {**torch("12.8", None), f"{PACKAGES}/torchvision-0.20.1.dist-info/METADATA":
                               "Name: torchvision\nVersion: 0.20.1\nRequires-Dist: torch==2.5.1\n"}},
    {"rule": "FW07", "files": torch(None, "6.4")},
    {"rule": "FW07", "files": torch("12.8", None)},
    {"rule": "LIB08", "files": {**PYTHON, f"{PACKAGES}/nvidia_nccl_cu12-2.21.5.dist-info/METADATA": "Version: 2.21.5\n",
                                f"{PACKAGES}/torch-2.8.0.dist-info/METADATA":
                                "Name: torch\nVersion: 2.8.0\nRequires-Dist: nvidia-nccl-cu12==2.27.3\n"}},
]


def load():
    """{rule: its mutation}, and those of rules' further branches."""
    found, branches = {}, []
    for path in sorted(MUTATIONS.glob("*.json")):
        for one in json.loads(path.read_text()):
            unknown = set(one) - {"rule", "branch", "of", "pair", *PARTS}
            assert not unknown and (one["rule"] not in found or "branch" in one), f"{path.name}: {one['rule']}: {unknown or 'twice'}"
            if "branch" in one:
                branches.append(one)
            else:
                found[one["rule"]] = one
    return found, branches


def parts(one):
    return {key: one[key] for key in PARTS if key in one}


def ids(found):
    return [finding["id"] for finding in found["findings"]]


def check(berth, one, folder):
    """What is wrong with the mutation; "" nothing."""
    machine = Machine(one["of"], folder / (one["rule"] + one.get("branch", "")))
    before = diagnosis(berth, machine.folder)
    if any(finding["severity"] in SERIOUS or (finding["id"] == one["rule"] and finding["severity"] != "info")
           for finding in before["findings"]):
        return f"{one['of']} is not healthy without it: {ids(before)}"
    machine.change(**parts(one))
    after = diagnosis(berth, machine.folder)
    if ids(after)[:1] != [one["rule"]] or after["findings"][0] in before["findings"]:
        why = [row["why"] for row in after["not_checked"] if row["id"] == one["rule"]]
        return f"gives {ids(after)}" + (f"; not checked: {why[0]}" if why else "")
    machine.undo()
    if diagnosis(berth, machine.folder) != before:
        return "is still seen after it was undone"
    return ""


def explains(rule, other):
    return any(other.startswith(word[:-1]) if word.endswith("*") else other == word for word in rule["explains"].split())


def holds_with(berth, base, cause, other, folder):
    """Whether both changes of `base` hold, in the right order and with a reason; None: not both of them hold."""
    machine = Machine(base, pathlib.Path(tempfile.mkdtemp(dir=folder)) / "machine")
    machine.change(**parts(other))
    machine.change(**parts(cause))
    found = diagnosis(berth, machine.folder)["findings"]
    shutil.rmtree(machine.folder.parent)
    told = [finding["id"] for finding in found]
    if cause["rule"] not in told or other["rule"] not in told:
        return None
    second = next(finding for finding in found if finding["id"] == other["rule"])
    return told.index(cause["rule"]) < told.index(other["rule"]) and second["explained_by"] is not None


def partners(cause, known, listed):
    """(machine, the other's change): the mutation's own pair, what can be wrong anywhere, other mutations of the same
    machine, and of theirs."""
    if "pair" in cause:
        return [(cause["of"], cause["pair"])]
    rule = listed[cause["rule"]]
    fitting = [one for one in known.values() if one["rule"] != rule["id"] and explains(rule, one["rule"])
               and (rule["proven"] or not listed[one["rule"]]["proven"])]
    anywhere = [one for one in ANYWHERE if explains(rule, one["rule"]) and (rule["proven"] or not listed[one["rule"]]["proven"])]
    return ([(cause["of"], one) for one in fitting if one["of"] == cause["of"]] + [(cause["of"], one) for one in anywhere] +
            [(one["of"], one) for one in fitting if one["of"] != cause["of"]])


def pair_of(berth, rule, known, listed, folder):
    """The other rule's id; "" none holds together with it."""
    for base, other in partners(known[rule], known, listed):
        held = holds_with(berth, base, known[rule], other, folder)
        assert held is not False, f"{rule} explains {other['rule']} and does not stand before it, or {other['rule']} does not say so"
        if held:
            return other["rule"]
    return ""


def main():
    berth, wanted = sys.argv[1], sys.argv[2:]
    (known, branches), listed, wrong = load(), rules(berth), []
    for rule in sorted(set(known) - set(listed)):
        wrong.append(f"{rule}: there is no such rule")
    for rule in sorted(set(listed) - set(known) - set(NO_MUTATION)):
        wrong.append(f"{rule}: no mutation in tests/doctor/mutations")
    chosen = [rule for rule in known if rule in listed and (not wanted or rule in wanted)]
    explaining = [rule for rule in chosen if listed[rule]["explains"]]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        folder = pathlib.Path(folder)
        changes = [known[rule] for rule in chosen] + [one for one in branches if not wanted or one["rule"] in wanted]
        said = pool.map(lambda one: check(berth, one, folder), changes)
        wrong += [f"{one['rule']} {one.get('branch', '')}: {what}" for one, what in zip(changes, said) if what]
        pairs = dict(zip(explaining, pool.map(lambda rule: pair_of(berth, rule, known, listed, folder), explaining)))
    for rule, other in pairs.items():
        if not other and rule not in NO_PAIR:
            wrong.append(f"{rule}: none of {listed[rule]['explains']} holds together with it")
        if other and rule in NO_PAIR:
            wrong.append(f"{rule}: holds together with {other}, and is among the exceptions")
    print("\n".join(wrong))
    print(f"{len(known)} mutations, {len(branches)} of further branches, {sum(map(bool, pairs.values()))} pairs of {len(pairs)} rules that explain others; {len(wrong)} wrong")
    if wanted:
        print(pairs)
    assert not wrong


main()
