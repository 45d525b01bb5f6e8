"""Compares the gradient of a few items with the sum of the gradients of their parts.

The losses may add up while the gradients do not: normalised advantages, a loss divided by its own value, a router's load balance. A few items are
enough to detect this, and need no more memory than a part.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import weakref
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Tuple

from .comparing import CannotCompare, DrawsForItems, NotFinite, Trial, aside, check_number, computing_types, without_dropout
from .gradients import leaves
from .parts import length_of, part_of
from .weighted_parts import Count, divided

__all__ = ["ComparedGradients", "compared_gradients"]

_FEW = 1 << 16     # the most numbers of a gradient that are compared; of a larger gradient, only a part is compared
_SCALE = 0.7       # not a power of two, so that rounding is different
_NOISE = 6.0       # the tolerance, as a multiple of the rounding that was measured
_RANDOM = 0.2      # a larger relative difference is not rounding, but different random numbers
# factors for a loss that a GradScaler scales; a smaller one is tried if gradients overflow; None: do not scale
_SCALED = (1.0, 2.0 ** -8, 2.0 ** -16, None)
_OFFSETS = 4       # groups of items that are tried until two parts have items that count


@dataclasses.dataclass
class ComparedGradients:
    """The result of a comparison.

    Attributes
    ----------
    error : float
        The difference of all parameters together, relative to the gradient of the whole.
    worst : str
        Name of the parameter whose difference is the largest multiple of its tolerance.
    tells : bool
        False if the parts have the same gradient; then any weights would pass.
    """

    differs: bool
    error: float
    worst: str
    items: int
    tells: bool


def compared_gradients(model: Any, loss_fn: Callable[[Any, Any], Any], batch: Any, items: int, count: Optional[Count], reduction: str,
                       calm: Callable[[Any], bool], parameters: List[Any], hooks_off: Callable[[], ContextManager[Any]],
                       scaled: Callable[[Any], Any]) -> Optional[ComparedGradients]:
    """Compares `items` items, taken from all over the batch. None if fewer than two of their parts have items that count, or if the loss
    has no gradient."""
    trial = _trial(model, loss_fn, batch, items, count, reduction)
    if trial is None:
        return None
    for training in (True, False):
        with aside(model) as held:
            if training:
                without_dropout(model, calm)
            else:
                model.eval()
            passes = _Passes(trial, parameters, scaled)
            with sys.modules["torch"].enable_grad(), hooks_off(), passes.gradients_apart():
                try:
                    found = _compared(passes, held, training)
                except Exception as why:
                    raise CannotCompare from why
        if found is not None:
            if math.isnan(found.error):
                raise NotFinite
            return found if found.items else None
    raise DrawsForItems


def _trial(model: Any, loss_fn: Callable[[Any, Any], Any], batch: Any, items: int, count: Optional[Count], reduction: str) -> Optional[Trial]:
    groups = max(1, length_of(batch) // max(items, 2))
    for at in range(min(groups, _OFFSETS)):
        some = batch if groups == 1 else part_of(batch, at, None, groups)
        pieces = [part for part in divided(some, 2, count) if part.items]
        if len(pieces) == 2:
            return Trial(model, loss_fn, reduction == "mean", divided(some, 1, count)[0], pieces)
    return None


class _Passes:
    """Runs backward passes. After each pass, removes the gradients from the parameters and keeps only some of their numbers."""

    def __init__(self, trial: Trial, parameters: List[Any], scaled: Callable[[Any], Any]) -> None:
        self.trial, self._scaled = trial, scaled
        self.factor: Optional[float] = 1.0  # the current factor from _SCALED
        self._known = {id(one): one for one in [*trial.model.parameters(), *parameters] if one.requires_grad}
        self._before: Dict[int, Any] = {}
        self._where: Dict[int, Any] = {}

    @contextlib.contextmanager
    def gradients_apart(self) -> Iterator[None]:
        """Removes the existing gradients during a block, and restores them at the end."""
        self._before = {key: one.grad for key, one in self._known.items()}
        self._clear()
        try:
            yield
        finally:
            for key, one in self._known.items():
                one.grad = self._before.get(key)

    def _clear(self) -> None:
        for one in self._known.values():
            one.grad = None

    def name_of(self, key: int) -> str:
        names = {id(one): name for name, one in self.trial.model.named_parameters()}
        return names.get(key) or "×".join(map(str, self._known[key].shape))

    def of(self, part: Any, factor: float) -> Optional[Dict[int, Any]]:
        """The gradient of `factor` times this part's loss, or None if the loss has no gradient."""
        sys.modules["torch"].clear_autocast_cache()
        loss = self.trial.loss_fn(self.trial.model, part.data)
        check_number(loss)
        if not loss.requires_grad:
            return None
        share = loss * factor if self.factor is None else self._scaled(loss * (factor * self.factor))
        new = [one for one in leaves((share,)) if id(one) not in self._known]
        before = [one.grad for one in new]
        for one in new:
            one.grad = None
        share.backward()
        del loss, share
        there = [weakref.ref(one) for one in new]
        gradients = [one.grad for one in new]
        for one, grad in zip(new, before):
            one.grad = grad
        one = None
        new.clear()
        found = {}
        for held, grad, was in zip(there, gradients, before):
            leaf = held()
            if leaf is not None:  # otherwise the tensor existed only inside the loss function
                self._known[id(leaf)], self._before[id(leaf)] = leaf, was
                leaf.grad = grad
        for key, leaf in self._known.items():
            if leaf.grad is not None:
                found[key] = self._some_of(key, leaf.grad)
                leaf.grad = None
        return found

    def _some_of(self, key: int, gradient: Any) -> Any:
        torch = sys.modules["torch"]
        with torch.no_grad():
            flat = gradient.detach()
            if flat.is_sparse:
                flat = flat.to_dense()
            if flat.is_complex():
                flat = torch.view_as_real(flat)
            flat = flat.reshape(-1)
            if flat.numel() > _FEW:
                if key not in self._where:
                    largest = flat.abs().topk(_FEW // 2).indices
                    spread = torch.linspace(0, flat.numel() - 1, _FEW // 2, dtype=torch.float64, device="cpu").long().to(flat.device)
                    self._where[key] = torch.cat([largest, spread]).unique()
                flat = flat[self._where[key]]
            return flat.to(torch.promote_types(flat.dtype, torch.float32), copy=True)


Gradient = Dict[int, Any]


def _norm(some: Gradient) -> float:
    return math.sqrt(sum(float(one.norm()) ** 2 for one in some.values()))


def _sum(one: Gradient, other: Gradient, factor: float = 1.0) -> Gradient:
    """Returns one + factor × other."""
    return {key: one[key] + factor * other[key] if key in one and key in other else one[key] if key in one else factor * other[key]
            for key in {**one, **other}}


def _compared(passes: _Passes, held: Any, training: bool) -> Optional[ComparedGradients]:
    """Compares. Returns None if random numbers are drawn. The error is NaN if gradients are not finite."""
    found: Optional[ComparedGradients] = None
    for passes.factor in _SCALED:  # the scale of a new GradScaler may be too large, so try smaller factors
        found = _compared_once(passes, held, training)
        if found is None or not math.isnan(found.error):
            break
        if training:
            held.begin()
    return found


def _compared_once(passes: _Passes, held: Any, training: bool) -> Optional[ComparedGradients]:
    trial = passes.trial
    nothing = ComparedGradients(False, 0.0, "", 0, False)
    overflow = dataclasses.replace(nothing, error=math.nan)
    whole = passes.of(trial.whole, 1.0)
    if whole is None:
        return nothing
    if not math.isfinite(_norm(whole)):
        return overflow
    if training:
        if not held.is_calm():
            return None
        held.begin()
    # Compute the gradient of the same items again, with the loss multiplied by _SCALE. The difference is rounding. In eval mode, random
    # numbers are not restored, so they contribute to the difference too.
    again = passes.of(trial.whole, _SCALE)
    if again is None:
        return nothing
    rounding, size = _sum(whole, again, -1 / _SCALE), _norm(whole)
    if size > 0 and not _norm(rounding) <= _RANDOM * size:
        return None
    shares: List[Gradient] = []
    for part in trial.pieces:
        if training:
            held.begin()
        shares.append(passes.of(part, trial.weight(part)) or {})
    return _judged(passes, whole, rounding, shares) if all(math.isfinite(_norm(one)) for one in shares) else overflow


def _judged(passes: _Passes, whole: Gradient, rounding: Gradient, shares: List[Gradient]) -> ComparedGradients:
    trial, (first, second) = passes.trial, shares
    difference = _sum(whole, _sum(first, second), -1.0)
    sizes = {key: max(float(whole[key].norm()) if key in whole else 0.0, sum(float(one[key].norm()) for one in shares if key in one))
             for key in difference}
    size = math.sqrt(sum(one * one for one in sizes.values()))
    base = _base(trial)
    noise = _norm(rounding) / size if size else 0.0
    worst, excess = "", 0.0
    for key, one in difference.items():
        own = max(float(rounding[key].norm()) if key in rounding else 0.0, noise * sizes[key])
        allowed = _NOISE * own + base * sizes[key] + base / 10 * size
        over = float(one.norm()) / allowed if allowed else 0.0
        if not over <= excess:  # written so that NaN counts as the largest excess
            worst, excess = passes.name_of(key), over if math.isfinite(over) else math.inf
    # Compute whether this comparison would have noticed wrong weights.
    weights = [trial.weight(part) for part in trial.pieces]
    apart = _norm(_sum({key: one / weights[0] for key, one in first.items()}, second, -1.0 / weights[1]))
    tells = apart * min(weights) / 2 > (_NOISE * noise + 2 * base) * size
    error = _norm(difference) / max(_norm(whole), 1e-30)
    return ComparedGradients(excess > 1, error, worst, length_of(trial.whole.data), tells)


def _base(trial: Trial) -> float:
    """The relative tolerance: the rounding of the least precise type in which the passes compute, and at least 1e-3. Parts have other shapes, so
    libraries may add numbers in another order."""
    torch = sys.modules["torch"]
    coarse = max(torch.finfo(one).eps for one in computing_types(trial.model, {one.dtype for one in trial.model.parameters()}))
    return float(max(coarse, 1e-3))
