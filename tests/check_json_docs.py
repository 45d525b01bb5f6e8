#!/usr/bin/env python3
"""docs/json.md and the documents agree: every key has a row with its type, every row has a key, and no value marked "never" is null.
Checks documents of this machine and the recorded ones in tests/data/json.

usage: check_json_docs.py --berth PROGRAM"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "doctor"))
import checking  # noqa: E402
import machine_file  # noqa: E402

ROW = re.compile(r"^\| `([^`]+)` \| (\w+) \| (.+?) \| .*\|$")
TYPES = {"integer": int, "number": (int, float), "string": str, "boolean": bool, "array": list, "object": dict}

# Recorded machines that together have a driver, a toolkit, ROCm, cuDNN, NCCL and frameworks.
SOFTWARE = ("unseen-c-healthy-ngc-20-10-on-460", "healthy-amd")
# A made-up upgrade. tests/setup_install_test.py has a real one.
CHANGED = {"changes": [{"package": "torch", "before": "2.13.0", "after": "2.14.0"}, {"package": "old", "before": "1", "after": None},
                       {"package": "new", "before": None, "after": "1"}]}
A_GROWTH = {"device": 0, "bytes_per_minute": 12 << 20, "since_seconds": 180.0}
A_PREFLIGHT = {"state": "ok", "backend": "gloo", "seconds": 0.5, "step": None, "why": None}
A_CHECKPOINT = {"signal": "USR1", "handled": True, "ended_by_itself": True, "waited_seconds": 0.5}
LIKE_NCCL = ('echo "h:1:2 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\nh:1:2 [0] NCCL INFO Using network Socket\n'
             'h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\nh:1:2 [0] x.cc:1 NCCL WARN closed" '
             '> "$(echo "$NCCL_DEBUG_FILE" | sed s/%p/$$/)"')
# The command here uses no PyTorch and no device memory: tests/run/compare.py has real values.
AN_OPERATOR = {"name": "aten::mm", "calls": 4, "cpu_seconds": 0.2, "device_seconds": 0.0}
A_HANG = {"after_seconds": 12.0, "silent_seconds": 10.0, "slow": False, "connecting": False, "odd_ranks": [1], "sentence": "no rank has made progress",
          "ranks": [{"rank": 1, "ended": False, "where": "train.py:7 in step", "waits_in": "hrtimer_nanosleep", "stack": "Thread", "collective": {"name": "all_reduce", "group": "default_pg", "number": 41, "state": "started"},
                     "native": "libc.so.6 clock_nanosleep"}]}

A_SPREAD = {"median": 2.0, "least": 1.0, "most": 3.0, "runs": 3}


def sections(page: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Reads the page's tables: {"berth ls --json": {key: (type, null)}}."""
    found, current = {}, {}
    for line in page.splitlines():
        if line.startswith("## "):
            current = found.setdefault(line[3:].strip("`"), {})
        elif match := ROW.match(line):
            current[match.group(1)] = (match.group(2), match.group(3))
    return found


def walk(value, path="", rows=()):
    """Yields (key path, value) for every key. An "absent" map counts as one value, and so does an object that the page describes elsewhere.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            here = f"{path}.{key}" if path else key
            yield here, inner
            if key != "absent" and (not isinstance(inner, dict) or any(r.startswith(here + ".") for r in rows) or not rows):
                yield from walk(inner, here, rows)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner, path + "[]", rows)


def fits(value, kind: str) -> bool:
    if kind in ("integer", "number") and isinstance(value, bool):
        return False
    return isinstance(value, TYPES[kind])


def problems_of(name: str, rows: dict, documents: list):
    seen = set()
    for document in documents:
        for key, value in walk(document, rows=rows):
            if key not in rows:
                if key not in seen:
                    yield f"{name}: no row for {key}"
            else:
                kind, null = rows[key]
                if value is None and null == "never":
                    yield f"{name}: {key} is null, but the page says never"
                if value is not None and not fits(value, kind):
                    yield f"{name}: {key} is no {kind}: {value!r}"
            seen.add(key)
    yield from (f"{name}: no document has {key}" for key in rows if key not in seen)


def printed(berth: str, *words: str, stream: str = "stdout", **variables: str):
    done = subprocess.run([berth, *words, "--json"], capture_output=True, text=True, timeout=60, env=os.environ | variables)
    return json.loads(getattr(done, stream))


# Creates one job that a signal ended, one that has a part of a GPU, and a job and an array that wait for all GPUs.
QUEUE = """
"$0" run --gpus 1 --name short -- sh -c 'kill -9 $$' 2>/dev/null
"$0" run --memory 8GiB --cpus 1 -- sleep 1000 2>/dev/null &
while ! "$0" jobs | grep -q running; do sleep 0.1; done
"$0" run --devices 0,1,2,3 2>/dev/null -- true &
while ! "$0" jobs | grep -q waiting; do sleep 0.1; done
"$0" run --queue --gpus 4 --array 1-2%1 -- true >/dev/null
"$0" jobs --json; "$0" why 3 --json; "$0" why 1 --json; "$0" why 4 --json
"""


def check_queue(arguments, rows):
    """Checks the verbs of the queue on a simulated machine. Its broker ends with the machine."""
    berth = os.path.abspath(arguments.berth)
    done = subprocess.run([berth, "sim", "--machine", "lab-4x3090", "--processes", "1", "--", "sh", "-c", QUEUE, berth],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    jobs, *whys = (json.loads(line) for line in done.stdout.splitlines())
    listed = rows["berth jobs --json"]
    # Notices appear only if the broker has a problem, so this one is made up.
    fault = {"notices": [{"id": "E0932", "message": "the journal cannot be written", "hint": "df -h"}],
             "lent": [{"unit": "GPU-1", "to": "slurm"}],
             "aside": [{"unit": "GPU-2", "job": 7, "user": "lin", "number": "7", "pids": [4711]}]}
    yield from problems_of("berth jobs --json", listed, [jobs, fault])
    of_a_job = {key.replace("jobs[]", "job"): row for key, row in listed.items() if key.startswith("jobs[].")}
    yield from problems_of("berth why --json", rows["berth why --json"] | of_a_job, whys)
    logs = [json.loads((arguments.root / "tests/data/json/queued.logs.json").read_text())]
    yield from problems_of("berth logs --json", rows["berth logs --json"], logs)


def check_guard(berth, rows):
    done = subprocess.run([berth, "sim", "--machine", "workstation-4090", "--", berth, "guard", "check", "--json"], capture_output=True, text=True,
                          timeout=60)
    yield from problems_of("berth guard --json", rows["berth guard --json"], [json.loads(done.stdout)])
    yield from problems_of("berth trace --json", rows["berth trace --json"], [trace_of(os.path.abspath(berth))])


def trace_of(berth):
    program = pathlib.Path(__file__).resolve().parent / "guard/program.py"
    script = (f"mkfifo ready; {berth} run --memory 1GiB -- {sys.executable} {program} hold 1048576 > ready & read line < ready; "
              f"{berth} trace 1 --for 100ms --json; {berth} cancel 1 > cancelled; wait")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([berth, "sim", "--machine", "workstation-4090", "--", "sh", "-c", script], capture_output=True, text=True,
                              timeout=60, cwd=folder)
    return json.loads(done.stdout)


def topology(berth):
    """What `berth ls --topology` prints on a machine with NVLink bridges."""
    done = subprocess.run([berth, "sim", "--machine", "server-8xa6000", "--", berth, "ls", "--topology", "--json"], capture_output=True, text=True,
                          timeout=60, check=True)
    return json.loads(done.stdout)


def rows_of_both(rows):
    """The rows that `berth top` shares with `ls` and `ps`."""
    devices = {key: row for key, row in rows["berth ls --json"].items() if not key.startswith("links")}
    return devices | {key: row for key, row in rows["berth ps --json"].items() if key.startswith("processes")}


def busy_top(berth):
    """What it prints on a machine with processes."""
    done = subprocess.run([berth, "sim", "--machine", "lab-4x3090", "--processes", "2", "--", berth, "top", "--once", "--json"], capture_output=True,
                          text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def check(arguments):
    rows = sections((arguments.root / "docs/json.md").read_text())
    recorded = arguments.root / "tests/data/json"

    def documents(verb):
        return [json.loads(path.read_text()) for path in sorted(recorded.glob(f"*.{verb}.json"))]

    berth = arguments.berth
    yield from problems_of("berth ls --json", rows["berth ls --json"], documents("ls") + [printed(berth, "ls"), topology(berth)])
    yield from problems_of("berth ps --json", rows["berth ps --json"], documents("ps") + [printed(berth, "ps")])
    yield from problems_of("berth --json", rows["berth --json"], documents("berth") + [printed(berth)])
    both = rows_of_both(rows)
    # This machine may have no partitions and no processes. The recorded documents show those keys.
    parts = [{key: one[key] for key in ("devices", "processes") if key in one} for one in [*documents("ls"), *documents("ps"), topology(berth)]]
    yield from problems_of("berth top --json", rows["berth top --json"] | both, [printed(berth, "top", "--once"), busy_top(berth), *parts])
    machines = [{}, *({"BERTH_ROOT": machine_file.unpacked(name), "CUDA_VISIBLE_DEVICES": "0"}
                      for name in ("amd-7900xtx", "grace-hopper"))]
    environments = [printed(berth, "env", **variables) for variables in machines]
    yield from problems_of("berth env --json", rows["berth env --json"], environments)
    recipe = "berth env --format pip --json"
    words = ["env", "--framework", "torch", "--python-version", "3.12", "--format"]
    recipes = [printed(berth, *words, "pip", "--cpu"),
               printed(berth, *words, "dockerfile", "--driver", "550.54", "--gpu", "H100")]
    yield from problems_of(recipe, rows[recipe], recipes)
    recorded = [str(arguments.root / "tests/machines" / f"{name}.machine") for name in SOFTWARE]
    software = [printed(berth, "ls", "--details"), *(printed(berth, "doctor", "--from", path) for path in recorded)]
    yield from problems_of("inventory", rows["inventory"], [{"inventory": one["inventory"]} for one in software])
    setups = [printed(berth, "setup", *words, "--dry-run") for words in (["torch", "--cpu"], ["jax", "--driver", "580.95", "--gpu", "H100"])]
    yield from problems_of("berth setup --json", rows["berth setup --json"], [*setups, CHANGED])
    runs = [printed(berth, "run", "--json", "--", "true", stream="stderr", **variables) for variables in machines]
    runs.append(json.loads(subprocess.run([berth, "run", "--json", "--", "sh", "-c", "setsid sleep 1000 & sleep 2.2; exit 0"],
                                          capture_output=True, text=True, timeout=60).stderr))
    runs[-1] |= {"memory_growth": [A_GROWTH], "preflight": A_PREFLIGHT, "checkpoint_signal": A_CHECKPOINT}  # take minutes, or need PyTorch
    fails = "[ $RANK = 1 ] && exec sleep 60; printf 'Traceback (most recent call last):\\n  File\\nE: no\\n' >&2; exit 3"
    with tempfile.TemporaryDirectory() as folder:
        for options in (["--cpus", "2", "--log-dir", folder, "--ranks", "2", "--", "sh", "-c", fails], ["--ranks", "2", "--nccl-debug", "--", "sh", "-c", LIKE_NCCL]):
            ranks = subprocess.run([berth, "run", "--json", "--cpu", *options], capture_output=True, text=True, timeout=60)
            runs.append(json.loads(ranks.stderr.splitlines()[-1]))
    runs[-2]["tries"][0]["hangs"] = [A_HANG]  # detecting a hang takes 10 s: tests/run/hangs.py has a real one
    with subprocess.Popen([berth, "run", "--json", "--cpu", "--ranks", "1", "--", sys.executable, "-c", "import time; print(1); time.sleep(60)"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as job:
        job.stdout.readline()
        stacks = printed(berth, "stacks", str(job.pid))
        job.terminate()
    yield from problems_of("berth stacks --json", rows["berth stacks --json"], [stacks])
    # Uses a simulated machine, one setting that fails and one with a GPU.
    fails = "[ \"$FAIL\" ] && exit 3; echo ${X:-1}; sleep 1"
    compared = subprocess.run([berth, "sim", "--machine", "workstation-4090", "--", berth, "compare", "--json", "--runs", "1", "--warmup", "0", "--threads",
                               "1", "--gpus", "1", "--set", "FAIL=1", "--set", "X=2", "--compare-output", "-", "--", "sh", "-c", fails], capture_output=True, text=True, timeout=60)
    without = printed(berth, "compare", "--json", "--runs", "1", "--warmup", "0", "--cpu", "--gpus", "1024", "--", "true")
    with_gpu = json.loads(compared.stdout)
    with_gpu["settings"][1] |= {"device_memory_bytes": A_SPREAD, "operators": [AN_OPERATOR]}
    yield from problems_of("berth compare --json", rows["berth compare --json"], [with_gpu, without])
    # A guarded job on a simulated machine, for the keys that report limits.
    guarded = subprocess.run([berth, "sim", "--machine", "workstation-4090", "--", berth, "run", "--memory", "2GiB", "--share", "30%", "--json", "--",
                              sys.executable, str(arguments.root / "tests/guard/program.py"), "quota", str(2 << 30)],
                             capture_output=True, text=True, timeout=60)
    runs.append(json.loads(guarded.stderr.splitlines()[-1]))
    yield from problems_of("berth run --json", rows["berth run --json"], runs)
    yield from problems_of("berth sim --list --json", rows["berth sim --list --json"], [printed(berth, "sim", "--list")])
    machines = [printed(berth, "sim", "--describe", one["name"]) for one in printed(berth, "sim", "--list")["machines"]]
    yield from problems_of("berth sim --describe --json", rows["berth sim --describe --json"], machines)
    yield from check_guard(berth, rows)
    simulated = subprocess.run([berth, "sim", "--machine", "lab-4x3090", "--report", "-", "--", berth, "ls"],
                               capture_output=True, text=True, timeout=60)
    yield from problems_of("berth sim --report", rows["berth sim --report"], [json.loads(simulated.stderr)])
    yield from problems_of("berth help --json", rows["berth help --json"], [printed(berth, "help")])
    yield from problems_of("berth --version --json", rows["berth --version --json"], [printed(berth, "--version")])
    yield from problems_of("Errors", rows["Errors"], [printed(berth, "ls", "--device", "999999", stream="stderr")])
    yield from check_queue(arguments, rows)


def self_test():
    page = "## `x`\n\n| key | type | null | meaning |\n|---|---|---|---|\n| `a` | integer | never | |\n| `l` | array | never | |\n| `l[].b` | string | sometimes | |\n"
    rows = sections(page)["x"]
    assert rows == {"a": ("integer", "never"), "l": ("array", "never"), "l[].b": ("string", "sometimes")}, rows
    assert not list(problems_of("x", rows, [{"a": 1, "l": [{"b": None}]}]))
    for wrong in ({"a": None, "l": [{"b": ""}]}, {"a": True, "l": [{"b": ""}]}, {"a": 1, "l": []},
                  {"a": 1, "l": [{"b": "", "c": 1}]}):
        assert len(list(problems_of("x", rows, [wrong]))) == 1, wrong


if __name__ == "__main__":
    checking.main(__doc__, check, self_test)
