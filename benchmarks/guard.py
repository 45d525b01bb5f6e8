#!/usr/bin/env python3
"""Measures the guard's overhead and fairness on the simulated driver: the time of a call with and without it, and each job's share of the
device's busy time.

usage: guard.py [--berth BERTH --work GUARD_WORK] [--seconds N] [--json FILE]
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import time

from measuring import BUILD

MACHINE = "workstation-4090"
# For each job: its share in percent, its kernel, and the number of kernels that it sends before it waits.
SHARES = {"30:70": [(30, "k_1ms", 10), (70, "k_1ms", 10)], "1:1, 5 ms against 0.1 ms": [(50, "k_5ms", 1), (50, "k_100us", 50)],
          "1:1": [(50, "k_1ms", 10), (50, "k_1ms", 10)], "1:2": [(33, "k_1ms", 10), (66, "k_1ms", 10)], "1:9": [(10, "k_1ms", 10), (90, "k_1ms", 10)],
          "three ways": [(33, "k_1ms", 10), (33, "k_10ms", 2), (33, "k_100us", 30)], "alone, 30 %": [(30, "k_1ms", 10)]}
# With caps, each job gets its cap, whatever the others do.
CAPS = {"cap 30 % alone": [(30, "k_1ms", 10)], "cap 50 % alone": [(50, "k_1ms", 10)], "cap 50 % alone, 0.1 ms kernels": [(50, "k_100us", 50)],
        "caps 30 % and 50 %": [(30, "k_1ms", 10), (50, "k_1ms", 10)]}
# Options of a job that serves requests of ten kernels of 1 ms, and of its neighbour, which always works.
NEIGHBOURS = {"alone": ("--latency", None), "beside --best-effort": ("--latency", "--best-effort"), "beside --share 50%": ("--latency", "--share 50%"),
              "no options, beside the same": ("", "")}


def simulated(berth, *command):
    env = {key: value for key, value in os.environ.items() if not key.startswith("CUDA_")}
    done = subprocess.run([berth, "sim", "--machine", MACHINE, "--", *map(str, command)], capture_output=True, text=True, env=env,
                          stdin=subprocess.DEVNULL, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def calls(berth, work):
    ways = {"plain": [], "counting": [berth, "run", "--memory", "8GiB", "--"],
            "with a share": [berth, "run", "--memory", "8GiB", "--share", "30%", "--"]}
    runs = {way: [] for way in ways}
    for _ in range(5):  # alternately, so that other load affects all equally
        for way, before in ways.items():
            runs[way].append(simulated(berth, *before, work, "calls")[0])
    least = {way: {key: min(run[key] for run in rows) for key in rows[0]} for way, rows in runs.items()}
    return least


def call_lines(least):
    """One line for each kind of call: without the guard, with it, what it adds, and the ratio."""
    names = {"init_ms": ("cuInit", "ms"), "launch": ("cuLaunchKernel", "ns"), "pair": ("cuMemAlloc + cuMemFree", "ns"),
             "pair_100000_live": ("the same beside 100 000 allocations", "ns"), "info": ("cuMemGetInfo", "ns")}
    for key, (name, unit) in names.items():
        plain = least["plain"][key]
        for way, row in least.items():
            if way != "plain":
                yield (f"| {name}, {way} | {plain:.4g} {unit} | {row[key]:.4g} {unit} | {row[key] - plain:+.3g} {unit} | "
                       f"{row[key] / plain:.3g} |")


def together(berth, work, option, jobs, seconds):
    """Percent of the device's time that each of the jobs gets; they start and end at the same time."""
    at = time.time() + 3
    starts = [f"{berth} run --memory 1GiB {option} {part}% --report none -- {work} share {kernel} {batch} {at} {seconds} > $BERTH_SIM_DIR/{i} &"
              for i, (part, kernel, batch) in enumerate(jobs)]
    whole = " ".join(starts) + " wait; cat " + " ".join(f"$BERTH_SIM_DIR/{i}" for i in range(len(jobs)))
    return [row["percent"] for row in simulated(berth, "sh", "-c", whole)]


def shares(berth, work, seconds):
    out = {}
    for name, jobs in SHARES.items():
        got = together(berth, work, "--share", jobs, seconds)
        busy, wanted = sum(got), sum(share for share, _, _ in jobs)
        out[name] = {"percent": got, "busy": round(busy, 2),
                     "error_points": round(max(abs(100 * mine / busy - 100 * job[0] / wanted) for mine, job in zip(got, jobs)), 2)}
    return out


def caps(berth, work, seconds):
    out = {}
    for name, jobs in CAPS.items():
        got = together(berth, work, "--cap", jobs, seconds)
        out[name] = {"percent": got, "error_points": round(max(abs(mine - job[0]) for mine, job in zip(got, jobs)), 2)}
    return out


def neighbours(berth, work, seconds):
    """What a neighbour costs the requests of a job."""
    out = {}
    for name, (options, other) in NEIGHBOURS.items():
        at = time.time() + 3
        beside = "" if other is None else f"{berth} run --memory 1GiB {other} --report none -- {work} share k_1ms 10 {at} {seconds} >/dev/null & "
        got = simulated(berth, "sh", "-c", f"{beside}{berth} run --memory 1GiB {options} --report none -- {work} requests k_1ms 10 {at} {seconds}; wait")
        out[name] = got[0]
    return out


TRACED = """
import json, os, subprocess, sys
berth, work, at, seconds, every = sys.argv[1:]
job = subprocess.Popen([berth, "run", "--memory", "1GiB", "--share", "50%", "--report", "none", "--", "sh", "-c",
                        f"echo $BERTH_JOB; exec {work} share k_100us 10 {at} {seconds}"], stdout=subprocess.PIPE, text=True)
number, cpu = job.stdout.readline().strip(), 0.0
if every != "0":
    trace = subprocess.Popen([berth, "trace", number, "--every", every, "--out", "/dev/null"], stdout=subprocess.DEVNULL)
row = json.loads(job.stdout.readline())
job.wait()
if every != "0":
    used = os.wait4(trace.pid, 0)[2]
    cpu = used.ru_utime + used.ru_stime
print(json.dumps({"percent": row["percent"], "trace_cpu_seconds": cpu}))
"""


def traces(berth, work, seconds):
    """What `berth trace` costs: the job's part of the device, and the CPU time of the trace itself."""
    out = {}
    for name, every in {"not traced": "0", "every 100 ms": "100ms", "every 10 ms": "10ms"}.items():
        rows = [simulated(berth, sys.executable, "-c", TRACED, berth, work, time.time() + 3, seconds, every)[0] for _ in range(3)]
        best = max(rows, key=lambda row: row["percent"])  # other load only makes it less
        cpu = min(row["trace_cpu_seconds"] for row in rows)
        out[name] = {"percent": best["percent"], "cpu_percent": round(100 * cpu / (seconds + 3), 2)}
    return out


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--berth", default=str(BUILD / "berth"))
    options.add_argument("--work", default=str(BUILD / "guard_work"))
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--json")
    given = options.parse_args()
    found = {"date": time.strftime("%Y-%m-%d"), "machine": platform.processor() or platform.machine(), "cpus": os.cpu_count(),
             "load": os.getloadavg()[0], "driver": "simulated", "calls": calls(given.berth, given.work),
             "shares": shares(given.berth, given.work, given.seconds), "caps": caps(given.berth, given.work, given.seconds),
             "neighbours": neighbours(given.berth, given.work, given.seconds), "traces": traces(given.berth, given.work, given.seconds)}
    print("| call | without | with the guard | added | ratio |", "|---|---|---|---|---|", *call_lines(found["calls"]), "", sep="\n")
    print("| shares | percent of the device | busy | off by |", "|---|---|---|---|", sep="\n")
    for name, row in found["shares"].items():
        print(f"| {name} | {' / '.join(map(str, row['percent']))} | {row['busy']} % | {row['error_points']} points |")
    print("", "| caps | percent of the device | off by |", "|---|---|---|", sep="\n")
    for name, row in found["caps"].items():
        print(f"| {name} | {' / '.join(map(str, row['percent']))} | {row['error_points']} points |")
    print("", "| ten kernels of 1 ms | p50 | p99 | p99 above alone |", "|---|---|---|---|", sep="\n")
    for name, row in found["neighbours"].items():
        more = row["p99_ms"] / found["neighbours"]["alone"]["p99_ms"] - 1
        print(f"| {name} | {row['p50_ms']} ms | {row['p99_ms']} ms | {100 * more:+.0f} % |")
    print("", "| berth trace | percent of the device | CPU time of the trace |", "|---|---|---|", sep="\n")
    for name, row in found["traces"].items():
        print(f"| {name} | {row['percent']} | {row['cpu_percent']} % of a core |")
    if given.json:
        with open(given.json, "w") as file:
            file.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
