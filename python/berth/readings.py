"""Readings of devices as named numbers, for Perfetto, Prometheus and loggers."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Dict, List, NamedTuple, Optional

from .errors import BerthError
from .machine import Device, devices

__all__ = ["Reading", "Recent", "as_logged"]

NAMES = ("memory_used_bytes", "memory_total_bytes", "utilization_percent", "power_milliwatts", "temperature_celsius")


class Reading(NamedTuple):
    """One measured value of a device. The name contains the unit."""

    device: Device
    name: str
    value: float


def read() -> List[Reading]:
    """The measured values of each GPU now. Unknown values are left out. Empty if libberth cannot be loaded."""
    try:
        found = devices()
    except BerthError:
        return []
    return [Reading(one, name, float(value)) for one in found if one.is_gpu for name in NAMES for value in [getattr(one, name)] if value is not None]


class Recent:
    """Keeps the measured values for `seconds`, so that frequent calls do not ask the driver each time."""

    def __init__(self, seconds: float = 1.0) -> None:
        self._seconds, self._at, self._lock = seconds, float("-inf"), threading.Lock()
        self._readings: List[Reading] = []

    def read(self) -> List[Reading]:
        with self._lock:
            if time.monotonic() - self._at >= self._seconds:
                self._readings, self._at = read(), time.monotonic()
            return self._readings


def as_logged(found: List[Reading]) -> Dict[str, float]:
    """The values for loggers by name, such as `berth/gpu0/power_milliwatts`. Adds this process's memory on the host."""
    named = {f"berth/gpu{one.device.index}/{one.name}": one.value for one in found}
    try:
        named["berth/process_resident_bytes"] = float(resident_bytes())
    except OSError:  # the system has no /proc
        pass
    return named


def resident_bytes() -> int:
    """Bytes of host memory that this process uses."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def device_numbers() -> Optional[Dict[int, int]]:
    """Maps PyTorch's device numbers to Berth's, by uuid or, if that is unknown, by the driver's order. Empty if PyTorch uses no GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():  # check this first, because other functions of torch.cuda would load the driver
        return {}
    found: Dict[int, int] = {}
    known = [one for one in devices() if one.is_gpu]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    order = [word.strip() for word in visible.split(",")] if visible else [str(at) for at in range(len(known))]
    for at in range(torch.cuda.device_count()):
        uuid = str(getattr(torch.cuda.get_device_properties(at), "uuid", "") or "")
        word = order[at] if at < len(order) else ""
        for one in known:
            of_driver = one.data.get("vendor_index")
            if (uuid and one.uuid and one.uuid.endswith(uuid)) or (not uuid and (word == str(of_driver) or (one.uuid and word and one.uuid.startswith(word)))):
                found[at] = one.index
    return found
