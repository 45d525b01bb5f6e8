"""is_oom(): whether an exception means that memory ran out, in any framework, without importing one.

By type where a framework has a type for it, whatever class it inherits from; by text where it throws a plain RuntimeError.
Texts are matched from what frameworks really print (python/tests/oom_texts.json has them with their sources), and never where
a type says that it is something else.
"""

from __future__ import annotations

import re
from typing import Dict, Iterator, Optional, Set, Type

__all__ = ["is_oom", "is_sticky"]

# The last parts of a type's module and name: what it is called in every version.
_TYPES = re.compile(
    r"^(torch(\.cuda|\._C)?\.OutOfMemoryError"
    r"|torch\.AcceleratorOutOfMemoryError"
    r"|cupy(_backends)?\..*\bOutOfMemoryError"
    r"|cuda\.core\..*\bCUDAOutOfMemoryError"
    r"|rmm\..*\bout_of_memory"
    r"|tensorflow\..*\bResourceExhaustedError"
    r"|pycuda\..*\bMemoryError)$")
_NUMBA = re.compile(r"^numba(_cuda)?\..*\bCudaAPIError$")
_CUDA_OUT_OF_MEMORY = 2

_TEXTS = re.compile(
    r"CUDA out of memory\. Tried to allocate"
    r"|CUDA error: out of memory"
    r"|HIP out of memory\. Tried to allocate"
    r"|HIP error: out of memory"
    r"|XPU out of memory\. Tried to allocate"
    r"|MPS backend out of memory"
    r"|Allocation on device \S* ?would exceed allowed memory\. \(out of memory\)"
    r"|CUDNN_STATUS_ALLOC_FAILED"
    r"|CUBLAS_STATUS_ALLOC_FAILED"
    r"|CUSOLVER_STATUS_ALLOC_FAILED|CUSPARSE_STATUS_ALLOC_FAILED|CUFFT_ALLOC_FAILED"
    r"|cuDNN error: CUDNN_STATUS_NOT_SUPPORTED\. This error may appear if you passed in a non-contiguous input"
    r"|DefaultCPUAllocator: (can't allocate memory|not enough memory)"
    r"|\[enforce fail at alloc_cpu\.cpp:\d+\]"
    r"|std::bad_alloc: .*(cudaErrorMemoryAllocation|out_of_memory)"
    r"|\(PT_DEVMEM\) Allocation failed|PT_DEVMEM.{0,40}[Aa]llocation failed"
    r"|^RESOURCE_EXHAUSTED: (Out of memory|Failed to allocate)"
    r"|OOM when allocating tensor with shape"
    r"|(clCreateBuffer|create_buffer) failed: (MEM_OBJECT_ALLOCATION_FAILURE|OUT_OF_RESOURCES|INVALID_BUFFER_SIZE|OUT_OF_HOST_MEMORY)"
    r"|\bMEM_OBJECT_ALLOCATION_FAILURE\b"
    r"|cuMemAlloc failed: out of memory|cuMemAllocManaged failed: out of memory"
    r"|CUDA_ERROR_OUT_OF_MEMORY"
    r"|cudaErrorMemoryAllocation: out of memory", re.M)
# A plain RuntimeError, and what frameworks raise of their own: a ValueError that tells of memory is no such thing.
_BY_TEXT = ("RuntimeError", "JaxRuntimeError", "XlaRuntimeError", "InternalError", "CUDARuntimeError", "CUDADriverError", "LogicError",
            "AcceleratorError", "CudaAPIError", "CudaSupportError")
_FRAMEWORKS = ("torch", "jax", "jaxlib", "tensorflow", "cupy", "cupy_backends", "numba", "numba_cuda", "pycuda", "cuda", "rmm", "triton")

_STICKY = re.compile(
    r"an illegal memory access was encountered|device-side assert triggered|unspecified launch failure|misaligned address"
    r"|an illegal instruction was encountered|hardware stack error|CUDA_ERROR_(ILLEGAL_ADDRESS|ASSERT|LAUNCH_FAILED|ILLEGAL_INSTRUCTION"
    r"|MISALIGNED_ADDRESS|HARDWARE_STACK_ERROR|CONTEXT_IS_DESTROYED|ECC_UNCORRECTABLE)|uncorrectable ECC error encountered"
    r"|GPU is lost|cudaError(IllegalAddress|Assert|LaunchFailure)", re.I)


def _chain(problem: Optional[BaseException]) -> Iterator[BaseException]:
    """It, what it was raised from, and what was being handled, each once; also the members of groups."""
    seen: Set[int] = set()
    todo = [problem]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen or len(seen) > 100:
            continue
        seen.add(id(one))
        yield one
        todo.extend(getattr(one, "exceptions", ()) or ())
        todo.append(one.__cause__)
        if not one.__suppress_context__:
            todo.append(one.__context__)


_verdicts: Dict[Type[BaseException], str] = {}


def _judge(kind: Type[BaseException]) -> str:
    """What an exception's type says: "yes", "no", that its "code" says it, or that its "text" does. Once a type."""
    for one in kind.__mro__:
        name = f"{one.__module__}.{one.__qualname__}"
        if name in ("builtins.RuntimeError", "builtins.MemoryError", "builtins.Exception"):
            break
        if _TYPES.match(name):
            return "yes"
        if _NUMBA.match(name):
            return "code"
    if issubclass(kind, MemoryError):
        return "yes"
    return "no" if {one.__name__ for one in kind.__mro__}.isdisjoint(_BY_TEXT) else "text"


def _is_oom_itself(problem: BaseException) -> bool:
    kind = type(problem)
    judged = _verdicts.get(kind)
    if judged is None:
        if len(_verdicts) > 1000:  # a program that makes types as it goes
            _verdicts.clear()
        judged = _verdicts[kind] = _judge(kind)
    if judged == "text":
        return _TEXTS.search(str(problem)) is not None
    if judged == "code":
        return getattr(problem, "code", None) == _CUDA_OUT_OF_MEMORY or "CUDA_ERROR_OUT_OF_MEMORY" in str(problem)
    return judged == "yes"


def is_oom(problem: Optional[BaseException]) -> bool:
    """Whether it means that memory ran out: of a GPU, in every framework's spelling, or of the host.

    Walks what it was raised from. Imports nothing.

    Examples
    --------
    >>> is_oom(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    True
    >>> is_oom(ValueError("the tutorial says 'CUDA out of memory. Tried to allocate'"))
    False
    """
    if problem is None:
        return False
    if _is_oom_itself(problem):
        return True
    if problem.__cause__ is None and problem.__context__ is None and not hasattr(problem, "exceptions"):
        return False  # the common case: it was raised from nothing
    return any(_is_oom_itself(one) for one in _chain(problem))


def may_try_again(problem: BaseException) -> bool:
    """Not where something of it says that it must not: a step that was half made, a search that has ended."""
    return all(getattr(one, "may_try_again", True) is not False for one in _chain(problem))


def is_sticky(problem: Optional[BaseException]) -> bool:
    """Whether the device's context is lost with it: nothing that this process does on the device can work any more. By its text, of
    exceptions that frameworks raise for that."""
    return any(_of_a_framework(type(one)) and _STICKY.search(str(one)) is not None for one in _chain(problem))


def _of_a_framework(kind: Type[BaseException]) -> bool:
    return any(one.__name__ in _BY_TEXT or one.__module__.split(".")[0] in _FRAMEWORKS for one in kind.__mro__)
