"""Checks whether a step gives the same result when its batch is split: by known names, and by a trial with a few items."""

from __future__ import annotations

import functools
import re
import sys
import types
import warnings
import weakref
from typing import Any, Callable, Iterator, List, Optional, Tuple

from .weighted_parts import Count
from .comparing import CannotCompare, Compared, DrawsForItems, NotFinite, compared
from .comparing_gradients import ComparedGradients, compared_gradients
from .errors import Unsupported
from .language import text
from .oom import is_oom
from .parts import length_of, part_of
from .retrying import may_fit_later, release_memory

__all__ = ["NotSplittable", "SplitWarning"]

# Losses that compare the items of a batch with each other.
_NAMED = re.compile(r"info_?nce|nt_?xent|clip_?loss|sup_?con|in_?batch|multiple_?negatives|contrastive|barlow|vic_?reg|batch_?hard|simclr", re.I)


class NotSplittable(Unsupported):
    """The step would give a different result if its batch were split."""


class SplitWarning(UserWarning):
    """A split step gives a different result, and the caller has allowed that."""


def object_or(why: str, allowed: str, hint: str) -> None:
    """Raises NotSplittable if `allowed` is "refuse". Only warns if it is "warn"."""
    if allowed == "warn":
        warnings.warn(f"{why}. {hint}", SplitWarning, stacklevel=4)
    elif allowed == "refuse":
        raise NotSplittable(why, "E0561", hint)


def inner(model: Any) -> Any:
    """The model itself, without a wrapper such as DistributedDataParallel."""
    parallel = sys.modules["torch"].nn.parallel
    # checks the type, because a layer called `module` may also exist in other models
    while isinstance(model, (parallel.DistributedDataParallel, parallel.DataParallel)):
        model = model.module
    return model


def batch_norms(model: Any) -> List[str]:
    """Names of layers that mix the items of a batch or that write state in each pass."""
    found = [(name or type(one).__name__, type(one).__name__ if _is_norm(one, False) else "SpectralNorm")
             for name, one in inner(model).named_modules() if one.training and _is_norm(one)]
    return [f"{name} ({kind})" for name, kind in found]


def _is_norm(layer: Any, hooked: bool = True) -> bool:
    norms = sys.modules["torch"].nn.modules.batchnorm
    return isinstance(layer, norms._BatchNorm) or (isinstance(layer, norms._NormBase) and layer.track_running_stats) or \
        "SpectralNorm" in type(layer).__name__ or (hooked and any(type(hook).__name__ == "SpectralNorm" for hook in layer._forward_pre_hooks.values()))


def _names(function: Any, depth: int = 2) -> Iterator[str]:
    """Yields the name of a loss function and the names that it uses."""
    yield getattr(function, "__name__", "")
    yield type(function).__name__
    code = getattr(function, "__code__", None)
    if code is not None and depth:
        yield from code.co_names
        for cell in getattr(function, "__closure__", None) or ():
            try:
                yield from _names(cell.cell_contents, depth - 1)
            except ValueError:  # the closure's variable has no value yet
                pass


def check_batch_norm(model: Any, allowed: str) -> None:
    found = batch_norms(model)
    if found:
        object_or(text("layers that would see only parts of the batch: {}", _some(found)), allowed,
                  text("use GroupNorm or LayerNorm, or .eval() on these layers; or batch_norm='warn' to continue"))


def check_hooks(model: Any, allowed: str) -> None:
    """Refuses backward hooks of layers. Hooks of parameters are called with the complete gradient (hooks.py)."""
    found = [f"{name or type(one).__name__} ({getattr(hook, '__qualname__', type(hook).__name__)})" for name, one in inner(model).named_modules()
             for hook in (*one._backward_hooks.values(), *getattr(one, "_backward_pre_hooks", {}).values())]
    if found:
        object_or(text("backward hooks of layers would see the gradients of each part, not of the whole batch: {}", _some(found)), allowed,
                  text("use a hook on the parameter, which is called once; or in_batch='warn' to continue"))


def warn_of_parts(model: Any) -> None:
    """Checks the model and warns, because a training loop of the user's own must not be stopped."""
    check_batch_norm(model, "warn")
    check_hooks(model, "warn")
    hooked = [name for name, one in inner(model).named_parameters() if one._backward_hooks or getattr(one, "_post_accumulate_grad_hooks", None)]
    if hooked:
        object_or(text("hooks on parameters would see the gradients of each part, not of the whole batch: {}", _some(hooked)), "warn",
                  text("use split_step, which calls them once; or do their work after the last part"))


def _some(found: List[str]) -> str:
    return ", ".join(found[:3]) + (text(" and {} more", len(found) - 3) if len(found) > 3 else "")


def check_loss(model: Any, loss_fn: Callable[..., Any], batch: Any, parts: int, count: Optional[Count], reduction: str,
               allowed: Tuple[str, str], step: Any, first: bool) -> bool:
    """Refuses a loss that compares the items of a batch with each other. It recognises such a loss by its name, or because the losses of the parts do not
    add up. The first time, or if the losses may differ by rounding, it also compares gradients of some items. Returns False if the comparison says nothing
    about the next batch. Restores the random state."""
    if allowed[1] == "allow":
        return True
    hint = text("use a loss with its own way to split (GradCache, a memory bank), or a smaller batch; or in_batch='warn' to continue")
    named = next((name for name in _names(loss_fn) if _NAMED.search(name)), None)
    if named:
        object_or(text("{} compares the items of a batch with each other, so parts give another result than the whole batch", named), allowed[1], hint)
        return True
    length, groups, why_not = length_of(batch), 1, ""
    while groups == 1 or length // groups >= 2:
        try:
            each = [compared(inner(model), loss_fn, one, parts, count, reduction, _is_norm) for one in _spread(batch, groups)]
        except DrawsForItems:
            why_not = text("it draws random numbers per item, and parts draw different ones")
            break
        except Exception as why:
            if groups == 1 and not isinstance(why, CannotCompare) and not is_oom(why):
                raise
            may_fit_later(why)  # raises ContextLost if the context is lost; after a lack of memory or with too few items, the loss is just not checked
            why = why.__cause__ if isinstance(why, CannotCompare) and isinstance(why.__cause__, Exception) else why
            why_not = f"{type(why).__name__}: {why}"
            groups *= 2
            continue
        found = [one for one in each if one is not None]
        different = next((one for one in found if one.differs and not one.may_be_rounding), None)
        if different is not None:
            _say_different(different, length, groups, allowed[1], hint)
            return True
        rounded = next((one for one in found if one.may_be_rounding), None)
        _check_writes(sorted({name for one in found for name in one.writes}), allowed[0])
        tells = any(one.tells for one in found)
        try:
            gradients = _check_gradients(step, model, loss_fn, batch, max(2, -(-length // parts)), count, reduction,
                                         (allowed[1], hint)) if first or rounded else tells
        except NotFinite:
            return False  # so that the next step repeats the comparison
        if rounded is not None and not gradients:  # nothing shows that the difference is rounding
            _say_different(rounded, length, groups, allowed[1], hint)
            return True
        if not tells and gradients is not None:
            tells = gradients
        if found and not tells and max(abs(one.whole) for one in found) >= 1e-6:
            warnings.warn(text("it is unknown whether the loss can be split: all parts have almost the same loss, {:.6g}", found[0].whole), SplitWarning,
                          stacklevel=5)
        return tells
    warnings.warn(text("it was not checked whether the loss can be split: {}", why_not), SplitWarning, stacklevel=5)
    return True


def _check_gradients(step: Any, model: Any, loss_fn: Callable[..., Any], batch: Any, items: int, count: Optional[Count], reduction: str,
                     allowed: Tuple[str, str]) -> Optional[bool]:
    """Compares gradients, and refuses the loss if they differ. Returns whether a wrong count would have been noticed. If no comparison was possible, warns
    and returns None."""
    length = length_of(batch)
    sizes = [max(items, min(4, length)), items]
    while sizes[-1] > 2:
        sizes.append(max(2, sizes[-1] // 2))
    lack: Optional[Exception] = None
    found: Optional[ComparedGradients] = None
    todo = list(dict.fromkeys(sizes))
    while todo:
        size = todo.pop(0)
        try:
            found = compared_gradients(inner(model), loss_fn, batch, size, count, reduction, _is_norm, step.parameters(), step.hooks.off, step.scaled)
            lack = None
            break
        except DrawsForItems:
            _unchecked(text("it draws random numbers per item, and parts draw different ones"))
            return None
        except NotFinite:
            raise
        except CannotCompare as why:
            lack = why.__cause__ if isinstance(why.__cause__, Exception) else why
            if not may_fit_later(lack):  # this call raises ContextLost if the context is lost
                # The loss may need complete groups of items, which half a part may not contain. So compare twice as many items, so that
                # each half has the size of a part.
                todo = [2 * items] if size < 2 * items <= length else []
        release_memory()
    if lack is not None and found is None:
        _unchecked(f"{type(lack).__name__}: {lack}")
        return None
    if found is not None and found.differs:
        _say_other_gradient(found, allowed)
        return True
    return found is not None and found.tells


def _unchecked(why: str) -> None:
    warnings.warn(text("it was not checked whether the gradient of the loss can be split: {}", why), SplitWarning, stacklevel=7)


def _say_other_gradient(found: ComparedGradients, allowed: Tuple[str, str]) -> None:
    object_or(text("the loss of {} items equals that of their parts together, but its gradient does not ({:.2g} of it differs, most for {}): it depends on which items are together, or `count` does not return the number of items in its mean", found.items, found.error, found.worst), allowed[0],
              text("count=lambda batch: (batch['labels'][:, 1:] != -100).sum() for a model that shifts its labels; compute values of the whole batch "
                   "(normalised advantages, expert balance) before the step; make items that belong together one row, x.unflatten(0, (-1, 4)); or {}",
                   allowed[1]))


def _say_different(found: Compared, length: int, groups: int, allowed: str, hint: str) -> None:
    items = text("the {} items", length) if groups == 1 else text("{} of the {} items", length // groups, length)
    if found.training:
        return object_or(text("in training, the loss of {} is {:.6g}, but their parts together have {:.6g}: a layer or the loss depends on which items are together, such as a custom batch normalisation, or mixup", items, found.whole, found.parts), allowed,
                         text("use GroupNorm or LayerNorm; pair items before the batch is split; or in_batch='warn' to continue"))
    object_or(text("the loss of {} is {:.6g}, but their parts together have {:.6g}: it depends on which items are together, or `count` does not return the number of items in its mean", items, found.whole, found.parts), allowed,
              text("count=lambda batch: (batch['labels'] != -100).sum(), with [:, 1:] for a model that shifts its labels, with class weights "
                   "weight[batch['labels']].sum(); items that belong together as one row, x.unflatten(0, (-1, 4)); or {}", hint))


def _check_writes(names: List[str], allowed: str) -> None:
    if names:
        object_or(text("buffers that each pass modifies, so once per part: {}", _some(names)), allowed,
                  text("batch_norm='warn' to continue"))


def _spread(batch: Any, groups: int) -> Iterator[Any]:
    """Yields the batch. If memory is short, yields `groups` groups instead, each with items from all over the batch."""
    return (batch if groups == 1 else part_of(batch, at, None, groups) for at in range(groups))


_PLAIN = (bool, int, float, str, bytes, type(None), types.CodeType)


class Looked:
    """A loss and a count that were compared. They are recognised by their code and the objects that they refer to. Only weak references to these objects
    are kept."""

    def __init__(self, *functions: Any) -> None:
        self._held = [_held(one) for function in functions for one in _made_of(function)]

    def is_for(self, *functions: Any) -> bool:
        now = [one for function in functions for one in _made_of(function)]
        return len(now) == len(self._held) and all(_is_same(held, one) for held, one in zip(self._held, now))


def _made_of(function: Any) -> Iterator[Any]:
    """Yields what identifies a function. A function that is created again in each step counts as the same if its code and captured values are the
    same."""
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
    except ValueError:  # the closure's variable has no value yet
        return None


def _held(one: Any) -> Any:
    """Returns a plain value itself. For another object, returns a weak reference, or its type if no weak reference is possible."""
    if isinstance(one, _PLAIN):
        return one
    try:
        return weakref.ref(one)
    except TypeError:
        return type(one)


def _is_same(held: Any, one: Any) -> bool:
    if isinstance(held, weakref.ref):
        return one is not None and held() is one
    if isinstance(held, type):
        return type(one) is held
    if isinstance(held, float) and isinstance(one, float):
        return bool(held) == bool(one)  # a factor may change in each step, but if it changes to or from zero, the loss is another one
    return type(held) is type(one) and bool(held == one)
