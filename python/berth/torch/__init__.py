"""Ready-made for PyTorch, to be put together in a loop of one's own: each goes through PyTorch's own API, by the names that the installed
version has. `import berth` loads none of this, and this loads PyTorch."""

from __future__ import annotations

from .precision import Amp, amp
from .ranks import distribute
from .shrinking import ShrinkReport, prune, quantize
from .tuning import Trial, TuneReport, tune

__all__ = ["Amp", "ShrinkReport", "Trial", "TuneReport", "amp", "distribute", "prune", "quantize", "tune"]
