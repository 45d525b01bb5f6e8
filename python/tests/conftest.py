"""Settings for `pytest python/tests`. Tests on simulated machines use the program and the library that BERTH_PROGRAM and BERTH_LIBRARY name, or those in
build/."""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python/tests")]
from on_a_machine import Machine, OnAMachine  # noqa: E402


def built():
    """The program and the library that were built last."""
    named = os.environ.pop("BERTH_PROGRAM", ""), os.environ.pop("BERTH_LIBRARY", "")
    if all(named):
        return tuple(map(os.path.abspath, named))
    found = [(path, path.parent / "libberth.so") for path in (ROOT / "build").glob("*/berth") if path.is_file() and (path.parent / "libberth.so").exists()]
    return tuple(map(str, max(found, key=lambda pair: pair[0].stat().st_mtime))) if found else ("", "")


Machine.berth, OnAMachine.library = built()


def pytest_collection_modifyitems(items):
    for item in items:
        if not Machine.berth and isinstance(getattr(item, "cls", None), type) and issubclass(item.cls, Machine):
            item.add_marker(pytest.mark.skip(reason="berth is not built: ./dev build, or BERTH_PROGRAM and BERTH_LIBRARY"))
