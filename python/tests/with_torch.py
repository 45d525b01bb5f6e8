"""Imports PyTorch for tests that need it; skips the test with 77 if it is not installed."""
import pathlib
import sys

from skipping import skip

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
try:
    import torch  # noqa: F401
except ImportError:
    skip("this Python has no PyTorch")
