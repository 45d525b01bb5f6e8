#!/usr/bin/env python3
"""A rule counts as proven if a public case confirms it: a machine under tests/machines whose expectation contains the rule and the case's
address. Each must have the other.

usage: proven_test.py BERTH
"""
import json
import subprocess
import sys

from recorded import expected, names


def main():
    shown = {}
    for name in names():
        expect = expected(name)
        for rule in [expect.get("first"), *expect.get("also", [])]:
            if rule and (expect.get("url") or "").startswith("https://"):
                shown.setdefault(rule, []).append(name)
    done = subprocess.run([sys.argv[1], "doctor", "--list", "--json"], capture_output=True, text=True, check=True, timeout=60)
    rules = {one["id"]: one["proven"] for one in json.loads(done.stdout)["rules"]}
    # The list also has rules for source files, which no case names. Some cases name a rule that does not exist yet.
    wrong = [f"{rule} is called proven, and no machine shows it" for rule in rules if rules[rule] and rule not in shown]
    wrong += [f"{rule} is shown by {shown[rule][0]}, and not called proven" for rule in shown if rules.get(rule) is False]
    print("\n".join(wrong) or f"{len(shown)} of {len(rules)} rules have a public case")
    return 1 if wrong else 0


sys.exit(main())
