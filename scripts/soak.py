#!/usr/bin/env python3
"""Runs the expensive proofs at full count and writes benchmarks/results/soak-DATE.json: every test labelled soak with
BERTH_SOAK=1 (./dev test runs a sample of the same), and every fuzz target for --fuzz-seconds. ./dev soak builds first."""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent


def labelled_tests(jobs: str):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "soak.xml"
        subprocess.run(["ctest", "--preset", "test", "-L", "soak", "-j", jobs, "--output-junit", report,
                        "--timeout", "7200"], cwd=ROOT, env=dict(os.environ, BERTH_SOAK="1"))
        if not report.exists():
            return
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            yield {"name": case.get("name"), "seconds": float(case.get("time", 0)), "passed": case.get("status") == "run",
                   "said": (case.findtext("system-out") or "").strip().splitlines()[-5:]}


def fuzzed(seconds: int):
    for program in sorted((ROOT / "build/fuzz/fuzz").glob("fuzz_*")):
        if not os.access(program, os.X_OK) or program.is_dir():
            continue
        name = program.name.removeprefix("fuzz_")
        found = program.parent / "found" / name
        print(f"fuzz: {name}, {seconds} s", flush=True)
        start = time.monotonic()
        done = subprocess.run([program, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=16384",
                               "-print_final_stats=1", f"-artifact_prefix={found}-", found, ROOT / "fuzz/corpus" / name],
                              capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if line.startswith("stat::number_of_executed_units")]
        yield {"name": f"fuzz: {name}", "seconds": time.monotonic() - start, "passed": done.returncode == 0,
               "said": said if done.returncode == 0 else done.stderr.splitlines()[-20:]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fuzz-seconds", type=int, default=120)
    arguments = parser.parse_args()
    proofs = list(labelled_tests("1")) + list(fuzzed(arguments.fuzz_seconds))
    if not proofs:
        print("error: nothing ran: build/test and build/fuzz hold no proof\n\nhint: ./dev soak", file=sys.stderr)
        return 1
    version = subprocess.run([ROOT / "build/test/berth", "--version"], capture_output=True, text=True).stdout.strip()
    target = ROOT / f"benchmarks/results/soak-{datetime.date.today()}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"schema": 1, "date": str(datetime.date.today()), "berth": version,
                                  "cores": len(os.sched_getaffinity(0)), "proofs": proofs}, indent=1) + "\n")
    failed = [proof["name"] for proof in proofs if not proof["passed"]]
    print(f"{len(proofs) - len(failed)} of {len(proofs)} proofs hold; wrote {target.relative_to(ROOT)}")
    for name in failed:
        print(f"failed: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
