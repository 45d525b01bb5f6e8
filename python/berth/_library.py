"""Calls libberth by ctypes. Its functions return JSON documents. Their errors are raised as exceptions of this package."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
from typing import Any, Dict, Optional, Sequence

from .errors import BerthError, BrokerUnavailable, error_from
from .language import is_chinese, text

ABI = 1


_DISTRIBUTION = "berth-gpu"
_MENDS = f"pip install --force-reinstall {_DISTRIBUTION}"


def _candidates() -> Sequence[str]:
    named = os.environ.get("BERTH_LIBRARY")
    here = os.path.dirname(os.path.abspath(__file__))
    return [named] if named else [os.path.join(here, "lib", "libberth.so.1"), "libberth.so.1"]


def _hint() -> str:
    if os.environ.get("BERTH_LIBRARY"):
        return "unset BERTH_LIBRARY"
    tree = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if os.path.exists(os.path.join(tree, "src", "library")):  # the package runs from the source tree
        built = os.path.join(tree, "build", "release")
        return f"{tree}/dev build && export BERTH_LIBRARY={built}/libberth.so BERTH_PROGRAM={built}/berth"
    return f"pip uninstall berth && {_MENDS}" if _other_berth() else _MENDS


def without_binaries() -> str:
    """The hint for an installation that lacks libberth or the program, such as a pure Python wheel. It tells how to fix this, and what works
    nevertheless."""
    return text("{}; fit_batch, split_step, accumulate, retry and is_oom work without it", _hint())


def _other_berth() -> Optional[str]:
    """The version of another project on PyPI that is also called `berth`, if it is installed. Its files have the same paths as Berth's."""
    from importlib import metadata  # imported only after a failure
    try:
        return metadata.version("berth")
    except Exception:  # the package is not installed, or its metadata cannot be read
        return None


def _clash() -> str:
    other = _other_berth()
    return text("; PyPI's \"berth\" {}, another project, is installed in the same place", other) if other else ""


def _loaded() -> ctypes.CDLL:
    """Loads the first library that exists. The error of a file that exists but cannot be loaded is more helpful than one about a missing file."""
    problem: Optional[Exception] = None
    for path in _candidates():
        try:
            found = ctypes.CDLL(path)
            found.berth_abi  # AttributeError if the library is not libberth
            return found
        except (OSError, AttributeError) as why:
            if problem is None or os.path.exists(path):
                problem = why
            if os.path.exists(path):
                break
    if not os.environ.get("BERTH_LIBRARY") and not any(os.path.exists(path) for path in _candidates()) and isinstance(problem, OSError):
        raise BrokerUnavailable(text("this installation has no libberth, which is the compiled part of Berth: {}", problem) + _clash(), "E0550",
                                without_binaries()) from problem
    raise BrokerUnavailable(text("libberth cannot be loaded: {}", problem) + _clash(), "E0550", _hint()) from problem


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """Returns libberth. It is loaded at the first call, so that `import berth` is fast."""
    found = _loaded()
    found.berth_abi.restype = ctypes.c_int
    if found.berth_abi() != ABI:
        raise BrokerUnavailable(text("libberth has interface version {}, but this package needs {}", found.berth_abi(), ABI), "E0550", _hint())
    found.berth_version.restype = ctypes.c_char_p
    found.berth_last_error.restype = ctypes.c_char_p
    found.berth_free.argtypes = [ctypes.c_void_p]
    found.berth_document.argtypes = [ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_void_p)]
    found.berth_lease_ask.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
    found.berth_lease_wait.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p)]
    found.berth_lease_why.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]
    found.berth_lease_end.argtypes = [ctypes.c_void_p, ctypes.c_int]
    found.berth_use_program.argtypes = [ctypes.c_char_p]
    program = os.environ.get("BERTH_PROGRAM") or _program()
    if program:
        found.berth_use_program(os.fsencode(program))
    return found


def _program() -> Optional[str]:
    """The path of the program in the interpreter's folder, where pip installs it. If None is returned, libberth searches for the program."""
    for folder in (os.path.dirname(sys.executable), os.path.join(sys.prefix, "bin")):
        path = os.path.join(folder, "berth")
        if os.access(path, os.X_OK) and not _is_script(path):
            return path
    return None


def _is_script(path: str) -> bool:
    """Whether the file is a script. Berth's program is a binary, and the program of PyPI's other `berth` is a script."""
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def version() -> str:
    """The version of libberth, such as "0.1.0"."""
    return str(library().berth_version().decode())


def last_error() -> BerthError:
    return error_from(json.loads(library().berth_last_error()))


def taken(pointer: ctypes.c_void_p) -> Optional[Dict[str, Any]]:
    """Parses the JSON document at a pointer from the library, and frees the document. Returns None for a null pointer."""
    if not pointer:
        return None
    try:
        document: Dict[str, Any] = json.loads(ctypes.string_at(pointer.value or 0))
        return document
    finally:
        library().berth_free(pointer)


def document(*words: str) -> Dict[str, Any]:
    """The document that `berth WORDS… --json` prints.

    Raises
    ------
    BerthError
        The program reported an error.
    """
    if is_chinese():  # English is the default of the program
        words += ("--lang", "zh")
    argv = (ctypes.c_char_p * (len(words) + 1))(*map(os.fsencode, words), None)
    pointer = ctypes.c_void_p()
    library().berth_document(argv, ctypes.byref(pointer))
    said = taken(pointer)
    if said is None:
        raise last_error()
    return said
