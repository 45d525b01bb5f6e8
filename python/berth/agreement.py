"""Decisions that all ranks of a job make together.

If one rank repeated a step alone, the other ranks would wait forever for this rank in a collective call.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional, TypeVar

from .errors import BerthError
from .language import text
from .stepping import StepInterrupted

__all__ = ["Agreement", "RankFailed", "agreement"]

Result = TypeVar("Result")

FAILED = 9  # sent by a rank whose function failed for a reason other than memory
_INTERRUPTED = 10  # sent by a rank that failed in the middle of its step


class RankFailed(BerthError):
    """Another rank failed for a reason other than memory, or in the middle of its step. This rank cannot continue without that rank."""

    may_try_again = False


class Agreement:
    """Each rank passes a number, and all ranks get the same result. With one rank, the result is its own number, and no framework is
    needed.

    The memory for these messages is allocated at the start, because there may be none left later.
    """

    def __init__(self, distributed: Any = None, group: Any = None) -> None:
        self._distributed, self.group, self._number = distributed, group, None
        self.ranks, self.rank = 1, 0
        if distributed is None:
            return
        torch = sys.modules["torch"]
        self.ranks, self.rank = distributed.get_world_size(group), distributed.get_rank(group)
        device = "cuda" if str(distributed.get_backend(group)) == "nccl" else "cpu"
        self._number = torch.zeros(1, dtype=torch.float64, device=device)

    def _together(self, value: float, how: str) -> float:
        if self.ranks == 1 or self._number is None:
            return value
        self._number.fill_(value)
        self._distributed.all_reduce(self._number, op=getattr(self._distributed.ReduceOp, how), group=self.group)
        return float(self._number.item())

    def most(self, value: int) -> int:
        """The largest number that any rank passed."""
        return int(self._together(value, "MAX"))

    def least(self, value: int) -> int:
        return int(self._together(value, "MIN"))

    def sum(self, value: float) -> float:
        return self._together(value, "SUM")

    def each(self, own: Callable[[], Result]) -> Result:
        """Runs `own` in each rank. If it fails in one rank, the other ranks raise RankFailed, so that they do not wait forever."""
        if self.ranks == 1:
            return own()
        try:
            result = own()
        except Exception as problem:
            self.most(_INTERRUPTED if isinstance(problem, StepInterrupted) else FAILED)
            raise
        said = self.most(0)
        if said == _INTERRUPTED:
            raise RankFailed(text("memory ran out in another rank in the middle of its step: parameters may differ between the ranks from now on"), "E0564",
                             text("start all ranks from the last checkpoint; the other rank's own output says what to change"))
        if said == FAILED:
            raise RankFailed(text("another rank failed for a reason other than memory: see its output"), "E0564")
        return result


def agreement(group: Optional[Any] = None) -> Agreement:
    """Returns an Agreement of all ranks of torch.distributed. If `group` is False, or torch.distributed is not initialised, it contains only this
    process."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if group is False or distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return Agreement()
    return Agreement(distributed, group)
