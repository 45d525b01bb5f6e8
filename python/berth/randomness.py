"""The state of random generators: kept before a try and restored before the next one, so that it draws the same numbers."""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any, List, Optional

__all__ = ["Randomness", "kept"]


def _numpy() -> Optional[Any]:
    """NumPy's random module, if NumPy is loaded. Later versions of NumPy load it at the first use, which may be inside a try."""
    if "numpy" not in sys.modules:
        return None
    try:
        found = importlib.import_module("numpy.random")
    except Exception:  # NumPy cannot be imported, or this module only has the same name
        return None
    return found if hasattr(found, "get_state") else None


class Randomness:
    """The state of the global random generators: Python's, NumPy's if NumPy is loaded, and PyTorch's for the CPU and the GPUs if PyTorch is loaded.

    Does not contain generators that the program has created itself.
    """

    __slots__ = ("_python", "_numpy", "_torch", "_cuda")

    def __init__(self) -> None:
        self._python = random.getstate()
        numpy, torch = _numpy(), sys.modules.get("torch")
        self._numpy: Any = numpy.get_state(legacy=False) if numpy is not None else None
        self._torch: Any = None
        self._cuda: Optional[List[Any]] = None
        if hasattr(torch, "default_generator"):  # not if another thread is still importing PyTorch
            self._torch = torch.default_generator.get_state()  # type: ignore[union-attr]
            cuda = torch.cuda  # type: ignore[union-attr]
            begun = getattr(cuda, "_initialized", True) and cuda.is_initialized()
            self._cuda = cuda.get_rng_state_all() if begun else None

    def is_now(self) -> bool:
        """Whether no random number has been drawn since this state was recorded."""
        now = Randomness()
        return self._python == now._python and str(self._numpy) == str(now._numpy) and _has_drawn(self._numpy) == _has_drawn(now._numpy) and \
            _same(self._torch, now._torch) and all(map(_same, self._cuda or (), now._cuda or ()))

    def restore(self) -> None:
        """Restores the state, so that the same numbers are drawn again."""
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        if self._torch is not None:
            sys.modules["torch"].default_generator.set_state(self._torch)
        if self._cuda is not None:
            sys.modules["torch"].cuda.set_rng_state_all(self._cuda)


def _has_drawn(state: Any) -> Any:
    """The generator's array as bytes, for comparison. str() does not suffice, because it leaves out most numbers of a long array."""
    numbers = state["state"].get("key") if isinstance(state, dict) else None
    return numbers.tobytes() if numbers is not None else None


def _same(one: Any, other: Any) -> bool:
    return one is other or (one is not None and other is not None and bool(sys.modules["torch"].equal(one, other)))


def kept() -> Randomness:
    """Returns the current state of the random generators."""
    return Randomness()
