"""Whether a step gives the same when its batch is split: what stands against it, by name, and by trying it on a few items."""

from __future__ import annotations

import functools
import math
import re
import sys
import types
import warnings
import weakref
from typing import Any, Callable, Iterator, List, Optional, Tuple

from .accumulating import Count, divided
from .errors import Unsupported
from .language import text
from .parts import length_of, part_of
from .randomness import kept, unused
from .retrying import check_lack_of_memory

__all__ = ["NotSplittable", "SplitWarning"]

# Losses whose items are compared with the others of their batch.
_NAMED = re.compile(r"info_?nce|nt_?xent|clip_?loss|sup_?con|in_?batch|multiple_?negatives|contrastive|barlow|vic_?reg|batch_?hard|simclr", re.I)


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
    parallel = sys.modules["torch"].nn.parallel
    while isinstance(model, (parallel.DistributedDataParallel, parallel.DataParallel)):  # a `module` may also be a layer's name
        model = model.module
    return model


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
        more = text(" and {} more", len(found) - 3) if len(found) > 3 else ""
        object_or(text("layers that see the parts of a split batch and not the whole: {}{}", ', '.join(found[:3]), more), allowed,
                  text("GroupNorm or LayerNorm in its place, or .eval() on these layers; batch_norm='warn' to go on"))


def check_loss(model: Any, loss_fn: Callable[..., Any], batch: Any, parts: int, count: Optional[Count], reduction: str, allowed: str) -> None:
    """Refuses a loss that compares items of a batch with each other, by its name, or because that of the batch is not what its parts'
    add up to. The model is in eval mode for that and has no gradients; what it would draw next stays."""
    if allowed == "allow":
        return
    hint = text("a loss with its own way to split (GradCache, a memory bank), or a smaller batch; in_batch='warn' to go on")
    named = next((name for name in _names(loss_fn) if _NAMED.search(name)), None)
    if named:
        return object_or(text("{} compares the items of a batch with each other, so its parts do not add up to the whole", named), allowed, hint)
    length, groups, why_not = length_of(batch), 1, ""
    while groups == 1 or length // groups >= 2:
        try:
            found = [_of_whole_and_parts(model, loss_fn, one, parts, count, reduction) for one in _spread(batch, groups)]
        except Exception as why:
            _check_context(why)
            why_not = f"{type(why).__name__}: {why}"
            groups *= 2
            continue
        for one in found:
            if one is not None and math.isfinite(one[0]) and not abs(one[0] - one[1]) <= one[2]:
                items = text("the {} items", length) if groups == 1 else text("{} of the {} items", length // groups, length)
                return object_or(
                    text("the loss of {} is {:.6g}, and of their parts together {:.6g}: it depends on which items are together, or `count` does "
                         "not count what it is a mean of", items, one[0], one[1]), allowed,
                    text("count=lambda batch: (batch['labels'] != -100).sum(), or with class weights weight[batch['labels']].sum(); or {}", hint))
        return
    warnings.warn(text("whether the loss can be split was not checked: {}", why_not), SplitWarning, stacklevel=5)


def _spread(batch: Any, groups: int) -> Iterator[Any]:
    """The batch, or where memory is short for it so many groups, each of items from all over it."""
    return (batch if groups == 1 else part_of(batch, at, None, groups) for at in range(groups))


def _check_context(why: Exception) -> None:
    """A lost context is raised; that memory ran out, or that two items are too few for it, only keeps from checking."""
    try:
        check_lack_of_memory(why)
    except Exception as said:
        if said is not why:
            raise


def _of_whole_and_parts(model: Any, loss_fn: Callable[..., Any], batch: Any, parts: int, count: Optional[Count],
                        reduction: str) -> Optional[Tuple[float, float, float]]:
    """The loss of these items, of their parts, and how much they may differ; None where there is nothing to compare."""
    torch = sys.modules["torch"]
    whole, pieces = divided(batch, 1, count), [part for part in divided(batch, parts, count) if part.items]
    total = whole[0].items
    if len(pieces) < 2 or not total:
        return None
    modes = {one: one.training for one in inner(model).modules()}
    state = kept()
    kinds = {one.dtype for one in inner(model).parameters()}
    devices = {one.device.type for one in inner(model).parameters()}

    def shares(some: List[Any]) -> List[float]:
        said = []
        for part in some:
            loss = loss_fn(inner(model), part.data)
            kinds.add(loss.dtype)
            said.append(float(loss.float()) * (part.items if reduction == "mean" else 1) / total)
        return said
    try:
        inner(model).eval()
        with torch.no_grad():
            one, other = shares(whole), shares(pieces)
    finally:
        for module, training in modes.items():
            module.training = training
        state.restore()
        unused(state)
    precise = kinds <= {torch.float32, torch.float64} and not torch.is_autocast_enabled()
    tolerance = (1e-4 if devices <= {"cpu"} else 1e-3) if precise else 3e-2
    return sum(one), sum(other), tolerance * max(abs(one[0]), sum(map(abs, other)), 1e-6)


_PLAIN = (bool, int, float, str, bytes, type(None), types.CodeType)


class Looked:
    """A loss and a count that were looked at: known again by what they are and hold, without keeping alive a model that they hold."""

    def __init__(self, *functions: Any) -> None:
        self._held = [_held(one) for function in functions for one in _made_of(function)]

    def is_for(self, *functions: Any) -> bool:
        now = [one for function in functions for one in _made_of(function)]
        return len(now) == len(self._held) and all(_is_same(held, one) for held, one in zip(self._held, now))


def _made_of(function: Any) -> Iterator[Any]:
    """What tells it from another: a function made anew in each step by the same lines is the same, if it holds the same."""
    if isinstance(function, functools.partial):
        yield from _made_of(function.func)
        yield from function.args
        yield from function.keywords.values()
    elif isinstance(function, types.MethodType):
        yield from _made_of(function.__func__)
        yield function.__self__
    elif isinstance(function, types.FunctionType):
        yield function.__code__
        yield from function.__defaults__ or ()
        for cell in function.__closure__ or ():
            yield _contents(cell)
    else:
        yield function


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return None


def _held(one: Any) -> Any:
    """It, where it is plain; else a reference to it, or nothing where there can be none."""
    if isinstance(one, _PLAIN):
        return one
    try:
        return weakref.ref(one)
    except TypeError:
        return weakref.ref(set())  # of nothing: it is never the same


def _is_same(held: Any, one: Any) -> bool:
    if isinstance(held, weakref.ref):
        return one is not None and held() is one
    return type(held) is type(one) and bool(held == one)
