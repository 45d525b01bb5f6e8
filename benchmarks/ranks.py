#!/usr/bin/env python3
"""Measures `berth run --ranks` beside torchrun, with Python and PyTorch of this interpreter, which need no GPU. Prints rows `name, berth,
torchrun, ratio` (below 1 is better) and the goal. Programs start alternately. torchrun gets `-r 1 -t 1`, without which PyTorch 1.13 fails on
Python 3.11, and `--monitor_interval 0.1`, because its default of 5 s would be all that is measured.

usage: ranks.py [--berth PROGRAM] [--repeat N] [--starts N] [--only WORD] [--json FILE]
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import measuring

# Seeds of tests/run/seeded_hangs.py that end in a hang or a slow rank, not in an error.
HANGS = ("sleeps", "waits_on_pipe", "waits_on_socket", "accepts", "opens_fifo", "locks_twice", "waits_for_event", "waits_on_queue", "joins_thread",
         "waits_for_child", "waits_on_file_lock", "waits_on_loader", "waits_on_pool", "spins", "spins_in_native_code", "gathers", "dead_locks",
         "swaps_collectives", "skips", "stops_itself")

FIRST_LINE = """
import time
at = time.clock_gettime(time.CLOCK_MONOTONIC)
import os
print("AT", at, flush=True)
"""

ALL_REDUCE = """
import time
at = time.clock_gettime(time.CLOCK_MONOTONIC)
import torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
assert one.item() == dist.get_world_size()
print("AT", time.clock_gettime(time.CLOCK_MONOTONIC), flush=True)
"""

# The same start without gloo: rank 0 listens on MASTER_PORT, the others say the name of their run, and must hear it again.
MEET = """
import os, socket, sys, time
name = os.environ["TORCHELASTIC_RUN_ID"].encode()
at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(at)
        listener.listen()
        listener.settimeout(60)
        peer, _ = listener.accept()
        said = peer.recv(100)
        peer.sendall(name)
        sys.exit(said != name)
for _ in range(600):
    try:
        peer = socket.create_connection(at, 60)
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
peer.sendall(name)
sys.exit(peer.recv(100) != name)
"""


def now():
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Launchers:
    def __init__(self, berth, folder):
        self.berth, self.folder = str(berth), folder
        self.environment = {key: word for key, word in os.environ.items() if not key.startswith(("BERTH_", "MASTER_", "SLURM_"))}
        self.environment.update(BERTH_RUNTIME_DIR=folder, PYTHONWARNINGS="ignore", OMP_NUM_THREADS="1")

    def command(self, launcher, ranks, *program):
        if launcher == "berth":
            return [self.berth, "run", "--cpu", "--report", "none", "--ranks", str(ranks), "--", *program]
        words = program[1:] if program[0] == sys.executable else ["--no_python", *program]
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks), "-r", "1", "-t", "1",
                "--monitor_interval", "0.1", "--log_dir", f"{self.folder}/logs", *words]

    def run(self, launcher, ranks, *program):
        """Returns (seconds to the last rank's AT or None, seconds to the end, what it printed)."""
        begun = now()
        done = subprocess.run(self.command(launcher, ranks, *program), capture_output=True, text=True, env=self.environment, timeout=300)
        ended = now()
        if done.returncode != 0:
            sys.exit(f"error: {launcher} with {ranks} ranks ended with {done.returncode}:\n{done.stderr[-2000:]}")
        lines = [line.split("AT ", 1)[1] for line in done.stdout.splitlines() if "AT " in line]
        return max(map(float, lines)) - begun if lines else None, ended - begun


def timed(launchers, repeat, ranks, program, take, which=("berth", "torchrun")):
    """Medians and worst values of seconds, by launcher."""
    rows = collections.defaultdict(list)
    for _ in range(repeat):
        for one in which:
            rows[one].append(launchers.run(one, ranks, *program)[take])
    return {one: {"median": statistics.median(all_), "worst": max(all_)} for one, all_ in rows.items()}


def script(folder, name, text):
    path = pathlib.Path(folder, name)
    path.write_text(text)
    return [sys.executable, str(path)]


def interpreter(repeat):
    """Seconds from the start of Python to its first line, which no launcher can save."""
    found = []
    for _ in range(repeat):
        begun = now()
        said = subprocess.run([sys.executable, "-c", FIRST_LINE], capture_output=True, text=True, check=True).stdout
        found.append(float(said.split()[1]) - begun)
    return statistics.median(found)


def parallel_starts(launchers, count, at_once, program, ranks=2):
    """Starts `count` jobs, `at_once` of them at the same time. Returns how many failed, and their errors."""
    def one(_):
        done = subprocess.run(launchers.command("berth", ranks, *program), capture_output=True, text=True, env=launchers.environment,
                              timeout=300)
        return "" if done.returncode == 0 else done.stderr[-300:]
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return [said for said in pool.map(one, range(count)) if said]


def own_seconds(root):
    """CPU seconds of Berth's own processes in the tree: all that are not the program."""
    spent = 0
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
            group = int(words[2])
        except OSError:
            continue
        mine = command.startswith((b"job-keeper of %d" % root,)) or int(entry.name) == root or (
            b"--ranks\0" in command and b"sleep" in command and group == os.getpgid(root))
        if mine:
            spent += int(words[11]) + int(words[12])
    return spent / os.sysconf("SC_CLK_TCK")


def monitoring(launchers, ranks, seconds):
    """The part of a core that Berth uses for each sleeping rank, after the first 11 s. It samples more often before."""
    job = subprocess.Popen(launchers.command("berth", ranks, "sleep", str(seconds + 14)), env=launchers.environment,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        time.sleep(11)
        before, begun = own_seconds(job.pid), now()
        time.sleep(seconds)
        after, ended = own_seconds(job.pid), now()
    finally:
        job.wait(60)
    return (after - before) / (ended - begun) / ranks


def recorded_after(launchers, seed, odd, patience=90):
    """Seconds from the fault of one rank to the note that names a hang or a slow rank; None: there was no note."""
    job = subprocess.Popen(launchers.command("berth", 3, sys.executable, str(measuring.ROOT / "tests/run/seeded_hangs.py"), seed, str(odd)),
                           env=launchers.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    late = threading.Timer(patience, job.terminate)
    late.start()
    fault = seen = None
    for line in job.stderr:
        if "FAULT " in line:
            fault = float(line.split("FAULT ", 1)[1])
        if seen is None and re.search("no rank has made progress|other ranks have waited", line):
            seen = now()
            job.terminate()
    late.cancel()
    job.wait(60)
    return None if fault is None or seen is None else seen - fault


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--berth", default=measuring.BUILD / "berth")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    given = parser.parse_args()
    rows, failures = [], []

    def add(name, berth, torchrun, goal, unit):
        ratio = None if torchrun is None else berth / torchrun
        rows.append({"name": name, "berth": berth, "torchrun": torchrun, "ratio": ratio, "goal": goal, "unit": unit})
        show = lambda one: "-" if one is None else f"{one:.4g}"
        print(f"{name:52} {show(berth):>9} {unit}   torchrun {show(torchrun):>8}   ratio {show(ratio):>7}   goal {show(goal)}", flush=True)

    wanted = lambda word: given.only in word
    with tempfile.TemporaryDirectory(prefix="berth-ranks-") as folder:
        launchers = Launchers(pathlib.Path(given.berth).resolve(), folder)
        print(f"{measuring.machine()}; load {os.getloadavg()[0]:.1f}; Python {sys.version.split()[0]}")
        if wanted("first line"):
            python = interpreter(given.repeat)
            seen = timed(launchers, given.repeat, 2, script(folder, "first.py", FIRST_LINE), 0)
            add(f"2 ranks, first line, less Python's {python * 1e3:.0f} ms", (seen["berth"]["median"] - python) * 1e3,
                (seen["torchrun"]["median"] - python) * 1e3, 30, "ms")
        if wanted("all-reduce"):
            seen = timed(launchers, given.repeat, 2, script(folder, "reduce.py", ALL_REDUCE), 0)
            add("2 ranks, first all-reduce (gloo), median", seen["berth"]["median"], seen["torchrun"]["median"], 0.85, "s")
            add("the same, the slowest run", seen["berth"]["worst"], seen["torchrun"]["worst"], 1.0, "s")
        if wanted("64 ranks"):
            seen = timed(launchers, given.repeat, 64, ["true"], 1, ("berth",))
            slow = timed(launchers, 1, 64, ["true"], 1, ("torchrun",))
            add("64 ranks of true, median", seen["berth"]["median"] * 1e3, slow["torchrun"]["median"] * 1e3, 150, "ms")
        if wanted("parallel starts"):
            failed = parallel_starts(launchers, given.starts, given.starts, script(folder, "meet.py", MEET))
            add(f"{given.starts} parallel starts of 2 ranks that meet, failed", len(failed), None, 0, "")
            few = max(1, given.starts // 10)
            failed += parallel_starts(launchers, few, few, script(folder, "reduce.py", ALL_REDUCE))
            add(f"{few} parallel starts with gloo, failed", len(failed), None, 0, "")
            failures += failed
        if wanted("monitoring"):
            add("monitoring, 8 sleeping ranks, of a core a rank", 100 * monitoring(launchers, 8, 20), None, 0.1, "%")
        if wanted("hangs"):
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                found = list(pool.map(lambda one: recorded_after(launchers, one[1], one[0] % 3), enumerate(HANGS)))
            failures += [f"{seed}: no hang was recorded" for seed, after in zip(HANGS, found) if after is None]
            times = sorted(after for after in found if after is not None)
            add(f"{len(times)} seeded hangs, fault to record, median", statistics.median(times), None, 15, "s")
            add("the same, the slowest", times[-1], None, 30, "s")
    for one in failures[:5]:
        print(one)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps({"machine": measuring.machine(), "rows": rows}, indent=1) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
