#!/usr/bin/env python3
"""Runs everything that needs a real GPU, in under nine minutes: ./dev gpu. Needs build/release (./dev build), bash and this Python's
standard library; uses PyTorch if installed. Writes benchmarks/results/gpu-DATE.json.

Exit codes: 0: all checks passed, or there is no GPU and the output says why checks were skipped. 1: a check failed.
"""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "scripts")]
import gpu_readings  # noqa: E402
import measuring  # noqa: E402

BERTH = pathlib.Path(os.environ.get("BERTH_PROGRAM", ROOT / "build/release/berth"))
HOLDER = ROOT / "scripts/gpu_holder.py"


def output(*command, seconds=60) -> subprocess.CompletedProcess:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)


def berth_json(*words, seconds=60):
    done = output(BERTH, *words, "--json", seconds=seconds)
    return json.loads(done.stdout) if done.returncode == 0 else None


class Record:
    """Counts checks that passed, that failed, and that could not run on this machine."""

    def __init__(self):
        self.checks = []

    def add(self, name, held, said=""):
        self.checks.append({"name": name, "held": held, "said": said})
        print(f"{ {True: 'held', False: 'FAILED', None: 'not checked'}[held]:12} {name}{': ' + said if said else ''}", flush=True)


def check_readings(record):
    before = gpu_readings.from_nvidia_smi()
    listed = berth_json("ls")
    after = gpu_readings.from_nvidia_smi()
    if listed is None:
        record.add("berth ls --json", False, "it failed")
        return
    for name, held, said in gpu_readings.compare(before, listed["devices"], after):
        record.add(name, held, said)


def training_python():
    for candidate in (sys.executable, "python3", "/usr/bin/python3"):
        code = "import torch, sys; sys.exit(not torch.cuda.is_available())"
        if shutil.which(candidate) and output(candidate, "-c", code, seconds=120).returncode == 0:
            return candidate
    return None


def run_report(*words, seconds=240):
    """Runs `berth run` and returns (exit code, report, output of the program)."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        done = output(BERTH, "run", "--report", report, *words, seconds=seconds)
        content = json.loads(report.read_text()) if report.exists() else None
    return done.returncode, content, done.stdout + done.stderr


def check_training(record):
    python = training_python()
    if python is None:
        record.add("the demo's training job on the GPU", None, "no Python here has a PyTorch that sees the GPU")
        return None
    digits = ROOT / "build/release/digits.csv.gz"
    data = ["--data", digits] if digits.exists() else []
    code, report, said = run_report("--", python, ROOT / "examples/05_train_digits.py", "--epochs", "60", *data)
    last = said.strip().splitlines()[-1] if said.strip() else ""
    record.add("the demo's training job ends well", code == 0, f"exit code {code}; {last}")
    if report is None:
        record.add("its report", False, "berth run wrote none")
        return None
    record.add("its report says that the GPU was used", report.get("gpu_use") == "seen", f"gpu_use {report.get('gpu_use')}")
    peaks = [device.get("memory_peak_bytes") for device in report.get("devices", [])]
    record.add("its report knows the peak memory", any(peaks) or None, str(peaks))
    hidden = output(BERTH, "run", "--gpus", "none", "--", python, "-c",
                    "import torch, sys; sys.exit(torch.cuda.is_available())", seconds=120)
    record.add("berth run --gpus none hides the GPU from PyTorch", hidden.returncode == 0, f"exit code {hidden.returncode}")
    return report


def check_python(record):
    """Checks the Python package on the GPU: its own test, and the examples, whose last lines contain numbers."""
    python = training_python()
    if python is None:
        record.add("the Python package on the GPU", None, "no Python here has a PyTorch that sees the GPU")
        return
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BERTH_PROGRAM": str(BERTH), "BERTH_LIBRARY": str(BERTH.parent / "libberth.so")}
    scripts = [ROOT / "python/tests/test_on_gpu.py", ROOT / "python/tests/test_kernels.py", ROOT / "python/tests/test_streams.py",
               *sorted((ROOT / "examples").glob("[01][0-9]_*.py"))]
    for script in scripts:
        if script.name < "08" and script.parent.name == "examples":
            continue  # a separate check runs the demo
        try:
            done = subprocess.run([python, str(script)], capture_output=True, text=True, timeout=150, stdin=subprocess.DEVNULL, env=environment)
        except subprocess.TimeoutExpired:
            record.add(f"{script.name} on the GPU", False, "not done after 150 s")
            continue
        held = None if done.returncode == 77 or (script.name.startswith("14_") and done.returncode == 2) else done.returncode == 0
        said = [line for line in (done.stdout or done.stderr).splitlines() if line.strip()]
        record.add(f"{script.name} on the GPU", held, " | ".join(said[-3:]) if held else (done.stderr.strip().splitlines() or [""])[-1])


def check_bench(record, is_simulated):
    """Checks every benchmark case of every GPU: its result is right, and it reaches less than 100 % of the published peak."""
    gpus = [str(device["index"]) for device in berth_json("ls")["devices"] if device["kind"] == "gpu"]
    gpus = gpus[:1] if is_simulated else gpus  # all simulated GPUs are equal, and each takes half a minute, so test only one
    done = output(BERTH, "bench", "--device", ",".join(gpus), "--json", seconds=300)
    document = json.loads(done.stdout or '{"results": [], "skipped": [{"reason": "no answer"}]}')
    for one in document["skipped"]:
        record.add("bench on the GPU", None, one["reason"])
    for row in document["results"]:
        name = f"bench {row['case']} on GPU {row['device']}"
        if row["error"]:
            missing = row["error"]["id"] in ("E1053", "E1072")  # no OpenCL platform of this vendor; no cuBLAS
            record.add(name, None if missing else False, row["error"]["message"])
            continue
        share = row["share_of_peak_percent"]
        record.add(name, row["right"] is not False and (share is None or share < 100), f"{row['median_seconds']:.3g} s, {share and round(share)} % of the peak")


def check_holder(record):
    """Checks a program with a known amount of GPU memory: ps shows it, the GPU counts as busy, and the memory is free after its end."""
    holder = subprocess.Popen([sys.executable, HOLDER, "1024"], stdout=subprocess.PIPE, text=True)
    try:
        said = holder.stdout.readline().strip()
        if said != "ready":
            record.add("a process that holds 1 GiB", None, said or "it could not start")
            return
        listed = berth_json("ps")
        rows = [row for row in (listed or {}).get("processes", []) if row.get("pid") == holder.pid]
        if not rows:
            rows = [row for row in (listed or {}).get("processes", []) if row.get("memory_bytes")]
            unattributed = (listed or {}).get("unattributed", [])
            record.add("berth ps shows the process that holds 1 GiB", True if rows or unattributed else False,
                       f"not under its pid (another PID namespace); rows {len(rows)}, unattributed {len(unattributed)}")
        else:
            held = rows[0].get("memory_bytes")
            fits = None if held is None else 1024 <= held / 2**20 <= 2048
            record.add("berth ps shows the process that holds 1 GiB", fits is not False, f"memory {held}")
        gpus = [d for d in berth_json("ls")["devices"] if d["kind"] == "gpu"]
        if len(gpus) == 1:
            refused = output(BERTH, "run", "--gpus", "1", "--no-wait", "--", "true")
            record.add("a device in use is not given away", refused.returncode != 0, f"exit code {refused.returncode}")
    finally:
        holder.kill()
        holder.wait()


def check_no_orphans(record):
    """Kills `berth run` with SIGKILL, and checks that its program no longer uses the GPU."""
    front = subprocess.Popen([BERTH, "run", "--devices", "0", "--", sys.executable, HOLDER, "256"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
    said = front.stdout.readline().strip()
    if said != "ready":
        front.kill()
        front.wait()
        record.add("no orphan after SIGKILL of berth run", None, said or "the holder could not start")
        return
    front.send_signal(signal.SIGKILL)
    front.wait()
    start = time.monotonic()
    while time.monotonic() - start < 10 and output("pgrep", "-f", "gpu_holder.py 256").returncode == 0:
        time.sleep(0.02)
    gone = time.monotonic() - start
    record.add("no orphan after SIGKILL of berth run", gone < 10, f"gone after {gone * 1000:.0f} ms")


def costs(record):
    rows = {}
    commands = {"berth ls": [BERTH, "ls"], "berth ps": [BERTH, "ps"], "nvidia-smi": ["nvidia-smi"], "true": ["/bin/true"],
                "berth --version": [BERTH, "--version"], "berth run -- true": [BERTH, "run", "--", "/bin/true"]}
    if not measuring.LAUNCH.exists():
        record.add("costs", None, "build/release/bench_launch is missing: ./dev build")
        return rows
    rows = measuring.side_by_side(commands, 30, seconds=20, slow=("berth run -- true",))
    for name, row in rows.items():
        print(f"{'cost':12} {name}: {row['ms']:.2f} ms (± {row['spread_ms'] / 2:.2f}), peak {row['peak_kib'] / 1024:.1f} MiB")
    return rows


def why_not(allow_simulated) -> str | None:
    """The reason why no check can run on this machine, or None if checks can run."""
    if not BERTH.exists():
        return "build/release/berth is missing: ./dev build"
    listed = berth_json("ls")
    if listed is None:
        return "berth ls failed: " + output(BERTH, "ls").stderr.strip()
    if os.environ.get("BERTH_SIM_DIR") and not allow_simulated:
        return "this machine is simulated"
    if not any(device["kind"] == "gpu" and device["vendor"] == "nvidia" for device in listed["devices"]):
        return "there is no NVIDIA GPU here: " + ", ".join(device["name"] for device in listed["devices"])
    return None if shutil.which("nvidia-smi") else "nvidia-smi is not here to compare with"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--allow-simulated", action="store_true", help="to test this script; no results file is written")
    arguments = parser.parse_args()
    reason = why_not(arguments.allow_simulated)
    if reason:
        print(f"skipped: {reason}")
        return 0
    record, start = Record(), time.monotonic()
    shown = output(BERTH)
    print(shown.stdout)
    check_readings(record)
    report = check_training(record)
    check_python(record)
    check_bench(record, arguments.allow_simulated)
    check_holder(record)
    check_no_orphans(record)
    spent = costs(record)
    listed = berth_json("ls")
    document = {"schema": 1, "date": str(datetime.date.today()), "berth": output(BERTH, "--version").stdout.strip(),
                "machine": measuring.machine(), "driver": listed.get("driver"),
                "devices": [device["name"] for device in listed["devices"]], "seconds": round(time.monotonic() - start, 1),
                "checks": record.checks, "costs": spent, "training_report": report, "screen": shown.stdout}
    if not arguments.allow_simulated:
        target = ROOT / f"benchmarks/results/gpu-{datetime.date.today()}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(document, indent=1) + "\n")
        print(f"wrote {target.relative_to(ROOT)}")
    failed = [check["name"] for check in record.checks if check["held"] is False]
    print(f"{sum(check['held'] is True for check in record.checks)} held, {len(failed)} failed, "
          f"{sum(check['held'] is None for check in record.checks)} not checked, {document['seconds']} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
