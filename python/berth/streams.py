"""Streams, and host memory for asynchronous copies. Kernels and copies in different streams may run at the same time."""

from __future__ import annotations

import array
import importlib
import math
from typing import Any, List, Set, Tuple

from . import _dlpack
from ._memory_pool import PoolStatistics
from ._opencl import Event
from .errors import InvalidRequest
from .kernels import Array, Shape, _device, _host_data, _known, _sizes
from .language import text

__all__ = ["HostArray", "PoolStatistics", "Stream", "memory_pool", "pinned", "trim_pool"]


class Stream:
    """A queue for kernels and copies, which run one after another. Work in different streams may run at the same time.

    Work on the same array always runs in the order of the calls, also across streams.

    Examples
    --------
    >>> stream = berth.Stream()                                     # doctest: +SKIP
    >>> x.start_copy_from(host, stream=stream)                      # doctest: +SKIP
    >>> f(x, n, size=n, stream=stream).wait()                       # doctest: +SKIP
    """

    def __init__(self, backend: str = "auto") -> None:
        self._device = _device(backend)
        self._queue: Any = self._device.new_queue()

    def wait(self) -> "Stream":
        """Waits until all work of the stream is done. Other threads continue."""
        self._device.finish(self._queue)
        return self

    def wait_for(self, event: Event) -> "Stream":
        """Makes work that is added to the stream from now on wait for this event, which must be of the same device."""
        if event._device is not self._device:
            raise InvalidRequest(text("the event is of another device: {}", event._device), "E0583")
        event.order(self._queue)
        return self


class HostArray:
    """Numbers in memory of this process that the device copies from and to directly. Create one with `berth.pinned`."""

    def __init__(self, backend: str, shape: Tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype = shape, dtype
        self.nbytes = math.prod(shape) * _dlpack.DTYPES[dtype][1]
        self._device = _device(backend)
        self._memory: Any = self._device.host_memory(self.nbytes)
        self._queues: Set[Any] = set()  # queues with copies that may still use the memory

    def __del__(self) -> None:
        for queue in getattr(self, "_queues", ()):
            if self._device.is_own_process():
                self._device.finish(queue)

    def __repr__(self) -> str:
        return f"<berth.HostArray {self.dtype} {self.shape} for {self._device}>"

    def __len__(self) -> int:
        return self.shape[0]

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (_dlpack.CPU, 0)

    def __dlpack__(self, **_: Any) -> Any:
        return _dlpack.capsule_of(self._memory.address, self.shape, self.dtype, self)

    def numpy(self) -> Any:
        """A NumPy array that shares this memory."""
        numpy = importlib.import_module("numpy")
        if not self.nbytes:
            return numpy.empty(self.shape, self.dtype)
        return numpy.frombuffer(_dlpack.buffer_of(self._memory.address, self.nbytes, self), self.dtype).reshape(self.shape)

    def tolist(self) -> List[Any]:
        """Returns the numbers as a flat list."""
        return array.array(_dlpack.DTYPES[self.dtype][2], _dlpack.bytes_of(self._memory.address, self.nbytes)).tolist()

    def copy_from(self, x: Any) -> "HostArray":
        """Overwrites all numbers with the numbers of `x`, which must have the same shape and type."""
        data = _host_data(x, self.dtype)
        if data.shape != self.shape or data.dtype != self.dtype:
            raise InvalidRequest(text("an array of {} {} cannot take one of {} {}", self.dtype, self.shape, data.dtype, data.shape), "E0582",
                                 f"berth.pinned({data.shape}, {data.dtype!r})")
        _dlpack.copy(self._memory.address, data.address, self.nbytes)
        return self


def pinned(shape: Shape, dtype: Any = "float32", backend: str = "auto") -> HostArray:
    """Creates an array in host memory for asynchronous copies, with `x.start_copy_from(host)` and `x.start_copy_to(host)`.

    Parameters
    ----------
    shape, dtype, backend
        As in `empty`.
    """
    return HostArray(backend, _sizes("shape", shape, 0), _known(dtype))


def memory_pool(backend: str = "auto") -> PoolStatistics:
    """Tells how much memory the arrays of a device use, and how much memory its pool keeps for later arrays."""
    return _device(backend).pool.statistics()


def trim_pool(backend: str = "auto") -> None:
    """Gives the pool's unused memory back to the driver."""
    _device(backend).pool.trim()


def start_copy(x: Array, host: Any, stream: Any, to_device: bool) -> Event:
    """Implements `Array.start_copy_from` and `Array.start_copy_to`."""
    if not isinstance(host, HostArray):
        raise InvalidRequest(text("a {} is not memory of berth.pinned()", type(host).__name__), "E0582", f"berth.pinned({x.shape}, {x.dtype!r})")
    if host.shape != x.shape or host.dtype != x.dtype:
        raise InvalidRequest(text("an array of {} {} cannot take one of {} {}", x.dtype, x.shape, host.dtype, host.shape), "E0582",
                             f"berth.pinned({x.shape}, {x.dtype!r})")
    memory = x._memory
    if host._device is not memory.device:
        raise InvalidRequest(text("the array is on another device: {}", x.device), "E0583", f"berth.pinned({x.shape}, {x.dtype!r})")
    queue = queue_of(stream, memory.device)
    host._queues.add(queue)
    event: Event = (memory.start_write if to_device else memory.start_read)(host._memory.address, queue, host)
    return event


def queue_of(stream: Any, device: Any) -> Any:
    """The stream's queue. The stream must belong to this device. If `stream` is None, returns None, which means the device's own queue."""
    if stream is None:
        return None
    if not isinstance(stream, Stream):
        raise InvalidRequest(text("a {} is not a stream", type(stream).__name__), "E0582", "stream=berth.Stream()")
    if stream._device is not device:
        raise InvalidRequest(text("the stream is on another device: {}", stream._device), "E0583", f"berth.Stream({device.backend!r})")
    return stream._queue
