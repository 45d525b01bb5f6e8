"""A batch in parts whose gradients add up to those of the whole."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Callable, ContextManager, List, Optional

from .agreement import Agreement, agreement
from .errors import InvalidRequest
from .language import text
from .parts import length_of, part_of, positive

__all__ = ["Part", "accumulate"]

Count = Callable[[Any], Any]
REDUCTIONS = ("mean", "sum")


class Part:
    """A part of a batch. In a `with` block, DistributedDataParallel exchanges gradients at the last part only.

    Attributes
    ----------
    data
        As the batch, with fewer items.
    items : int or float
        So many of them count for the loss; what `count` gives.
    total : float
        So many do in the whole batch, of all ranks.
    last : bool
        Gradients are whole after it.
    """

    def __init__(self, data: Any, items: float, at: int, of: int) -> None:
        self.data, self.items, self.at, self.of = data, items, at, of
        self.total: float = items
        self.ranks = 1
        self._quiet: Optional[Callable[[], ContextManager[Any]]] = None
        self._block: Optional[ContextManager[Any]] = None

    def __repr__(self) -> str:
        return f"<berth.Part {self.at + 1} of {self.of}, {self.items:g} of {self.total:g} items>"

    @property
    def last(self) -> bool:
        return self.at + 1 == self.of

    def share(self, loss: Any, reduction: str = "mean") -> Any:
        """What to call `backward()` on, so that the gradients of all parts add up to that of the whole batch's mean.

        Parameters
        ----------
        loss : tensor, no dimensions
            The mean over the part's items that count, or with `reduction="sum"` their sum.
        """
        check_reduction(reduction)
        # DistributedDataParallel divides by the number of ranks, which the total has in it already.
        return loss * ((self.items if reduction == "mean" else 1) / self.total * self.ranks)

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
        raise InvalidRequest(text("reduction: {!r} is none of {}", reduction, ', '.join(REDUCTIONS)), "E0003")


def divided(batch: Any, parts: int, count: Optional[Count]) -> List[Part]:
    """So many parts, or as many as there are items, none of them more than one item longer than another."""
    length = length_of(batch)
    if length == 0:
        raise InvalidRequest(text("the batch is empty: there is nothing to compute a mean of"), "E0560")
    parts = min(parts, length)
    edges = [length * at // parts for at in range(parts + 1)]
    data = [batch if parts == 1 else part_of(batch, first, last) for first, last in zip(edges, edges[1:])]
    return [Part(one, _counted(one, count), at, parts) for at, one in enumerate(data)]


def _counted(data: Any, count: Optional[Count]) -> float:
    """How many count; with class weights no whole number."""
    if count is None:
        return length_of(data)
    said = count(data)
    try:
        number = float(said)  # also a tensor of one number
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise InvalidRequest(text("count: {!r:.80} is not a number of items", said), "E0104", "count=lambda batch: (batch['labels'] != -100).sum()")
    return int(number) if number == int(number) else number


def check_over(over: str) -> None:
    if over not in ("all", "rank"):
        raise InvalidRequest(text("over: {!r} is neither all nor rank", over), "E0003")


def weighed(pieces: List[Part], together: Agreement, over: str) -> List[Part]:
    """Each knows how many items all have, after all ranks have said how many they have."""
    own = sum(part.items for part in pieces)
    total = together.sum(own) if over == "all" else float(own * together.ranks)
    if (together.least(1 if own else 0) if over == "rank" else total) == 0:
        raise InvalidRequest(text("no item of the batch counts for the loss: there is nothing to compute a mean of"), "E0567",
                             text("leave such a batch out"))
    for part in pieces:
        part.total = total
    return pieces


def accumulate(batch: Any, parts: int, *, count: Optional[Count] = None, model: Any = None, over: str = "all", group: Any = None) -> List[Part]:
    """A batch in so many parts, for a loop of one's own that steps after the last of them.

    The mean of the parts' means is not the mean of the batch where parts have different numbers of items that count, such as tokens
    that are no padding. `part.share(loss)` is weighed by that number; the gradients add up to those of the whole batch.

    Parameters
    ----------
    batch : tensor, array, sequence, or dict, tuple or list of tensors or arrays
        Split along the first axis; all must be equally long.
    parts : int
        At least 1; as many as there are items where it is more.
    count : callable, optional
        Takes a part's data, and gives how many of its items the loss is a mean of, or with class weights the sum of their weights; else all
        along the first axis.
    model : torch.nn.Module, optional
        A SplitWarning names layers and hooks that see the parts and not the whole, such as batch normalisation. Of DistributedDataParallel, the
        `with` blocks of all parts but the last keep it from exchanging gradients.
    over : {"all", "rank"}
        The mean over the items of all ranks, or of each rank's own mean, as DistributedDataParallel has it by itself. They differ
        where ranks have different numbers of items.

    Raises
    ------
    InvalidRequest
        The batch is empty or has no length (a generator), its tensors differ in length, or none of its items counts.

    Examples
    --------
    >>> losses = {"a": 1.0, "b": 2.0, "c": 6.0}
    >>> total = 0.0
    >>> for part in accumulate(["a", "b", "c"], 2):
    ...     with part:
    ...         mean = sum(losses[one] for one in part.data) / len(part.data)
    ...         total += part.share(mean)      # .backward()
    >>> total
    3.0
    """
    def pieces() -> List[Part]:
        check_over(over)
        return divided(batch, positive("parts", parts), count)
    group = getattr(model, "process_group", None) if group is None else group
    together = agreement(group) if model is not None and hasattr(model, "no_sync") else Agreement()
    # A part of padding alone has no mean, and adds nothing; one stays where the others wait for this rank's last.
    all_parts = weighed(together.each(pieces), together, over)
    some = [part for part in all_parts if part.items] or all_parts[:1]
    if len(some) > 1 and hasattr(model, "named_modules"):
        from .splittable import warn_of_parts  # which needs this module
        warn_of_parts(model)
    for at, part in enumerate(some):
        part.at, part.of = at, len(some)
        part.ranks = together.ranks
        part._quiet = getattr(model, "no_sync", None)
    return some
