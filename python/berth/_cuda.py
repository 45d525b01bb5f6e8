"""Calls the CUDA driver and NVRTC by ctypes. Uses the first visible GPU with one stream of its own, and more streams on request. Loaded at the first use of
berth.kernel or berth.empty.

These calls have been tested only with the simulated driver and with a substitute for NVRTC, not on a GPU.
"""

from __future__ import annotations

import ctypes
import glob
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ._memory_pool import DeviceOutOfMemory, Pool
from ._opencl import Sizes, _serials
from .errors import BerthError, NoDevice
from .kernel_source import CUDA_HEADER, FILE, compile_error
from .language import text

__all__ = ["CudaDevice"]

_OUT_OF_MEMORY, _NOT_READY = 2, 600
_EVENT_DISABLE_TIMING = 2
_MAX_THREADS_PER_BLOCK, _CAPABILITY_MAJOR, _CAPABILITY_MINOR = 1, 75, 76
_FUNCTION_MAX_THREADS = 0
_INSTALL = "pip install nvidia-cuda-nvrtc-cu12"

_DRIVER: Dict[str, Sequence[Any]] = {
    "cuInit": [c_uint], "cuDriverGetVersion": [POINTER(c_int)], "cuDeviceGetCount": [POINTER(c_int)], "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDeviceGetName": [c_char_p, c_int, c_int], "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int], "cuCtxPushCurrent_v2": [c_void_p], "cuCtxPopCurrent_v2": [POINTER(c_void_p)],
    "cuGetErrorName": [c_int, POINTER(c_char_p)], "cuModuleLoadData": [POINTER(c_void_p), c_char_p],
    "cuModuleGetFunction": [POINTER(c_void_p), c_void_p, c_char_p], "cuFuncGetAttribute": [POINTER(c_int), c_int, c_void_p],
    "cuMemAlloc_v2": [POINTER(c_uint64), c_size_t], "cuMemFree_v2": [c_uint64], "cuMemcpyHtoD_v2": [c_uint64, c_void_p, c_size_t],
    "cuMemcpyDtoH_v2": [c_void_p, c_uint64, c_size_t], "cuStreamCreate": [POINTER(c_void_p), c_uint],
    "cuMemcpyHtoDAsync_v2": [c_uint64, c_void_p, c_size_t, c_void_p], "cuMemcpyDtoHAsync_v2": [c_void_p, c_uint64, c_size_t, c_void_p],
    "cuMemcpyDtoD_v2": [c_uint64, c_uint64, c_size_t], "cuMemAllocHost_v2": [POINTER(c_void_p), c_size_t], "cuMemFreeHost": [c_void_p],
    "cuStreamDestroy_v2": [c_void_p], "cuStreamSynchronize": [c_void_p], "cuStreamWaitEvent": [c_void_p, c_void_p, c_uint], "cuCtxSynchronize": [],
    "cuLaunchKernel": [c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p], "cuEventCreate": [POINTER(c_void_p), c_uint],
    "cuEventRecord": [c_void_p, c_void_p], "cuEventSynchronize": [c_void_p], "cuEventQuery": [c_void_p],
    "cuEventElapsedTime": [POINTER(c_float), c_void_p, c_void_p], "cuEventDestroy_v2": [c_void_p],
}
_NVRTC: Dict[str, Sequence[Any]] = {
    "nvrtcGetNumSupportedArchs": [POINTER(c_int)], "nvrtcGetSupportedArchs": [c_void_p],
    "nvrtcCreateProgram": [POINTER(c_void_p), c_char_p, c_char_p, c_int, c_void_p, c_void_p], "nvrtcDestroyProgram": [POINTER(c_void_p)],
    "nvrtcCompileProgram": [c_void_p, c_int, POINTER(c_char_p)], "nvrtcGetProgramLogSize": [c_void_p, POINTER(c_size_t)],
    "nvrtcGetProgramLog": [c_void_p, c_char_p], "nvrtcGetPTXSize": [c_void_p, POINTER(c_size_t)], "nvrtcGetPTX": [c_void_p, c_char_p],
    "nvrtcGetCUBINSize": [c_void_p, POINTER(c_size_t)], "nvrtcGetCUBIN": [c_void_p, c_char_p],
}


def _opened(path: str, functions: Dict[str, Sequence[Any]]) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    for name, parameters in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = c_int, parameters
    return library


def _nvrtc_files(driver_major: int) -> List[str]:
    """Paths where NVRTC may be: those of the CUDA toolkit and of this Python's wheels. The newest version that the driver supports comes first."""
    named = os.environ.get("BERTH_NVRTC_LIBRARY")
    if named:
        return [named]
    files = []
    for major in range(driver_major, 10, -1):
        name = f"libnvrtc.so.{'11.2' if major == 11 else major}"
        files.append(name)
        for place in ("nvidia/cuda_nvrtc/lib", f"nvidia/cu{major}/lib"):
            files += [path for folder in sys.path for path in glob.glob(os.path.join(glob.escape(folder), place, name))]
        files += glob.glob(f"/usr/local/cuda*/lib64/{name}")
    return files


class Queue:
    """An additional stream of the device. Created without flags, so a synchronous copy (cuMemcpyHtoD) waits for the work in it."""

    __slots__ = ("device", "handle")

    def __init__(self, device: "CudaDevice") -> None:
        self.device, self.handle = device, c_void_p()
        with device:
            device.check("cuStreamCreate", device.driver.cuStreamCreate(byref(self.handle), 0))

    def __del__(self) -> None:
        if self.handle and self.device.is_own_process():
            with self.device:
                self.device.driver.cuStreamDestroy_v2(self.handle)


class HostMemory:
    """Memory of this process that the GPU reads and writes directly."""

    def __init__(self, device: "CudaDevice", nbytes: int) -> None:
        self.device, self._pointer = device, c_void_p()
        with device:
            device.check("cuMemAllocHost", device.driver.cuMemAllocHost_v2(byref(self._pointer), max(nbytes, 1)))
        self.address: int = self._pointer.value or 0

    def __del__(self) -> None:
        if self._pointer and self.device.is_own_process():
            with self.device:
                self.device.driver.cuMemFreeHost(self._pointer)


class _Block:
    """A block of GPU memory. Its owner must call release()."""

    __slots__ = ("device", "size", "argument", "pointer", "queue")

    def __init__(self, device: "CudaDevice", size: int) -> None:
        self.device, self.size, self.argument = device, size, c_uint64()
        self.queue: Optional[Queue] = None  # the stream that used the block last; None: the device's own stream
        with device:
            device.check("cuMemAlloc", device.driver.cuMemAlloc_v2(byref(self.argument), max(size, 1)))
        self.pointer = byref(self.argument)

    def release(self) -> None:
        if self.device.is_own_process():
            with self.device:
                self.device.driver.cuMemFree_v2(self.argument)  # waits for the work that uses the memory


class Memory:
    """Memory of the GPU, which the host cannot read directly."""

    address: Optional[int] = None
    mapped = False

    def __init__(self, device: "CudaDevice", nbytes: int) -> None:
        self.device, self.nbytes = device, nbytes
        self._block: _Block = device.pool.take(nbytes)
        self.pointer, self._argument = self._block.pointer, self._block.argument
        self.serial = next(_serials)

    def __del__(self) -> None:
        if hasattr(self, "serial") and self.device.is_own_process():
            self.device.pool.give_back(self._block)

    @property
    def device_address(self) -> int:
        """The memory's address for other libraries. Waits until all work on the memory is done."""
        self.device.finish(self._block.queue)
        return int(self._argument.value)

    def map(self, wait: bool) -> None:
        raise NotImplementedError  # the host has no address for GPU memory

    def launched(self) -> None:
        """Call this before a kernel in the device's own stream uses the memory."""
        self.use_in(None)

    def use_in(self, queue: Optional[Queue]) -> None:
        """Call this before work in `queue` uses the memory. That work then waits for earlier work in another stream. None means the device's own stream."""
        if self._block.queue is not queue:
            self.device.order(self._block.queue, queue)
            self._block.queue = queue
        if queue is not None:
            self.serial = next(_serials)  # a new number, so that the next launch in the device's own stream calls launched()

    def start_write(self, address: int, queue: Optional[Queue], kept: Any) -> "Event":
        return self._start(queue, kept, "cuMemcpyHtoDAsync", lambda stream: self.device.driver.cuMemcpyHtoDAsync_v2(
            self._argument, address, self.nbytes, stream))

    def start_read(self, address: int, queue: Optional[Queue], kept: Any) -> "Event":
        return self._start(queue, kept, "cuMemcpyDtoHAsync", lambda stream: self.device.driver.cuMemcpyDtoHAsync_v2(
            address, self._argument, self.nbytes, stream))

    def _start(self, queue: Optional[Queue], kept: Any, call: str, copy: Callable[[c_void_p], int]) -> "Event":
        self.use_in(queue)
        stream = self.device.queue_handle(queue)
        with self.device:
            return self.device.between_events(stream, call, lambda: copy(stream), (self, kept))

    def write(self, address: int) -> None:
        with self.device:
            self.device.check("cuMemcpyHtoD", self.device.driver.cuMemcpyHtoD_v2(self._argument, address, self.nbytes))

    def write_from_device(self, address: int) -> None:
        """Copies from the memory of another library on the same GPU."""
        with self.device:
            self.device.check("cuCtxSynchronize", self.device.driver.cuCtxSynchronize())
            self.device.check("cuMemcpyDtoD", self.device.driver.cuMemcpyDtoD_v2(self._argument, address, self.nbytes))
            self.device.check("cuCtxSynchronize", self.device.driver.cuCtxSynchronize())

    def read(self, address: int) -> None:
        with self.device:
            self.device.check("cuMemcpyDtoH", self.device.driver.cuMemcpyDtoH_v2(address, self._argument, self.nbytes))


class Event:
    """A launched kernel or a started copy. Has the same methods as Event in _opencl.py."""

    __slots__ = ("_device", "_start", "_end", "_kept")

    def __init__(self, device: "CudaDevice", start: c_void_p, end: c_void_p, kept: Any) -> None:
        self._device, self._start, self._end, self._kept = device, start, end, kept

    def __del__(self) -> None:
        if self._device.is_own_process():
            with self._device:
                for one in (self._start, self._end):
                    self._device.driver.cuEventDestroy_v2(one)

    def wait(self) -> "Event":
        """Waits until the kernel is done. Other threads continue."""
        with self._device:
            self._device.check("cuEventSynchronize", self._device.driver.cuEventSynchronize(self._end))
        self._kept = None
        return self

    def order(self, queue: Queue) -> None:
        """Makes work that is added to the stream from now on wait for this kernel."""
        with self._device:
            self._device.check("cuStreamWaitEvent", self._device.driver.cuStreamWaitEvent(queue.handle, self._end, 0))

    @property
    def done(self) -> bool:
        """Whether the kernel is done; does not wait."""
        with self._device:
            status = self._device.driver.cuEventQuery(self._end)
        self._device.check("cuEventQuery", 0 if status == _NOT_READY else status)
        return bool(status != _NOT_READY)

    @property
    def seconds(self) -> float:
        """Duration of the kernel, measured by the device. Waits until the kernel is done."""
        self.wait()
        milliseconds = c_float()
        with self._device:
            self._device.check("cuEventElapsedTime", self._device.driver.cuEventElapsedTime(byref(milliseconds), self._start, self._end))
        return milliseconds.value * 1e-3


class Function:
    """A compiled kernel. The arguments are stored in this object, so only one thread at a time may set them and launch the kernel."""

    def __init__(self, device: "CudaDevice", module: c_void_p, name: str) -> None:
        self._device, self._module, self._handle = device, module, c_void_p()
        device.check("cuModuleGetFunction", device.driver.cuModuleGetFunction(byref(self._handle), module, name.encode()))
        most = c_int()  # the most threads in a group: less than the device's limit if the kernel needs many registers
        known = device.driver.cuFuncGetAttribute(byref(most), _FUNCTION_MAX_THREADS, self._handle) == 0
        self.most_in_group = most.value if known else device.most_in_group
        self._arguments = (c_void_p * 256)()

    def set_argument(self, index: int, _size: int, pointer: Any) -> None:
        self._arguments[index] = ctypes.cast(pointer, c_void_p)

    def launch(self, memories: Sequence[Any], sizes: Sizes) -> Event:
        """Launches the kernel. `sizes`: the number of work-items on each axis, in total and in a group."""
        return self._launch(self._device.stream, memories, sizes)

    def launch_in(self, queue: Queue, memories: Sequence[Any], sizes: Sizes) -> Event:
        """Launches the kernel in a stream."""
        self._device.refuse_fork()
        for one in memories:
            one.use_in(queue)
        return self._launch(queue.handle, memories, sizes)

    def _launch(self, stream: c_void_p, memories: Sequence[Any], sizes: Sizes) -> Event:
        total, group = ((*one, 1, 1)[:3] for one in sizes)
        device = self._device
        device.refuse_fork()
        blocks = [whole // by for whole, by in zip(total, group)]
        with device:
            return device.between_events(stream, "cuLaunchKernel", lambda: device.driver.cuLaunchKernel(
                self._handle, *blocks, *group, 0, stream, self._arguments, None), memories)


class CudaDevice:
    """The first visible GPU, with its primary context, which frameworks also use. `with device:` makes that context current."""

    backend = "cuda"
    is_cpu = False

    def __init__(self) -> None:
        try:
            self.driver = _opened("libcuda.so.1", _DRIVER)
        except (OSError, AttributeError) as why:
            raise NoDevice(text("CUDA cannot be used: {}", why), "E0581", "berth doctor") from why
        self._process = os.getpid()
        number, count, version = c_int(), c_int(), c_int()
        self.check("cuInit", self.driver.cuInit(0))
        self.check("cuDeviceGetCount", self.driver.cuDeviceGetCount(byref(count)))
        if not count.value:
            raise NoDevice(text("CUDA sees no GPU here"), "E0581", "berth doctor")
        self.check("cuDriverGetVersion", self.driver.cuDriverGetVersion(byref(version)))
        self._nvrtc = self._compiler(version.value // 1000)
        self.check("cuDeviceGet", self.driver.cuDeviceGet(byref(number), 0))
        name = ctypes.create_string_buffer(256)
        self.check("cuDeviceGetName", self.driver.cuDeviceGetName(name, len(name), number))
        self.name = name.value.decode("utf-8", "replace")
        self.most_in_group = self._attribute(number, _MAX_THREADS_PER_BLOCK)
        self._capability = 10 * self._attribute(number, _CAPABILITY_MAJOR) + self._attribute(number, _CAPABILITY_MINOR)
        self._context, self.stream = c_void_p(), c_void_p()
        self.check("cuDevicePrimaryCtxRetain", self.driver.cuDevicePrimaryCtxRetain(byref(self._context), number))
        with self:
            self.check("cuStreamCreate", self.driver.cuStreamCreate(byref(self.stream), 0))
        self.pool = Pool(self._new_block)

    def __str__(self) -> str:
        return f"{self.name} (CUDA)"

    def __enter__(self) -> "CudaDevice":
        self.check("cuCtxPushCurrent", self.driver.cuCtxPushCurrent_v2(self._context))
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.cuCtxPopCurrent_v2(byref(c_void_p()))

    def is_own_process(self) -> bool:
        """False in a forked child, where CUDA does not work."""
        return os.getpid() == self._process

    def refuse_fork(self) -> None:
        if not self.is_own_process():
            raise BerthError(text("this process was forked after its first kernel: {} does not work in it", "CUDA"), "E0585",
                             "multiprocessing.set_start_method('spawn')")

    def new_queue(self) -> Queue:
        self.refuse_fork()
        return Queue(self)

    def queue_handle(self, queue: Optional[Queue]) -> c_void_p:
        return self.stream if queue is None else queue.handle

    def finish(self, queue: Optional[Queue]) -> None:
        """Waits until all work in the stream is done. None means the device's own stream."""
        with self:
            self.check("cuStreamSynchronize", self.driver.cuStreamSynchronize(self.queue_handle(queue)))

    def order(self, before: Optional[Queue], after: Optional[Queue]) -> None:
        """Makes work that is added to `after` from now on wait for the work that is already in `before`."""
        event = c_void_p()
        with self:
            self.check("cuEventCreate", self.driver.cuEventCreate(byref(event), _EVENT_DISABLE_TIMING))
            self.check("cuEventRecord", self.driver.cuEventRecord(event, self.queue_handle(before)))
            self.check("cuStreamWaitEvent", self.driver.cuStreamWaitEvent(self.queue_handle(after), event, 0))
            self.driver.cuEventDestroy_v2(event)

    def between_events(self, stream: c_void_p, call: str, enqueue: Callable[[], int], kept: Any) -> Event:
        """Adds work to the stream, between two events that measure its duration."""
        start, end = c_void_p(), c_void_p()
        for one in (start, end):
            self.check("cuEventCreate", self.driver.cuEventCreate(byref(one), 0))
        self.check("cuEventRecord", self.driver.cuEventRecord(start, stream))
        self.check(call, enqueue())
        self.check("cuEventRecord", self.driver.cuEventRecord(end, stream))
        return Event(self, start, end, kept)

    def host_memory(self, nbytes: int) -> HostMemory:
        return HostMemory(self, nbytes)

    def check(self, call: str, code: int) -> None:
        if not code:
            return
        name = c_char_p()
        self.driver.cuGetErrorName(code, byref(name))
        said = text("{} failed: {}", call, (name.value or b"").decode() or code)
        raise DeviceOutOfMemory(said, hint="berth ps") if code == _OUT_OF_MEMORY else BerthError(said, "E0585", "berth doctor")

    def _attribute(self, number: c_int, which: int) -> int:
        value = c_int()
        self.check("cuDeviceGetAttribute", self.driver.cuDeviceGetAttribute(byref(value), which, number))
        return value.value

    def _compiler(self, driver_major: int) -> ctypes.CDLL:
        for path in _nvrtc_files(driver_major):
            try:
                return _opened(path, _NVRTC)
            except (OSError, AttributeError):
                continue
        raise NoDevice(text("NVRTC, CUDA's compiler, is not installed"), "E0581", _INSTALL)

    def _architecture(self) -> str:
        """The architecture to compile for. If NVRTC knows this GPU: machine code (sm_…). If not: PTX (compute_…), which the driver compiles."""
        count = c_int()
        if self._nvrtc.nvrtcGetNumSupportedArchs(byref(count)) or not 0 < count.value < 1000:
            return f"compute_{self._capability}"
        known = (c_int * count.value)()
        self._nvrtc.nvrtcGetSupportedArchs(known)
        fitting = [one for one in known if one <= self._capability]
        return f"sm_{self._capability}" if self._capability in fitting else f"compute_{max(fitting, default=self._capability)}"

    def compile(self, source: str, names: Sequence[str]) -> List[Function]:
        """Compiles the source and returns the kernels with these names."""
        program, nvrtc, architecture = c_void_p(), self._nvrtc, self._architecture()
        # Without contraction of a*b+c, results have the same bits as with OPENCL_HEADER.
        options = (c_char_p * 2)(f"--gpu-architecture={architecture}".encode(), b"--fmad=false")
        self._of_nvrtc("nvrtcCreateProgram", nvrtc.nvrtcCreateProgram(byref(program), (CUDA_HEADER + source).encode(), FILE.encode(), 0, None, None))
        try:
            if nvrtc.nvrtcCompileProgram(program, len(options), options):
                raise compile_error(source, self._text(program, "nvrtcGetProgramLog").decode("utf-8", "replace"))
            code = self._text(program, "nvrtcGetCUBIN" if architecture.startswith("sm_") else "nvrtcGetPTX")
        finally:
            nvrtc.nvrtcDestroyProgram(byref(program))
        module = c_void_p()
        with self:
            self.check("cuModuleLoadData", self.driver.cuModuleLoadData(byref(module), code))
            return [Function(self, module, name) for name in names]

    def _text(self, program: c_void_p, call: str) -> bytes:
        size = c_size_t()
        self._of_nvrtc(call, getattr(self._nvrtc, f"{call}Size")(program, byref(size)))
        answer = ctypes.create_string_buffer(size.value + 1)
        self._of_nvrtc(call, getattr(self._nvrtc, call)(program, answer))
        return answer.raw[:size.value] if call == "nvrtcGetCUBIN" else answer.value

    @staticmethod
    def _of_nvrtc(call: str, code: int) -> None:
        if code:
            raise BerthError(text("{} failed: {}", call, code), "E0585", "berth doctor")

    def allocate(self, nbytes: int) -> Memory:
        """Takes memory from the pool. The memory is not cleared."""
        return Memory(self, nbytes)

    def _new_block(self, size: int) -> _Block:
        return _Block(self, size)
