#!/usr/bin/env python3
"""Prints the twenty slowest tests of a run: slowest_tests.py FILE, which `ctest --output-junit FILE` has written."""
import sys
import xml.etree.ElementTree as xml

COUNT = 20


def main():
    cases = [(float(case.get("time", 0)), case.get("name")) for case in xml.parse(sys.argv[1]).iter("testcase")]
    print(f"The slowest of {len(cases)} tests, {sum(time for time, _ in cases):.0f} s in all:")
    for time, name in sorted(cases, reverse=True)[:COUNT]:
        print(f"{time:8.1f} s  {name}")


if __name__ == "__main__":
    main()
