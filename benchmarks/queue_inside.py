"""The broker's part of ./dev bench. Runs inside a simulated machine and prints a JSON document with times in milliseconds.

usage: queue_inside.py BERTH JOBS
"""
import http.client
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BERTH, JOBS = sys.argv[1], int(sys.argv[2])
SOCKET = os.environ["BERTH_RUNTIME_DIR"] + "/berth.sock"
CLIENTS = 100


def connection():
    made = http.client.HTTPConnection("berth", timeout=120)
    made.sock = socket.socket(socket.AF_UNIX)
    made.sock.settimeout(120)
    made.sock.connect(SOCKET)
    return made


def call(made, method, path, body=None):
    made.request(method, path, None if body is None else json.dumps(body))
    return json.loads(made.getresponse().read())


def percentiles(times):
    times = sorted(times)
    return {"p50": statistics.median(times), "p99": times[min(len(times) - 1, len(times) * 99 // 100)]}


def leases(to, count, rate):
    """Takes `count` leases by a hundred clients, `rate` per second (0: unlimited). Returns the times to the answer, requests per second,
    and `count`."""
    program = pathlib.Path(BERTH).with_name("bench_leases")
    said = subprocess.run([program, to, str(CLIENTS), str(count), str(rate)], check=True, capture_output=True, text=True).stdout.split()
    return {"p50": float(said[0]) / 1000, "p99": float(said[1]) / 1000, "a_second": 2 * count / float(said[2])}


def queued(made, command, folder, **wish):
    spec = {"folder": str(folder), "umask": 18, "environment": [f"PATH={os.environ['PATH']}"]}
    return call(made, "POST", "/v1/jobs", {"request": wish, "queued": True, "command": command, "spec": spec})["job"]["id"]


def mark_time(path):
    """A command that writes the time. bash has microseconds; a file's timestamp only has the kernel's ticks of 4 ms."""
    return ["bash", "-c", f"echo $EPOCHREALTIME > {path}"]


def time_in(path):
    return float(path.read_text().replace(",", ".")) * 1000


def starts(folder):
    """Time from the call to the job's first action."""
    made, times = connection(), []
    for number in range(100):
        mark = folder / f"start-{number}"
        before = time.time() * 1000
        job = queued(made, mark_time(mark), folder, gpus=1)
        call(made, "GET", f"/v1/jobs/{job}?wait=ended")
        times.append(time_in(mark) - before)
    return percentiles(times)


def follow(folder):
    """Time from a job's last action to the first action of the next job, which waited for the device."""
    made, marks = connection(), [folder / f"next-{number}" for number in range(60)]
    jobs = [queued(made, mark_time(mark), folder, gpus=4) for mark in marks]
    call(made, "GET", f"/v1/jobs/{jobs[-1]}?wait=ended")
    at = [time_in(mark) for mark in marks]
    return percentiles([after - before for before, after in zip(at, at[1:])])


def array():
    """Time from submitting a thousand jobs at once until the last has ended."""
    before = time.perf_counter()
    words = subprocess.run([BERTH, "run", "--queue", "--cpu", "--array", f"1-{JOBS}", "--", "true"], check=True, capture_output=True, text=True)
    subprocess.run([BERTH, "wait", words.stdout.split()[-1]], check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - before) * 1000


def many_with_berth():
    """The same if each job is submitted by its own process, as users do."""
    before = time.perf_counter()
    for _ in range(JOBS):
        done = subprocess.run([BERTH, "run", "--queue", "--cpus", "1", "--", "true"], stdout=subprocess.PIPE, check=True)
    call(connection(), "GET", f"/v1/jobs/{int(done.stdout.split()[-1])}?wait=ended")
    return (time.perf_counter() - before) * 1000


def many_with_task_spooler(folder):
    spooler = shutil.which("tsp") or shutil.which("ts")
    if spooler is None:
        return None
    environment = {**os.environ, "TS_SOCKET": str(folder / "ts"), "TS_MAXFINISHED": str(JOBS + 10), "TMPDIR": str(folder)}
    subprocess.run([spooler, "-S", str(len(os.sched_getaffinity(0)))], env=environment, check=True, stdout=subprocess.DEVNULL)
    before = time.perf_counter()
    for _ in range(JOBS):
        subprocess.run([spooler, "true"], env=environment, stdout=subprocess.PIPE, check=True)
    subprocess.run([spooler, "-w"], env=environment, stdout=subprocess.DEVNULL)
    taken = (time.perf_counter() - before) * 1000
    subprocess.run([spooler, "-K"], env=environment)
    return taken


def crowd(folder):
    """Duration of the last thousand submissions if a hundred times as many jobs already wait."""
    made = connection()
    queued(made, ["sleep", "1000"], folder, gpus=4)
    times = []
    for _ in range(100 * JOBS):
        before = time.perf_counter()
        queued(made, ["python3", "train.py"], folder, gpus=4)
        times.append((time.perf_counter() - before) * 1000)
    return {**percentiles(times[-1000:]), "kib": memory_of_broker()}


def memory_of_broker():
    for entry in pathlib.Path("/proc").iterdir():
        try:
            mine = os.environ["BERTH_SIM_DIR"].encode() in (entry / "environ").read_bytes()
            if entry.name.isdigit() and mine and b"\0serve\0" in (entry / "cmdline").read_bytes():
                return next(int(line.split()[1]) for line in (entry / "status").read_text().splitlines() if line.startswith("VmRSS"))
        except (OSError, StopIteration):
            pass
    return None


def main():
    subprocess.run([BERTH, "run", "--gpus", "1", "--", "true"], check=True)  # starts the broker
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        found = {"idle_kib": memory_of_broker(), "echo": leases("-", 3000, 1000), "lease": leases(SOCKET, 3000, 1000),
                 "saturated": leases(SOCKET, 20000, 0), "array": array(), "start": starts(folder), "next": follow(folder),
                 "berth": many_with_berth(), "tsp": many_with_task_spooler(folder),
                 "crowd": crowd(folder)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
