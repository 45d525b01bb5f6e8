"""is_oom(): whether an exception means that memory ran out, in any framework, without importing one.

By type where a framework has a type for it, whatever class it inherits from; by text where it throws a plain RuntimeError.
Texts are matched from what frameworks really print (python/tests/oom_texts.json has them with their sources), and never where
a type says that it is something else. Of a long text its beginning and its end are read.
"""

from __future__ import annotations

import errno
import re
from typing import Dict, Iterator, List, Optional, Set, Tuple, Type

from .errors import InvalidRequest
from .language import text

__all__ = ["is_oom", "is_sticky"]

# The last parts of a type's module and name: what it is called in every version.
_TYPES = re.compile(
    r"^(torch(\.cuda|\._C)?\.OutOfMemoryError"
    r"|torch\.AcceleratorOutOfMemoryError"
    r"|cupy(_backends)?\..*\bOutOfMemoryError"
    r"|cuda\.core\..*\bCUDAOutOfMemoryError"
    r"|rmm\..*\bout_of_memory"
    r"|ray\.exceptions\.OutOfMemoryError"
    r"|(pycuda|pyopencl)\..*\bMemoryError)$")
_NUMBA = re.compile(r"^numba(_cuda)?\..*\bCudaAPIError$")
_CUDA_OUT_OF_MEMORY = 2
_TENSORFLOW = re.compile(r"^tensorflow\..*\bResourceExhaustedError$")

_BARE = "CUDA out of memory"  # and nothing more

# Each of these says it, and none is in a text without the word before them, of which most texts have none. One after another they are
# found faster than by an expression of so many branches.
_WORDS: Dict[str, Tuple[str, ...]] = {
    "emory": (
        "CUDA out of memory. Tried to allocate", _BARE, "NPU out of memory. Tried to allocate", "$ Torch: not enough memory: you tried to allocate", "HIP out of memory. Tried to allocate", "XPU out of memory. Tried to allocate",
        "CUDA error: out of memory", "HIP error: out of memory", "CUDA driver error: out of memory", "cuda runtime error (2) : out of memory",
        "CUDA error 2: out of memory", "[CUDA] out of memory", "CUDA out of memory occurred when warming up", "Cuda failure 2 'out of memory'",
        "Cuda failure 'out of memory'", "would exceed allowed memory. (out of memory)", "MPS backend out of memory", "Out of memory error on GPU",
        "Error: Out of memory. Requested ", "not enough memory for tree-ctrs",
        "cuMemAlloc failed: out of memory", "cuMemAllocManaged failed: out of memory",
        "Out of memory while trying to allocate", "RESOURCE_EXHAUSTED: Out of memory", "Ran out of memory in memory space hbm",
        "DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory",
        "Failed to allocate memory for requested buffer", "cudaErrorMemoryAllocation", "hipErrorMemoryAllocation", "hipErrorOutOfMemory"),
    "lloc": (
        "OOM when allocating tensor with shape", "RESOURCE_EXHAUSTED: Failed to allocate", "std::bad_alloc", "[enforce fail at alloc_cpu.cpp:",
        "[metal::malloc] Attempting to allocate", "[malloc_or_wait] Unable to allocate", "PT_DEVMEM Allocation failed",
        "(PT_DEVMEM) Allocation failed"),
    "ALLOC": (
        "CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED", "CUSOLVER_STATUS_ALLOC_FAILED", "CUSPARSE_STATUS_ALLOC_FAILED",
        "CUFFT_ALLOC_FAILED", "HIPBLAS_STATUS_ALLOC_FAILED", "MEM_OBJECT_ALLOCATION_FAILURE",
        "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
    "OUT_OF_": (
        "CUDA_ERROR_OUT_OF_MEMORY", "_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", "_RESULT_ERROR_OUT_OF_HOST_MEMORY", "UR_RESULT_ERROR_OUT_OF_RESOURCES",
        "PI_ERROR_OUT_OF_RESOURCES", "PI_ERROR_OUT_OF_HOST_MEMORY", " failed: OUT_OF_RESOURCES", " failed: OUT_OF_HOST_MEMORY"),
    "uffer": ("clCreateBuffer failed: INVALID_BUFFER_SIZE", "create_buffer failed: INVALID_BUFFER_SIZE", "Invalid buffer size: "),
    "There are": ("That was not possible. There are ",),  # of a TPU, after what it attempted to allocate or reserve
    "NOT_SUPPORTED": ("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input",),
    "Dst tensor": ("Dst tensor is not initialized", "Dst tensor is not copied"),
    "Memory": ("Memory allocation error on worker", "Out of Host Memory", "Memory Object Allocation Failure"),
}
# A text that says it has the words at its beginning, after a mark ("RuntimeError: …"), or after one of these; else it is about them.
_LEADS = re.compile(r"(?:\A|[^\w\s]|\n|\b(?:error|code|status|with|returned|returns|got|in|due to))[ \t]*\Z", re.I)
# A sentence that goes on after these is about them too.
_ENDS = frozenset(("CUDA out of memory. Tried to allocate", "std::bad_alloc", "Out of Host Memory", "Memory Object Allocation Failure",
         "cudaErrorMemoryAllocation", "hipErrorMemoryAllocation", "hipErrorOutOfMemory"))
# TensorFlow's own class is also that of a full disk, of too many open files, and of a message that is too long.
_OF_MEMORY = re.compile(r"\bOOM\b|[Oo]ut of memory|[Ff]ailed to allocate memory|[Uu]nable to allocate|[Cc]an ?not allocate memory"
                        r"|Attempting to (allocate|reserve) |memory space hbm")
_OF_FILES = re.compile(r"[Nn]o space left on device|[Qq]uota exceeded|[Tt]oo many open files|larger than max|\.tempstate\d|memory space [sv]mem")
_HINT_OF_ALL = "Hint: If you want to see a list of allocated tensors when OOM happens"  # at the end of every such error

# A plain RuntimeError, and what frameworks raise of their own: a ValueError that tells of memory is no such thing.
_BY_TEXT = ("RuntimeError", "JaxRuntimeError", "XlaRuntimeError", "InternalError", "CUDARuntimeError", "CUDADriverError", "LogicError",
            "AcceleratorError", "CudaAPIError", "CudaSupportError")
_FRAMEWORKS = ("torch", "jax", "jaxlib", "tensorflow", "cupy", "cupy_backends", "numba", "numba_cuda", "pycuda", "pyopencl", "cuda", "rmm", "triton",
               "onnxruntime", "xgboost", "lightgbm", "catboost", "_catboost", "paddle", "ray", "mlx", "warp")

_STICKY = re.compile(
    r"an illegal memory access was encountered|device-side assert triggered|unspecified launch failure|misaligned address"
    r"|an illegal instruction was encountered|hardware stack error|CUDA_ERROR_(ILLEGAL_ADDRESS|ASSERT|LAUNCH_FAILED|ILLEGAL_INSTRUCTION"
    r"|MISALIGNED_ADDRESS|HARDWARE_STACK_ERROR|CONTEXT_IS_DESTROYED|ECC_UNCORRECTABLE)|uncorrectable ECC error encountered"
    r"|GPU is lost|cudaError(IllegalAddress|Assert|LaunchFailure)|_RESULT_ERROR_DEVICE_LOST", re.I)

_EDGE = 8192   # characters of each end of a text
_MOST = 100    # exceptions of a chain


def _said(problem: BaseException) -> str:
    """Its text; of a long one both ends. What is no text among its arguments is not made into one."""
    if type(problem).__str__ is BaseException.__str__:
        text = "\n".join([one for one in problem.args if isinstance(one, str)]) if len(problem.args) != 1 else problem.args[0]
        if not isinstance(text, str):
            return ""
    else:
        try:
            text = str(problem)
        except Exception:  # an exception that cannot say itself
            return ""
    return text if len(text) <= 2 * _EDGE else f"{text[:_EDGE]}\n{text[-_EDGE:]}"


def members(problem: BaseException) -> List[BaseException]:
    """Of an ExceptionGroup, Python's own or the package exceptiongroup's."""
    inside = getattr(problem, "exceptions", None)
    return [one for one in inside if isinstance(one, BaseException)] if isinstance(inside, (tuple, list)) else []


# What Python raises where a program is wrong: in a handler it has nothing to do with what is handled.
_BUGS = (NameError, AttributeError, TypeError, LookupError, AssertionError, ImportError, SyntaxError, ArithmeticError)


def _chain(problem: Optional[BaseException], bugs: bool = True) -> Iterator[BaseException]:
    """It, what it was raised from, and what was being handled, each once; also the members of groups."""
    seen: Set[int] = set()
    todo = [problem]
    while todo and len(seen) <= _MOST:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        todo.extend(members(one)[:_MOST])
        todo.append(one.__cause__)
        if not one.__suppress_context__ and (bugs or not isinstance(one, _BUGS)):
            todo.append(one.__context__)


_verdicts: Dict[Type[BaseException], str] = {}


def _judge(kind: Type[BaseException]) -> str:
    """What an exception's type says: "yes", "no", that its "code" or its "errno" says it, or that its "text" does. Once a type."""
    if not issubclass(kind, BaseException):
        raise InvalidRequest(text("a {} is no exception", kind.__name__), hint="except RuntimeError as problem: berth.is_oom(problem)")
    for one in kind.__mro__:
        name = f"{one.__module__}.{one.__qualname__}"
        if name in ("builtins.RuntimeError", "builtins.MemoryError", "builtins.Exception"):
            break
        if _TYPES.match(name):
            return "yes"
        if _NUMBA.match(name):
            return "code"
        if _TENSORFLOW.match(name):
            return "resource"
    if issubclass(kind, MemoryError):
        return "yes"
    if issubclass(kind, OSError):
        return "errno"
    return "text" if _of_a_framework(kind) else "no"


def _says_so(text: str) -> bool:
    for hint, words in _WORDS.items():
        if hint in text:
            for word in words:
                if word in text and _stands(text, word):
                    return True
    return False


def _stands(text: str, word: str) -> bool:
    """As what is said, and not in the middle of a sentence that is about it."""
    at = text.find(word)
    while at >= 0:
        after = text[at + len(word):at + len(word) + 3]
        if word in _ENDS:
            goes_on = after[:1] == " " and after[1:2].islower()
        else:
            goes_on = word is _BARE and after.strip(" .!")[:1] not in ("", "\n")
        if not goes_on and (at == 0 or word[0] in " _" or _LEADS.search(text[max(0, at - 12):at])):
            return True
        at = text.find(word, at + 1)
    return False


def _is_oom_itself(problem: BaseException) -> bool:
    kind = type(problem)
    judged = _verdicts.get(kind)
    if judged is None:
        if len(_verdicts) > 1000:  # a program that makes types as it goes
            _verdicts.clear()
        judged = _verdicts[kind] = _judge(kind)
    if judged == "text":
        return _says_so(_said(problem))
    if judged == "code":
        return getattr(problem, "code", None) == _CUDA_OUT_OF_MEMORY or "CUDA_ERROR_OUT_OF_MEMORY" in _said(problem)
    if judged == "errno":
        return getattr(problem, "errno", None) == errno.ENOMEM  # no process for a DataLoader's worker, for one
    if judged == "resource":
        text = _said(problem).replace(_HINT_OF_ALL, "")
        return _OF_MEMORY.search(text) is not None and _OF_FILES.search(text) is None
    return judged == "yes"


def is_oom(problem: Optional[BaseException]) -> bool:
    """Whether it means that memory ran out: of a GPU, in every framework's spelling, or of the host.

    Walks what it was raised from or while what was handled, and the members of a group; not what a NameError or another bug in a handler was raised
    in. Imports nothing.

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
    return any(_is_oom_itself(one) for one in _chain(problem, bugs=False))


def may_try_again(problem: BaseException) -> bool:
    """Not where something of it says that it must not: a step that was half made, a search that has ended."""
    return all(getattr(one, "may_try_again", True) is not False for one in _chain(problem))


def is_sticky(problem: Optional[BaseException]) -> bool:
    """Whether the device's context is lost with it: nothing that this process does on the device can work any more. By its text, of
    exceptions that frameworks raise for that."""
    if problem is not None:
        _is_oom_itself(problem)  # it is an exception
    return any(_of_a_framework(type(one)) and _STICKY.search(_said(one)) is not None for one in _chain(problem))


def _of_a_framework(kind: Type[BaseException]) -> bool:
    return any(one.__name__ in _BY_TEXT or one.__module__.split(".")[0] in _FRAMEWORKS for one in kind.__mro__)
