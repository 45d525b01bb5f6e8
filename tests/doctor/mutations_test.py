#!/usr/bin/env python3
"""One mutation per rule: a small change to a healthy recorded machine makes that rule the first finding, while the unchanged machine has
neither this rule nor any error. Every rule of `berth doctor --list` about machines and frameworks has one. A branch is another way to
trigger a rule.

They are in tests/doctor/mutations/*.machines. "=== RULE like MACHINE" (or "=== RULE like MACHINE (BRANCH)") begins one; the text
after it is applied to the machine, as in a .machine file (docs/recorded-machine.md). "=== pair OTHER" begins a change that is
applied in addition, for the pair with OTHER.
Pairs: for every rule that explains others, its mutation and another rule's are combined on one machine. The explaining rule must
come first, and the other must name it. The partners are found among the mutations.
usage: mutations_test.py BERTH [RULE…]
"""
import functools
import os
import pathlib
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from recorded import SERIOUS, diagnosis, like, path_of, rules

MUTATIONS = pathlib.Path(__file__).resolve().parent / "mutations"
HEAD = re.compile(r"=== (\S+) like (\S+)(?: \((.+)\))?")

# Rules that a change of a recorded machine cannot make the first finding, and why.
NO_MUTATION = {
    "CMD01": "it is about a command, which is given on the command line",
    "RT02": "it is about a pasted error (asked_test.py)",
    "ERR01": "it is about a pasted error (asked_test.py)",
    "RT18": "it is about what the broker answers (aside_test.py)",
    "PRB01": "it tries a kernel in a program of this machine",
    "FW12": "it holds beside FW03 or FW04 alone, which are proven",
}
# Rules that, according to their table, explain others, although no mutation can show both together; and why.
NO_PAIR = {
    # An unproven rule never comes before a proven one. These are unproven, and all that they explain is proven.
    "DRV17": "DRV05 is proven",
    "DRV24": "DRV15 is proven",
    **dict.fromkeys(("DRV10", "ENV19"), "all that it explains is proven, but FW12"),
}

PACKAGES = "/usr/lib/python3/dist-packages"
PYTHON = "/usr/lib/python3.11/os.py\n/lib64/ld-linux-x86-64.so.2\n"


def torch(cuda, hip):
    return f"{PYTHON}{PACKAGES}/torch/version.py |\n  __version__ = '2.8.0'\n  cuda = {cuda!r}\n  hip = {hip!r}\n"


# A problem that can occur on nearly any machine: a distribution's Python with packages that do not match.
ANYWHERE = [
    {"rule": "FW05", "change": f"""{torch("12.8", None)}{PACKAGES}/torchvision-0.20.1.dist-info/METADATA |
  Name: torchvision
  Version: 0.20.1
  Requires-Dist: torch==2.5.1
"""},
    {"rule": "FW07", "change": torch(None, "6.4")},
    {"rule": "FW07", "change": torch("12.8", None)},
    {"rule": "LIB08", "change": f"""{PYTHON}{PACKAGES}/nvidia_nccl_cu12-2.21.5.dist-info/METADATA = Version: 2.21.5
{PACKAGES}/torch-2.8.0.dist-info/METADATA |
  Name: torch
  Version: 2.8.0
  Requires-Dist: nvidia-nccl-cu12==2.27.3
"""},
]


def load():
    """Returns {rule: its mutation}, and the mutations for further branches."""
    found, branches = {}, []
    for path in sorted(MUTATIONS.glob("*.machines")):
        last = None
        for line in path.read_text().splitlines(keepends=True):
            if line.startswith("=== pair "):
                one["pair"] = last = {"rule": line.split()[2], "change": ""}
            elif line.startswith("==="):
                head = HEAD.fullmatch(line.strip())
                assert head, f"{path.name}: {line}"
                one = last = {"rule": head[1], "of": head[2], "branch": head[3] or "", "change": ""}
                if one["branch"]:
                    branches.append(one)
                else:
                    assert one["rule"] not in found, f"{path.name}: {one['rule']} twice"
                    found[one["rule"]] = one
            else:
                last["change"] += line
    return found, branches


def ids(found):
    return [finding["id"] for finding in found["findings"]]


def check(berth, one, folder):
    """Returns what is wrong with the mutation, or ""."""
    before = healthy(berth, one["of"])
    if any(finding["severity"] in SERIOUS or (finding["id"] == one["rule"] and finding["severity"] != "info")
           for finding in before["findings"]):
        return f"{one['of']} is not healthy without it: {ids(before)}"
    after = diagnosis(berth, like(tempfile.mkdtemp(dir=folder), one["of"], one["change"]))
    if ids(after)[:1] != [one["rule"]] or after["findings"][0] in before["findings"]:
        why = [row["why"] for row in after["not_checked"] if row["id"] == one["rule"]]
        return f"gives {ids(after)}" + (f"; not checked: {why[0]}" if why else "")
    return ""


@functools.cache
def healthy(berth, name):
    return diagnosis(berth, path_of(name))


def explains(rule, other):
    return any(other.startswith(word[:-1]) if word.endswith("*") else other == word for word in rule["explains"].split())


def holds_with(berth, base, cause, other, folder):
    """Applies both changes to `base`. Whether the cause comes first and the other finding names it; None if one of them is not found."""
    changes = (cause, other) if other is cause.get("pair") else (other, cause)
    found = diagnosis(berth, like(tempfile.mkdtemp(dir=folder), base, *(one["change"] for one in changes)))["findings"]
    told = [finding["id"] for finding in found]
    if cause["rule"] not in told or other["rule"] not in told:
        return None
    second = next(finding for finding in found if finding["id"] == other["rule"])
    return told.index(cause["rule"]) < told.index(other["rule"]) and second["explained_by"] is not None


def partners(cause, known, listed):
    """Candidates as (machine, the other change): the mutation's own pair, the changes in ANYWHERE, and mutations of the same machine or of
    another one."""
    if "pair" in cause:
        return [(cause["of"], cause["pair"])]
    rule = listed[cause["rule"]]
    fitting = [one for one in known.values() if one["rule"] != rule["id"] and explains(rule, one["rule"])
               and (rule["proven"] or not listed[one["rule"]]["proven"])]
    anywhere = [one for one in ANYWHERE if explains(rule, one["rule"]) and (rule["proven"] or not listed[one["rule"]]["proven"])]
    return ([(cause["of"], one) for one in fitting if one["of"] == cause["of"]] + [(cause["of"], one) for one in anywhere] +
            [(one["of"], one) for one in fitting if one["of"] != cause["of"]])


def pair_of(berth, rule, known, listed, folder):
    """The id of the first rule that forms a pair with this one, or ""."""
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
        wrong += [f"{one['rule']} {one['branch']}: {what}" for one, what in zip(changes, said) if what]
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
