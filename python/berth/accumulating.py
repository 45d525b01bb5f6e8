"""Splits a batch into parts whose gradients add up to those of the whole."""

from __future__ import annotations

from typing import Any, List, Optional

from .agreement import Agreement, agreement
from .parts import positive
from .splittable import warn_of_parts
from .weighted_parts import Count, Part, check_over, divided, weighed

__all__ = ["accumulate"]


def accumulate(batch: Any, parts: int, *, count: Optional[Count] = None, model: Any = None, over: str = "all", group: Any = None) -> List[Part]:
    """Splits a batch into a fixed number of parts, for a training loop of your own that steps after the last part.

    Parts may have different numbers of items that count, such as tokens that are not padding. Then the mean of their means is not the mean of the batch.
    `part.share(loss)` weights the loss by that number, so that the gradients add up to those of the whole batch.

    Parameters
    ----------
    batch : tensor, array, sequence, or dict, tuple or list of tensors or arrays
        It is split along the first axis; all must be equally long.
    parts : int
        At least 1; never more than there are items.
    count : callable, optional
        Takes a part's data and returns how many of its items the loss is a mean of; with class weights the sum of their weights. Without it, all
        items along the first axis count.
    model : torch.nn.Module, optional
        A SplitWarning names layers and hooks that see only parts, such as batch normalisation. With DistributedDataParallel, gradients are exchanged
        only in the `with` block of the last part.
    over : {"all", "rank"}
        The mean over the items of all ranks, or the mean of the ranks' means, as DistributedDataParallel computes it. They differ if ranks have different
        numbers of items.

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
    # A part that contains only padding has no mean and adds nothing, so it is left out. At least one part is kept, because other ranks wait
    # for this rank's last part.
    all_parts = weighed(together.each(pieces), together, over)
    some = [part for part in all_parts if part.items] or all_parts[:1]
    if len(some) > 1 and hasattr(model, "named_modules"):
        warn_of_parts(model)
    for at, part in enumerate(some):
        part.at, part.of = at, len(some)
        part.ranks = together.ranks
        part._quiet = getattr(model, "no_sync", None)
    return some
