"""The source of a kernel: the macros that let one source run through OpenCL and CUDA, its parameters, and compilers' messages. Nothing here calls a
driver."""

from __future__ import annotations

import ctypes
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .errors import BerthError, InvalidRequest
from .language import text

__all__ = ["CUDA_HEADER", "OPENCL_HEADER", "KernelCompileError", "Parameter", "compile_error", "kernels_of"]

FILE = "kernel"  # compilers' messages use this name for the user's source

# Contraction of a*b+c is off in both headers, so that results have the same bits.
OPENCL_HEADER = f"""
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define KERNEL __kernel
#define GLOBAL __global
#define LOCAL __local
#define DEVICE
#define GLOBAL_ID(axis) ((int)get_global_id(axis))
#define LOCAL_ID(axis) ((int)get_local_id(axis))
#define GROUP_ID(axis) ((int)get_group_id(axis))
#define LOCAL_SIZE(axis) ((int)get_local_size(axis))
#define GLOBAL_SIZE(axis) ((int)get_global_size(axis))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#line 1 "{FILE}"
"""
CUDA_HEADER = f"""
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#define BERTH_AXIS_0 x
#define BERTH_AXIS_1 y
#define BERTH_AXIS_2 z
#define BERTH_AXIS(axis) BERTH_AXIS_##axis
#define KERNEL extern "C" __global__
#define GLOBAL
#define LOCAL __shared__
#define DEVICE __device__
#define GLOBAL_ID(axis) ((int)(blockIdx.BERTH_AXIS(axis) * blockDim.BERTH_AXIS(axis) + threadIdx.BERTH_AXIS(axis)))
#define LOCAL_ID(axis) ((int)threadIdx.BERTH_AXIS(axis))
#define GROUP_ID(axis) ((int)blockIdx.BERTH_AXIS(axis))
#define LOCAL_SIZE(axis) ((int)blockDim.BERTH_AXIS(axis))
#define GLOBAL_SIZE(axis) ((int)(gridDim.BERTH_AXIS(axis) * blockDim.BERTH_AXIS(axis)))
#define BARRIER() __syncthreads()
#line 1 "{FILE}"
"""

# Types that have the same meaning in OpenCL C and in CUDA on 64-bit Linux.
_TYPES: Dict[str, Tuple[str, Any]] = {
    "char": ("int8", ctypes.c_int8), "uchar": ("uint8", ctypes.c_uint8), "short": ("int16", ctypes.c_int16), "ushort": ("uint16", ctypes.c_uint16),
    "int": ("int32", ctypes.c_int32), "uint": ("uint32", ctypes.c_uint32), "long": ("int64", ctypes.c_int64), "ulong": ("uint64", ctypes.c_uint64),
    "float": ("float32", ctypes.c_float), "double": ("float64", ctypes.c_double),
    "unsigned char": ("uint8", ctypes.c_uint8), "unsigned short": ("uint16", ctypes.c_uint16), "unsigned int": ("uint32", ctypes.c_uint32),
    "unsigned long": ("uint64", ctypes.c_uint64), "unsigned": ("uint32", ctypes.c_uint32), "signed char": ("int8", ctypes.c_int8),
}
_QUALIFIERS = {"const", "volatile", "restrict", "__restrict__", "__restrict"}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_KERNEL = re.compile(r"\bKERNEL\s+void\s+(\w+)\s*\(([^)]*)\)")
# "kernel:3:5: error: …" from clang, "error: kernel:3:5: …" from PoCL, "kernel(3): error: …" from NVRTC.
_PLACE = rf"(?<![\w./]){FILE}(?::(?P<line>\d+)(?::(?P<column>\d+))?|\((?P<nvrtc>\d+)\)):"
_PROBLEM = re.compile(rf"^.*?(?:error: {_PLACE}|{_PLACE.replace('P<', 'P<b_')}\s*(?:fatal |catastrophic )?error\s*:)\s*(?P<says>.*)$", re.M)


class KernelCompileError(BerthError):
    """The kernel does not compile.

    Attributes
    ----------
    line : int or None
        The line of the first error in your source, counted from 1; None if the compiler names no line.
    log : str
        All output of the compiler.
    """

    usual_id = "E0580"

    def __init__(self, message: str, line: Optional[int], log: str) -> None:
        super().__init__(message)
        self.line = line
        self.log = log


class Parameter(NamedTuple):
    name: str
    type: str  # as written in the source: "float"
    dtype: str  # name of the type in arrays: "float32"
    is_array: bool
    ctype: Any


def _parameter(kernel: str, written: str) -> Parameter:
    words = [word for word in re.findall(r"\w+|\*", written) if word not in _QUALIFIERS]
    stars = words.count("*")
    is_array = stars == 1
    named = [word for word in words if word not in ("*", "GLOBAL")]
    kind = " ".join(named[:-1])
    if stars > 1 or kind not in _TYPES or is_array != ("GLOBAL" in words):
        raise InvalidRequest(text("kernel {}: it cannot take the parameter {!r}", kernel, " ".join(written.split())), "E0582",
                             text("declare GLOBAL float* x for an array, float x for a number; types: {}", ", ".join(k for k in _TYPES if " " not in k)))
    dtype, ctype = _TYPES[kind]
    return Parameter(named[-1], kind, dtype, is_array, ctype)


def kernels_of(source: str) -> Dict[str, List[Parameter]]:
    """The parameters of each kernel in the source: `KERNEL void name(GLOBAL float* x, int n)`."""
    plain = _COMMENT.sub(" ", source)
    return {name: [_parameter(name, one) for one in parameters.split(",")] if parameters.strip() not in ("", "void") else []
            for name, parameters in _KERNEL.findall(plain)}


def compile_error(source: str, log: str) -> KernelCompileError:
    """Makes an exception from a compiler's log. Its message shows the first error, the source line, and a mark below the column."""
    found = _PROBLEM.search(log)
    if not found:
        shown = log.strip() or text("the compiler does not say why")
        return KernelCompileError(text("the kernel does not compile: {}", shown), None, log)
    part = {name: found[name] or found[f"b_{name}"] for name in ("line", "column", "nvrtc")}
    number = int(part["line"] or part["nvrtc"])
    message = text("the kernel does not compile: line {}: {}", number, found["says"].strip())
    lines = source.splitlines()
    if 0 < number <= len(lines):
        message += f"\n    {lines[number - 1]}"
        if part["column"]:
            before = lines[number - 1][:int(part["column"]) - 1]
            message += "\n    " + re.sub(r"[^\t]", " ", before) + "^"
    return KernelCompileError(message, number, log)
