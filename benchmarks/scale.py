#!/usr/bin/env python3
"""What the daemon of a node costs, measured on a simulated machine, and the same for many nodes. CPU time is what the kernel counted for the
daemon and its children, so other load of this machine changes it little. docs/scale.md explains the figures.

usage: scale.py BERTH [--machine dgx-h100-8] [--processes 16] [--seconds 120] [--nodes 10000] [--interval 15] [--json]
"""
import argparse
import contextlib
import gzip
import http.client
import json
import os
import pathlib
import re
import socket
import sqlite3
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/broker"))
from machine import switch_off, switch_on, wait_until  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
# Bytes that Prometheus keeps for a sample, after compression: its documentation says 1 to 2.
SAMPLE_BYTES = 1.5
SUMMARY = ROOT / "integrations/prometheus/node-summary.yml"
CHUNKS = 24 * 60 + 7 * 24 * 6 + 92 * 24  # of 60 readings of a device: a day at 1 s, a week at 10 s, 92 days at 1 min
SERIES = re.compile(rb"^[a-zA-Z_]")
OF_A_GPU = re.compile(rb'^berth_[a-z_]+\{[^}]*device="0"')


def stat(pid):
    """(parent, CPU seconds with those of ended children) of a process; None if it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return int(fields[1]), sum(map(int, fields[11:15])) / TICKS


def tree(pid):
    """The process and its descendants."""
    parents = {int(one): said[0] for one in os.listdir("/proc") if one.isdigit() and (said := stat(one))}
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def cpu_seconds(pid):
    return sum(said[1] for one in tree(pid) if (said := stat(one)))


def memory_bytes(pid):
    """Proportional set size: memory that several processes share counts once."""
    total = 0
    for one in tree(pid):
        try:
            total += 1024 * int(re.search(r"^Pss:\s+(\d+)", pathlib.Path(f"/proc/{one}/smaps_rollup").read_text(), re.M)[1])
        except OSError:  # it has ended in between
            pass
    return total


def history_of(path):
    """(devices, mean bytes of a full minute of one device at 1 s); None without a full minute."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as history:
        devices = history.execute("SELECT COUNT(DISTINCT device) FROM chunk").fetchone()[0]
        full = "SELECT AVG(LENGTH(data)) FROM chunk AS one WHERE tier = 0 AND start < (SELECT MAX(start) FROM chunk WHERE tier = 0 AND device = one.device)"
        return devices, history.execute(full).fetchone()[0]


def scrape(path):
    connection = http.client.HTTPConnection("berth", timeout=30)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    connection.request("GET", "/metrics")
    body = connection.getresponse().read()
    connection.close()
    return body


def measured(berth, machine, processes, seconds, interval):
    shell, variables = switch_on(berth, machine, "--processes", str(processes))
    try:
        daemon = subprocess.Popen([berth, "serve"], env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        socket_file, history = variables["BERTH_RUNTIME_DIR"] + "/berth.sock", variables["BERTH_STATE_DIR"] + "/history.db"
        try:
            if not wait_until(lambda: os.path.exists(socket_file) and os.path.exists(history), 60):
                raise SystemExit("berth serve did not start")
            time.sleep(15)  # its start is not part of an hour
            first = cpu_seconds(daemon.pid), time.monotonic()
            scrapes, at, body = 0, time.monotonic(), b""
            while time.monotonic() - first[1] < seconds:
                body = scrape(socket_file)
                scrapes += 1
                at += interval
                time.sleep(max(0.0, at - time.monotonic()))
            last = cpu_seconds(daemon.pid), time.monotonic()
            wall = last[1] - first[1]
            devices, chunk = history_of(history)
            return {"machine": machine, "processes_on_gpus": processes, "wall_seconds": wall, "scrapes": scrapes, "cpu_seconds_per_hour": (last[0] - first[0]) / wall * 3600,
                    "memory_bytes": memory_bytes(daemon.pid), "processes": len(tree(daemon.pid)),
                    "series": sum(1 for line in body.splitlines() if SERIES.match(line)), "series_per_gpu": sum(1 for line in body.splitlines() if OF_A_GPU.match(line)),
                    "scrape_bytes": len(body), "scrape_gzip_bytes": len(gzip.compress(body, 6)),
                    "history_bytes_kept": chunk and chunk * CHUNKS * devices}
        finally:
            daemon.terminate()
            daemon.wait(60)
    finally:
        switch_off(shell)


def for_nodes(one, nodes, interval):
    """Arithmetic alone."""
    samples = one["series"] * nodes / interval
    summary = SUMMARY.read_text().count("- record:")  # one series a rule and node
    return {"nodes": nodes, "scrape_interval_seconds": interval, "cores": one["cpu_seconds_per_hour"] / 3600 * nodes,
            "series": one["series"] * nodes, "samples_per_second": samples, "scrape_bytes_per_second": one["scrape_bytes"] * nodes / interval,
            "scrape_gzip_bytes_per_second": one["scrape_gzip_bytes"] * nodes / interval, "prometheus_bytes_per_day": samples * 86400 * SAMPLE_BYTES,
            "federated_series": summary * nodes, "federated_prometheus_bytes_per_day": summary * nodes / interval * 86400 * SAMPLE_BYTES}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("berth")
    arguments.add_argument("--machine", default="dgx-h100-8")
    arguments.add_argument("--processes", type=int, default=16)
    arguments.add_argument("--seconds", type=float, default=120)
    arguments.add_argument("--nodes", type=int, default=10000)
    arguments.add_argument("--interval", type=float, default=15)
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    one = measured(os.path.abspath(given.berth), given.machine, given.processes, given.seconds, given.interval)
    many = for_nodes(one, given.nodes, given.interval)
    if given.json:
        print(json.dumps({"node": one, "cluster": many}))
        return
    for title, figures in (("one node, measured", one), (f"{given.nodes} nodes, by arithmetic", many)):
        print(title)
        for name, value in figures.items():
            print(f"  {name:36} {value if isinstance(value, (str, int)) else f'{value:,.2f}'}")


if __name__ == "__main__":
    main()
