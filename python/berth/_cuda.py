"""Calls CUDA's driver and NVRTC by ctypes: the first visible GPU, one stream. Loaded at the first use of berth.kernel or berth.empty.

These calls have been tested only with the simulated driver and with a substitute for NVRTC, not on a GPU.
"""

from __future__ import annotations

import ctypes
import glob
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ._opencl import DeviceOutOfMemory, Sizes, _serials
from .errors import BerthError, NoDevice
from .kernel_source import CUDA_HEADER, FILE, compile_error
from .language import text

__all__ = ["CudaDevice"]

_OUT_OF_MEMORY, _NOT_READY = 2, 600
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
    """Paths where NVRTC may be: those of the toolkit and of this Python's wheels. The newest one that the driver can load comes first."""
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


class Memory:
    """Memory of the GPU, which the host cannot read directly."""

    address: Optional[int] = None
    mapped = False

    def __init__(self, device: "CudaDevice", nbytes: int) -> None:
        self.device, self.nbytes = device, nbytes
        self._argument = c_uint64()
        with device:
            device.check("cuMemAlloc", device.driver.cuMemAlloc_v2(byref(self._argument), max(nbytes, 1)))
        self.pointer = byref(self._argument)
        self.serial = next(_serials)

    def __del__(self) -> None:
        if self._argument.value and self.device.is_own_process():
            with self.device:
                self.device.driver.cuMemFree_v2(self._argument)

    def map(self, wait: bool) -> None:
        raise NotImplementedError  # this process has no address for such memory

    def launched(self) -> None:
        """Called before a kernel uses it."""

    def write(self, address: int) -> None:
        with self.device:
            self.device.check("cuMemcpyHtoD", self.device.driver.cuMemcpyHtoD_v2(self._argument, address, self.nbytes))

    def read(self, address: int) -> None:
        with self.device:
            self.device.check("cuMemcpyDtoH", self.device.driver.cuMemcpyDtoH_v2(address, self._argument, self.nbytes))


class Event:
    """A launched kernel, with the same methods as OpenCL's Event."""

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

    @property
    def done(self) -> bool:
        """Whether the kernel is done; does not wait."""
        with self._device:
            status = self._device.driver.cuEventQuery(self._end)
        self._device.check("cuEventQuery", 0 if status == _NOT_READY else status)
        return bool(status != _NOT_READY)

    @property
    def seconds(self) -> float:
        """How long the kernel ran, measured by the device's clock. Waits until it is done."""
        self.wait()
        milliseconds = c_float()
        with self._device:
            self._device.check("cuEventElapsedTime", self._device.driver.cuEventElapsedTime(byref(milliseconds), self._start, self._end))
        return milliseconds.value * 1e-3


class Function:
    """A compiled kernel. It keeps its arguments, so only one thread at a time may set them and launch it."""

    def __init__(self, device: "CudaDevice", module: c_void_p, name: str) -> None:
        self._device, self._module, self._handle = device, module, c_void_p()
        device.check("cuModuleGetFunction", device.driver.cuModuleGetFunction(byref(self._handle), module, name.encode()))
        most = c_int()  # less than the device's limit if the kernel needs many registers
        known = device.driver.cuFuncGetAttribute(byref(most), _FUNCTION_MAX_THREADS, self._handle) == 0
        self.most_in_group = most.value if known else device.most_in_group
        self._arguments = (c_void_p * 256)()

    def set_argument(self, index: int, _size: int, pointer: Any) -> None:
        self._arguments[index] = ctypes.cast(pointer, c_void_p)

    def launch(self, memories: Sequence[Any], sizes: Sizes) -> Event:
        """Launches the kernel. `sizes`: of the whole and of a group."""
        total, group = ((*one, 1, 1)[:3] for one in sizes)
        device, driver = self._device, self._device.driver
        if not device.is_own_process():
            raise BerthError(text("this process was forked after its first kernel: {} does not work in it", "CUDA"), "E0585",
                             "multiprocessing.set_start_method('spawn')")
        start, end = c_void_p(), c_void_p()
        blocks = [whole // by for whole, by in zip(total, group)]
        with device:
            for one in (start, end):
                device.check("cuEventCreate", driver.cuEventCreate(byref(one), 0))
            device.check("cuEventRecord", driver.cuEventRecord(start, device.stream))
            device.check("cuLaunchKernel", driver.cuLaunchKernel(self._handle, *blocks, *group, 0, device.stream, self._arguments, None))
            device.check("cuEventRecord", driver.cuEventRecord(end, device.stream))
        return Event(device, start, end, memories)


class CudaDevice:
    """The first visible GPU, with the primary context that frameworks use too. `with device:` makes it the current one."""

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
        """The architecture to compile for. The result is machine code for this GPU. If NVRTC is older than the GPU, the result is PTX,
        which the GPU's driver compiles."""
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
        return Memory(self, nbytes)
