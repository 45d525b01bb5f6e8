#!/usr/bin/env python3
"""Measures `berth` and its peers gpustat, nvitop and nvtop on simulated machines, with /bin/true as a further anchor. Prints rows `name,
berth, anchor, ratio` (ratio = berth / anchor; below 1 is better). The programs are started alternately; values are medians.

usage: bench.py [--repeat N] [--only WORD] [--json FILE]      (./dev bench builds first)
"""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import measuring
from measuring import BUILD, ROOT

BERTH = BUILD / "berth"
PEERS = ROOT / "build/peers/bin"
LOOK = [  # name, machine, processes, further options of sim, whether peers are measured
    ("ls 8 GPUs / 200 processes", "dgx-h100-8", 200, [], True),
    ("ls 16 GPUs / 500 processes", "hgx-h200-16", 500, [], True),
    ("ls 8 GPUs / 0 processes", "dgx-h100-8", 0, [], True),
]
HUNG = ("ls 8 GPUs, one hung", "dgx-h100-8", 200, ["--fault", "hung:3"])


def peers() -> dict:
    found = {}
    for name, command in (("gpustat", ["gpustat"]), ("nvitop", ["nvitop", "-1"]), ("nvtop", ["nvtop", "-s"])):
        program = PEERS / command[0]
        where = program if program.exists() else shutil.which(command[0])
        if where:
            found[name] = [where, *command[1:]]
    return found


def simulated(machine, processes, options, inner):
    """Runs the inner part of this script inside the simulated machine. Returns its measurements."""
    command = [BERTH, "sim", "--machine", machine, "--processes", str(processes), "--at", "60", *options, "--",
               sys.executable, os.path.abspath(__file__), "--inside", json.dumps(inner)]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command[:8]))} … ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def inside(inner):
    commands = {name: list(command) for name, command in inner["commands"].items()}
    print(json.dumps(measuring.side_by_side(commands, inner["repeat"], inner["seconds"], set(inner["slow"]))))


def row(name, berth, anchor_name, anchor, unit="ms"):
    ratio = None if anchor is None or berth is None else berth / anchor
    return {"name": name, "berth": berth, "anchor": anchor, "anchor_name": anchor_name, "ratio": ratio, "unit": unit}


def show(entry):
    def number(value):
        return "-" if value is None else f"{value:.2f} {entry['unit']}"
    ratio = "-" if entry["ratio"] is None else f"{entry['ratio']:.4f}"
    anchor = number(entry["anchor"]) if entry["anchor"] is not None else "-"
    print(f"{entry['name']}, {number(entry['berth'])}, {entry['anchor_name']} {anchor}, {ratio}", flush=True)


def look_rows(repeat):
    for name, machine, processes, options, with_peers in LOOK:
        others = peers() if with_peers else {}
        commands = {"berth": [str(BERTH), "ls"], "pcie": [str(BERTH), "ls", "--pcie-throughput"]}
        commands.update({peer: list(map(str, command)) for peer, command in others.items()})
        inner = {"commands": commands, "repeat": repeat, "seconds": 60, "slow": list(others)}
        found = simulated(machine, processes, options, inner)
        for peer in others:
            if peer in found:
                yield row(name, found["berth"]["ms"], peer, found[peer]["ms"])
        if not others:
            yield row(name, found["berth"]["ms"], "no peer", None)
        yield row(name + ", peak memory", found["berth"]["peak_kib"] / 1024, "goal", 8.0, "MiB")
        if found["pcie"]["code"] == 0:
            yield row(name + ", asked for PCIe throughput", found["pcie"]["ms"], "without", found["berth"]["ms"])


def hung_rows(repeat):
    name, machine, processes, options = HUNG
    others = peers()
    commands = {"berth": [str(BERTH), "ls"]}
    commands.update({peer: list(map(str, command)) for peer, command in others.items()})
    inner = {"commands": commands, "repeat": max(1, repeat // 20), "seconds": 5, "slow": list(others)}
    found = simulated(machine, processes, options, inner)
    for peer in others:
        blocked = peer not in found or found[peer]["code"] == measuring.BLOCKED
        yield row(name, found["berth"]["ms"], f"{peer} (blocks; ended after 5 s)" if blocked else peer,
                  None if blocked else found[peer]["ms"])
    if not others:
        yield row(name, found["berth"]["ms"], "goal", 1000.0)


def start_rows(repeat):
    version = measuring.side_by_side({"true": ["/bin/true"], "berth": [BERTH, "--version"]}, repeat * 4)
    yield row("--version above /bin/true", version["berth"]["ms"] - version["true"]["ms"], "goal", 1.5)
    run = measuring.side_by_side({"true": ["/bin/true"], "berth": [BERTH, "run", "--", "/bin/true"]}, repeat)
    if run["berth"]["code"] == 0:
        yield row("run -- true above true", run["berth"]["ms"] - run["true"]["ms"], "goal", 15.0)


def doctor_rows(repeat):
    python = "/usr/bin/python3"
    commands = {"static": [BERTH, "doctor", "--static", "--python", python],
                "collect_env": [python, "-m", "torch.utils.collect_env"]}
    found = measuring.side_by_side(commands, repeat, slow={"collect_env"})
    peer = found["collect_env"]["ms"] if found["collect_env"]["code"] == 0 else None
    yield row("doctor --static", found["static"]["ms"], "collect_env" if peer else "collect_env (no torch here)", peer)
    yield row("doctor --static, p95", found["static"]["p95_ms"], "goal", 300.0)
    yield row("doctor --static, peak memory", found["static"]["peak_kib"] / 1024, "goal", 64.0, "MiB")
    # One live driver with eight GPUs, and one with a GPU that hangs.
    live = [str(BERTH), "doctor", "--python", python]
    for name, options, goal in (("doctor, live, 8 GPUs", [], 1500.0), ("doctor, live, one of 8 GPUs hung", HUNG[3], 3000.0)):
        inner = {"commands": {"live": live}, "repeat": max(3, repeat // 10), "seconds": 30, "slow": []}
        yield row(name, simulated(HUNG[1], 0, options, inner)["live"]["ms"], "goal", goal)
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "long.py"
        script.write_text("import torch\n" + "".join(f"x{i} = torch.ones({i} + 1) * 2\n" for i in range(999)))
        source = measuring.side_by_side({"file": [BERTH, "doctor", script], "start": [python, "-I", "-S", "-c", ""]}, repeat)
        yield row("doctor FILE of 1000 lines above python's start", source["file"]["ms"] - source["start"]["ms"], "goal", 100.0)


def queue_rows(jobs):
    command = [BERTH, "sim", "--machine", "lab-4x3090", "--", sys.executable, ROOT / "benchmarks/queue_inside.py", BERTH, str(jobs)]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: benchmarks/queue_inside.py ended with {done.returncode}:\n{done.stderr}")
    found = json.loads(done.stdout)
    echo = found["echo"]
    for anchor, p50, p99 in (("goal", 0.1, 1.0), ("a bare echo", echo["p50"], echo["p99"])):
        yield row("lease, 1000/s, 100 clients connected, p50", found["lease"]["p50"], anchor, p50)
        yield row("lease, 1000/s, 100 clients connected, p99", found["lease"]["p99"], anchor, p99)
    for name, value, goal in (("requests a second for leases and their return, as fast as can be", found["saturated"]["a_second"], 20000.0),
                              (f"jobs a second, {jobs} as an array", jobs * 1000 / found["array"], 1000.0)):
        yield row(name, value, "goal", goal, "/s")
    slurm = json.loads(subprocess.run([sys.executable, ROOT / "benchmarks/slurm.py", str(jobs // 5)], check=True, capture_output=True).stdout)
    for key, name, p50, p99 in (("start", "enqueue to process start, seen from Python", 3.0, 10.0),
                                ("next", "freed device to next start", 3.0, 10.0)):
        yield row(name + ", p50", found[key]["p50"], "goal", p50)
        yield row(name + ", p99", found[key]["p99"], "goal", p99)
        if slurm:
            yield row(name + ", p50", found[key]["p50"], "Slurm", slurm[key]["p50"])
    if slurm:
        yield row(f"jobs a second, {jobs} as an array", jobs * 1000 / found["array"], f"Slurm ({jobs // 5})", jobs * 200 / slurm["array"], "/s")
        yield row("jobs a second, each submitted by its own process", jobs * 1000 / found["berth"], f"Slurm ({jobs // 5})", jobs * 200 / slurm["each"], "/s")
    peer = "task-spooler" if found["tsp"] else "task-spooler (not installed)"
    yield row(f"{jobs} jobs, each submitted by its own process", found["berth"], peer, found["tsp"])
    yield row(f"submission behind {100 * jobs} waiting jobs, p50", found["crowd"]["p50"], "goal", 2.0)
    yield row(f"submission behind {100 * jobs} waiting jobs, p99", found["crowd"]["p99"], "goal", 10.0)
    yield row(f"broker with {100 * jobs} waiting jobs, memory", found["crowd"]["kib"] / 1024, "goal", 200.0, "MiB")
    yield row("idle broker, memory", found["idle_kib"] / 1024, "goal", 10.0, "MiB")


def live_views() -> dict:
    """Views of the peers that run in a terminal at one frame a second."""
    commands = {"gpustat": "gpustat -i 1 -cup", "nvitop": "nvitop -m full --interval 1", "nvtop": "nvtop -d 10"}
    found = {}
    for name, command in commands.items():
        program = PEERS / name
        where = program if program.exists() else shutil.which(name)
        if where:
            found[name] = command.replace(name, str(where), 1)
    return found


def other_exporters() -> dict:
    """Exporters of the peers that collect every second. nvitop-exporter has ten series of each process, Berth's has series of
    processes only with --processes."""
    program = PEERS / "nvitop-exporter"
    return {"nvitop-exporter": f"{program} --bind-address 127.0.0.1 --port {{port}} --interval 1"} if program.exists() else {}


def watch_rows(seconds):
    for machine, processes, size, cpu_goal in (("dgx-h100-8", 200, "8 GPUs / 200 processes", 0.15), ("hgx-h200-16", 500, "16 GPUs / 500 processes", 0.3)):
        others = live_views()
        of_berth = f"{BERTH} exporter --listen 127.0.0.1:{{port}}"
        bare = f"{sys.executable} {ROOT}/benchmarks/bare_server.py {{port}} {75 if processes == 500 else 40}"
        commands = {"exporter": of_berth, "bare": bare, "with processes": f"{of_berth} --processes {processes}", "top": f"{BERTH} top --defaults", **others,
                    **other_exporters()}
        command = [BERTH, "sim", "--machine", machine, "--processes", str(processes), "--", sys.executable, ROOT / "benchmarks/watch_inside.py",
                   str(seconds), "H200" if "h200" in machine else "H100", *(f"{name}={one}" for name, one in commands.items())]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"error: benchmarks/watch_inside.py ended with {done.returncode}:\n{done.stderr}")
        found = json.loads(done.stdout)
        top, exporter = found["top"], found["exporter"]
        for what, key, unit, goal in (("first frame", "first_ms", "ms", 10.0), ("CPU of one core at 1 Hz", "cpu_percent", "%", cpu_goal),
                                      ("memory", "mib", "MiB", 8.0), ("to the terminal", "kib_s", "KiB/s", 5.0)):
            yield row(f"top {size}, {what}", top[key], "goal", goal, unit)
            for name in others:
                yield row(f"top {size}, {what}", top[key], name, found[name][key], unit)
        for what, key, unit, goal in (("CPU of one core, collecting at 1 Hz", "cpu_percent", "%", 0.6), ("memory", "mib", "MiB", 12.0),
                                      ("scrape, p50", "p50_ms", "ms", None), ("scrape, p99", "p99_ms", "ms", 3.0), ("scrape, the first of a second", "apart_ms", "ms", 3.0),
                                      ("series of a GPU", "series_of_a_gpu", "", 40.0)):
            yield row(f"exporter {size}, {what}", exporter[key], "goal", goal, unit)
            for name in (one for one in other_exporters() if found[one] and key != "series_of_a_gpu"):
                yield row(f"exporter {size}, {what}", exporter[key], name, found[name][key], unit)
                yield row(f"exporter {size} with --processes, {what}", found["with processes"][key], name, found[name][key], unit)
        for what, key in (("scrape, p50", "p50_ms"), ("scrape, p99", "p99_ms")):
            yield row(f"exporter {size}, {what}", exporter[key], "a server that only sends", found["bare"][key])
        for name in (one for one in other_exporters() if found[one]):
            yield row(f"exporter {size} with --processes, series", found["with processes"]["series"], name, found[name]["series"], "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=100)
    parser.add_argument("--only", default="", help="the part to measure: look, hung, start, doctor, queue or watch")
    parser.add_argument("--jobs", type=int, default=1000, help="how many jobs the queue gets")
    parser.add_argument("--json", help="also write the rows to this file")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        inside(json.loads(arguments.inside))
        return 0
    version = subprocess.run([BERTH, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    print(f"# {datetime.date.today()}, {version}, {measuring.machine()}\n# name, berth, anchor, ratio")
    rows = []
    for part, measure in (("start", start_rows), ("look", look_rows), ("hung", hung_rows), ("doctor", doctor_rows),
                          ("queue", queue_rows), ("watch", watch_rows)):
        if arguments.only in ("", part):
            for entry in measure(arguments.jobs if part == "queue" else 20 if part == "watch" else arguments.repeat):
                rows.append(entry)
                show(entry)
    if arguments.json:
        document = {"schema": 1, "date": str(datetime.date.today()), "berth": version, "machine": measuring.machine(),
                    "rows": rows}
        with open(arguments.json, "w") as out:
            json.dump(document, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
