"""The devices of this machine and the processes on them. An unknown value is None, never 0."""

from __future__ import annotations

import dataclasses
import html
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from . import _library
from .language import text, width

__all__ = ["Device", "Process", "Snapshot", "devices", "processes", "snapshot"]

_GIB = 1 << 30


def _size(count: Optional[int]) -> str:
    return "?" if count is None else f"{count / _GIB:.1f} GiB"


def _table(rows: Iterable[Sequence[str]], titles: Sequence[str]) -> str:
    """Formats rows as aligned columns for a terminal."""
    lines = [_in_their_language(titles), *map(list, rows)]
    widths = [max(width(line[at]) for line in lines) for at in range(len(titles))]
    return "\n".join("  ".join(cell + " " * (most - width(cell)) for cell, most in zip(line, widths)).rstrip() for line in lines)


def _in_their_language(titles: Sequence[str]) -> List[str]:
    return [text(one) if one else "" for one in titles]


def _html(rows: Iterable[Sequence[str]], titles: Sequence[str]) -> str:
    """Formats rows as a table for a notebook. Escapes names, because they come from drivers and other users."""
    head = "".join(f"<th style='text-align:left'>{html.escape(one)}</th>" for one in _in_their_language(titles))
    body = "".join("<tr>" + "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclasses.dataclass(frozen=True)
class Device:
    """A device, as in `berth ls --json`. Names of attributes contain the unit. An unknown value is None.

    `data` is the complete JSON object, including keys that are not attributes of this class.
    """

    index: int
    kind: str
    vendor: str
    name: Optional[str]
    uuid: Optional[str]
    health: str
    memory_total_bytes: Optional[int]
    memory_used_bytes: Optional[int]
    utilization_percent: Optional[float]
    power_milliwatts: Optional[int]
    temperature_celsius: Optional[float]
    compute_capability: Optional[str]
    users: Optional[Tuple[str, ...]]
    data: Mapping[str, Any] = dataclasses.field(repr=False, compare=False, default_factory=dict)

    @property
    def memory_free_bytes(self) -> Optional[int]:
        if self.memory_total_bytes is None or self.memory_used_bytes is None:
            return None
        return self.memory_total_bytes - self.memory_used_bytes

    @property
    def is_gpu(self) -> bool:
        return self.kind == "gpu"

    def _cells(self) -> List[str]:
        load = "?" if self.utilization_percent is None else f"{self.utilization_percent:.0f} %"
        return [str(self.index), self.name or "?", f"{_size(self.memory_used_bytes)} / {_size(self.memory_total_bytes)}", load, self.health,
                "?" if self.users is None else ", ".join(self.users)]


@dataclasses.dataclass(frozen=True)
class Process:
    """A process on a device, as in `berth ps --json`. `data` is the complete JSON object."""

    device: int
    pid: Optional[int]
    user: Optional[str]
    memory_bytes: Optional[int]
    command: Optional[str]
    job: Optional[int]
    kind: Tuple[str, ...]
    data: Mapping[str, Any] = dataclasses.field(repr=False, compare=False, default_factory=dict)

    def _cells(self) -> List[str]:
        return [str(self.device), "?" if self.pid is None else str(self.pid), self.user or "?", _size(self.memory_bytes),
                "" if self.job is None else str(self.job), self.command or "?"]


_DEVICE_TITLES = ("device", "name", "memory used", "load", "health", "users")
_PROCESS_TITLES = ("device", "pid", "user", "memory", "job", "command")


class DeviceList(List[Device]):
    """A list of devices, printed as a table."""

    def __repr__(self) -> str:
        return _table((one._cells() for one in self), _DEVICE_TITLES)

    def _repr_html_(self) -> str:
        return _html((one._cells() for one in self), _DEVICE_TITLES)


class ProcessList(List[Process]):
    """A list of processes, printed as a table."""

    def __repr__(self) -> str:
        return _table((one._cells() for one in self), _PROCESS_TITLES)

    def _repr_html_(self) -> str:
        return _html((one._cells() for one in self), _PROCESS_TITLES)


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The machine at one moment. `time` is RFC 3339 in UTC."""

    time: str
    driver: Mapping[str, Any]
    host: Mapping[str, Any]
    devices: DeviceList
    processes: ProcessList

    @property
    def gpus(self) -> DeviceList:
        return DeviceList(one for one in self.devices if one.is_gpu)

    def __repr__(self) -> str:
        processes = f"\n\n{self.processes!r}" if self.processes else ""
        return f"{self.devices!r}{processes}"

    def _repr_html_(self) -> str:
        return self.devices._repr_html_() + (self.processes._repr_html_() if self.processes else "")


def _device(row: Dict[str, Any]) -> Device:
    wanted = {one.name for one in dataclasses.fields(Device)} - {"data", "users"}
    known: Dict[str, Any] = {name: row.get(name) for name in wanted}
    users = row.get("users")
    return Device(users=None if users is None else tuple(users), data=row, **known)


def _process(row: Dict[str, Any]) -> Process:
    wanted = {one.name for one in dataclasses.fields(Process)} - {"data", "kind"}
    known: Dict[str, Any] = {name: row.get(name) for name in wanted}
    return Process(kind=tuple(row.get("kind") or ()), data=row, **known)


def devices() -> DeviceList:
    """All devices of this machine, as `berth ls` shows them: GPUs first, the CPU last.

    No driver is loaded into this process, and no device is initialised.

    Raises
    ------
    BrokerUnavailable
        The library cannot be loaded.

    Examples
    --------
    >>> import berth
    >>> [device.name for device in berth.devices() if device.is_gpu]
    ['NVIDIA GeForce RTX 4090']
    """
    return DeviceList(map(_device, _library.document("ls")["devices"]))


def processes() -> ProcessList:
    """The processes on devices, largest memory first, as `berth ps` shows them.

    Raises
    ------
    BrokerUnavailable
        The library cannot be loaded.
    """
    return ProcessList(map(_process, _library.document("ps")["processes"]))


def snapshot() -> Snapshot:
    """Devices and processes at one moment.

    Raises
    ------
    BrokerUnavailable
        The library cannot be loaded.
    """
    seen = _library.document("ls")
    return Snapshot(seen["time"], seen["driver"], seen["host"], DeviceList(map(_device, seen["devices"])), processes())
