"""A trace for Perfetto of a framework and the devices, and a summary of ten lines."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import threading
import time
import warnings
from typing import Any, Dict, List, Optional, Tuple, Union

from .errors import BerthError, InvalidRequest
from .language import text
from .readings import Reading, read, resident_bytes
from .sizes import number

__all__ = ["Profile", "profile"]

_BLOCK = "berth.profile"
_LINES = 10
Event = Dict[str, Any]


class _Sampler:
    """A thread that measures the devices. Each sample is (seconds since the start, device measurements, resident bytes of this process)."""

    def __init__(self, every: float) -> None:
        self._every, self._end = every, threading.Event()
        self._begun = time.perf_counter()
        self.samples: List[Tuple[float, List[Reading], int]] = []
        self._thread = threading.Thread(target=self._run, name=_BLOCK, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self.samples.append((time.perf_counter() - self._begun, read(), resident_bytes()))
            if self._end.wait(self._every):
                return

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


_in_use: List["Profile"] = []  # profiles that currently use PyTorch's profiler


class Profile:
    """The object that `berth.profile` returns. After the `with` block, `summary` is a report of ten lines."""

    def __init__(self, path: str, every: float, report: bool) -> None:
        self._path, self._every, self._report = path, every, report
        self._profiler: Any = None
        self._block: Any = None
        self._sampler: Optional[_Sampler] = None
        self.summary = ""
        self.seconds = 0.0

    def __repr__(self) -> str:
        return self.summary or super().__repr__()

    def __enter__(self) -> "Profile":
        if self._sampler is not None:
            raise InvalidRequest(text("this profile has been used already: create another with berth.profile()"))
        torch = sys.modules.get("torch")
        if torch is not None:
            self._begin(torch)
        self._cpu_seconds = time.process_time()
        self._begun = time.perf_counter()
        self._sampler = _Sampler(self._every)
        return self

    def _begin(self, torch: Any) -> None:
        # PyTorch 2 would end a running profiler without an error if another one started.
        if _in_use or getattr(torch.autograd, "_profiler_enabled", bool)():
            raise InvalidRequest(text("another profile is active; PyTorch supports only one at a time"), hint=text("use one block for both"))
        _in_use.append(self)
        try:
            kinds = [torch.profiler.ProfilerActivity.CPU]
            if torch.cuda.is_available():
                kinds.append(torch.profiler.ProfilerActivity.CUDA)
            profiler = torch.profiler.profile(activities=kinds, profile_memory=True)
            profiler.__enter__()
        except BaseException as why:
            _in_use.remove(self)
            if not isinstance(why, RuntimeError):
                raise
            raise InvalidRequest(text("PyTorch's profiler cannot start: {}", why), hint=text("use one block for both")) from why
        self._profiler, self._block = profiler, torch.profiler.record_function(_BLOCK)
        self._block.__enter__()

    def __exit__(self, kind: Optional[type], value: Optional[BaseException], trace: Any) -> None:
        assert self._sampler is not None
        if self in _in_use:
            _in_use.remove(self)
        self._sampler.stop()
        self.seconds = time.perf_counter() - self._begun
        self._cpu_seconds = time.process_time() - self._cpu_seconds
        if self._profiler is not None:
            self._block.__exit__(None, None, None)
            self._profiler.__exit__(None, None, None)
        lost: Optional[OSError] = None
        try:
            self._write()
        except OSError as why:  # the folder was removed, or the disk is full
            lost = why
        self.summary = "\n".join(self._lines(lost)[:_LINES])
        if self._report:
            print(self.summary, file=sys.stderr)
        if lost is not None:
            said = text("the trace could not be written: {}", lost)
            if value is None:
                raise BerthError(said, "E0008") from lost
            warnings.warn(said, stacklevel=2)  # only a warning, because the block has raised an exception

    def _write(self) -> None:
        events, rest = self._framework_events()
        begun = next((one["ts"] for one in events if one.get("name") == _BLOCK and "ts" in one), None)
        if begun is None:
            begun = 0.0
            events.append({"ph": "X", "name": _BLOCK, "pid": os.getpid(), "tid": os.getpid(), "ts": begun, "dur": self.seconds * 1e6})
        assert self._sampler is not None
        events.extend(_counters(self._sampler.samples, float(begun)))
        temporary = f"{self._path}.{os.getpid()}"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump({**rest, "traceEvents": events}, file)
            os.replace(temporary, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(temporary)
            raise

    def _framework_events(self) -> Tuple[List[Event], Event]:
        """The events and the metadata of PyTorch's trace."""
        if self._profiler is None:
            return [], {}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            self._profiler.export_chrome_trace(path)
            with open(path, encoding="utf-8", errors="replace") as file:
                said = json.load(file, strict=False)
        return (said, {}) if isinstance(said, list) else (said.pop("traceEvents", []), said)

    def _lines(self, lost: Optional[OSError]) -> List[str]:
        assert self._sampler is not None
        samples, cores = self._sampler.samples, len(os.sched_getaffinity(0))
        lines = [text("{:.2f} s; no trace: {}", self.seconds, lost) if lost else
                 text("{:.2f} s; trace in {}: https://ui.perfetto.dev opens it", self.seconds, self._path),
                 text("CPU: {:.1f} of {} cores busy with this process", self._cpu_seconds / self.seconds,
                      cores) if self.seconds else text("CPU: -"),
                 text("host memory: {:.2f} GiB at most", max(one[2] for one in samples) / 2**30)]
        lines += _of_devices(samples) or [text("no GPU was read")]
        if self._profiler is not None:
            lines = lines[:5] + _of_operators(self._profiler, self.seconds)
        return lines


def _counters(samples: List[Tuple[float, List[Reading], int]], begun: float) -> List[Event]:
    """Returns events that draw measured values as curves. The viewer shows them as a separate process."""
    pid = os.getpid() + (1 << 22)  # greater than any process id, so that the viewer shows a separate process
    events: List[Event] = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "Berth: readings"}}]
    for at, readings, resident in samples:
        moment = begun + at * 1e6
        events.append({"ph": "C", "name": "process resident_bytes", "pid": pid, "ts": moment, "args": {"value": resident}})
        events.extend({"ph": "C", "name": f"GPU {one.device.index} {one.name}", "pid": pid, "ts": moment, "args": {"value": one.value}} for one in readings)
    return events


def _of_devices(samples: List[Tuple[float, List[Reading], int]]) -> List[str]:
    """One line for each GPU."""
    found: Dict[Tuple[int, str], Dict[str, List[float]]] = {}
    for _, readings, _ in samples:
        for one in readings:
            found.setdefault((one.device.index, one.device.name or "?"), {}).setdefault(one.name, []).append(one.value)
    lines = []
    for (index, name), seen in sorted(found.items()):
        load, memory, power = (seen.get(key) for key in ("utilization_percent", "memory_used_bytes", "power_milliwatts"))
        said = [text("busy {:.0f} %", sum(load) / len(load)) if load else "", text("memory {:.1f} GiB at most", max(memory) / 2**30) if memory else "",
                f"{sum(power) / len(power) / 1000:.0f} W" if power else ""]
        lines.append(f"GPU {index} {name}: " + ", ".join(one for one in said if one))
    return lines


def _of_operators(profiler: Any, seconds: float) -> List[str]:
    """The four operators with the most time of their own, without operators that they call. Device time counts if the device was used, and CPU time if
    not."""
    averages = [one for one in profiler.key_averages() if one.key != _BLOCK]

    def device(one: Any) -> float:
        return float(getattr(one, "self_device_time_total", getattr(one, "self_cuda_time_total", 0)))

    def cpu(one: Any) -> float:
        return float(one.self_cpu_time_total)
    on_device = sum(map(device, averages)) > 0
    time_of, where = (device, text("on the device")) if on_device else (cpu, text("on the CPU"))
    total = sum(map(time_of, averages)) or 1.0
    averages.sort(key=time_of, reverse=True)
    said = text("{:.2f} s {}", total / 1e6, where)
    if on_device:
        said += text(", which is {:.0%} of the time", total / 1e6 / seconds) if seconds else ""
    lines = [text("{:5.0%}  {}  ({} calls)", time_of(one) / total, one.key, one.count) for one in averages[:4]]
    return [text("operators: {}", said), *lines]


def profile(path: Union[str, "os.PathLike[str]"] = "trace.json", *, every: float = 0.25, report: bool = True) -> Profile:
    """Writes a trace of a `with` block for https://ui.perfetto.dev, and prints a summary of at most ten lines.

    The trace has PyTorch's own profiler, if PyTorch is loaded, and tracks of each GPU's memory, load, power and temperature and of this process's memory.

    Parameters
    ----------
    path : path
        The file to write at the end of the block, even if the block raises an exception.
    every : float
        Seconds between two measurements.

    Raises
    ------
    InvalidRequest
        Another profile is running.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with profile(folder + "/trace.json", report=False) as seen:
    ...         total = sum(range(1000))
    ...     os.listdir(folder), len(seen.summary.splitlines()) <= 10
    (['trace.json'], True)
    """
    number("every", every, above=True)
    try:
        whole = os.path.abspath(os.fsdecode(path))  # absolute, because the block may change to another folder
    except TypeError:
        raise InvalidRequest(text("{}: {!r} is not text", "path", path), "E0104") from None
    folder = os.path.dirname(whole)
    if not os.access(folder, os.W_OK):
        raise InvalidRequest(text("{}: there is no such folder, or it cannot be written", folder), "E0110")
    if os.path.isdir(whole):
        raise InvalidRequest(text("{}: it is a folder", whole), "E0110", os.path.join(whole, "trace.json"))
    return Profile(whole, every, report)
