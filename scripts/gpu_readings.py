"""Compares `berth ls --json` with nvidia-smi. Constant values must be equal. A value that changes must lie between nvidia-smi's values from before and
after, with a tolerance."""
import csv
import io
import subprocess

# EQUAL: nvidia-smi's name, Berth's name. MOVING: also the factor from nvidia-smi's unit to Berth's, and the tolerance in Berth's unit.
EQUAL = (("name", "name"), ("uuid", "uuid"))
MOVING = (
    ("memory.total", "memory_total_bytes", 2**20, 1 * 2**20),
    ("memory.used", "memory_used_bytes", 2**20, 64 * 2**20),
    ("temperature.gpu", "temperature_celsius", 1, 3),
    ("power.draw", "power_milliwatts", 1000, 40_000),
    ("enforced.power.limit", "power_limit_milliwatts", 1000, 1000),
    ("clocks.current.graphics", "clock_graphics_mhz", 1, 300),
    ("clocks.current.memory", "clock_memory_mhz", 1, 300),
    ("clocks.max.graphics", "clock_graphics_max_mhz", 1, 0),
    ("pcie.link.width.current", "pcie_width", 1, 0),
    ("pcie.link.gen.max", "pcie_generation_max", 1, 0),
    ("utilization.gpu", "utilization_percent", 1, 30),
)


def from_nvidia_smi() -> list[dict]:
    fields = ["index", "pci.bus_id", *(pair[0] for pair in EQUAL), *(row[0] for row in MOVING)]
    text = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"], check=True,
                          capture_output=True, text=True, timeout=60).stdout
    return [dict(zip(fields, (cell.strip() for cell in row))) for row in csv.reader(io.StringIO(text)) if row]


def number(text):
    """Converts the text to a number. None if nvidia-smi reports no value, such as [N/A] or [Not Supported]."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def compare_one(before, device, after):
    """Compares the values of one GPU. Yields (name, passed, message)."""
    title = f"GPU {before['index']}"
    for theirs, ours in EQUAL:
        yield f"{title} {ours}", device[ours] == before[theirs], f"{device[ours]}, nvidia-smi {before[theirs]}"
    for theirs, ours, factor, room in MOVING:
        given = [number(reading[theirs]) for reading in (before, after)]
        mine = device.get(ours)
        if None in given or mine is None:
            same = None in given and mine is None
            yield (f"{title} {ours}", True if same else None,
                   "neither knows it" if same else f"{mine}, nvidia-smi {before[theirs]}")
            continue
        low, high = min(given) * factor - room, max(given) * factor + room
        yield f"{title} {ours}", low <= mine <= high, f"{mine:.0f}, nvidia-smi {given[0] * factor:.0f}"


def compare(before, devices, after):
    mine = {device["uuid"]: device for device in devices if device["vendor"] == "nvidia"}
    yield "as many GPUs as nvidia-smi shows", len(mine) == len(before), f"{len(mine)}, nvidia-smi {len(before)}"
    for first, second in zip(before, after):
        device = mine.get(first["uuid"])
        if device is None:
            yield f"GPU {first['index']}", False, f"berth ls has no {first['uuid']}"
        else:
            yield from compare_one(first, device, second)
