"""Leaves a whole test file out, by pytest's way or by exit code 77, which is ctest's."""
import sys


def skip(reason):
    if "pytest" in sys.modules:
        import pytest
        pytest.skip(reason, allow_module_level=True)
    print(f"skipped: {reason}")
    sys.exit(77)
