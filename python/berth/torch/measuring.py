"""Measures the time, the memory and the bytes on disk that a model or a step needs."""

from __future__ import annotations

import io
import time
from typing import Any, Callable, Tuple

from ..reproducing import compare_outputs

__all__ = ["bytes_of", "drift", "timed"]


def bytes_of(torch: Any, model: Any) -> int:
    """The size in bytes of the file in which the model's state dict would be saved."""
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return file.tell()


def timed(torch: Any, function: Callable[[], Any], repeat: int, seconds: float, before: Callable[[], None] = lambda: None) -> Tuple[float, int, Any]:
    """Calls `function` up to `repeat` times, for about `seconds`. Returns (shortest time of a call in seconds, peak bytes on the GPU or 0, the
    last result). The first call and `before` are not timed."""
    has_gpu = torch.cuda.is_available()
    before()
    result = function()
    if has_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    least, end = float("inf"), time.perf_counter() + seconds
    for at in range(repeat):
        before()
        if has_gpu:
            torch.cuda.synchronize()
        begun = time.perf_counter()
        result = function()
        if has_gpu:
            torch.cuda.synchronize()
        least = min(least, time.perf_counter() - begun)
        if time.perf_counter() > end and at >= 1:
            break
    return least, torch.cuda.max_memory_allocated() if has_gpu else 0, result


def drift(one: Any, other: Any) -> float:
    """The largest absolute difference, divided by the largest number of `one`. Infinite if shapes, keys or texts differ."""
    said = compare_outputs(other, one)
    if said.why:
        return float("inf")
    return said.absolute / max(_largest(one), 1e-12)


def _largest(x: Any) -> float:
    if isinstance(x, dict):
        return max(map(_largest, x.values()), default=0.0)
    if isinstance(x, (list, tuple)):
        return max(map(_largest, x), default=0.0)
    if hasattr(x, "detach"):
        return float(x.detach().abs().max()) if x.numel() else 0.0
    return abs(float(x)) if isinstance(x, (int, float)) else 0.0
