"""Helpers for PyTorch training loops. They call PyTorch's own functions, whose names depend on the installed version.

`import berth` does not load this module; this module loads PyTorch.
"""

from __future__ import annotations

from .precision import Amp, amp
from .ranks import distribute
from .shrinking import ShrinkReport, prune, quantize
from .tuning import Trial, TuneReport, tune

__all__ = ["Amp", "ShrinkReport", "Trial", "TuneReport", "amp", "distribute", "prune", "quantize", "tune"]
