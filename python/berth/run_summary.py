"""Summarises a training run for the callbacks of frameworks: device measurements while it runs, and a few lines at its end."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional

from .language import text
from .readings import Recent, as_logged
from .sizes import number

__all__ = ["RunSummary"]

_GIB = 2**30


class RunSummary:
    """Counts steps and collects device measurements. Call `begin()` first, and `step()` after each training step. `lines()` tells what the run used.

    Parameters
    ----------
    every : float
        Seconds between two measurements of the devices.
    """

    def __init__(self, every: float) -> None:
        self._recent = Recent(number("every", every))
        self.begin()

    def begin(self) -> None:
        """Resets all counts and measured values."""
        self._began = time.monotonic()
        self._said: Optional[Any] = None
        self._devices: Dict[int, _Device] = {}
        self.steps = self.split = self.retries = self.most_parts = 0

    def step(self, result: Any = None) -> bool:
        """Counts a step. Returns True if there are new measured values.

        Parameters
        ----------
        result : BackwardResult or StepResult, optional
            The result of the step.
        """
        self.steps += 1
        if result is not None:
            self.split += result.parts > 1
            self.retries += result.tries - 1
            self.most_parts = max(self.most_parts, result.parts)
        found = self._recent.read()
        if found is self._said:
            return False
        self._said = found
        for one in found:
            self._devices.setdefault(one.device.index, _Device(one.device.name)).add(one.name, one.value)
        return True

    def readings(self) -> Dict[str, float]:
        """The latest measured values, in the form for loggers."""
        return as_logged(self._recent.read())

    def lines(self) -> List[str]:
        """The lines to print: steps and time, then a line for each GPU, then the memory of this process."""
        said = [text("berth: steps: {}; time: {:.1f} s", self.steps, time.monotonic() - self._began)]
        if self.retries:
            said.append(text("berth: tries without enough memory: {}; split steps: {}, into up to {} parts", self.retries, self.split, self.most_parts))
        said += [text("berth: GPU {} ({}): {}", index, one.name or "?", one.words()) for index, one in sorted(self._devices.items())]
        if not self._devices:
            said.append(text("berth: no GPU was read"))
        most = _peak_resident()
        if most is not None:
            said.append(text("berth: this process used up to {:.1f} GiB of the host's memory", most / _GIB))
        return said


class _Device:
    """Collects the measured values of a GPU, and summarises them: the largest value for memory, the mean for others. Leaves out values that were never
    measured."""

    def __init__(self, name: Optional[str]) -> None:
        self.name = name
        self._sums: Dict[str, float] = {}
        self._most: Dict[str, float] = {}
        self._counts: Dict[str, int] = {}

    def add(self, name: str, value: float) -> None:
        self._sums[name] = self._sums.get(name, 0.0) + value
        self._most[name] = max(self._most.get(name, value), value)
        self._counts[name] = self._counts.get(name, 0) + 1

    def _mean(self, name: str) -> Optional[float]:
        return self._sums[name] / self._counts[name] if name in self._counts else None

    def words(self) -> str:
        used, total = self._most.get("memory_used_bytes"), self._most.get("memory_total_bytes")
        busy, power = self._mean("utilization_percent"), self._mean("power_milliwatts")
        said = []
        if used is not None:
            said.append(text("memory up to {:.1f} GiB of {} GiB", used / _GIB, "?" if total is None else f"{total / _GIB:.1f}"))
        if busy is not None:
            said.append(text("{:.0f} % busy on average", busy))
        if power is not None:
            said.append(text("{:.0f} W on average", power / 1000))
        return text(", ").join(said) or text("nothing is known")


def _peak_resident() -> Optional[int]:
    """Peak resident memory of this process in bytes, or None if the kernel does not report it."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            line = next((line for line in file if line.startswith("VmHWM:")), None)
    except OSError:
        return None
    return None if line is None else int(line.split()[1]) * 1024
