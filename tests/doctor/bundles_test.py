#!/usr/bin/env python3
"""Diagnoses every bundle under tests/bundles: recorded failures, whose root cause must come first, and healthy
machines, where nothing may be wrong. A bundle's expect.json says which it is:
{"case": "F002", "first": "DRV05", "url": …, "evidence": […]}  or  {"healthy": "an idle laptop"}. Where two rules of the list name
the same cause, "same" has the other one; "also" has what must be said besides.

Bundles called unseen-* were written, and committed, before the doctor was run on them; those of the first round by someone who had
not read its rules. What it said of them that first time stands in unseen.json and is never changed: only that tells how it fares on
machines that are new to it.

usage: bundles_test.py BERTH [NAME…]       (with names: those alone, and what the doctor said)
"""
import json
import os
import pathlib
import subprocess
import sys

FIRST_RUNS = pathlib.Path(__file__).resolve().parent / "unseen.json"
BUNDLES = pathlib.Path(__file__).resolve().parent.parent / "bundles"


def diagnosis(berth, bundle):
    done = subprocess.run([berth, "doctor", "--json", "--from", bundle], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "LANG": "C", "LC_ALL": "C"})
    if done.returncode not in (0, 1):
        raise SystemExit(f"{bundle.name}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def expected(bundle):
    return json.loads((bundle / "expect.json").read_text())


class Score:
    """How many root causes came first, and how many machines were called ill that are not."""

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
    """Of each round of unseen machines, as the record has it: severities are not in it, so the healthy are not counted."""
    for number, a_round in enumerate(json.loads(FIRST_RUNS.read_text())["rounds"], 1):
        score = Score()
        for name, ids in a_round["found_at_first_run"].items():
            if "healthy" not in expected(BUNDLES / name):
                score.add(name, expected(BUNDLES / name), ids)
        yield (f"unseen, round {number}, when they were new: {score.failures} failures: root cause first in {score.first}, "
               f"in the first three in {score.third}")


def main():
    berth, names = sys.argv[1], sys.argv[2:]
    known, unseen = Score(), Score()
    for bundle in sorted(path.parent for path in BUNDLES.glob("*/expect.json")):
        if names and bundle.name not in names:
            continue
        found = diagnosis(berth, bundle)["findings"]
        if names:
            print(f"{bundle.name}: {json.dumps(found, indent=1)}")
        count = lambda *kinds: sum(one["severity"] in kinds for one in found)
        ids = [one["id"] for one in found]
        helpless = [one["id"] for one in found if one["severity"] in ("error", "fatal")
                    and not any(fix["command"] or fix["says"] for fix in one["fix"])]
        assert not helpless, f"{bundle.name}: {', '.join(helpless)} says that something is broken, and not what to do"
        silent = [one for one in expected(bundle).get("also", []) if one not in ids]
        assert not silent, f"{bundle.name}: nothing says {', '.join(silent)}"
        (unseen if bundle.name.startswith("unseen-") else known).add(
            bundle.name, expected(bundle), ids, count("error", "fatal"), count("warning"))
    print("\n".join(known.wrong + unseen.wrong))
    print(f"known to the rules' authors: {known}")
    print("\n".join(score_of_first_runs()))
    print(f"unseen, now: {unseen}")
    if names:
        return
    for score, in_three in ((known, 0.97), (unseen, 0.95)):
        assert score.first >= 0.9 * score.failures, "too many root causes are not first"
        assert score.third >= in_three * score.failures, "too many root causes missed"
        assert score.alarms == 0, "a healthy machine is called ill"
        assert score.warnings * 5 <= max(score.healthy, 5), "more than one warning in five healthy machines"


main()
