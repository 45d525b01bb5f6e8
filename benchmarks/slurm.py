"""The Slurm part of ./dev bench, for comparison with the broker. As root, it runs its own controller and node in a temporary folder, with
Debian's slurmctld, slurmd and munge. Prints one JSON document, or "null" if they are not installed.

usage: slurm.py JOBS
"""
import contextlib
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

JOBS = int(sys.argv[1])
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "sinfo")
# Settings for speed: the two delays only protect against floods of submissions. Slurm frees a job's resources a second after its end, so
# more cores are configured than exist.
CONF = """ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 CPUs=64 RealMemory=1000
PartitionName=all Nodes=n1 Default=YES State=UP MaxTime=INFINITE
"""


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def wait_until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            sys.exit("error: slurm does not answer")
        time.sleep(0.01)


@contextlib.contextmanager
def cluster(folder):
    """Runs a cluster during the block. All its files are in `folder`."""
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    folder.chmod(0o755)
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    port, node_port = free_ports(2)
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(host=socket.gethostname(), port=port, node_port=node_port, folder=folder))
    os.environ["SLURM_CONF"] = str(conf)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = []
    try:
        started.append(subprocess.Popen(["munged", "--foreground", "--force", f"--socket={folder}/munge.sock", f"--key-file={key}",
                                         f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/seed"], **quiet))
        wait_until((folder / "munge.sock").exists)
        started.append(subprocess.Popen(["slurmctld", "-D", "-f", str(conf)], **quiet))
        started.append(subprocess.Popen(["slurmd", "-D", "-f", str(conf), "-N", "n1"], **quiet))
        wait_until(lambda: "idle" in subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True).stdout)
        yield
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait()


def submit(*words):
    subprocess.run(["sbatch", "--output=/dev/null", *words], check=True, stdout=subprocess.DEVNULL)


def until_all_have_ended():
    wait_until(lambda: not subprocess.run(["squeue", "-h"], capture_output=True, text=True, check=True).stdout, 300)


def timed(submit_all):
    before = time.perf_counter()
    submit_all()
    until_all_have_ended()
    return (time.perf_counter() - before) * 1000


def percentiles(times):
    times = sorted(times)
    return {"p50": statistics.median(times), "p99": times[min(len(times) - 1, len(times) * 99 // 100)]}


def mark_time(path):
    return f"--wrap=bash -c 'echo $EPOCHREALTIME > {path}'"


def time_in(path):
    return float(path.read_text().replace(",", ".")) * 1000


def starts(folder):
    times = []
    for number in range(10):
        mark = folder / f"start-{number}"
        before = time.time() * 1000
        submit(mark_time(mark))
        until_all_have_ended()
        times.append(time_in(mark) - before)
    return percentiles(times)


def follow(folder):
    """Each job takes the whole node, so the next one waits for it."""
    marks = [folder / f"next-{number}" for number in range(10)]
    for mark in marks:
        submit("--exclusive", mark_time(mark))
    until_all_have_ended()
    at = sorted(time_in(mark) for mark in marks)
    return percentiles([after - before for before, after in zip(at, at[1:])])


def main():
    if os.geteuid() != 0 or not all(map(shutil.which, PROGRAMS)):
        print("null")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with cluster(folder):
            submit("--wrap=true")
            until_all_have_ended()
            found = {"start": starts(folder), "next": follow(folder),
                     "array": timed(lambda: submit(f"--array=1-{JOBS}", "--wrap=true")),
                     "each": timed(lambda: [submit("--wrap=true") for _ in range(JOBS)])}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
