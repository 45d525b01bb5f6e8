#!/usr/bin/env python3
"""Diagnoses every machine under tests/machines: recorded failures, whose root cause must come first, and healthy machines, which must have
no findings of a problem. Each machine's expect.json says which it is:
{"case": "F002", "first": "DRV05", "url": …, "evidence": […]}  or  {"healthy": "an idle laptop"}. "same" names a second rule for the same
cause; "also" lists further required findings. MISSES are failures whose root cause is known not to come first: the test fails if another
machine is missed, and also if one of these no longer is. WARNED is the same for healthy machines.

Machines called unseen-* were written and committed before the doctor was run on them; those of the first round by someone who had
not read its rules. unseen.json keeps the doctor's first results on them and is never changed: only they show how well it does on
new machines.

usage: machines_test.py BERTH [NAME…]       (with names: those alone, and what the doctor said)
"""
import json
import pathlib
import sys

from recorded import diagnosis, expected, names, path_of

FIRST_RUNS = pathlib.Path(__file__).resolve().parent / "unseen.json"

# Failures whose root cause is not the first finding: {machine: the first finding, "" for none}.
MISSES = {
    "unseen-i-paddle-rocm-container-on-a-swarm": "AMD04",
    "unseen-j-arch-with-a-780m-and-kernel-6-12": "",
    "unseen-k-fedora-43-with-a-k80-and-a-p100-in-ollama37": "CTR15",
    "unseen-k-rapids-ci-wheel-container-with-cupy-and-torch": "CTR15",
    "unseen-k-slurm-job-in-enroot-with-the-pytorch-hook": "ENV11",
    "unseen-n-fedora-44-laptop-with-a-5090-under-610": "RT17",
    "unseen-n-runpod-4090-for-whisper-diarization": "",
}
# Healthy machines that nevertheless get a warning.
WARNED = {
    "unseen-c-healthy-dgx-spark": ["FW22"],
    "unseen-c-healthy-eks-half-an-l4": ["CTR03"],
    "unseen-g-healthy-agx-orin-r34-1-l4t-pytorch-image": ["CTR15"],
    "unseen-k-healthy-two-vega-56-on-x399-with-the-iommu-on": ["AMD04"],
}


class Score:
    """Counts how many root causes came first, and how many healthy machines got a finding of a problem."""

    def __init__(self):
        self.failures = self.first = self.third = self.healthy = self.alarms = self.warnings = 0
        self.wrong = []

    def add(self, name, expect, ids, alarms=0, warnings=0):
        if "healthy" in expect:
            self.healthy += 1
            self.alarms += alarms
            self.warnings += warnings
            if alarms:
                self.wrong.append(f"{name}: healthy ({expect['healthy']}), but {', '.join(ids)}")
            return
        right = [expect["first"], *expect.get("same", [])]
        self.failures += 1
        self.first += bool(ids) and ids[0] in right
        self.third += any(one in right for one in ids[:3])
        if not ids or ids[0] not in right:
            self.wrong.append(f"{name}: expected {expect['first']}, got {', '.join(ids) or 'nothing'}")

    def __str__(self):
        return (f"{self.failures} failures: root cause first in {self.first}, in the first three in {self.third}; "
                f"{self.healthy} healthy machines: {self.alarms} called ill, {self.warnings} warnings")


def score_of_first_runs():
    """Prints the score of each round of unseen machines from the record. It has no severities, so healthy machines are not counted."""
    for number, a_round in enumerate(json.loads(FIRST_RUNS.read_text())["rounds"], 1):
        score = Score()
        for name, ids in a_round["found_at_first_run"].items():
            if "healthy" not in expected(name):
                score.add(name, expected(name), ids)
        yield (f"unseen, round {number}, when they were new: {score.failures} failures: root cause first in {score.first}, "
               f"in the first three in {score.third}")


def check(berth, name, scores, show):
    """Returns what is wrong, or ""."""
    found, expect = diagnosis(berth, path_of(name))["findings"], expected(name)
    if show:
        print(f"{name}: {json.dumps(found, indent=1)}")
    count = lambda *kinds: sum(one["severity"] in kinds for one in found)
    ids = [one["id"] for one in found]
    scores[name.startswith("unseen-")].add(name, expect, ids, count("error", "fatal"), count("warning"))
    helpless = [one["id"] for one in found if one["severity"] in ("error", "fatal")
                and not any(fix["command"] or fix["says"] for fix in one["fix"])]
    if helpless:
        return f"{name}: {', '.join(helpless)} says that something is broken, and not what to do"
    silent = [one for one in expect.get("also", []) if one not in ids]
    if silent:
        return f"{name}: nothing says {', '.join(silent)}"
    first = ids[0] if ids else ""
    missed = "healthy" not in expect and first not in [expect["first"], *expect.get("same", [])]
    warned = [one["id"] for one in found if one["severity"] == "warning"] if "healthy" in expect else []
    if warned != WARNED.get(name, []):
        return f"{name}: healthy, and warned of {warned}; WARNED has {WARNED.get(name, [])}"
    if missed != (name in MISSES) or (missed and MISSES[name] != first):
        return f"{name}: expected {expect.get('first', 'nothing')}, got {first or 'nothing'}; MISSES has {MISSES.get(name, 'no such machine')}"
    return ""


def main():
    berth, chosen = sys.argv[1], sys.argv[2:]
    known, unseen = Score(), Score()
    wrong = [check(berth, name, (known, unseen), bool(chosen)) for name in chosen or names()]
    print("\n".join(known.wrong + unseen.wrong))
    print(f"known to the rules' authors: {known}")
    print("\n".join(score_of_first_runs()))
    print(f"unseen, now: {unseen}")
    print("\n".join(filter(None, wrong)))
    assert not any(wrong)
    assert known.alarms + unseen.alarms == 0, "a healthy machine is called ill"


main()
