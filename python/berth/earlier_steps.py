"""What earlier steps with a model have shown: how large a part may be, and which losses were compared with those of their parts."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Tuple

from .parts import kinds_of
from .splittable import Looked
from .weighted_parts import Count

__all__ = ["EarlierSteps"]


class EarlierSteps:
    """What earlier steps with one model have shown."""

    _FIRST, _MOST = 16, 1024  # number of steps until larger parts are tried again: at first, and at most

    def __init__(self) -> None:
        self.items = 0  # size of a part that fitted; 0: memory has not run out yet
        self.losses: List["_Compared"] = []
        self._wait, self._steps = self._FIRST, 0

    def parts(self, length: int) -> Tuple[int, int]:
        """Returns (number of parts to try first, number of parts that fitted before). The first number is sometimes smaller, to try larger parts
        again: a lack of memory may have been temporary."""
        if not self.items:
            return 1, 0
        fitted = max(1, -(-length // self.items))
        larger = self._steps >= self._wait and fitted > 1
        return max(1, -(-length // (2 * self.items))) if larger else fitted, fitted

    def fitted(self, items: int, failures: int, larger: bool) -> None:
        """Records that parts of `items` items fitted. A recorded size is reduced only after a failure, because the parts of a small batch
        are small anyway."""
        self._steps += 1
        if larger:
            self._steps, self._wait = 0, min(2 * self._wait, self._MOST) if failures else self._FIRST
        if failures > (1 if larger else 0):
            if not larger:
                self._steps, self._wait = 0, self._FIRST
            self.items = max(items, 1)
        elif self.items:
            self.items = max(items, self.items)

    def compared(self, loss_fn: Any, count: Optional[Count]) -> Optional["_Compared"]:
        return next((one for one in self.losses if one.functions.is_for(loss_fn, count)), None)

    def add(self, loss_fn: Any, count: Optional[Count], batch: Any, even: bool) -> None:
        """Records that a loss was compared with the losses of its parts, for a batch whose parts have equal counts (`even`) or not."""
        found = self.compared(loss_fn, count)
        if found is None:
            found = _Compared(Looked(loss_fn, count))
            self.losses = [*self.losses[-9:], found]
        found.unequal = found.unequal or not even
        if even:
            found.add(batch)


@dataclasses.dataclass
class _Compared:
    """A loss function that was compared with the losses of parts. The first batch that is split is compared, and later the first batch whose parts have
    different counts."""

    functions: Looked
    unequal: bool = False
    kinds: List[Any] = dataclasses.field(default_factory=list)
    steps: int = 0
    last: int = 0

    def covers(self, batch: Any) -> bool:
        """Whether a batch whose parts have equal counts needs no comparison: an earlier compared batch had the same kinds of padding in labels and mask.
        The 2nd, 4th, 8th, … batch is compared in any case, because padding may be expressed in other ways."""
        self.steps += 1
        return kinds_of(batch) in self.kinds and self.steps < 2 * self.last

    def add(self, batch: Any) -> None:
        self.last = max(self.steps, 1)
        self.kinds = [*self.kinds[-9:], kinds_of(batch)]
