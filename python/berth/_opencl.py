"""Calls an OpenCL library by ctypes: one device, an in-order queue, and more queues for streams. Loaded at the first use of berth.kernel or
berth.empty."""

from __future__ import annotations

import ctypes
import itertools
import os
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, List, Optional, Sequence, Set, Tuple

from ._library import library
from ._memory_pool import LEAST_POOLED, MOST_KEPT, DeviceOutOfMemory, Pool
from .errors import BerthError, NoDevice
from .kernel_source import OPENCL_HEADER, compile_error
from .language import text

__all__ = ["OpenClDevice"]

_DEVICE_TYPE_CPU, _DEVICE_TYPE_GPU, _DEVICE_TYPE_ALL = 1 << 1, 1 << 2, 0xFFFFFFFF
_DEVICE_TYPE, _DEVICE_MAX_GROUP, _DEVICE_AVAILABLE, _DEVICE_NAME = 0x1000, 0x1004, 0x1027, 0x102B
_KERNEL_WORK_GROUP_SIZE = 0x11B0
_PROGRAM_BUILD_LOG = 0x1183
_QUEUE_PROFILING = 1 << 1
_MEM_READ_WRITE, _MEM_USE_HOST_PTR, _MEM_ALLOC_HOST_PTR = 1 << 0, 1 << 3, 1 << 4
_MAP_READ_WRITE = 1 << 0 | 1 << 1
_EVENT_STATUS, _PROFILING_START, _PROFILING_END = 0x11D3, 0x1282, 0x1283
_COMPLETE = 0
_PAGE = 4096
Sizes = Tuple[Tuple[int, ...], Tuple[int, ...]]
_INSTALL = "sudo apt install ocl-icd-libopencl1 pocl-opencl-icd"
# Names of the error codes that users may see.
_NAMES = {-4: "CL_MEM_OBJECT_ALLOCATION_FAILURE", -5: "CL_OUT_OF_RESOURCES", -6: "CL_OUT_OF_HOST_MEMORY", -11: "CL_BUILD_PROGRAM_FAILURE",
          -14: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST", -54: "CL_INVALID_WORK_GROUP_SIZE", -61: "CL_INVALID_BUFFER_SIZE",
          -1001: "CL_PLATFORM_NOT_FOUND_KHR"}
_OUT_OF_MEMORY = (-4, -6, -61)

# Each entry: function name, result type, parameter types. If the result is c_int32, it is the error code. Other functions write the error
# code to their last parameter.
_FUNCTIONS: List[Tuple[str, Any, Sequence[Any]]] = [
    ("clGetPlatformIDs", c_int32, [c_uint32, c_void_p, POINTER(c_uint32)]),
    ("clGetDeviceIDs", c_int32, [c_void_p, c_uint64, c_uint32, c_void_p, POINTER(c_uint32)]),
    ("clGetDeviceInfo", c_int32, [c_void_p, c_uint32, c_size_t, c_void_p, POINTER(c_size_t)]),
    ("clCreateContext", c_void_p, [c_void_p, c_uint32, c_void_p, c_void_p, c_void_p, POINTER(c_int32)]),
    ("clCreateCommandQueue", c_void_p, [c_void_p, c_void_p, c_uint64, POINTER(c_int32)]),
    ("clCreateProgramWithSource", c_void_p, [c_void_p, c_uint32, POINTER(c_char_p), POINTER(c_size_t), POINTER(c_int32)]),
    ("clBuildProgram", c_int32, [c_void_p, c_uint32, c_void_p, c_char_p, c_void_p, c_void_p]),
    ("clGetProgramBuildInfo", c_int32, [c_void_p, c_void_p, c_uint32, c_size_t, c_void_p, POINTER(c_size_t)]),
    ("clReleaseProgram", c_int32, [c_void_p]),
    ("clCreateKernel", c_void_p, [c_void_p, c_char_p, POINTER(c_int32)]),
    ("clGetKernelWorkGroupInfo", c_int32, [c_void_p, c_void_p, c_uint32, c_size_t, c_void_p, POINTER(c_size_t)]),
    ("clReleaseKernel", c_int32, [c_void_p]),
    ("clSetKernelArg", c_int32, [c_void_p, c_uint32, c_size_t, c_void_p]),
    ("clCreateBuffer", c_void_p, [c_void_p, c_uint64, c_size_t, c_void_p, POINTER(c_int32)]),
    ("clReleaseMemObject", c_int32, [c_void_p]),
    ("clEnqueueNDRangeKernel", c_int32, [c_void_p, c_void_p, c_uint32, c_void_p, c_void_p, c_void_p, c_uint32, c_void_p, c_void_p]),
    ("clEnqueueReadBuffer", c_int32, [c_void_p, c_void_p, c_uint32, c_size_t, c_size_t, c_void_p, c_uint32, c_void_p, c_void_p]),
    ("clEnqueueWriteBuffer", c_int32, [c_void_p, c_void_p, c_uint32, c_size_t, c_size_t, c_void_p, c_uint32, c_void_p, c_void_p]),
    ("clEnqueueMapBuffer", c_void_p,
     [c_void_p, c_void_p, c_uint32, c_uint64, c_size_t, c_size_t, c_uint32, c_void_p, c_void_p, POINTER(c_int32)]),
    ("clEnqueueUnmapMemObject", c_int32, [c_void_p, c_void_p, c_void_p, c_uint32, c_void_p, c_void_p]),
    ("clEnqueueMarkerWithWaitList", c_int32, [c_void_p, c_uint32, c_void_p, c_void_p]),
    ("clEnqueueBarrierWithWaitList", c_int32, [c_void_p, c_uint32, c_void_p, c_void_p]),
    ("clReleaseCommandQueue", c_int32, [c_void_p]),
    ("clFlush", c_int32, [c_void_p]),
    ("clFinish", c_int32, [c_void_p]),
    ("clWaitForEvents", c_int32, [c_uint32, c_void_p]),
    ("clGetEventInfo", c_int32, [c_void_p, c_uint32, c_size_t, c_void_p, POINTER(c_size_t)]),
    ("clGetEventProfilingInfo", c_int32, [c_void_p, c_uint32, c_size_t, c_void_p, POINTER(c_size_t)]),
    ("clReleaseEvent", c_int32, [c_void_p]),
]


def failed(call: str, code: int) -> BerthError:
    """Returns the exception for an OpenCL call that failed."""
    said = text("{} failed: {}", call, _NAMES.get(code, code))
    return DeviceOutOfMemory(said, hint="berth ps") if code in _OUT_OF_MEMORY else BerthError(said, "E0585", "berth doctor")


def _library() -> ctypes.CDLL:
    path = os.environ.get("BERTH_OPENCL_LIBRARY", "libOpenCL.so.1")
    try:
        library = ctypes.CDLL(path)
        for name, result, parameters in _FUNCTIONS:
            function = getattr(library, name)
            function.restype, function.argtypes = result, parameters
    except (OSError, AttributeError) as why:
        raise NoDevice(text("OpenCL cannot be used: {}", why), "E0581", _INSTALL) from why
    return library


_serials = itertools.count(1)  # each allocation gets its own number, because OpenCL may use the handle of freed memory again
_opened: List["OpenClDevice"] = []


def _after_fork() -> None:
    for device in _opened:
        device.is_forked = True


os.register_at_fork(after_in_child=_after_fork)


class Queue:
    """An additional queue of the device."""

    __slots__ = ("device", "handle")

    def __init__(self, device: "OpenClDevice") -> None:
        problem = c_int32()
        self.device, self.handle = device, None
        self.handle = device.cl.clCreateCommandQueue(device.context, device.handle, _QUEUE_PROFILING, byref(problem))
        device.check("clCreateCommandQueue", problem.value)

    def __del__(self) -> None:
        if self.handle and not self.device.is_forked:
            self.device.cl.clReleaseCommandQueue(self.handle)


class HostMemory:
    """Memory of this process that the device copies from and to directly."""

    def __init__(self, device: "OpenClDevice", nbytes: int) -> None:
        self.device, self._handle = device, None
        problem = c_int32()
        self._handle = device.cl.clCreateBuffer(device.context, _MEM_READ_WRITE | _MEM_ALLOC_HOST_PTR, max(nbytes, 1), None, byref(problem))
        device.check("clCreateBuffer", problem.value)
        self.address: int = device.cl.clEnqueueMapBuffer(device.queue, self._handle, 1, _MAP_READ_WRITE, 0, max(nbytes, 1), 0, None, None, byref(problem))
        device.check("clEnqueueMapBuffer", problem.value)

    def __del__(self) -> None:
        if self._handle and not self.device.is_forked:
            self.device.cl.clReleaseMemObject(self._handle)


class _Block:
    """A buffer of the device. If the device is a CPU, the buffer is memory of this process at `address`; if not, `address` is None. The object that owns
    the block must call release(). A `__del__` here would be wrong: the garbage collector could call it after the block was given back to the pool."""

    __slots__ = ("device", "size", "handle", "address", "pointer", "launched", "queue", "_host", "_argument")

    def __init__(self, device: "OpenClDevice", size: int) -> None:
        self.device, self.size = device, size
        self.queue: Optional[Queue] = None  # the queue that used the block last; None: the device's own queue
        self.address: Optional[int] = None
        self.launched = False  # whether a kernel may still use the block
        self.handle: Optional[int] = None
        flags, host = _MEM_READ_WRITE, None
        if device.is_cpu:
            try:
                self._host = (ctypes.c_char * (size + _PAGE))()
            except (MemoryError, OverflowError, ValueError) as why:
                raise DeviceOutOfMemory(text("there is not enough memory for {} bytes", size), hint="free -h") from why
            host = self.address = -(-ctypes.addressof(self._host) // _PAGE) * _PAGE
            flags |= _MEM_USE_HOST_PTR
        problem = c_int32()
        self.handle = device.cl.clCreateBuffer(device.context, flags, size, host, byref(problem))
        if problem.value:
            raise failed("clCreateBuffer", problem.value)
        self._argument = c_void_p(self.handle)
        self.pointer = byref(self._argument)  # the pointer that clSetKernelArg needs

    def release(self) -> None:
        if self.launched and self.address is not None:  # the memory in this process is freed next, so wait for the kernels
            self.device.finish(self.queue)
        self.device.cl.clReleaseMemObject(self.handle)


class Memory:
    """An array's memory on the device, taken from the device's pool."""

    __slots__ = ("device", "nbytes", "mapped", "serial", "address", "pointer", "_block")

    def __init__(self, device: "OpenClDevice", nbytes: int, block: _Block) -> None:
        self.device, self.nbytes, self._block = device, nbytes, block
        self.address, self.pointer = block.address, block.pointer
        self.mapped = False  # whether the memory is mapped, so that the host may use it between kernels
        self.serial = next(_serials)

    def __del__(self) -> None:
        if self.device.is_forked:
            return
        if self.mapped:
            self.unmap()
        block, pool = self._block, self.device.pool
        free = pool.free.get(block.size)
        if free is not None and len(free) * block.size < MOST_KEPT:  # a copy of Pool.give_back(), to avoid a function call
            free.append(block)
        else:
            pool.give_back(block)

    @property
    def handle(self) -> Optional[int]:
        return self._block.handle

    def launched(self) -> None:
        """Call this before a kernel in the device's own queue uses the memory."""
        self._block.launched = True
        self.use_in(None)

    def use_in(self, queue: Optional[Queue]) -> None:
        """Call this before work in `queue` uses the memory. That work then waits for earlier work in another queue. None means the device's own queue."""
        block = self._block
        if block.queue is not queue:
            self.device.order(block.queue, queue)
            block.queue = queue
        if queue is not None:
            block.launched = True
            self.serial = next(_serials)  # a new number, so that the next launch in the device's own queue calls launched()

    def start_copy(self, call: str, address: int, queue: Optional[Queue], kept: Any) -> "Event":
        """Starts a copy with clEnqueueWriteBuffer or clEnqueueReadBuffer. `address` is in host memory."""
        shared = self.mapped
        if shared:
            self.unmap()
            self.device.finish(None)
        self.use_in(queue)
        self._block.launched = True
        event, handle = c_void_p(), self.device.queue_handle(queue)
        self.device.check(call, getattr(self.device.cl, call)(handle, self.handle, 0, 0, self.nbytes, address, 0, None, byref(event)))
        self.device.cl.clFlush(handle)
        copy = Event(self.device, event.value or 0, (self, kept))
        if shared:
            copy.wait()
            self.map(wait=True)
        return copy

    def start_write(self, address: int, queue: Optional[Queue], kept: Any) -> "Event":
        return self.start_copy("clEnqueueWriteBuffer", address, queue, kept)

    def start_read(self, address: int, queue: Optional[Queue], kept: Any) -> "Event":
        return self.start_copy("clEnqueueReadBuffer", address, queue, kept)

    def write(self, address: int) -> None:
        """Copies from the host. Returns when the copy is complete."""
        self.use_in(None)
        mapped = self.mapped
        if mapped:
            self.unmap()
        self.device.check("clEnqueueWriteBuffer", self.device.cl.clEnqueueWriteBuffer(
            self.device.queue, self.handle, 1, 0, self.nbytes, address, 0, None, None))
        if mapped:
            self.map(wait=True)

    def read(self, address: int) -> None:
        """Copies to the host. All kernels that were launched before run first."""
        self.use_in(None)
        self.device.check("clEnqueueReadBuffer", self.device.cl.clEnqueueReadBuffer(
            self.device.queue, self.handle, 1, 0, self.nbytes, address, 0, None, None))

    def map(self, wait: bool) -> None:
        """Maps the memory, so that the host may access it at `address`. A launch unmaps it, because then a kernel may use it."""
        problem = c_int32()
        self.use_in(None)
        self.device.cl.clEnqueueMapBuffer(self.device.queue, self.handle, int(wait), _MAP_READ_WRITE, 0, max(self.nbytes, 1), 0, None, None,
                                          byref(problem))
        self.device.check("clEnqueueMapBuffer", problem.value)
        self.device.mapped.add(self.serial)
        self.mapped = True

    def unmap(self) -> None:
        self.device.cl.clEnqueueUnmapMemObject(self.device.queue, self.handle, self.address, 0, None, None)
        self.device.mapped.discard(self.serial)
        self.mapped = False


class _Launch(ctypes.Structure):
    """The struct `berth_opencl_launch` of berth.h."""

    _fields_ = [("enqueue", c_void_p), ("flush", c_void_p), ("queue", c_void_p), ("kernel", c_void_p), ("axes", c_size_t),
                ("total", c_size_t * 3), ("group", c_size_t * 3), ("event", c_void_p)]


def _launch_by_ctypes(pointer: int) -> int:
    """Does the same as berth_opencl_launch_run(), but with several calls from Python."""
    launch = _Launch.from_address(pointer)
    event = c_void_p()
    problem: int = _ENQUEUE(launch.enqueue)(launch.queue, launch.kernel, launch.axes, None, launch.total, launch.group, 0, None, byref(event))
    if not problem:
        launch.event = event.value
        _FLUSH(launch.flush)(launch.queue)
    return problem


_ENQUEUE = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_uint32, c_void_p, c_void_p, c_void_p, c_uint32, c_void_p, c_void_p)
_FLUSH = ctypes.CFUNCTYPE(c_int32, c_void_p)


def _launcher() -> Callable[[int], int]:
    """Returns the function that launches a kernel. With libberth, that is one call. Without it, it is two calls by ctypes, which take longer."""
    try:
        run = library().berth_opencl_launch_run
    except (BerthError, AttributeError):
        return _launch_by_ctypes
    run.restype, run.argtypes = c_int32, [c_void_p]
    return run


class Event:
    """A launched kernel or a started copy. `wait()` waits until it is done. `seconds` is its duration on the device."""

    __slots__ = ("_device", "_handle", "_kept")

    def __init__(self, device: "OpenClDevice", handle: int, kept: Any) -> None:
        self._device, self._handle, self._kept = device, handle, kept

    def __del__(self) -> None:
        if not self._device.is_forked:
            self._device.release_event(self._handle)

    def wait(self) -> "Event":
        """Waits until the kernel is done. Other threads continue."""
        self._device.check("clWaitForEvents", self._device.cl.clWaitForEvents(1, byref(c_void_p(self._handle))))
        self._kept = None
        return self

    def order(self, queue: Queue) -> None:
        """Makes work that is enqueued in the queue from now on wait for this kernel."""
        self._device.wait_in(queue, c_void_p(self._handle))

    @property
    def done(self) -> bool:
        """Whether the kernel is done; does not wait."""
        status = c_int32()
        self._device.check("clGetEventInfo", self._device.cl.clGetEventInfo(self._handle, _EVENT_STATUS, 4, byref(status), None))
        if status.value < 0:
            raise failed("clEnqueueNDRangeKernel", status.value)
        return status.value == _COMPLETE

    @property
    def seconds(self) -> float:
        """Duration of the kernel, measured by the device. Waits until the kernel is done."""
        self.wait()
        times = [c_uint64(), c_uint64()]
        for key, one in zip((_PROFILING_START, _PROFILING_END), times):
            self._device.check("clGetEventProfilingInfo", self._device.cl.clGetEventProfilingInfo(self._handle, key, 8, byref(one), None))
        return (times[1].value - times[0].value) * 1e-9


class Function:
    """A compiled kernel. The arguments are stored in this object, so only one thread at a time may set them and launch the kernel."""

    def __init__(self, device: "OpenClDevice", program: int, name: str) -> None:
        problem = c_int32()
        self._device = device
        self._handle = device.cl.clCreateKernel(program, name.encode(), byref(problem))
        device.check("clCreateKernel", problem.value)
        self._set, self._go = device.cl.clSetKernelArg, _launcher()
        self._launch = _Launch(ctypes.cast(device.cl.clEnqueueNDRangeKernel, c_void_p), ctypes.cast(device.cl.clFlush, c_void_p), device.queue, self._handle)
        self._pointer = ctypes.addressof(self._launch)
        self._sizes: Any = None  # the sizes that `_launch` contains now
        most = c_size_t()
        device.check("clGetKernelWorkGroupInfo", device.cl.clGetKernelWorkGroupInfo(
            self._handle, device.handle, _KERNEL_WORK_GROUP_SIZE, 8, byref(most), None))
        self.most_in_group = most.value

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and not self._device.is_forked:
            self._device.cl.clReleaseKernel(self._handle)

    def set_argument(self, index: int, size: int, pointer: Any) -> None:
        problem = self._set(self._handle, index, size, pointer)
        if problem:
            raise failed("clSetKernelArg", problem)

    def launch(self, memories: Sequence[Memory], sizes: Sizes) -> Event:
        """Launches the kernel. `sizes`: the number of work-items on each axis, in total and in a group."""
        device, launch = self._device, self._launch
        if sizes is not self._sizes:
            launch.total[:], launch.group[:] = ((*one, 1, 1)[:3] for one in sizes)
            launch.axes, self._sizes = len(sizes[0]), sizes
        if device.mapped or device.is_forked:
            return self._launch_shared(memories)
        problem = self._go(self._pointer)
        if problem:
            raise failed("clEnqueueNDRangeKernel", problem)
        return Event(device, launch.event, memories)

    def launch_in(self, queue: Queue, memories: Sequence[Memory], sizes: Sizes) -> Event:
        """Launches the kernel in the queue of a stream. If the host has mapped one of its arrays, waits until the kernel has finished."""
        device, launch = self._device, self._launch
        device.refuse_fork()
        launch.total[:], launch.group[:] = ((*one, 1, 1)[:3] for one in sizes)
        launch.axes, self._sizes = len(sizes[0]), sizes
        shared = [one for one in memories if one.mapped]
        for one in shared:
            one.unmap()
        if shared:
            device.finish(None)
        for one in memories:
            one.use_in(queue)
        launch.queue = queue.handle
        problem = self._go(self._pointer)
        launch.queue = device.queue
        if problem:
            raise failed("clEnqueueNDRangeKernel", problem)
        event = Event(device, launch.event, memories)
        if shared:
            event.wait()
            for one in shared:
                one.map(wait=True)
        return event

    def _launch_shared(self, memories: Sequence[Memory]) -> Event:
        """Launches the kernel although some of its arrays may be mapped: unmaps them, and maps them again after the kernel."""
        self._device.refuse_fork()
        shared = [one for one in memories if one.mapped]
        for one in shared:
            one.unmap()
        problem = self._go(self._pointer)
        for one in shared:
            one.map(wait=False)
        if problem:
            raise failed("clEnqueueNDRangeKernel", problem)
        return Event(self._device, self._launch.event, memories)


class OpenClDevice:
    """The first GPU of all OpenCL platforms. If there is none, the first other device, such as PoCL's CPU. If CUDA_VISIBLE_DEVICES hides all GPUs, only a
    CPU is used."""

    backend = "opencl"

    def __init__(self) -> None:
        self.cl = _library()
        self.release_event = self.cl.clReleaseEvent
        self.mapped: Set[int] = set()  # serial numbers of the memory that the host may use
        self.pool = Pool(self._new_block)
        self.is_forked = False  # whether this process is a child of the one that opened the device
        self.handle, self.kind = self._choose()
        self.is_cpu = bool(self.kind & _DEVICE_TYPE_CPU)
        self.name = self._info(self.handle, _DEVICE_NAME).rstrip(b"\0").decode("utf-8", "replace").strip()
        self.most_in_group = int.from_bytes(self._info(self.handle, _DEVICE_MAX_GROUP), "little")
        problem = c_int32()
        self.context = self.cl.clCreateContext(None, 1, byref(c_void_p(self.handle)), None, None, byref(problem))
        self.check("clCreateContext", problem.value)
        self.queue = self.cl.clCreateCommandQueue(self.context, self.handle, _QUEUE_PROFILING, byref(problem))
        self.check("clCreateCommandQueue", problem.value)
        _opened.append(self)

    def __str__(self) -> str:
        return f"{self.name} (OpenCL)"

    def check(self, call: str, code: int) -> None:
        if code:
            raise failed(call, code)

    def is_own_process(self) -> bool:
        """False in a forked child, where OpenCL does not work."""
        return not self.is_forked

    def refuse_fork(self) -> None:
        if self.is_forked:
            raise BerthError(text("this process was forked after its first kernel: {} does not work in it", "OpenCL"), "E0585",
                             "multiprocessing.set_start_method('spawn')")

    def new_queue(self) -> Queue:
        self.refuse_fork()
        return Queue(self)

    def queue_handle(self, queue: Optional[Queue]) -> Optional[int]:
        handle: Optional[int] = self.queue if queue is None else queue.handle
        return handle

    def finish(self, queue: Optional[Queue]) -> None:
        """Waits until all work in the queue is done. None means the device's own queue."""
        self.check("clFinish", self.cl.clFinish(self.queue_handle(queue)))

    def order(self, before: Optional[Queue], after: Optional[Queue]) -> None:
        """Makes work that is enqueued in `after` from now on wait for the work that is already in `before`."""
        event, first = c_void_p(), self.queue_handle(before)
        self.check("clEnqueueMarkerWithWaitList", self.cl.clEnqueueMarkerWithWaitList(first, 0, None, byref(event)))
        self.cl.clFlush(first)
        try:
            self.wait_in(after, event)
        finally:
            self.cl.clReleaseEvent(event)

    def wait_in(self, queue: Optional[Queue], event: Any) -> None:
        """Makes work that is enqueued in the queue from now on wait for the event."""
        self.check("clEnqueueBarrierWithWaitList", self.cl.clEnqueueBarrierWithWaitList(self.queue_handle(queue), 1, byref(event), None))

    def host_memory(self, nbytes: int) -> HostMemory:
        return HostMemory(self, nbytes)

    def _list(self, function: Any, *before: Any) -> List[int]:
        count = c_uint32()
        if function(*before, 0, None, byref(count)) or not count.value:
            return []
        found = (c_void_p * min(count.value, 64))()
        return [one for one in found if one] if function(*before, len(found), found, None) == 0 else []

    def _info(self, device: int, key: int) -> bytes:
        size = c_size_t()
        self.check("clGetDeviceInfo", self.cl.clGetDeviceInfo(device, key, 0, None, byref(size)))
        answer = ctypes.create_string_buffer(size.value)
        self.check("clGetDeviceInfo", self.cl.clGetDeviceInfo(device, key, size.value, answer, None))
        return answer.raw

    def _choose(self) -> Tuple[int, int]:
        found = []
        for platform in self._list(self.cl.clGetPlatformIDs):
            for device in self._list(self.cl.clGetDeviceIDs, platform, _DEVICE_TYPE_ALL):
                kind = int.from_bytes(self._info(device, _DEVICE_TYPE), "little")
                if any(self._info(device, _DEVICE_AVAILABLE)):
                    found.append((device, kind))
        # OpenCL ignores variables that hide GPUs, such as CUDA_VISIBLE_DEVICES. So if it hides all GPUs, skip them here.
        if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
            found = [one for one in found if one[1] & _DEVICE_TYPE_CPU]
        if not found:
            raise NoDevice(text("no OpenCL platform has a device here"), "E0581", _INSTALL)
        return min(found, key=lambda one: not one[1] & _DEVICE_TYPE_GPU)

    def compile(self, source: str, names: Sequence[str]) -> List[Function]:
        """Compiles the source and returns the kernels with these names."""
        whole = (OPENCL_HEADER + source).encode()
        problem = c_int32()
        program = self.cl.clCreateProgramWithSource(self.context, 1, byref(c_char_p(whole)), byref(c_size_t(len(whole))), byref(problem))
        self.check("clCreateProgramWithSource", problem.value)
        try:
            if self.cl.clBuildProgram(program, 1, byref(c_void_p(self.handle)), None, None, None):
                raise compile_error(source, self._build_log(program))
            return [Function(self, program, name) for name in names]
        finally:
            self.cl.clReleaseProgram(program)

    def _build_log(self, program: int) -> str:
        size = c_size_t()
        if self.cl.clGetProgramBuildInfo(program, self.handle, _PROGRAM_BUILD_LOG, 0, None, byref(size)):
            return ""
        log = ctypes.create_string_buffer(size.value + 1)
        self.cl.clGetProgramBuildInfo(program, self.handle, _PROGRAM_BUILD_LOG, size.value, log, None)
        return log.value.decode("utf-8", "replace")

    def allocate(self, nbytes: int) -> Memory:
        """Takes memory from the pool. The memory is not cleared."""
        pool = self.pool
        try:
            block = pool.free[1 << (nbytes - 1 | LEAST_POOLED - 1).bit_length()].pop()  # a copy of Pool.take(), to avoid a function call
            pool.reuses += 1
        except (KeyError, IndexError):
            block = pool.take(nbytes)
        return Memory(self, nbytes, block)

    def _new_block(self, size: int) -> _Block:
        return _Block(self, size)
