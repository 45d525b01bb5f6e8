"""Measures several commands. They are started alternately, many times, so that other load affects all equally."""
import os
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"
LAUNCH = BUILD / "bench_launch"
BLOCKED = 137  # exit code of a command that was killed at the time limit


def once(command, seconds=60, env=None):
    """Starts the command once. Returns (milliseconds to the last byte, peak KiB, exit code)."""
    environment = dict(os.environ if env is None else env, LAUNCH_SECONDS=str(seconds))
    done = subprocess.run([LAUNCH, *map(str, command)], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        return None
    nanoseconds, kilobytes, code = map(int, done.stdout.split())
    return nanoseconds / 1e6, kilobytes, code


def side_by_side(commands: dict, repeat: int, seconds=60, slow=()):
    """Returns medians and interquartile ranges: {name: {"ms", "spread_ms", "peak_kib", "code", "runs"}}. Slow commands run a tenth as
    often."""
    runs = {name: [] for name in commands}
    for turn in range(repeat):
        for name, command in commands.items():
            if name in slow and turn % 10:
                continue
            result = once(command, seconds)
            if result:
                runs[name].append(result)
    return {name: summary(rows) for name, rows in runs.items() if rows}


def summary(rows):
    times = sorted(row[0] for row in rows)
    quarter = len(times) // 4
    return {"ms": statistics.median(times), "p95_ms": times[max(0, -(-len(times) * 95 // 100) - 1)], "spread_ms": times[-1 - quarter] - times[quarter],
            "peak_kib": max(row[1] for row in rows), "code": rows[-1][2], "runs": len(rows)}


def machine() -> str:
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{model}, {len(os.sched_getaffinity(0))} cores usable, Linux {os.uname().release}"
