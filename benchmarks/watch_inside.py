"""Measures live views and exporters inside a simulated machine: first frame, CPU and memory at one frame a second, bytes to the terminal,
scrape times, series. Prints one JSON document.

usage: watch_inside.py SECONDS DEVICE NAME=COMMAND…     (bench.py calls it; DEVICE is a part of the name of the GPUs; a COMMAND with
{port} is an exporter)
"""
import fcntl
import json
import math
import os
import pathlib
import pty
import select
import shlex
import signal
import socket
import statistics
import struct
import subprocess
import sys
import termios
import time
import urllib.request


def tree(pid):
    """The process and its descendants."""
    all_ = [pid]
    for one in all_:
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                all_ += map(int, pathlib.Path(f"/proc/{one}/task/{task}/children").read_text().split())
        except OSError:
            pass
    return all_


def cpu_seconds(pid):
    """CPU time of the process, its threads and descendants that live, in nanoseconds of the scheduler."""
    total = 0
    for one in tree(pid):
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                total += int(pathlib.Path(f"/proc/{one}/task/{task}/schedstat").read_text().split()[0])
        except OSError:
            pass
    return total / 1e9


def peak_mib(pid):
    """The sum of the peak memory that is its own: of forked children, what they do not share."""
    total = 0
    for number, one in enumerate(tree(pid)):
        try:
            rows = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()[1:])
            keys = ("Rss",) if number == 0 else ("Private_Clean", "Private_Dirty")
            total += sum(int(rows[key].split()[0]) for key in keys)
        except (OSError, KeyError, ValueError):
            pass
    return total / 1024


def live(command, seconds, device):
    """A view in a terminal of 220 x 70. The first frame is the one that names a device."""
    begun = time.monotonic()
    pid, end = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8", COLUMNS="220", LINES="70")
        os.execvp(command[0], command)
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 70, 220, 0, 0))
    first, sent, cpu, measured_at, begin = None, 0, None, None, b""
    warm = begun + 3
    while time.monotonic() < warm + seconds:
        ready, _, _ = select.select([end], [], [], 0.05)
        if ready:
            try:
                data = os.read(end, 65536)
            except OSError:
                break
            got = len(data)
            # gpustat asks the terminal before it draws, and waits for the answers.
            os.write(end, b"\x1b[1;1R" * data.count(b"\x1b[6n") + b"\x1bP0+r\x1b\\" * data.count(b"\x1bP+q"))
            begin = (begin + data) if first is None else begin
            if first is None and device.encode() in begin:
                first = time.monotonic() - begun
            if measured_at:
                sent += got
        if measured_at is None and time.monotonic() >= warm:
            cpu, measured_at = cpu_seconds(pid), time.monotonic()
    passed = time.monotonic() - (measured_at or begun)
    result = {"first_ms": first * 1000 if first else None, "cpu_percent": (cpu_seconds(pid) - (cpu or 0)) / passed * 100, "mib": peak_mib(pid),
              "kib_s": sent / 1024 / passed}
    for one in reversed(tree(pid)):
        os.kill(one, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(end)
    return result


def answers(url, seconds):
    """Whether the exporter answers within this time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            return bool(urllib.request.urlopen(url).read())
        except OSError:
            time.sleep(0.1)
    return False


def exporter(command, seconds):
    """CPU, memory and scrape times of an exporter that collects every second. {port} in its command is a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/metrics"
    with subprocess.Popen([word.format(port=port) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        if not answers(url, 30):
            process.kill()
            return None
        time.sleep(3)
        before, begun = cpu_seconds(process.pid), time.monotonic()
        time.sleep(seconds)
        cpu = (cpu_seconds(process.pid) - before) / (time.monotonic() - begun) * 100
        times, apart, body = [], [], ""
        end = time.monotonic() + 30
        while len(times) < 200 and time.monotonic() < end:
            start = time.perf_counter()
            body = urllib.request.urlopen(url).read().decode()
            times.append((time.perf_counter() - start) * 1000)
        for _ in range(10):
            time.sleep(1.1)  # so that each is the first one of its second
            start = time.perf_counter()
            urllib.request.urlopen(url).read()
            apart.append((time.perf_counter() - start) * 1000)
        mib = peak_mib(process.pid)
        process.terminate()
    times.sort()
    of_gpu = sum(1 for row in body.splitlines() if row.startswith("berth_device_") and 'device="0"' in row)
    return {"cpu_percent": cpu, "mib": mib, "p50_ms": times[len(times) // 2], "p99_ms": times[len(times) * 99 // 100 - 1], "apart_ms": statistics.median(apart), "series_of_a_gpu": of_gpu,
            "series": sum(1 for row in body.splitlines() if row and not row.startswith("#")), "kib": len(body) / 1024}


def main():
    seconds = int(sys.argv[1])
    found = {}
    for pair in sys.argv[3:]:
        name, command = pair.split("=", 1)
        if "{port}" in command:
            found[name] = exporter(shlex.split(command), seconds)
            continue
        views = [live(shlex.split(command), 0, sys.argv[2]) for _ in range(4)] + [live(shlex.split(command), seconds, sys.argv[2])]
        found[name] = views[-1] | {"first_ms": statistics.median(one["first_ms"] or math.inf for one in views)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
