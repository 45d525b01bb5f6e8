"""Splits a batch into parts whose gradients add up to the gradients of the whole batch."""

from __future__ import annotations

from typing import Any, List, Optional

from .agreement import Agreement, agreement
from .parts import positive
from .splittable import warn_of_parts
from .weighted_parts import Count, Part, check_over, divided, weighed

__all__ = ["accumulate"]


def accumulate(batch: Any, parts: int, *, count: Optional[Count] = None, model: Any = None, over: str = "all", group: Any = None) -> List[Part]:
    """Splits a batch into a fixed number of parts. For training loops that call the optimizer's step after the last part.

    `part.share(loss)` weights the loss of a part, so that the gradients add up to those of the whole batch. docs/python-memory.md has more.

    Parameters
    ----------
    batch, parts : tensor, array, sequence, or a container of them; int
        The batch is split along the first axis, into at least 1 part, and never into more parts than there are items.
    count : callable, optional
        Takes a part's data and returns over how many items the loss of this part is averaged. If it is not given, all items count.
    model : torch.nn.Module, optional
        A SplitWarning names its layers and hooks that see only parts. DistributedDataParallel exchanges gradients only at the last part.
    over : {"all", "rank"}
        "all": the loss is the mean over the items of all ranks. "rank": it is the mean of the ranks' means, which is what DistributedDataParallel computes.

    Examples
    --------
    >>> losses, total = {"a": 1.0, "b": 2.0, "c": 6.0}, 0.0
    >>> for part in accumulate(["a", "b", "c"], 2):
    ...     with part:
    ...         total += part.share(sum(losses[one] for one in part.data) / len(part.data))      # .backward()
    >>> total
    3.0
    """
    def pieces() -> List[Part]:
        check_over(over)
        return divided(batch, positive("parts", parts), count)
    group = getattr(model, "process_group", None) if group is None else group
    together = agreement(group) if model is not None and hasattr(model, "no_sync") else Agreement()
    # If a part contains only padding, its loss has no mean and adds nothing, so leave the part out. Keep at least one part, because the
    # other ranks wait for this rank's last part.
    all_parts = weighed(together.each(pieces), together, over)
    some = [part for part in all_parts if part.items] or all_parts[:1]
    if len(some) > 1 and hasattr(model, "named_modules"):
        warn_of_parts(model)
    for at, part in enumerate(some):
        part.at, part.of = at, len(some)
        part.ranks = together.ranks
        part._quiet = getattr(model, "no_sync", None)
    return some
