"""Whether a step gives the same when its batch is split: what stands against it, by name, and by trying it on a few items."""

from __future__ import annotations

import math
import re
import sys
import warnings
from typing import Any, Callable, Iterator, List, Optional

from .accumulating import Count, divided
from .batches import length_of, part_of
from .errors import Unsupported
from .randomness import kept, unused
from .retrying import check_lack_of_memory

__all__ = ["NotSplittable", "SplitWarning"]

# Losses whose items are compared with the others of their batch.
_NAMED = re.compile(r"info_?nce|nt_?xent|clip_?loss|sup_?con|in_?batch|multiple_?negatives|contrastive|barlow|vic_?reg|batch_?hard|simclr", re.I)
_ITEMS = (4, 2)  # tried in this order, where memory is short


class NotSplittable(Unsupported):
    """The step would compute something else with its batch in parts."""


class SplitWarning(UserWarning):
    """It computes something else with its batch in parts, which the caller has allowed."""


def object_or(why: str, allowed: str, hint: str) -> None:
    """Refuses, or says so where that was asked for."""
    if allowed == "warn":
        warnings.warn(f"{why}. {hint}", SplitWarning, stacklevel=4)
    elif allowed == "refuse":
        raise NotSplittable(why, "E0561", hint)


def inner(model: Any) -> Any:
    """Without its wrapper for several ranks or GPUs."""
    return getattr(model, "module", model)


def batch_norms(model: Any) -> List[str]:
    """Names of layers whose output for an item depends on the items beside it, or that write their state at each pass."""
    norms = sys.modules["torch"].nn.modules.batchnorm
    found = []
    for name, one in inner(model).named_modules():
        if not one.training:
            continue
        kind = type(one).__name__
        hooks = [type(hook).__name__ for hook in one._forward_pre_hooks.values()]
        if isinstance(one, norms._BatchNorm) or (isinstance(one, norms._NormBase) and one.track_running_stats) or "SpectralNorm" in kind:
            found.append(f"{name or kind} ({kind})")
        elif "SpectralNorm" in hooks:
            found.append(f"{name or kind} (SpectralNorm)")
    return found


def _names(function: Any, depth: int = 2) -> Iterator[str]:
    """What a loss is called, and what it calls."""
    yield getattr(function, "__name__", "")
    yield type(function).__name__
    code = getattr(function, "__code__", None)
    if code is not None and depth:
        yield from code.co_names
        for cell in getattr(function, "__closure__", None) or ():
            try:
                yield from _names(cell.cell_contents, depth - 1)
            except ValueError:  # an empty cell
                pass


def check_batch_norm(model: Any, allowed: str) -> None:
    found = batch_norms(model)
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        object_or(f"layers that see the parts of a split batch and not the whole: {', '.join(found[:3])}{more}", allowed,
                  "GroupNorm or LayerNorm in its place, or .eval() on these layers; batch_norm='warn' to go on")


def check_loss(model: Any, loss_fn: Callable[..., Any], batch: Any, count: Optional[Count], reduction: str, allowed: str) -> None:
    """Refuses a loss that compares items of a batch with each other, by its name, or because that of a few items is not what their
    halves' add up to. The model is in eval mode for that and has no gradients; what it would draw next stays."""
    if allowed == "allow":
        return
    hint = "a loss with its own way to split (GradCache, a memory bank), or a smaller batch; in_batch='warn' to go on"
    named = next((name for name in _names(loss_fn) if _NAMED.search(name)), None)
    if named:
        return object_or(f"{named} compares the items of a batch with each other, so its parts do not add up to the whole", allowed, hint)
    for items in _ITEMS:
        try:
            found = _of_whole_and_halves(model, loss_fn, part_of(batch, 0, min(items, length_of(batch))), count, reduction)
        except Exception as why:
            _check_context(why)
            not_checked = f"{type(why).__name__}: {why}"
            continue
        if found is None or not math.isfinite(found[0]):
            return
        if not abs(found[0] - found[1]) <= found[2] * max(abs(found[0]), abs(found[1]), 1e-6):
            object_or(f"the loss of {items} items is {found[0]:.6g}, and of their halves together {found[1]:.6g}: it depends on which items are "
                      "together, or `count` does not count what it is a mean of", allowed, "count=lambda batch: …; or " + hint)
        return
    warnings.warn(f"whether the loss can be split was not checked: {not_checked}", SplitWarning, stacklevel=5)


def _check_context(why: Exception) -> None:
    """A lost context is raised; that memory ran out, or that two items are too few for it, only keeps from checking."""
    try:
        check_lack_of_memory(why)
    except Exception as said:
        if said is not why:
            raise


def _of_whole_and_halves(model: Any, loss_fn: Callable[..., Any], batch: Any, count: Optional[Count], reduction: str) -> Any:
    """The loss of a few items, of their halves, and how much they may differ; None where there is nothing to compare."""
    torch = sys.modules["torch"]
    whole, halves = divided(batch, 1, count), divided(batch, 2, count)
    if len(halves) < 2 or not all(part.items for part in (*whole, *halves)):
        return None
    modes = {one: one.training for one in inner(model).modules()}
    state = kept()
    try:
        inner(model).eval()
        with torch.no_grad():
            said = [[float(loss_fn(inner(model), part.data).float()) * (part.items if reduction == "mean" else 1) for part in some]
                    for some in (whole, halves)]
    finally:
        for one, training in modes.items():
            one.training = training
        state.restore()
        unused(state)
    precise = {one.dtype for one in inner(model).parameters()} <= {torch.float32, torch.float64} and not torch.is_autocast_enabled()
    return sum(said[0]), sum(said[1]), 1e-3 if precise else 3e-2
