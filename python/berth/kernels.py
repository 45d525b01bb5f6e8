"""Compiles, launches and times your own kernels through CUDA or OpenCL. Arrays have no operators and no gradients."""

from __future__ import annotations

import array
import ctypes
import functools
import importlib
import math
import operator
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _dlpack
from ._cuda import CudaDevice
from ._memory_pool import DeviceOutOfMemory
from ._opencl import Event, OpenClDevice, Sizes
from .errors import BerthError, InvalidRequest, Unsupported
from .kernel_source import KernelCompileError, Parameter, kernels_of
from .language import text

__all__ = ["Array", "DeviceOutOfMemory", "Event", "Kernel", "KernelCompileError", "asarray", "empty", "kernel"]

_KINDS = {**dict.fromkeys("bhilq", 0), **dict.fromkeys("BHILQ", 1), **dict.fromkeys("fd", 2)}  # the kind in DLPack for each format character of memoryview
_GROUPS = {1: (256,), 2: (16, 16), 3: (8, 8, 4)}
Shape = Union[int, Sequence[int]]


# The types of a back end. kernels.py uses only methods that both OpenClDevice and CudaDevice have.
_Device = Union[OpenClDevice, CudaDevice]
_starting = threading.Lock()


@functools.lru_cache(maxsize=None)
def _opencl() -> OpenClDevice:
    return OpenClDevice()


@functools.lru_cache(maxsize=None)
def _cuda() -> CudaDevice:
    return CudaDevice()


@functools.lru_cache(maxsize=None)
def _auto() -> _Device:
    try:
        return _cuda()
    except BerthError:  # there is no driver, no GPU or no compiler for CUDA
        return _opencl()


_BACKENDS: Dict[str, Callable[[], _Device]] = {"auto": _auto, "cuda": _cuda, "opencl": _opencl}


_started: Dict[str, _Device] = {}


def _device(backend: str) -> _Device:
    if backend not in _BACKENDS:
        raise InvalidRequest(text("{}: {!r} is not one of {}", "backend", backend, ", ".join(_BACKENDS)), "E0003")
    with _starting:  # without the lock, two threads would open two devices
        device = _started[backend] = _BACKENDS[backend]()
        return device


def _sizes(name: str, given: Shape, least: int) -> Tuple[int, ...]:
    if type(given) is int and least <= given < 1 << 62:
        return (given,)
    try:
        sizes = tuple(operator.index(one) for one in given) if isinstance(given, (tuple, list)) else (operator.index(given),)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidRequest(text("{}: {!r} is not a whole number", name, given), "E0104") from None
    if any(one < least or one >= 1 << 62 for one in sizes):
        raise InvalidRequest(text("{}: {!r} is not a whole number of at least {}", name, given, least), "E0104")
    return sizes


class Array:
    """Numbers in the memory of a device: one block with a shape and a type. Create one with `berth.empty` or `berth.asarray`."""

    __slots__ = ("_memory", "shape", "dtype", "__weakref__")

    def __init__(self, memory: Any, shape: Tuple[int, ...], dtype: str) -> None:
        self._memory = memory
        self.shape: Tuple[int, ...] = shape
        self.dtype: str = dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return int(self._memory.nbytes)

    @property
    def device(self) -> str:
        """The name of the device."""
        return str(self._memory.device)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<berth.Array {self.dtype} {self.shape} on {self.device}>"

    def tobytes(self) -> bytes:
        """A copy of all bytes. Waits for all kernels that were launched before."""
        host = ctypes.create_string_buffer(max(self.nbytes, 1))
        if self.nbytes:
            self._memory.read(ctypes.addressof(host))
        return host.raw[:self.nbytes]

    def tolist(self) -> List[Any]:
        """Returns the numbers as a flat list."""
        return array.array(_dlpack.DTYPES[self.dtype][2], self.tobytes()).tolist()

    def numpy(self) -> Any:
        """A copy as a NumPy array."""
        numpy = importlib.import_module("numpy")
        out = numpy.empty(self.shape, self.dtype)
        if self.nbytes:
            self._memory.read(out.ctypes.data)
        return out

    def copy_from(self, x: Any) -> "Array":
        """Overwrites all numbers with the numbers of `x`, which must have the same shape and type."""
        data = _host_data(x, self.dtype)
        if data.shape != self.shape or data.dtype != self.dtype:
            raise InvalidRequest(text("an array of {} {} cannot take one of {} {}", self.dtype, self.shape, data.dtype, data.shape), "E0582")
        if self.nbytes:
            self._memory.write(data.address)
        return self

    def start_copy_from(self, host: Any, stream: Any = None) -> Event:
        """Starts to overwrite all numbers with those in memory from `berth.pinned`, which must have the same shape and type. Returns without waiting. Do
        not change that memory until the returned event is done."""
        return _streams().start_copy(self, host, stream, True)  # type: ignore[no-any-return]

    def start_copy_to(self, host: Any, stream: Any = None) -> Event:
        """Starts a copy to memory from `berth.pinned`. Returns without waiting. Do not read that memory until the returned event is done."""
        return _streams().start_copy(self, host, stream, False)  # type: ignore[no-any-return]

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        """Describes the memory, so that CuPy, Numba and others can share it. Waits for the work on the array. If a kernel runs later, the other library
        sees its changes."""
        if self._memory.device.backend != "cuda":
            raise AttributeError("__cuda_array_interface__")
        (code, bits), _, _ = _dlpack.DTYPES[self.dtype]
        return {"shape": self.shape, "typestr": f"<{'iuf'[code]}{bits // 8}", "data": (self._memory.device_address, False), "strides": None, "version": 3}

    def __dlpack_device__(self) -> Tuple[int, int]:
        if self._memory.device.backend == "cuda":
            return (_dlpack.CUDA, 0)
        self._address()
        return (_dlpack.CPU, 0)

    def __dlpack__(self, **_: Any) -> Any:
        """Shares the memory with NumPy, PyTorch and other libraries, without a copy. A kernel that runs later changes the memory, so wait for its
        event before you read."""
        if self._memory.device.backend == "cuda":
            return _dlpack.capsule_of(self._memory.device_address, self.shape, self.dtype, self._memory, _dlpack.CUDA)
        address = self._address()
        if not self._memory.mapped:
            self._memory.map(wait=True)
        return _dlpack.capsule_of(address, self.shape, self.dtype, self._memory)

    def _address(self) -> int:
        address: Optional[int] = self._memory.address
        if address is None:
            raise BufferError(text("the memory of {} cannot be shared through DLPack: x.numpy() copies it", self.device))
        return address


def _streams() -> Any:
    return importlib.import_module(".streams", __package__)


def _on_this_gpu(x: Any, backend: str) -> Optional[_dlpack.HostData]:
    """Describes another library's array if it is on the GPU that runs CUDA kernels. If not, returns None."""
    if isinstance(x, Array) or not _dlpack.is_on_first_gpu(x) or backend == "opencl":
        return None
    device = _device(backend)
    if not isinstance(device, CudaDevice):
        return None
    if hasattr(x, "__dlpack__"):
        return _dlpack.from_capsule(x.__dlpack__(stream=device.stream.value))
    return _dlpack.from_cuda_interface(x.__cuda_array_interface__, x)


def _host_data(x: Any, dtype: Optional[str]) -> _dlpack.HostData:
    """Describes another library's array in host memory. Copies the numbers only if that is necessary."""
    if isinstance(x, Array):
        return _of_bytes(x.tobytes(), x.shape, x.dtype)
    elsewhere = _dlpack.device_of(x)
    if elsewhere:
        raise InvalidRequest(text("the array is on another device: {}", elsewhere), "E0583", "x.cpu(); x.get(); jax.device_get(x)")
    try:
        view = memoryview(x)
    except TypeError:
        return _without_buffer(x, dtype)
    name = _dlpack.BY_CODE.get((_KINDS.get(view.format.lstrip("@=<"), -1), 8 * view.itemsize))
    if name is None:
        raise Unsupported(text("numbers of the format {!r} have no kernel type", view.format), "E0582", "x.astype('float32')")
    if not view.c_contiguous:
        raise _dlpack.not_contiguous()
    shape = tuple(view.shape or ())
    if view.readonly or not view.nbytes:
        return _of_bytes(view.tobytes(), shape, name)
    whole = (ctypes.c_char * view.nbytes).from_buffer(view.cast("B"))
    return _dlpack.HostData(ctypes.addressof(whole), view.nbytes, shape, name, whole)


def _of_bytes(copy: bytes, shape: Tuple[int, ...], dtype: str) -> _dlpack.HostData:
    held = ctypes.create_string_buffer(copy, max(len(copy), 1))
    return _dlpack.HostData(ctypes.addressof(held), len(copy), tuple(shape), dtype, held)


def _without_buffer(x: Any, dtype: Optional[str]) -> _dlpack.HostData:
    if hasattr(x, "__dlpack__"):
        try:
            return _dlpack.from_capsule(x.__dlpack__())
        except (RuntimeError, BufferError, TypeError, ValueError) as why:
            if isinstance(why, (InvalidRequest, Unsupported)):
                raise
            raise InvalidRequest(text("the array does not support DLPack: {}", why), "E0582", "x.detach()") from why
    if isinstance(x, (list, tuple, range)):
        try:
            numbers = array.array(_dlpack.DTYPES[dtype or "float32"][2], x)
        except (TypeError, OverflowError) as why:
            raise InvalidRequest(text("the list cannot become {}: {}", dtype or "float32", why), "E0582") from why
        return _of_bytes(numbers.tobytes(), (len(numbers),), dtype or "float32")
    raise InvalidRequest(text("a {} is not an array", type(x).__name__), "E0582", "berth.asarray(numpy.asarray(x))")


def _known(dtype: Any) -> str:
    name = str(getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype).rsplit(".", 1)[-1]
    if name not in _dlpack.DTYPES:
        raise InvalidRequest(text("{}: {!r} is not one of {}", "dtype", dtype, ", ".join(_dlpack.DTYPES)), "E0003")
    return name


def empty(shape: Shape, dtype: Any = "float32", backend: str = "auto") -> Array:
    """Creates an array without setting its numbers.

    Parameters
    ----------
    shape : int or sequence of int
        The sizes of the axes.
    dtype : str or NumPy type
        int8 to uint64, float32 or float64.
    backend : {"auto", "cuda", "opencl"}
        As in `kernel`.
    """
    sizes = _sizes("shape", shape, 0)
    name = dtype if type(dtype) is str and dtype in _dlpack.DTYPES else _known(dtype)
    nbytes = math.prod(sizes) * _dlpack.DTYPES[name][1]
    if nbytes >= 1 << 62:
        raise DeviceOutOfMemory(text("there is not enough memory for {} bytes", nbytes))
    return Array((_started.get(backend) or _device(backend)).allocate(nbytes), sizes, name)


def asarray(x: Any, dtype: Any = None, backend: str = "auto") -> Array:
    """Copies an array to the device: one of NumPy, of PyTorch on the CPU, or of anything with a buffer or DLPack, or a list of numbers. With CUDA,
    the array of another library may also be on the same GPU.

    Parameters
    ----------
    x : array or sequence of numbers
        In C order. An `Array` is returned as it is.
    dtype : str, optional
        The type for a list of numbers; float32 by default. Arrays keep their type.
    backend : {"auto", "cuda", "opencl"}
        As in `kernel`.

    Raises
    ------
    InvalidRequest
        `x` is on another device (E0583), has gaps in memory or is not an array (E0582).
    """
    if isinstance(x, Array):
        if dtype is not None and x.dtype != _known(dtype):
            raise InvalidRequest(text("the array has numbers of {}, not of {}", x.dtype, _known(dtype)), "E0582",
                                 f"berth.asarray(x.numpy().astype({_known(dtype)!r}))")
        return x
    on_gpu = _on_this_gpu(x, backend)
    data = on_gpu or _host_data(x, None if dtype is None else _known(dtype))
    if dtype is not None and data.dtype != _known(dtype):
        raise InvalidRequest(text("the array has numbers of {}, not of {}", data.dtype, _known(dtype)), "E0582", f"x.astype({_known(dtype)!r})")
    out = empty(data.shape, data.dtype, backend)
    if data.nbytes:
        (out._memory.write if on_gpu is None else out._memory.write_from_device)(data.address)
    return out


_POINTER_SIZE = ctypes.sizeof(ctypes.c_void_p)


_NOTHING = object()  # a value that no argument is identical to


class _Slot:
    """A parameter of a kernel, with the argument that was passed last."""

    __slots__ = ("index", "parameter", "is_array", "kind", "value", "pointer", "size", "serial", "last")

    def __init__(self, index: int, parameter: Parameter) -> None:
        self.index, self.parameter, self.is_array = index, parameter, parameter.is_array
        self.kind = float if parameter.dtype.startswith("float") else int
        self.value = parameter.ctype()
        self.pointer, self.size = ctypes.byref(self.value), ctypes.sizeof(self.value)
        self.serial = 0  # serial number of the memory that was passed last
        self.last: Any = _NOTHING  # the number that is set as the argument


def _unchanging(size: Optional[Shape]) -> Optional[Shape]:
    """Copies a list, because the caller may change it before the next call. Other sizes are returned as they are."""
    return size[:] if isinstance(size, list) else size


class Kernel:
    """A compiled kernel. A call launches the kernel and returns an `Event` without waiting.

    Attributes
    ----------
    name : str
    parameters : list of Parameter
        The parameters in the order of the source.
    """

    def __init__(self, name: str, parameters: List[Parameter], function: Any, device: _Device) -> None:
        self.name, self.parameters = name, parameters
        self._function, self._device = function, device
        self._most: int = min(function.most_in_group, device.most_in_group) or 1
        self._defaults: Dict[int, Tuple[int, ...]] = {axes: self._fitting(group) for axes, group in _GROUPS.items()}
        self._slots = [_Slot(index, one) for index, one in enumerate(parameters)]
        self._lock = threading.Lock()  # protects the arguments until the kernel is launched
        # size and group of the previous call, and the launch sizes that were computed from them
        self._sized: Tuple[Any, Any, Any] = (None, None, None)

    def __repr__(self) -> str:
        return f"<berth.Kernel {self.name}({', '.join(one.type + ('*' if one.is_array else '') + ' ' + one.name for one in self.parameters)})>"

    def _fitting(self, group: Tuple[int, ...]) -> Tuple[int, ...]:
        while math.prod(group) > self._most:
            largest = max(range(len(group)), key=group.__getitem__)
            group = tuple(one // 2 if axis == largest else one for axis, one in enumerate(group))
        return group

    def __call__(self, *arguments: Any, size: Shape, group: Optional[Shape] = None, stream: Any = None) -> Event:
        """Launches the kernel.

        Parameters
        ----------
        *arguments
            One for each parameter: an `Array` for `GLOBAL float* x`, a number for `float x`.
        size : int or sequence of up to three int
            The number of work-items on each axis. It is rounded up to a multiple of the group size, so the kernel must compare `GLOBAL_ID` with the true
            size.
        group : int or sequence of int, optional
            The number of work-items on each axis that share LOCAL memory and BARRIER(). The default is 256, 16×16 or 8×8×4, or less if the device does not
            support so many.
        stream : Stream, optional
            The stream in which the kernel runs. Kernels without a stream run one after another.
        """
        if len(arguments) != len(self._slots):
            raise InvalidRequest(text("kernel {} takes {} arguments, not {}", self.name, len(self._slots), len(arguments)), "E0582", repr(self))
        last_size, last_group, sizes = self._sized
        if (size is not last_size or group is not last_group) and (size != last_size or group != last_group or type(size) is not type(last_size)):
            sizes = self._launch_sizes(size, group)
            self._sized = (_unchanging(size), _unchanging(group), sizes)
        memories = []
        with self._lock:
            for slot, value in zip(self._slots, arguments):
                if value is slot.last:  # the number that is set
                    continue
                if type(value) is Array:
                    memory = value._memory
                    if memory.serial != slot.serial:
                        self._set_array(slot, value)
                    memories.append(memory)
                else:
                    self._set_number(slot, value)
            if stream is not None:
                return self._launch_in(stream, memories, sizes)
            event: Event = self._function.launch(memories, sizes)
            return event

    def _launch_in(self, stream: Any, memories: List[Any], sizes: Sizes) -> Event:
        queue = _streams().queue_of(stream, self._device)
        for slot in self._slots:
            slot.serial = 0  # so that a later launch without a stream calls launched(), which makes it wait for this launch
        event: Event = self._function.launch_in(queue, memories, sizes)
        return event

    def _set_array(self, slot: _Slot, array: Array) -> None:
        memory = array._memory
        if not slot.is_array:
            raise self._mismatch(slot.parameter, text("a {}", type(array).__name__))
        if array.dtype != slot.parameter.dtype or memory.device is not self._device:
            raise self._no_array(slot.parameter, array)
        slot.serial = 0
        self._function.set_argument(slot.index, _POINTER_SIZE, memory.pointer)
        memory.launched()
        slot.serial = memory.serial

    def _set_number(self, slot: _Slot, value: Any) -> None:
        if slot.is_array:
            raise self._no_array(slot.parameter, value)
        number = value if type(value) is slot.kind else self._number(slot.parameter, value)
        if number == slot.last and number:  # a zero is always set again, because it may be -0.0
            return
        slot.last = _NOTHING
        slot.value.value = number
        if slot.kind is int and slot.value.value != number:
            raise self._mismatch(slot.parameter, str(number))
        self._function.set_argument(slot.index, slot.size, slot.pointer)
        slot.last = number

    def _launch_sizes(self, size: Shape, group: Optional[Shape]) -> Sizes:
        total = _sizes("size", size, 1)
        groups = self._defaults.get(len(total)) if group is None else _sizes("group", group, 1)
        if groups is None or len(groups) != len(total) or len(total) > 3:
            raise InvalidRequest(text("size {} and group {} must have the same number of axes: one, two or three", size, group), "E0582")
        if math.prod(groups) > self._most:
            raise InvalidRequest(text("group: {!r} is more than the {} work-items that fit the device", group, self._most), "E0582")
        rounded = tuple(-(-one // by) * by for one, by in zip(total, groups))
        return rounded, groups

    def _no_array(self, parameter: Parameter, value: Any) -> InvalidRequest:
        if type(value) is Array:
            return self._mismatch(parameter, text("an array of {} on {}", value.dtype, value.device))
        elsewhere = _dlpack.device_of(value)
        if not elsewhere:
            return self._mismatch(parameter, text("a {}", type(value).__name__))
        return InvalidRequest(text("kernel {}, argument {}: the array is on another device: {}", self.name, parameter.name, elsewhere), "E0583",
                              f"{parameter.name} = berth.asarray({parameter.name}.cpu())")

    def _number(self, parameter: Parameter, value: Any) -> Any:
        """Converts a number of another type, such as a NumPy number, to float or int."""
        if isinstance(value, (bool, str, bytes)) or getattr(value, "shape", ()) != ():
            raise self._mismatch(parameter, text("a {}", type(value).__name__))
        try:
            return float(value) if parameter.dtype.startswith("float") else operator.index(value)
        except (TypeError, ValueError, OverflowError):
            raise self._mismatch(parameter, text("a {}", type(value).__name__)) from None

    def _mismatch(self, parameter: Parameter, given: str) -> InvalidRequest:
        kind = "float" if parameter.dtype.startswith("float") else "int"
        hint = f"{parameter.name} = berth.asarray(numbers, {parameter.dtype!r})" if parameter.is_array else f"{kind}({parameter.name})"
        wanted = parameter.type + ("*" if parameter.is_array else "")
        return InvalidRequest(text("kernel {}, argument {}: it takes {}, not {}", self.name, parameter.name, wanted, given), "E0582", hint)


def kernel(source: str, name: Optional[str] = None, backend: str = "auto") -> Kernel:
    """Compiles a kernel. The source is C with a few macros (docs/python-kernels.md), so that the same source works with OpenCL and CUDA.

    Parameters
    ----------
    source : str
        One or more kernels.
    name : str, optional
        The kernel to return. Not needed if the source contains only one.
    backend : {"auto", "cuda", "opencl"}
        "cuda" needs a driver and NVRTC. "auto" uses CUDA if possible, and OpenCL if not. A kernel accepts only arrays of the same backend.

    Raises
    ------
    KernelCompileError, NoDevice
        The source has an error (with its line and the compiler's log); there is no device of the backend (E0581).

    Examples
    --------
    >>> twice = berth.kernel('''
    ... KERNEL void twice(GLOBAL const float* x, GLOBAL float* y, int n) {
    ...     int i = GLOBAL_ID(0); if (i < n) y[i] = 2 * x[i]; }''')        # doctest: +SKIP
    >>> x = berth.asarray([1, 2, 3]); y = berth.empty(3)            # doctest: +SKIP
    >>> twice(x, y, 3, size=3).wait(); y.tolist()                   # doctest: +SKIP
    [2.0, 4.0, 6.0]
    """
    if not isinstance(source, str) or "\0" in source:
        raise InvalidRequest(text("{}: {!r} is not text", "source", source), "E0104")
    found = kernels_of(source)
    if name is None and len(found) == 1:
        name = next(iter(found))
    if name not in found:
        said = text("the source has no kernel {!r}; it has: {}", name, ", ".join(found)) if name is not None and found else \
            text("the source has no kernel") if not found else text("the source has several kernels: {}", ", ".join(found))
        raise InvalidRequest(said, "E0582", f"name={next(iter(found))!r}" if found else "KERNEL void f(GLOBAL float* x, int n) { … }")
    assert name is not None
    device = _device(backend)
    return Kernel(name, found[name], device.compile(source, [name])[0], device)
