"""The memory pool of the devices that run kernels."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, List, NamedTuple

from .errors import BerthError

__all__ = ["LEAST_POOLED", "MOST_KEPT", "DeviceOutOfMemory", "Pool", "PoolStatistics"]

# In bytes: the smallest and the largest size that the pool keeps (all are powers of two), and how much it keeps of each size.
LEAST_POOLED, _MOST_POOLED, MOST_KEPT = 256, 1 << 20, 4 << 20
_POOLED = [1 << bits for bits in range(LEAST_POOLED.bit_length() - 1, _MOST_POOLED.bit_length())]


class DeviceOutOfMemory(BerthError, MemoryError):
    """The device has no memory for an array."""

    usual_id = "E0584"


class PoolStatistics(NamedTuple):
    """Bytes of arrays that exist; bytes that the pool keeps for later arrays; number of allocations by the driver; number of arrays that reused memory of
    the pool."""

    used_bytes: int
    free_bytes: int
    allocations: int
    reuses: int


class Pool:
    """Keeps free blocks of a device, by size. `new(size)` allocates a block."""

    def __init__(self, new: Callable[[int], Any]) -> None:
        self._new = new
        self.free: Dict[int, List[Any]] = {size: [] for size in _POOLED}
        self.bytes = self.allocations = self.reuses = 0

    def take(self, nbytes: int) -> Any:
        """A block of at least this size, which is not cleared."""
        if nbytes > _MOST_POOLED:
            return self._made(nbytes)
        size = 1 << (nbytes - 1 | LEAST_POOLED - 1).bit_length() if nbytes else LEAST_POOLED
        try:
            block = self.free[size].pop()
        except IndexError:
            return self._made(size)
        self.reuses += 1
        return block

    def give_back(self, block: Any) -> None:
        """Takes a block back, even if work still uses it. Work of the block's next owner waits for that work."""
        free = self.free.get(block.size)
        if free is not None and len(free) * block.size < MOST_KEPT:
            free.append(block)
        else:
            self.bytes -= block.size
            block.release()

    def trim(self) -> None:
        before, self.free = self.free, {size: [] for size in _POOLED}
        for one in itertools.chain.from_iterable(before.values()):
            self.bytes -= one.size
            one.release()

    def statistics(self) -> PoolStatistics:
        free = sum(size * len(blocks) for size, blocks in self.free.items())
        return PoolStatistics(self.bytes - free, free, self.allocations, self.reuses)

    def _made(self, size: int) -> Any:
        try:
            block = self._new(size)
        except DeviceOutOfMemory:
            self.trim()
            block = self._new(size)
        self.bytes += size
        self.allocations += 1
        return block
