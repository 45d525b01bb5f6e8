"""Puts as many items into a batch as fit: few long items, or many short items."""

from __future__ import annotations

import math
import random
from typing import Any, Callable, Iterator, List, Optional, Sequence, Union

from .errors import InvalidRequest
from .language import text
from .parts import positive
from .sizes import bytes_of, number, whole

__all__ = ["DynamicBatchSampler"]


def _whole(length: Any) -> int:
    """Converts an integer of any type, such as NumPy's or PyTorch's, to int. Refuses numbers such as 3.9."""
    number = int(length) if length not in (math.inf, -math.inf) else None
    if number is None or number != length:
        raise InvalidRequest(text("{}: {!r} is not a whole number", "lengths", length), "E0560")
    return number


class DynamicBatchSampler:
    """Batches of indices for a DataLoader's `batch_sampler`. Each is as large as a number of tokens or a memory budget allows.

    A batch contains items of similar length, so there is little padding. Use the same seed in all ranks; then each rank gets the same number of batches.

    Parameters
    ----------
    lengths : sequence of int
        The length of each item, in tokens, frames or pixels.
    max_tokens, max_items : int, optional
        The most tokens in a batch, with padding (its items times its longest one), and the most items.
    memory, budget : callable; int or str, optional
        Replace `max_tokens`. `memory(items, longest)` returns how many bytes a step with such a batch needs. `budget` is the limit (bytes, or "8GiB").
    shuffle, seed : bool, int
        If True, the batches and their order are different in each epoch (`set_epoch`).
    too_long : {"refuse", "skip"}
        What to do with an item that is too large by itself.
    rank, ranks : int
        The rank of this process, and the number of ranks.

    Examples
    --------
    >>> sampler = DynamicBatchSampler([3, 9, 4, 8, 2], max_tokens=12, shuffle=False)
    >>> list(sampler), len(sampler)
    ([[4, 0, 2], [3], [1]], 3)
    """

    def __init__(self, lengths: Sequence[int], *, max_tokens: Optional[int] = None, memory: Optional[Callable[[int, int], float]] = None,
                 budget: Union[int, str, None] = None, max_items: Optional[int] = None, shuffle: bool = True, seed: int = 0,
                 too_long: str = "refuse", rank: int = 0, ranks: int = 1) -> None:
        if (max_tokens is None) == (memory is None) or (memory is None) != (budget is None):
            raise InvalidRequest(text("pass either max_tokens, or memory and budget: they limit the size of a batch"), "E0010")
        if too_long not in ("refuse", "skip"):
            raise InvalidRequest(text("too_long: {!r} is not 'refuse' or 'skip'", too_long), "E0003")
        if max_tokens is not None:
            positive("max_tokens", max_tokens)
        if max_items is not None:
            positive("max_items", max_items)
        if not whole("rank", rank, 0) < positive("ranks", ranks):
            raise InvalidRequest(text("rank: {!r} is not one of {}", rank, ranks), "E0104")
        if memory is not None and not callable(memory):
            raise InvalidRequest(text("memory: a {} cannot be called", type(memory).__name__), hint="memory=lambda items, longest: items * longest * 4096")
        try:
            self.lengths = [_whole(one) for one in lengths]
        except InvalidRequest:  # InvalidRequest inherits from ValueError, so this clause must come first
            raise
        except (TypeError, ValueError):
            raise InvalidRequest(text("lengths: a {} is not a sequence of numbers", type(lengths).__name__), "E0560") from None
        if min(self.lengths, default=0) < 0:
            raise InvalidRequest(text("lengths: {} is below 0", min(self.lengths)), "E0560")
        self._tokens, self._memory, self._items = max_tokens, memory, max_items
        self._budget = bytes_of(budget, "budget") if budget is not None else 0
        self._shuffle, self._seed, self._epoch, self._rank, self._ranks = shuffle, seed, 0, rank, ranks
        self.skipped = [at for at, length in enumerate(self.lengths) if not self._fits(1, length)]
        if self.skipped and too_long == "refuse":
            at = self.skipped[0]
            raise InvalidRequest(text("item {} of length {} alone exceeds the limit of a batch ({} such items)", at, self.lengths[at],
                                      len(self.skipped)), "E0562",
                                 text("truncate it, raise the limit, or pass too_long='skip'"))
        self._batches: Optional[List[List[int]]] = None

    def _fits(self, items: int, longest: int) -> bool:
        if self._items is not None and items > self._items:
            return False
        if self._memory is not None:
            return number("memory", self._memory(items, longest), -math.inf) <= self._budget
        return self._tokens is None or items * longest <= self._tokens

    def set_epoch(self, epoch: int) -> None:
        """Starts another epoch with different batches. All ranks must call this with the same number."""
        self._epoch, self._batches = epoch, None

    def _all(self) -> List[List[int]]:
        """The batches of all ranks in this epoch."""
        chance = random.Random(f"{self._seed} {self._epoch}")
        left_out = set(self.skipped)
        order = [at for at in range(len(self.lengths)) if at not in left_out]
        if self._shuffle:
            chance.shuffle(order)  # items with the same length are in random order
        order.sort(key=self.lengths.__getitem__)
        batches: List[List[int]] = []
        for at in order:  # items come in order of length, so each new item is the longest in its batch
            if batches and self._fits(len(batches[-1]) + 1, self.lengths[at]):
                batches[-1].append(at)
            else:
                batches.append([at])
        if self._shuffle:
            chance.shuffle(batches)
        return batches

    def _own(self) -> List[List[int]]:
        if self._batches is None:
            every = self._all()
            missing = -len(every) % self._ranks if every else 0
            self._batches = (every + (every * self._ranks)[:missing])[self._rank::self._ranks]
        return self._batches

    def __iter__(self) -> Iterator[List[int]]:
        return iter([list(one) for one in self._own()])

    def __len__(self) -> int:
        return len(self._own())

    @property
    def padding(self) -> float:
        """Which fraction of the tokens in this rank's batches is padding, in this epoch."""
        own = self._own()
        padded: Any = sum(len(one) * max(self.lengths[at] for at in one) for one in own)
        return 1 - sum(self.lengths[at] for one in own for at in one) / padded if padded else 0.0
