"""A lease: the right to use devices until a block or this process ends."""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import sys
import threading
import time
import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _library
from .errors import InvalidRequest, Refused, TooLate, error_from, in_python
from .frameworks import device_of, has_chosen, initialised
from .language import text
from .machine import devices
from .sizes import device_bytes, number, permille_of, whole, word, words_of

_POLL_MILLISECONDS = 100
_NOTICE_SECONDS = 1.0
_MOST_GPUS, _MOST_CPUS = 1024, 8192  # the limits of the program `berth`
_CALL = "berth.lease({})"

_SELECTS = re.compile(r"VISIBLE_|AFFINITY_MASK|DEVICE_SELECTOR|DEVICE_ORDINAL")

Size = Union[int, float, str]
# The leases of this process, in the order of their requests. Leases inside the first one belong to the same job.
_held: List["Lease"] = []
_holding = threading.Lock()


def _has_all(gpus: int) -> bool:
    """Whether a lease of this many GPUs contains all GPUs of the machine. Then it does not matter if a framework has already chosen its devices."""
    if any(_SELECTS.search(name) for name in os.environ):
        return False
    return sum(1 for device in devices() if device.is_gpu) == gpus


def _flow() -> Tuple[int, int]:
    """Identifies the current thread and asyncio task. The second number is 0 if there is no task."""
    asyncio: Any = sys.modules.get("asyncio")  # do not import asyncio, which is slow; if it is not loaded, there is no task
    try:
        task = getattr(asyncio, "current_task", lambda: None)()
    except RuntimeError:  # there is no event loop
        task = None
    return threading.get_ident(), id(task) if task else 0


def in_own_lease(other: Optional["Lease"] = None) -> bool:
    """Whether this process has a lease other than `other`."""
    return any(one is not other and one.job for one in _held)


class Lease:
    """The object that `berth.lease()` returns. Use it in a `with` block.

    Attributes
    ----------
    job : int
        The job's number in `berth jobs`; 0 until the lease is granted.
    devices : list of dict
        The devices: "device" (the index of `berth ls`), "vendor", "name", "uuid", "partition_uuid"; empty on the CPU.
    environment : dict
        The environment variables that the lease has set. The value is None if the lease has removed the variable.
    """

    def __init__(self, wish: Dict[str, Any], wait: Optional[float], report: bool) -> None:
        self._wish, self._wait, self._report = wish, wait, report
        self._handle: Optional[ctypes.c_void_p] = None
        self._before: Dict[str, Optional[str]] = {}
        self._affinity: Optional[set[int]] = None
        self._owner, self._told, self._in = 0, False, (0, 0)
        self._chosen: Optional[str] = None
        # leases that ended while this one is active; they are returned together with this one
        self._later: List[Tuple[ctypes.c_void_p, int]] = []
        self.job = 0
        self.devices: List[Dict[str, Any]] = []
        self.environment: Dict[str, Optional[str]] = {}

    def __repr__(self) -> str:
        has = ", ".join(f"{one['name']} ({one['device']})" for one in self.devices) or "the CPU"
        ended = ", ended" if self._handle is None else ""
        return f"<berth.Lease of job {self.job}: {has}{ended}>" if self.job else "<berth.Lease, not granted>"

    def __enter__(self) -> "Lease":
        self._ask()
        try:
            begun = time.monotonic()
            said = self._granted(self._step(begun))
            while said is None:
                self._still_waits(begun)
                said = self._granted(self._step(begun))
            self._take(said)
        except BaseException:  # BaseException, so that Ctrl-C also ends the lease
            self._end(1)
            raise
        return self

    def __exit__(self, kind: Optional[type], value: Optional[BaseException], trace: Any) -> None:
        self._end(0 if kind is None else 1)

    async def __aenter__(self) -> "Lease":
        """Waits without blocking the event loop. A lease changes the environment of the whole process, so a program can have only one at
        a time."""
        import asyncio
        self._ask()
        try:
            begun = time.monotonic()
            said = self._granted(0)
            while said is None:
                self._still_waits(begun)
                await asyncio.sleep(self._step(begun) / 1000)
                said = self._granted(0)
            self._take(said)
        except BaseException:  # BaseException, so that the cancellation of the task also ends the lease
            self._end(1)
            raise
        return self

    async def __aexit__(self, kind: Optional[type], value: Optional[BaseException], trace: Any) -> None:
        self._end(0 if kind is None else 1)

    def _ask(self) -> None:
        if self._handle is not None:
            raise InvalidRequest(text("this lease is already in use: create another with berth.lease()"))
        self._chosen = has_chosen() if self._wish["request"].get("gpus") != 0 else None
        if self._chosen and "BERTH_JOB" not in os.environ:
            if initialised() or not _has_all(self._wish["request"].get("gpus", 1)):
                raise self._too_late()
            self._chosen = None
        self._enlist()
        handle = ctypes.c_void_p()
        try:
            if _library.library().berth_lease_ask(json.dumps(self._wish).encode(), ctypes.byref(handle)):
                raise in_python(_library.last_error(), _CALL, in_own_lease(self))
        except BaseException:
            _held.remove(self)
            raise
        self._handle, self._told = handle, False

    def _too_late(self) -> TooLate:
        return TooLate(text("{} has already initialised its devices, so it would ignore the lease's choice", self._chosen),
                       hint=text("with berth.lease(...): above the first use of a device, torch.cuda.is_available() too; or: berth run -- python …"))

    def _enlist(self) -> None:
        with _holding:
            self._owner, self._in = os.getpid(), _flow()
            other = next((one for one in _held if one._owner == self._owner and one._in != self._in), None)
            if other is not None:
                raise Refused(text("another thread or task of this process has or waits for a lease, and a lease applies to the whole process"),
                              "E0573", text("use one lease for all of them, or a process for each: berth.run(…, gpus=1)"))
            _held.append(self)

    def _step(self, begun: float) -> int:
        """The time in milliseconds until the next check."""
        if self._wait is None:
            return _POLL_MILLISECONDS
        return max(1, min(_POLL_MILLISECONDS, int((self._wait - (time.monotonic() - begun)) * 1000)))

    def _granted(self, milliseconds: int) -> Optional[Dict[str, Any]]:
        pointer = ctypes.c_void_p()
        if _library.library().berth_lease_wait(self._handle, milliseconds, ctypes.byref(pointer)):
            raise in_python(_library.last_error(), _CALL, in_own_lease(self))
        return _library.taken(pointer)

    def _still_waits(self, begun: float) -> None:
        """Raises Refused if the time limit is over. After a second, prints once what the lease waits for."""
        waited = time.monotonic() - begun
        if self._wait is not None and waited >= self._wait:
            raise in_python(error_from({"error": {"code": "refused", "id": "E0412", **self._why()}}), _CALL)
        if self._report and not self._told and waited > _NOTICE_SECONDS:
            self._told = True
            print(text("berth: waiting: {}", self._why()['message']), file=sys.stderr)

    def _why(self) -> Dict[str, Any]:
        pointer = ctypes.c_void_p()
        if _library.library().berth_lease_why(self._handle, ctypes.byref(pointer)):
            return {"message": text("job {} is waiting in the queue", self.job), "hint": ""}
        return _library.taken(pointer) or {}

    def _check_devices(self) -> None:
        """Refuses requested devices that are not in the outer lease."""
        names = {str(one[key]) for one in self.devices for key in ("device", "uuid") if one.get(key) is not None}
        others = [one for one in self._wish["request"].get("devices", ()) if (one.isdigit() or one.startswith("GPU-")) and one not in names]
        if _held[0] is not self and others:
            raise Refused(text("the surrounding lease of job {} does not contain {}", self.job, ', '.join(others)), "E0421",
                          text("request these devices in the outer lease"))

    def _take(self, said: Dict[str, Any]) -> None:
        self.job = said["job"]["id"]
        self.devices = said["environment"]["devices"]
        self._check_devices()
        settings = {one["name"]: one["value"] if one["action"] == "set" else None for one in said["environment"]["settings"] if one["action"] != "keep"}
        # Inside a job, a framework may have chosen its devices already. That is allowed only if this lease has the same devices.
        if self._chosen and any(_SELECTS.search(name) and os.environ.get(name) != value for name, value in settings.items()):
            raise self._too_late()
        for name, value in settings.items():
            self.environment[name] = value
            self._set(name, value)
        self._set("BERTH_JOB", str(self.job))
        cpus = said["environment"].get("cpus")
        if cpus:
            self._affinity = os.sched_getaffinity(0)
            try:
                os.sched_setaffinity(0, _cpus_in(cpus))
            except OSError as why:  # the cpuset has changed in the meantime
                self._affinity = None
                warnings.warn(text("CPU affinity to cores {} could not be set: {}", cpus, why), stacklevel=4)

    def _set(self, name: str, value: Optional[str]) -> None:
        self._before.setdefault(name, os.environ.get(name))
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value

    def _end(self, code: int) -> None:
        handle, self._handle = self._handle, None
        if handle is None:
            return
        at = _held.index(self)
        above = _held[at + 1:at + 2]
        _held.remove(self)
        ends, self._later = [*self._later, (handle, code)], []
        if self._owner != os.getpid():  # a forked child must not end the lease of its parent
            self._before.clear()
        elif above:
            self._hand_over(above[0], ends)
            return
        self._put_back()
        for one, how in ends:
            _library.library().berth_lease_end(one, how)

    def _hand_over(self, later: "Lease", ends: List[Tuple[ctypes.c_void_p, int]]) -> None:
        """Called if this lease ends before a later lease of the process. The later lease takes over: at its end, it restores the environment and returns
        both leases."""
        later._later = ends + later._later
        later._before = {**later._before, **self._before}
        if self._affinity is not None:
            later._affinity = self._affinity
        self._before, self._affinity = {}, None

    def _put_back(self) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if self._affinity is not None and self._owner == os.getpid():
            os.sched_setaffinity(0, self._affinity)
        self._before, self._affinity = {}, None

    def device(self, framework: str) -> Any:
        """Returns the framework's object for the lease's first device. If the lease has no device: for the CPU.

        PyTorch: cuda for NVIDIA and AMD, xpu for Intel, xla for a TPU. For other vendors, it tries cuda, xpu, mps and xla in this order. JAX: gpu, xpu or
        tpu. If the framework does not see the device, warns and returns the CPU.

        Parameters
        ----------
        framework : {"torch", "jax", "tf", "cupy"}
        """
        if self._handle is None:
            raise InvalidRequest(text("the lease is not active: use it inside its with block"))
        return device_of(framework, [str(one.get("vendor", "other")) for one in self.devices])


def _cpus_in(ranges: str) -> set[int]:
    cpus: set[int] = set()
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def lease(gpus: Optional[int] = None, *, memory: Optional[Size] = None, share: Union[float, str, None] = None,
          cpus: Optional[int] = None, devices: Union[Sequence[Union[int, str]], int, None] = None, name: str = "",
          wait: Optional[float] = None, report: bool = True) -> Lease:
    """Reserves devices for a `with` block, as `berth run` does for a command. Inside a job of `berth run`, the lease is the job's own.

    The environment is set when the block begins and restored at its end, so begin it before frameworks load. docs/python.md has more.

    Parameters
    ----------
    gpus, cpus : int, optional
        The number of GPUs that only this process uses (0: only the CPU), and of CPU cores near them. By default: one GPU, or the CPU if there is no GPU.
    memory, share : int or str; float or str, optional
        For a device that others may use too: its memory for this process (bytes, or "8GiB"), and this process's share of its time (0.3, or "30%").
    devices : sequence of int or str, or one of them, optional
        Exactly these devices: index, uuid or PCI address. A string may name several: "0,1".
    name, report : str, bool
        The name in `berth jobs`; whether to say on standard error what the lease waits for.
    wait : float, optional
        The most seconds to wait, then Refused is raised. None: until it is granted. 0: do not wait.

    Examples
    --------
    >>> import os, berth
    >>> with berth.lease(gpus=1) as lease:
    ...     os.environ["CUDA_VISIBLE_DEVICES"]
    '0'
    """
    program = os.path.basename(sys.argv[0]).encode("utf-8", "replace").decode() if sys.argv else ""
    if not isinstance(name, str):
        raise InvalidRequest(text("name: {!r} is not text", name), "E0104", f"name={str(name)!r}")
    name = word("name", name).encode("utf-8", "replace").decode()
    if wait is not None:
        wait = number("wait", wait)
    request = request_of(gpus, memory, share, cpus, devices)
    return Lease({"request": request, "name": name, "command": [program or "python"]}, None if wait == math.inf else wait, report)


def request_of(gpus: Optional[int], memory: Optional[Size], share: Union[float, str, None], cpus: Optional[int], devices: Any) -> Dict[str, Any]:
    """Converts the arguments to the request for the broker. Refuses invalid values."""
    request: Dict[str, Any] = {}
    if gpus is not None:
        request["gpus"] = whole("gpus", gpus, 0, _MOST_GPUS)
    if memory is not None:
        request["memory_bytes"] = device_bytes(memory)
    if share is not None:
        request["share_permille"] = permille_of(share)
    if cpus is not None:
        request["cpus"] = whole("cpus", cpus, 1, _MOST_CPUS)
    if devices is not None:
        request["devices"] = words_of(devices)
    for other, value in (("memory", memory), ("share", share), ("devices", devices)):
        if gpus == 0 and value is not None:
            raise InvalidRequest(text("gpus=0 selects the CPU, but {}={!r} is about a GPU: pass only one", other, value), "E0010",
                                 text("{}={!r}; or gpus=0", other, value))
    return request
