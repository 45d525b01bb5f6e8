"""DLPack by ctypes: reads the capsules of other libraries, and makes capsules from Berth's arrays. Layouts as in dlpack.h (Apache-2.0),
version 0.8."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, NamedTuple, Optional, Tuple

from .errors import InvalidRequest, Unsupported
from .language import text

__all__ = ["BY_CODE", "CPU", "CUDA", "DTYPES", "HostData", "buffer_of", "bytes_of", "capsule_of", "copy", "device_of", "from_capsule", "from_cuda_interface",
           "is_on_first_gpu"]

CPU, CUDA, _CUDA_HOST = 1, 2, 3
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA (managed)", 14: "oneAPI"}

# For each type name: DLPack's (code, bits), the size in bytes, and the format character of array and memoryview.
DTYPES: Dict[str, Tuple[Tuple[int, int], int, str]] = {
    "int8": ((0, 8), 1, "b"), "int16": ((0, 16), 2, "h"), "int32": ((0, 32), 4, "i"), "int64": ((0, 64), 8, "q"),
    "uint8": ((1, 8), 1, "B"), "uint16": ((1, 16), 2, "H"), "uint32": ((1, 32), 4, "I"), "uint64": ((1, 64), 8, "Q"),
    "float32": ((2, 32), 4, "f"), "float64": ((2, 64), 8, "d"),
}
BY_CODE = {row[0]: name for name, row in DTYPES.items()}


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("dtype", _DType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]

_NAME = b"dltensor"
_python = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", _python))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))

_exported: Dict[int, Any] = {}  # what each exported tensor refers to; an entry is removed when the tensor's consumer frees the tensor


class HostData(NamedTuple):
    address: int
    nbytes: int
    shape: Tuple[int, ...]
    dtype: str
    owner: Any  # the object that owns the memory, which must stay alive


def device_of(x: Any) -> Optional[str]:
    """The name of the device that holds another library's array. None if the host can read the array's memory."""
    asks = getattr(x, "__dlpack_device__", None)
    if asks is None:
        return _DEVICES[CUDA] if hasattr(x, "__cuda_array_interface__") else None
    kind, number = (int(one) for one in asks())
    return None if kind in (CPU, _CUDA_HOST) else f"{_DEVICES.get(kind, kind)} {number}"


def is_on_first_gpu(x: Any) -> bool:
    """Whether an array of another library is on CUDA's first visible GPU."""
    asks = getattr(x, "__dlpack_device__", None)
    if asks is not None:
        return tuple(int(one) for one in asks()) == (CUDA, 0)
    return hasattr(x, "__cuda_array_interface__")  # this interface does not name the GPU, so assume the first one


def from_cuda_interface(found: Any, owner: Any) -> HostData:
    """Converts a `__cuda_array_interface__` to a description of the array."""
    kind, size = found["typestr"][1:2], int(found["typestr"][2:])
    dtype = BY_CODE.get(("iuf".find(kind), 8 * size))
    shape = tuple(int(one) for one in found["shape"])
    if dtype is None or found["typestr"][0] == ">":
        raise Unsupported(text("numbers of the format {!r} have no kernel type", found["typestr"]), "E0582", "x.astype('float32')")
    expected = size
    for axis in reversed(range(len(shape))):
        if found.get("strides") and shape[axis] > 1 and found["strides"][axis] != expected:
            raise not_contiguous()
        expected *= shape[axis]
    return HostData(int(found["data"][0] or 0), expected, shape, dtype, owner)


def buffer_of(address: int, nbytes: int, owner: Any) -> Any:
    """A writable buffer for memory of the host. The buffer keeps `owner` alive."""
    kind: Any = type("Buffer", (ctypes.c_char * nbytes,), {})  # a subclass, because plain arrays of ctypes cannot have attributes
    buffer = kind.from_address(address)
    buffer.owner = owner
    return buffer


def bytes_of(address: int, nbytes: int) -> bytes:
    """A copy of memory of the host."""
    return ctypes.string_at(address, nbytes)


def copy(to: int, address: int, nbytes: int) -> None:
    """Copies `nbytes` bytes from one address of the host to another."""
    ctypes.memmove(to, address, nbytes)


def from_capsule(capsule: Any) -> HostData:
    """The tensor in a capsule. The capsule owns the tensor, and frees it when the capsule itself is freed."""
    managed = ctypes.cast(_pointer_of(capsule, _NAME), ctypes.POINTER(_Managed)).contents
    tensor = managed.tensor
    dtype = BY_CODE.get((tensor.dtype.code, tensor.dtype.bits))
    if dtype is None or tensor.dtype.lanes != 1:
        raise Unsupported(text("numbers of {} bits of this kind (DLPack {}) have no kernel type", tensor.dtype.bits, tensor.dtype.code), "E0582",
                          "float32, float64, int8 … uint64")
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    size = DTYPES[dtype][1]
    expected = 1
    for axis in reversed(range(tensor.ndim)):
        if tensor.strides and shape[axis] > 1 and tensor.strides[axis] != expected:
            raise not_contiguous()
        expected *= shape[axis]
    return HostData((tensor.data or 0) + tensor.byte_offset, expected * size, shape, dtype, capsule)


def not_contiguous() -> InvalidRequest:
    return InvalidRequest(text("the array's elements are not one after the other in memory"), "E0582", "numpy.ascontiguousarray(x); x.contiguous()")


def _delete(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


def _drop(capsule: int) -> None:
    """Called when a capsule is freed. Frees the tensor if no consumer has taken it. (A consumer renames the capsule.)"""
    if _is_valid(capsule, _NAME):
        _exported.pop(_pointer(capsule, _NAME), None)


_DELETE = _DELETER(_delete)
_DROP = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop)


def capsule_of(address: int, shape: Tuple[int, ...], dtype: str, owner: Any, device: int = CPU) -> Any:
    """Makes a capsule for memory of the host or of the first GPU. `owner` is kept alive until the consumer frees the tensor."""
    (code, bits), _, _ = DTYPES[dtype]
    sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    managed = _Managed(_Tensor(address, _Device(device, 0), len(shape), _DType(code, bits, 1), sizes, None, 0), None, _DELETE)
    key = ctypes.addressof(managed)
    _exported[key] = (managed, sizes, owner)
    return _new(key, _NAME, ctypes.cast(_DROP, ctypes.c_void_p))
