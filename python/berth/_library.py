"""libberth by ctypes: whole JSON documents cross the border, and what it refuses becomes an exception here."""

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


_MENDS = "pip install --force-reinstall berth"


def _candidates() -> Sequence[str]:
    named = os.environ.get("BERTH_LIBRARY")
    here = os.path.dirname(os.path.abspath(__file__))
    return [named] if named else [os.path.join(here, "lib", "libberth.so.1"), "libberth.so.1"]


def _hint() -> str:
    return "unset BERTH_LIBRARY" if os.environ.get("BERTH_LIBRARY") else _MENDS


def _loaded() -> ctypes.CDLL:
    """The first that there is. Why that cannot be loaded says more than that another is not there."""
    problem: Optional[Exception] = None
    for path in _candidates():
        try:
            found = ctypes.CDLL(path)
            found.berth_abi  # else it is another library
            return found
        except (OSError, AttributeError) as why:
            if problem is None or os.path.exists(path):
                problem = why
            if os.path.exists(path):
                break
    raise BrokerUnavailable(text("libberth cannot be loaded: {}", problem), "E0550", _hint()) from problem


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """Loaded at the first use, so that `import berth` costs nothing."""
    found = _loaded()
    found.berth_abi.restype = ctypes.c_int
    if found.berth_abi() != ABI:
        raise BrokerUnavailable(text("libberth speaks version {} of its interface, this package {}", found.berth_abi(), ABI), "E0550", _hint())
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
    """Beside the interpreter, where pip puts it; else the library looks for it itself."""
    for folder in (os.path.dirname(sys.executable), os.path.join(sys.prefix, "bin")):
        path = os.path.join(folder, "berth")
        if os.access(path, os.X_OK):
            return path
    return None


def version() -> str:
    """Of the library, "0.1.0"."""
    return str(library().berth_version().decode())


def last_error() -> BerthError:
    return error_from(json.loads(library().berth_last_error()))


def taken(pointer: ctypes.c_void_p) -> Optional[Dict[str, Any]]:
    """The document that the library hands out; None where it handed out nothing."""
    if not pointer:
        return None
    try:
        document: Dict[str, Any] = json.loads(ctypes.string_at(pointer.value or 0))
        return document
    finally:
        library().berth_free(pointer)


def document(*words: str) -> Dict[str, Any]:
    """What `berth WORDS… --json` prints.

    Raises
    ------
    BerthError
        What the program said instead.
    """
    if is_chinese():  # else a document's sentences are English
        words += ("--lang", "zh")
    argv = (ctypes.c_char_p * (len(words) + 1))(*map(os.fsencode, words), None)
    pointer = ctypes.c_void_p()
    library().berth_document(argv, ctypes.byref(pointer))
    said = taken(pointer)
    if said is None:
        raise last_error()
    return said
