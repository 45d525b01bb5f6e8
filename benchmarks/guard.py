#!/usr/bin/env python3
"""Measures the guard's overhead and fairness on the simulated driver: the time of a call with and without it, and each job's share of the
device's busy time.

usage: guard.py [--berth BERTH --work GUARD_WORK] [--seconds N] [--only PART,…] [--json FILE] [--live N] [--beside "NAME=WORDS"]

--beside measures the calls also with another library, which the words before the program load: "HAMi-core=env LD_PRELOAD=libvgpu.so".
The parts are calls, starts, shares, caps, slice, lost, neighbours, idle, killed and traces.
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
# For each job: its share in percent, what it sends ("k_1ms": a kernel of that length), and how many of these before it waits. A graph has
# five kernels. A copy of 4 KiB takes 2.3 µs.
SHARES = {"30:70": [(30, "k_1ms", 10), (70, "k_1ms", 10)], "1:1, 5 ms against 0.1 ms": [(50, "k_5ms", 1), (50, "k_100us", 50)],
          "1:1": [(50, "k_1ms", 10), (50, "k_1ms", 10)], "1:2": [(33, "k_1ms", 10), (66, "k_1ms", 10)], "1:9": [(10, "k_1ms", 10), (90, "k_1ms", 10)],
          "three ways; 1, 10 and 0.1 ms": [(33, "k_1ms", 10), (33, "k_10ms", 2), (33, "k_100us", 30)],
          "three ways 1:2:5": [(10, "k_1ms", 10), (20, "k_1ms", 10), (50, "k_1ms", 10)], "eight ways": [(12, "k_1ms", 10)] * 8,
          "eight ways; 1, 10 and 0.1 ms": [(12, ("k_1ms", "k_10ms", "k_100us")[i % 3], (10, 2, 30)[i % 3]) for i in range(8)],
          "1:1, graphs against kernels of 1 ms": [(50, "graph:k_1ms", 2), (50, "k_1ms", 10)],
          "1:2, copies against kernels of 1 ms": [(33, "copy:4096", 1500), (66, "k_1ms", 10)],
          "1:1, graphs of 0.1 ms against copies": [(50, "graph:k_100us", 6), (50, "copy:4096", 1500)], "alone, 30 %": [(30, "k_1ms", 10)]}
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


def ways_of(berth):
    return {"plain": [], "counting": [berth, "run", "--memory", "8GiB", "--"],
            "with a share": [berth, "run", "--memory", "8GiB", "--share", "30%", "--"]}


def calls(berth, work, live=100_000, beside=()):
    ways = ways_of(berth) | {name: words.split() for name, words in (one.split("=", 1) for one in beside)}
    runs = {way: [] for way in ways}
    for _ in range(5):  # alternately, so that other load affects all equally
        for way, before in ways.items():
            runs[way].append(simulated(berth, *before, work, "calls", live)[0] | {"live": live})
    least = {way: {key: min(run[key] for run in rows) for key in rows[0]} for way, rows in runs.items()}
    return least


def call_lines(least):
    """One line for each kind of call: without the guard, with it, what it adds, and the ratio."""
    names = {"init_ms": ("cuInit", "ms"), "launch": ("cuLaunchKernel", "ns"), "pair": ("cuMemAlloc + cuMemFree", "ns"),
             "pair_live": (f"the same beside {least['plain']['live']} allocations", "ns"), "info": ("cuMemGetInfo", "ns")}
    for key, (name, unit) in names.items():
        plain = least["plain"][key]
        for way, row in least.items():
            if way != "plain":
                yield (f"| {name}, {way} | {plain:.4g} {unit} | {row[key]:.4g} {unit} | {row[key] - plain:+.3g} {unit} | "
                       f"{row[key] / plain:.3g} |")


def together(berth, work, options, jobs, seconds):
    """Percent of the device's time that each of the jobs gets in each of its windows. They start together, except where `jobs` has a fourth
    number, the window in which a job starts. `options`: a format for the first number of each job."""
    first, windows = time.time() + 3, 1 + max((job[3] for job in jobs if len(job) > 3), default=0)
    starts = []
    for i, (part, what, batch, *later) in enumerate(jobs):
        at, own = first + sum(later) * (seconds + 1), windows - sum(later)
        starts.append(f"{berth} run --memory 1GiB {options.format(part)} --report none -- {work} share {what} {batch} {at} {seconds} {own} "
                      f"> $BERTH_SIM_DIR/{i} &")
    whole = " ".join(starts) + " wait; cat " + " ".join(f"$BERTH_SIM_DIR/{i}" for i in range(len(jobs)))
    return [row["percent"] for row in simulated(berth, "sh", "-c", whole)]


def shares(berth, work, seconds):
    out = {}
    for name, jobs in SHARES.items():
        got = together(berth, work, "--share {}%", jobs, seconds)
        busy, wanted = sum(got), sum(share for share, _, _ in jobs)
        out[name] = {"percent": got, "busy": round(busy, 2),
                     "error_points": round(max(abs(100 * mine / busy - 100 * job[0] / wanted) for mine, job in zip(got, jobs)), 2)}
    return out


def caps(berth, work, seconds):
    out = {}
    for name, jobs in CAPS.items():
        got = together(berth, work, "--cap {}%", jobs, seconds)
        out[name] = {"percent": got, "error_points": round(max(abs(mine - job[0]) for mine, job in zip(got, jobs)), 2)}
    return out


def starts(berth, work):
    """256 processes that call cuInit at the same moment."""
    return {way: min((simulated(berth, *before, work, "starts", 256)[0] for _ in range(3)), key=lambda row: row["longest_ms"])
            for way, before in ways_of(berth).items()}


def slice_of(berth, work, seconds):
    """What a slice of a quarter gets alone, and then beside a neighbour that starts."""
    out = {}
    for what, batch in (("k_1ms", 10), ("k_100us", 50)):
        alone, beside, other = together(berth, work, "{}", [("--cap 25%", what, batch), ("--share 75%", what, batch, 1)], seconds)
        out[what] = {"alone": alone, "beside": beside, "neighbour": other, "falls_percent": round(100 * (1 - beside / alone), 2)}
    return out


def lost(berth, work, seconds):
    """What the device loses by the guard: the time in which it works with the guard and without."""
    out = {}
    for name, jobs in {"alone": [(50, "k_1ms", 10)], "two jobs": [(50, "k_1ms", 10)] * 2, "two jobs, 0.1 ms": [(50, "k_100us", 50)] * 2}.items():
        plain, guarded = (sum(together(berth, work, options, jobs, seconds)) for options in ("--isolation none --share {}%", "--share {}%"))
        out[name] = {"plain": round(plain, 2), "guarded": round(guarded, 2), "lost": round(plain - guarded, 2)}
    return out


def idle(berth, work, seconds):
    """How long the device does nothing when a job pauses and another one wants it."""
    at = time.time() + 3
    job = f"{berth} run --memory 1GiB --share 50% --report none -- {work}"
    one, other = simulated(berth, "sh", "-c", f"{job} share k_100us 20 {at} {seconds} > $BERTH_SIM_DIR/0 & {job} requests k_1ms 1 {at} {seconds}; "
                                              "wait; cat $BERTH_SIM_DIR/0")
    left = 100 - one["percent"] - other["percent"]
    return {"pauses": one["requests"], "milliseconds": round(left / 100 * seconds * 1000 / one["requests"], 2)}


def killed(berth, work):
    return simulated(berth, berth, "run", "--memory", "1GiB", "--report", "none", "--", work, "killed", 1 << 30, 100)[0]


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


PARTS = {"calls": calls, "starts": lambda berth, work, seconds: starts(berth, work), "shares": shares,
         "caps": caps, "slice": slice_of, "lost": lost, "neighbours": neighbours, "idle": idle,
         "killed": lambda berth, work, seconds: killed(berth, work), "traces": traces}


def tables(found):
    """Each part's table: its head, and its rows."""
    if "calls" in found:
        yield "| call | without | with the guard | added | ratio |", call_lines(found["calls"])
    if "starts" in found:
        yield "| 256 processes call cuInit at once | p50 | the slowest |", \
            (f"| {name} | {row['p50_ms']} ms | {row['longest_ms']} ms |" for name, row in found["starts"].items())
    if "shares" in found:
        yield "| shares | percent of the device | busy | off by |", \
            (f"| {name} | {' / '.join(map(str, row['percent']))} | {row['busy']} % | {row['error_points']} points |"
             for name, row in found["shares"].items())
    if "caps" in found:
        yield "| caps | percent of the device | off by |", \
            (f"| {name} | {' / '.join(map(str, row['percent']))} | {row['error_points']} points |" for name, row in found["caps"].items())
    if "slice" in found:
        yield "| a job with `--cap 25%` | alone | beside a job with `--share 75%` | falls by |", \
            (f"| {name} | {row['alone']} | {row['beside']} (the other: {row['neighbour']}) | {row['falls_percent']} % |"
             for name, row in found["slice"].items())
    if "lost" in found:
        yield "| the device works | without the guard | with it | lost |", \
            (f"| {name} | {row['plain']} % | {row['guarded']} % | {row['lost']} points |" for name, row in found["lost"].items())
    if "neighbours" in found:
        alone = found["neighbours"]["alone"]["p99_ms"]
        yield "| ten kernels of 1 ms | p50 | p99 | p99 above alone |", \
            (f"| {name} | {row['p50_ms']} ms | {row['p99_ms']} ms | {100 * (row['p99_ms'] / alone - 1):+.0f} % |"
             for name, row in found["neighbours"].items())
    if "idle" in found:
        yield "| pauses of a job | the device does nothing, for each |", [f"| {found['idle']['pauses']} | {found['idle']['milliseconds']} ms |"]
    if "killed" in found:
        row = found["killed"]
        yield "| kills | memory is back, p50 | the slowest |", [f"| {row['count']} | {row['p50_ms']} ms | {row['longest_ms']} ms |"]
    if "traces" in found:
        yield "| berth trace | percent of the device | CPU time of the trace |", \
            (f"| {name} | {row['percent']} | {row['cpu_percent']} % of a core |" for name, row in found["traces"].items())


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--berth", default=str(BUILD / "berth"))
    options.add_argument("--work", default=str(BUILD / "guard_work"))
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--only", default=",".join(PARTS))
    options.add_argument("--json")
    options.add_argument("--live", type=int, default=100_000)
    options.add_argument("--beside", action="append", default=[])
    given = options.parse_args()
    found = {"date": time.strftime("%Y-%m-%d"), "machine": platform.processor() or platform.machine(), "cpus": os.cpu_count(),
             "load": os.getloadavg()[0], "driver": "simulated", "seconds": given.seconds}
    for part in given.only.split(","):
        if part == "calls":
            found[part] = calls(given.berth, given.work, given.live, given.beside)
        else:
            found[part] = PARTS[part](given.berth, given.work, given.seconds)
        head, rows = next(tables({part: found[part]}))
        print(head, "|" + "---|" * (head.count("|") - 1), *rows, "", sep="\n", flush=True)
    if given.json:
        with open(given.json, "w") as file:
            file.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
