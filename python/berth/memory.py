"""Shows how much memory the framework's tensors, its allocator, other processes and the host use."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import Any, Dict, List, Optional, Tuple

from .errors import BerthError
from .machine import Snapshot, _html, _size, _table, snapshot
from .readings import device_numbers, resident_bytes

__all__ = ["MemoryRow", "MemorySummary", "memory_summary"]


@dataclasses.dataclass(frozen=True)
class MemoryRow:
    """The memory of a device in bytes. None means that the value is unknown.

    Attributes
    ----------
    total, used : int, optional
        The device's memory, and the part that all processes use, as reported by the driver.
    own : int, optional
        This process's memory, including its CUDA context, as reported by the driver.
    in_use, held : int, optional
        Memory that the framework's tensors use, and memory that its allocator has reserved from the driver.
    others : int, optional
        Memory of other processes.
    fragmentation : float, optional
        The fraction of `held` that lies in gaps between tensors and cannot be returned to the driver.
    """

    name: str
    total: Optional[int]
    used: Optional[int]
    own: Optional[int] = None
    in_use: Optional[int] = None
    held: Optional[int] = None
    others: Optional[int] = None
    fragmentation: Optional[float] = None

    def _cells(self) -> List[str]:
        part = "?" if self.fragmentation is None else f"{self.fragmentation:.0%}"
        return [self.name, *(_size(one) for one in (self.total, self.used, self.own, self.in_use, self.held, self.others)), part]


_TITLES = ("device", "total", "used", "this process", "tensors", "held for them", "others", "in pieces")


class MemorySummary(List[MemoryRow]):
    """A table with one row for each device. The last row is the host."""

    def __repr__(self) -> str:
        return _table((one._cells() for one in self), _TITLES)

    def _repr_html_(self) -> str:
        return _html((one._cells() for one in self), _TITLES)


_Row = Tuple[int, int, int, Optional[float]]


def _of_torch() -> List[_Row]:
    """Returns (number, in use, held, fragmentation) for each device that PyTorch uses."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    rows = []
    for at in range(torch.cuda.device_count()):
        said = torch.cuda.memory_stats(at)
        held, pieces = torch.cuda.memory_reserved(at), said.get("inactive_split_bytes.all.current")
        rows.append((at, torch.cuda.memory_allocated(at), held, pieces / held if held and pieces is not None else None))
    return rows


def _of_jax() -> List[_Row]:
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    if bridge is None or not getattr(bridge, "_backends", None):
        return []
    rows: List[_Row] = []
    for one in sys.modules["jax"].local_devices():
        said = one.memory_stats() if hasattr(one, "memory_stats") else None
        if said and one.platform != "cpu":
            held = said.get("pool_bytes") or said.get("bytes_reserved") or said["bytes_in_use"]
            rows.append((one.local_hardware_id or 0, said["bytes_in_use"], held, None))
    return rows


def _of_cupy() -> List[_Row]:
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return []
    try:
        pool = cupy.get_default_memory_pool()
        return [(cupy.cuda.Device().id, pool.used_bytes(), pool.total_bytes(), None)] if pool.total_bytes() else []
    except Exception:  # CuPy is installed, but there is no driver
        return []


def _numbers() -> Any:
    try:
        return device_numbers() or {}
    except BerthError:
        return {}


def _rows(seen: Optional[Snapshot]) -> List[MemoryRow]:
    numbers = _numbers()
    framework: Dict[int, Tuple[Any, Any, Optional[float]]] = {}
    for some in (_of_torch(), _of_jax(), _of_cupy()):
        for at, in_use, held, pieces in some:
            before = framework.get(numbers.get(at, at), (0, 0, None))
            framework[numbers.get(at, at)] = (before[0] + in_use, before[1] + held, pieces if pieces is not None else before[2])
    if seen is None:
        return [MemoryRow(f"GPU {at}, as the framework counts", None, None, None, in_use, held, None, pieces)
                for at, (in_use, held, pieces) in sorted(framework.items())]
    rows = []
    for one in seen.gpus:
        users = [process for process in seen.processes if process.device == one.index]
        own = [process.memory_bytes for process in users if process.pid == os.getpid()]
        others = [process.memory_bytes for process in users if process.pid != os.getpid()]
        if one.data.get("process_count") is None:  # the list of processes could not be read
            own, others = [None], [None]
        in_use, held, pieces = framework.get(one.index, (None, None, None))
        rows.append(MemoryRow(f"{one.index} {one.name or '?'}", one.memory_total_bytes, one.memory_used_bytes,
                              _sum(own), in_use, held, _sum(others), pieces))
    return rows


def _sum(some: List[Optional[int]]) -> Optional[int]:
    known = [one for one in some if one is not None]
    return None if len(known) < len(some) else sum(known)


def _host() -> MemoryRow:
    with open("/proc/meminfo", encoding="ascii") as file:
        said = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file if line.endswith("kB\n")}
    used, own = said["MemTotal"] - said["MemAvailable"], resident_bytes()
    return MemoryRow("host", said["MemTotal"], used, own, None, None, max(0, used - own))


def memory_summary() -> MemorySummary:
    """Returns how much memory each device has, and how much of it this process, the framework's tensors, its allocator and others use.

    Asks the frameworks that are loaded (PyTorch, JAX, CuPy). Imports and initialises none. If libberth cannot be loaded, the values from the driver are
    unknown.

    Examples
    --------
    >>> import berth
    >>> [row.name for row in berth.memory_summary()]
    ['0 NVIDIA GeForce RTX 4090', 'host']
    """
    try:
        seen: Optional[Snapshot] = snapshot()
    except BerthError:
        seen = None
    return MemorySummary([*_rows(seen), _host()])
