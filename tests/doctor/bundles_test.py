#!/usr/bin/env python3
"""Diagnoses every bundle under tests/bundles: recorded failures, whose root cause must come first, and healthy
machines, where nothing may be wrong. A bundle's expect.json says which it is:
{"case": "F002", "first": "DRV05", "also": […], "url": …}  or  {"healthy": "an idle laptop"}.

usage: bundles_test.py BERTH [NAME…]       (with names: those alone, and what the doctor said)
"""
import json
import os
import pathlib
import subprocess
import sys

BUNDLES = pathlib.Path(__file__).resolve().parent.parent / "bundles"


def diagnosis(berth, bundle):
    done = subprocess.run([berth, "doctor", "--json", "--from", bundle], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "LANG": "C", "LC_ALL": "C"})
    if done.returncode not in (0, 1):
        raise SystemExit(f"{bundle.name}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    berth, names = sys.argv[1], sys.argv[2:]
    first = third = failures = healthy = warnings = 0
    wrong = []
    for bundle in sorted(path.parent for path in BUNDLES.glob("*/expect.json")):
        if names and bundle.name not in names:
            continue
        expect = json.loads((bundle / "expect.json").read_text())
        found = diagnosis(berth, bundle)["findings"]
        ids = [one["id"] for one in found]
        if names:
            print(f"{bundle.name}: {json.dumps(found, indent=1)}")
        if "healthy" in expect:
            healthy += 1
            warnings += sum(one["severity"] == "warning" for one in found)
            bad = [one["id"] for one in found if one["severity"] in ("error", "fatal")]
            if bad:
                wrong.append(f"{bundle.name}: healthy ({expect['healthy']}), but {', '.join(bad)}")
            continue
        failures += 1
        unseen = [one for one in expect.get("also", []) if one not in ids]
        assert not unseen, f"{bundle.name}: nothing says {', '.join(unseen)}"
        first += ids[:1] == [expect["first"]]
        third += expect["first"] in ids[:3]
        if ids[:1] != [expect["first"]]:
            wrong.append(f"{bundle.name}: expected {expect['first']}, got {', '.join(ids) or 'nothing'}")
    print("\n".join(wrong))
    print(f"{failures} failures: root cause first in {first}, in the first three in {third}; "
          f"{healthy} healthy machines: {warnings} warnings")
    if names:
        return
    assert failures == 0 or (first >= 0.9 * failures and third >= 0.97 * failures), "too many root causes missed"
    assert not any("healthy" in line for line in wrong), "a healthy machine is called ill"
    assert warnings * 5 <= max(healthy, 5), "more than one warning in five healthy machines"


main()
