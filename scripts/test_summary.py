#!/usr/bin/env python3
"""Sums up a run of the tests: test_summary.py FIRST [ALONE], files that `ctest --output-junit` has written.

ALONE contains the results of a second run of the tests that failed in FIRST, one test after another. If a test passes then, its result depends on the
machine's load. That test does not fail the run, but is listed with the output of its failure, so that it gets fixed."""
import pathlib
import sys
import xml.etree.ElementTree as xml

SLOWEST = 20
LINES = 40  # how many of the last lines of a failed test's output are shown


def outcomes(file):
    """The result of each test by name: (seconds, "passed" or "failed" or "skipped", output)."""
    words = {"run": "passed", "fail": "failed"}
    return {case.get("name"): (float(case.get("time", 0)), words.get(case.get("status"), "skipped"), case.findtext("system-out") or "")
            for case in xml.parse(file).iter("testcase")}


def show(title, name, output):
    print(f"== {title}: {name}")
    print("\n".join(output.rstrip().splitlines()[-LINES:]))
    print()


def main():
    first = outcomes(sys.argv[1])
    alone = outcomes(sys.argv[2]) if len(sys.argv) > 2 and pathlib.Path(sys.argv[2]).exists() else {}
    print(f"The slowest of {len(first)} tests, {sum(time for time, _, _ in first.values()):.0f} s in all:")
    for name in sorted(first, key=lambda name: first[name][0], reverse=True)[:SLOWEST]:
        print(f"{first[name][0]:8.1f} s  {name}")
    print()
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for name, (_, outcome, output) in first.items():
        if outcome == "failed":
            if alone.get(name, (0, "failed", ""))[1] == "passed":
                show("failed beside other tests, passed alone", name, output)
                outcome = "passed"
            else:
                show("failed", name, alone[name][2] if name in alone else output)
        count[outcome] += 1
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
