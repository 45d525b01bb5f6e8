"""is_oom() tells whether an exception means that memory ran out. It knows the exceptions of all frameworks, and imports none.

If the framework has a type for this error, the type decides. If the exception is a plain RuntimeError, its text decides. python/tests/oom_texts.json has
the real texts of frameworks, with their sources. If the type means another error, the text is ignored. Of a long text, only the beginning and the end are
read.
"""

from __future__ import annotations

import errno
import re
from typing import Dict, Iterator, List, Optional, Set, Tuple, Type

from .errors import InvalidRequest
from .language import text

__all__ = ["is_oom", "is_sticky"]

# Full names (module and class) of exceptions that always mean that memory ran out. All versions of the frameworks are covered.
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

_BARE = "CUDA out of memory"  # this text counts only if nothing follows it

# Each key occurs in all texts in its row, and most exceptions contain none of the keys. Searching for the keys one after another is faster
# than a regular expression with many branches.
_WORDS: Dict[str, Tuple[str, ...]] = {
    "emory": (
        "CUDA out of memory. Tried to allocate", _BARE, "NPU out of memory. Tried to allocate", "MUSA out of memory. Tried to allocate",
        "MLU out of memory. Tried to allocate", "MUSA error: out of memory", "CUDA failure 2: out of memory", "$ Torch: not enough memory: you tried to allocate", "HIP out of memory. Tried to allocate", "XPU out of memory. Tried to allocate",
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
        "Failed to allocate scratch buffer for device", "[metal::malloc] Attempting to allocate", "[metal::malloc] Unable to allocate", "[malloc_or_wait] Unable to allocate", "PT_DEVMEM Allocation failed",
        "(PT_DEVMEM) Allocation failed"),
    "ALLOC": (
        "CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED", "CUSOLVER_STATUS_ALLOC_FAILED", "CUSPARSE_STATUS_ALLOC_FAILED",
        "CUFFT_ALLOC_FAILED", "HIPBLAS_STATUS_ALLOC_FAILED", "MEM_OBJECT_ALLOCATION_FAILURE",
        "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
    "OUT_OF_": (
        "CUDA_ERROR_OUT_OF_MEMORY", "_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", "_RESULT_ERROR_OUT_OF_HOST_MEMORY", "UR_RESULT_ERROR_OUT_OF_RESOURCES",
        "PI_ERROR_OUT_OF_RESOURCES", "PI_ERROR_OUT_OF_HOST_MEMORY", " failed: OUT_OF_RESOURCES", " failed: OUT_OF_HOST_MEMORY"),
    "uffer": ("clCreateBuffer failed: INVALID_BUFFER_SIZE", "create_buffer failed: INVALID_BUFFER_SIZE", "Invalid buffer size: "),
    "ErrorOutOfMemory": ("kIOGPUCommandBufferCallbackErrorOutOfMemory",),
    "for new constant": (" bytes for new constant",),  # JAX writes this after "Failed to allocate N"
    "There are": ("That was not possible. There are ",),  # a TPU's message continues with this after "Attempting to allocate/reserve …"
    "NOT_SUPPORTED": ("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input",),
    "Dst tensor": ("Dst tensor is not initialized", "Dst tensor is not copied"),
    "Memory": ("Memory allocation error on worker", "Out of Host Memory", "Memory Object Allocation Failure"),
}
# Matches the text before a known message. A message is an error only at the start of the text or of a line, after punctuation
# ("RuntimeError: …"), or after one of the words in this pattern. Elsewhere, the text only mentions it.
_LEADS = re.compile(r"(?:\A|[^\w\s]|\n|:\d+|\b(?:error|code|status|with|returned|returns|got|in|due to))[ \t]*\Z", re.I)
# If one of these words or marks comes before the message on the same line, the text only quotes the message: from a log, a file, another run, or an
# expectation.
_QUOTES = re.compile(r"\b(?:pars(?:e|ed|ing)|line \d+ of|logs?|regex|patterns?|(?:un)?expect(?:s|ed|ing)?|match(?:es|ed)?|says?|said|grep|contains?"
                     r"|previous(?:ly)?|earlier|last (?:run|job|time))\b|\w\.(?:log|txt|jsonl?|csv|ya?ml|toml|xml|html|md|db|out|err)\b"
                     r"|(?<=[^(\w])['\"`“‘「](?:\w+: ?)?\Z", re.I)  # an opening quote; after "(" it begins the repr of an exception
# If the sentence continues after one of these texts, it only talks about the error.
_ENDS = frozenset(("CUDA out of memory. Tried to allocate", "std::bad_alloc", "Out of Host Memory", "Memory Object Allocation Failure",
         "cudaErrorMemoryAllocation", "hipErrorMemoryAllocation", "hipErrorOutOfMemory"))
# TensorFlow raises the same class for a full disk, too many open files, and a message that is too long.
_OF_MEMORY = re.compile(r"\bOOM\b|[Oo]ut of memory|[Ff]ailed to allocate (?:memory|scratch buffer)|[Uu]nable to allocate|[Cc]an ?not allocate memory"
                        r"|Attempting to (allocate|reserve) |memory space hbm")
_OF_FILES = re.compile(r"[Nn]o space left on device|[Qq]uota exceeded|[Tt]oo many open files|larger than max|\.tempstate\d|memory space [sv]mem")
# TensorFlow appends this to every ResourceExhaustedError
_HINT_OF_ALL = "Hint: If you want to see a list of allocated tensors when OOM happens"

# A plain RuntimeError and these types of frameworks are judged by their text. Other built-in types are not: a ValueError may only talk
# about memory.
_BY_TEXT = ("RuntimeError", "JaxRuntimeError", "XlaRuntimeError", "InternalError", "CUDARuntimeError", "CUDADriverError", "LogicError",
            "AcceleratorError", "CudaAPIError", "CudaSupportError")
_FRAMEWORKS = ("torch", "jax", "jaxlib", "tensorflow", "cupy", "cupy_backends", "numba", "numba_cuda", "pycuda", "pyopencl", "cuda", "rmm", "triton",
               "onnxruntime", "xgboost", "lightgbm", "catboost", "_catboost", "paddle", "ray", "mlx", "warp")

_STICKY = re.compile(
    r"an illegal memory access was encountered|device-side assert triggered|unspecified launch failure|misaligned address"
    r"|an illegal instruction was encountered|hardware stack error|CUDA_ERROR_(ILLEGAL_ADDRESS|ASSERT|LAUNCH_FAILED|ILLEGAL_INSTRUCTION"
    r"|MISALIGNED_ADDRESS|HARDWARE_STACK_ERROR|CONTEXT_IS_DESTROYED|ECC_UNCORRECTABLE)|uncorrectable ECC error encountered"
    r"|GPU is lost|cudaError(IllegalAddress|Assert|LaunchFailure)|_RESULT_ERROR_DEVICE_LOST", re.I)

_EDGE = 8192   # number of characters that are read from each end of a text
_LINE = 200    # number of characters before a word that are read on its line
_MOST = 100    # most exceptions in a chain


def _said(problem: BaseException) -> str:
    """The text of an exception. Of a long text, only the beginning and the end. Arguments that are not strings are not converted."""
    if type(problem).__str__ is BaseException.__str__:
        text = "\n".join([one for one in problem.args if isinstance(one, str)]) if len(problem.args) != 1 else problem.args[0]
        if not isinstance(text, str):
            return ""
    else:
        try:
            text = str(problem)
        except Exception:  # the exception's __str__() raises an exception itself
            return ""
    return text if len(text) <= 2 * _EDGE else f"{text[:_EDGE]}\n{text[-_EDGE:]}"


def members(problem: BaseException) -> List[BaseException]:
    """The members of an ExceptionGroup, which may be Python's or from the package exceptiongroup. Empty for other exceptions."""
    inside = getattr(problem, "exceptions", None)
    return [one for one in inside if isinstance(one, BaseException)] if isinstance(inside, (tuple, list)) else []


# Exceptions that show a bug. If a bug raises one while another exception is handled, both are unrelated.
_BUGS = (NameError, AttributeError, TypeError, LookupError, AssertionError, ImportError, SyntaxError, ArithmeticError)


def _chain(problem: Optional[BaseException], bugs: bool = True) -> Iterator[BaseException]:
    """The exception, its causes and contexts, and the members of groups, each once."""
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
    """What the type of an exception shows: "yes", "no", or which detail decides: "code", "errno", "resource" or "text". The caller caches this for each
    type."""
    if not issubclass(kind, BaseException):
        raise InvalidRequest(text("a {} is not an exception", kind.__name__), hint="except RuntimeError as problem: berth.is_oom(problem)")
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
    """Whether the text contains `word` as an error message, and not within a sentence that only talks about the message."""
    at = text.find(word)
    while at >= 0:
        after = text[at + len(word):at + len(word) + 3]
        if word in _ENDS:
            goes_on = after[:1] == " " and after[1:2].islower()
        else:
            goes_on = word is _BARE and after.strip(" .!")[:1] not in ("", "\n")
        quoted = _QUOTES.search(text, max(text.rfind("\n", 0, at) + 1, at - _LINE), at) is not None
        if not goes_on and not quoted and (at == 0 or word[0] in " _" or _LEADS.search(text[max(0, at - 12):at])):
            return True
        at = text.find(word, at + 1)
    return False


def _is_oom_itself(problem: BaseException) -> bool:
    kind = type(problem)
    judged = _verdicts.get(kind)
    if judged is None:
        if len(_verdicts) > 1000:  # limit the cache, because some programs create new types all the time
            _verdicts.clear()
        judged = _verdicts[kind] = _judge(kind)
    if judged == "text":
        return _says_so(_said(problem))
    if judged == "code":
        return getattr(problem, "code", None) == _CUDA_OUT_OF_MEMORY or "CUDA_ERROR_OUT_OF_MEMORY" in _said(problem)
    if judged == "errno":
        return getattr(problem, "errno", None) == errno.ENOMEM  # for example, fork() failed for a DataLoader's worker
    if judged == "resource":
        text = _said(problem).replace(_HINT_OF_ALL, "")
        return _OF_MEMORY.search(text) is not None and _OF_FILES.search(text) is None
    return judged == "yes"


def is_oom(problem: Optional[BaseException]) -> bool:
    """Whether an exception means that the memory of a GPU or of the host ran out. It knows the wording of all frameworks.

    The causes of the exception and the members of a group count too. If a bug, such as a NameError, occurs while an out-of-memory error is handled, the
    result is False. Imports nothing.

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
        return False  # a shortcut, because usually no other exception belongs to this one
    return any(_is_oom_itself(one) for one in _chain(problem, bugs=False))


def may_try_again(problem: BaseException) -> bool:
    """False if an exception in the chain forbids another try: a half-complete step, or a search that has ended."""
    return all(getattr(one, "may_try_again", True) is not False for one in _chain(problem))


def is_sticky(problem: Optional[BaseException]) -> bool:
    """Whether this exception means that the device's context is lost. Then all further work of this process on the device fails.

    The text of the framework's exception decides.
    """
    if problem is not None:
        _is_oom_itself(problem)  # only to raise InvalidRequest if `problem` is not an exception
    return any(_of_a_framework(type(one)) and _STICKY.search(_said(one)) is not None for one in _chain(problem))


def _of_a_framework(kind: Type[BaseException]) -> bool:
    return any(one.__name__ in _BY_TEXT or one.__module__.split(".")[0] in _FRAMEWORKS for one in kind.__mro__)
