"""The parts of a batch, and the weight of each in the loss of the whole batch."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Callable, ContextManager, List, Optional

from .agreement import Agreement
from .errors import InvalidRequest
from .language import text
from .parts import length_of, part_of

__all__ = ["Count", "Part", "check_over", "check_reduction", "divided", "weighed"]

Count = Callable[[Any], Any]
REDUCTIONS = ("mean", "sum")


class Part:
    """A part of a batch. In a `with` block, DistributedDataParallel exchanges gradients only at the last part.

    Attributes
    ----------
    data
        The part's data: a batch of the same type with fewer items.
    items : int or float
        The number of the part's items that count for the loss, according to `count`.
    total : float
        The number of items that count in the whole batch, of all ranks together.
    last : bool
        True for the last part. The gradients are complete after its backward pass.
    """

    def __init__(self, data: Any, items: float, at: int, of: int) -> None:
        self.data, self.items, self.at, self.of = data, items, at, of
        self.total: float = items
        self.ranks = 1   # the number of ranks over which DistributedDataParallel averages; 1 if gradients are summed
        self._world = 1  # the number of ranks
        self._quiet: Optional[Callable[[], ContextManager[Any]]] = None
        self._block: Optional[ContextManager[Any]] = None

    def __repr__(self) -> str:
        return f"<berth.Part {self.at + 1} of {self.of}, {self.items:g} of {self.total:g} items>"

    @property
    def last(self) -> bool:
        return self.at + 1 == self.of

    def share(self, loss: Any, reduction: str = "mean") -> Any:
        """The loss to call `backward()` on. The gradients of all parts then add up to the gradient of the whole batch's loss.

        Parameters
        ----------
        loss : tensor, no dimensions
            The mean over the part's items that count, or with `reduction="sum"` the sum over them. A sum is not divided by the number of items, but it is
            averaged over the ranks, which DistributedDataParallel does too.
        """
        return loss * self.weight(reduction)

    def weight(self, reduction: str = "mean") -> float:
        """The factor by which share() multiplies this part's loss. It is 1 if there is only one part and one rank."""
        check_reduction(reduction)
        if reduction == "sum":
            return self.ranks / self._world
        # DistributedDataParallel divides by the number of ranks. But `total` is already the sum over all ranks, so multiply by `ranks`.
        return self.items / self.total * self.ranks

    def __enter__(self) -> "Part":
        self._block = contextlib.nullcontext() if self.last or self._quiet is None else self._quiet()
        self._block.__enter__()
        return self

    def __exit__(self, *what: Any) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(*what)


def check_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise InvalidRequest(text("reduction: {!r} is not one of {}", reduction, ', '.join(REDUCTIONS)), "E0003")


def divided(batch: Any, parts: int, count: Optional[Count]) -> List[Part]:
    """Splits into `parts` parts, but not into more parts than there are items. The lengths of parts differ by at most one item."""
    length = length_of(batch)
    if length == 0:
        raise InvalidRequest(text("the batch is empty: there is nothing to compute a mean of"), "E0560")
    parts = min(parts, length)
    edges = [length * at // parts for at in range(parts + 1)]
    data = [batch if parts == 1 else part_of(batch, first, last) for first, last in zip(edges, edges[1:])]
    return [Part(one, _counted(one, count), at, parts) for at, one in enumerate(data)]


def _counted(data: Any, count: Optional[Count]) -> float:
    """The number of items that count. With class weights, it may be a fraction."""
    if count is None:
        return length_of(data)
    said = count(data)
    try:
        number = float(said)  # float() also accepts a tensor with one number
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise InvalidRequest(text("count: {!r:.80} is not a number of items", said), "E0104", "count=lambda batch: (batch['labels'] != -100).sum()")
    return int(number) if number == int(number) else number


def check_over(over: str) -> None:
    if over not in ("all", "rank"):
        raise InvalidRequest(text("over: {!r} is not 'all' or 'rank'", over), "E0003")


def weighed(pieces: List[Part], together: Agreement, over: str) -> List[Part]:
    """Stores in each part how many items count in all ranks together, and returns the parts. All ranks must call this function."""
    own = sum(part.items for part in pieces)
    total = together.sum(own) if over == "all" else float(own * together.ranks)
    if (together.least(1 if own else 0) if over == "rank" else total) == 0:
        raise InvalidRequest(text("no item of the batch counts for the loss: there is nothing to compute a mean of"), "E0567",
                             text("skip such batches"))
    for part in pieces:
        part.total = total
        part._world = together.ranks
    return pieces
