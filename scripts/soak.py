#!/usr/bin/env python3
"""Runs the expensive tests at full size and writes benchmarks/results/soak-DATE.json: every test labelled soak with BERTH_SOAK=1 (./dev
test runs a sample), the broker under the thread sanitizer, and every fuzz target for --fuzz-seconds. ./dev soak builds first."""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT_SECONDS = 7200


def labelled_tests(only):
    """Runs the labelled tests without ctest, because ctest's time limits are meant for samples."""
    listed = subprocess.run(["ctest", "--preset", "test", "-L", "soak", "--show-only=json-v1"], cwd=ROOT, check=True,
                            capture_output=True, text=True)
    for test in json.loads(listed.stdout)["tests"]:
        if only not in test["name"]:
            continue
        properties = {one["name"]: one["value"] for one in test["properties"]}
        variables = dict(os.environ, BERTH_SOAK="1", **dict(one.split("=", 1) for one in properties.get("ENVIRONMENT", [])))
        print(test["name"], flush=True)
        start = time.monotonic()
        try:
            done = subprocess.run(test["command"], cwd=properties["WORKING_DIRECTORY"], env=variables, timeout=LIMIT_SECONDS,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace")
            code, said = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            code, said = -1, (late.stdout or b"").decode(errors="replace") + f"\nno end after {LIMIT_SECONDS} s"
        yield {"name": test["name"], "seconds": round(time.monotonic() - start, 1),
               "passed": None if code == properties.get("SKIP_RETURN_CODE") else code == 0,
               "said": said.strip().splitlines()[-5 if code == 0 else -40:]}


def under_thread_sanitizer():
    """Runs the broker's tests with programs that were built with the thread sanitizer. A test fails if the sanitizer reports an error in any process."""
    berth = ROOT / "build/tsan/berth"
    commands = {f"unit tests of {room}": [ROOT / f"build/tsan/src/{room}/test_{room}"] for room in ("broker", "run", "serve")}
    commands |= {test: [sys.executable, ROOT / f"tests/broker/{test}.py", berth]
                 for test in ("arrays_test", "events_test", "hostile_clients_test", "jobs_test", "queue_test", "tcp_test", "two_brokers_test")}
    for name, command in commands.items():
        if not os.access(berth, os.X_OK):
            return
        print(f"thread sanitizer: {name}", flush=True)
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder).chmod(0o777)  # the test starts processes of other users, which write here too
            # die_after_fork=0, because Berth reads NVIDIA's driver in a forked process that starts threads. The sanitizer would end such a
            # process.
            variables = dict(os.environ, LC_ALL="C.UTF-8", TSAN_OPTIONS=f"die_after_fork=0 log_path={folder}/report")
            done = subprocess.run(command, cwd=ROOT, env=variables, timeout=LIMIT_SECONDS, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            reports = [path.read_text(errors="replace") for path in sorted(pathlib.Path(folder).iterdir())]
        passed = None if done.returncode == 77 else done.returncode == 0 and not reports
        said = done.stdout.strip().splitlines()[-5 if passed else -40:] + "".join(reports).splitlines()[:60]
        yield {"name": f"thread sanitizer: {name}", "seconds": round(time.monotonic() - start, 1), "passed": passed, "said": said}


def fuzzed(seconds: int):
    for program in sorted((ROOT / "build/fuzz/fuzz").glob("fuzz_*")):
        if not os.access(program, os.X_OK) or program.is_dir():
            continue
        name = program.name.removeprefix("fuzz_")
        found = program.parent / "found" / name
        seeds = [folder for folder in (ROOT / "fuzz/corpus" / name, program.parent / "seeds" / name) if folder.is_dir()]
        print(f"fuzz: {name}, {seconds} s", flush=True)
        start = time.monotonic()
        done = subprocess.run([program, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=16384",
                               "-print_final_stats=1", f"-artifact_prefix={found}-", found, *seeds],
                              capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if line.startswith("stat::number_of_executed_units")]
        yield {"name": f"fuzz: {name}", "seconds": round(time.monotonic() - start, 1), "passed": done.returncode == 0,
               "said": said if done.returncode == 0 else done.stderr.splitlines()[-20:]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fuzz-seconds", type=int, default=120)
    parser.add_argument("--only", default="", metavar="TEXT", help="tests whose name has it, and neither sanitizer nor fuzzing")
    arguments = parser.parse_args()
    proofs = list(labelled_tests(arguments.only))
    if not arguments.only:
        proofs += list(under_thread_sanitizer()) + list(fuzzed(arguments.fuzz_seconds))
    if not proofs:
        print("error: nothing ran: build/test and build/fuzz hold no proof\n\nhint: ./dev soak", file=sys.stderr)
        return 1
    version = subprocess.run([ROOT / "build/test/berth", "--version"], capture_output=True, text=True).stdout.strip()
    part = f"-{''.join(c if c.isalnum() else '-' for c in arguments.only)}".rstrip("-")
    target = ROOT / f"benchmarks/results/soak-{datetime.date.today()}{part}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"schema": 1, "date": str(datetime.date.today()), "berth": version,
                                  "cores": len(os.sched_getaffinity(0)), "proofs": proofs}, indent=1) + "\n")
    failed = [proof for proof in proofs if proof["passed"] is False]
    skipped = [proof for proof in proofs if proof["passed"] is None]
    print(f"{len(proofs) - len(failed) - len(skipped)} of {len(proofs)} proofs hold; wrote {target.relative_to(ROOT)}")
    for word, some in (("failed", failed), ("skipped", skipped)):
        for proof in some:
            print(f"{word}: {proof['name']}", *proof["said"], sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
