"""Compares the loss of some items with the losses of their parts, to see whether a batch can be split. Runs only forward passes.

The passes run in training mode without dropout, because some losses depend on the batch only in training. If the passes nevertheless draw random numbers,
they run in eval mode. They write to copies of the model's buffers, and the copies are discarded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Tuple, cast

from .weighted_parts import Count, Part, divided
from .errors import InvalidRequest
from .language import text
from .oom import is_oom
from .randomness import Randomness, kept

__all__ = ["CannotCompare", "Compared", "DrawsForItems", "NotFinite", "Trial", "aside", "check_number", "compared", "computing_types", "without_dropout"]

_ALIKE = 1e-3        # if the means of the parts differ by less, they do not show whether the weights are right
_LARGE = 16 << 20    # a tensor of more bytes that is neither parameter nor buffer is not copied


class CannotCompare(Exception):
    """A pass with the whole batch failed, or a pass in eval mode failed."""


class DrawsForItems(CannotCompare):
    """The loss of the same items differs each time, because random noise is added to the items. The parts would get different noise from
    the whole batch."""


class NotFinite(CannotCompare):
    """The gradients overflow. With a GradScaler, this can happen in the first steps."""


@dataclasses.dataclass
class Compared:
    """The result of a comparison.

    Attributes
    ----------
    tells : bool
        False if all parts have the same mean loss. Then wrong weights would not be noticed, and the result says nothing about the next batch.
    training : bool
        The losses differ in training mode only.
    writes : list of str
        Buffers that each pass writes.
    """

    whole: float
    parts: float
    tolerance: float
    tells: bool
    training: bool
    writes: List[str]
    cancelled: float = 0.0  # a difference up to this may be rounding, if the loss is a sum of large terms that cancel each other

    @property
    def differs(self) -> bool:
        return math.isfinite(self.whole) and not abs(self.whole - self.parts) <= self.tolerance

    @property
    def may_be_rounding(self) -> bool:
        """The losses differ by no more than the rounding error of terms of size 1, such as normalised advantages. Only a comparison of gradients can show
        whether it is rounding."""
        return self.differs and abs(self.whole - self.parts) <= self.cancelled


@dataclasses.dataclass
class Trial:
    """Some items as a whole, and the same items in parts."""

    model: Any  # the model itself, without a wrapper such as DistributedDataParallel
    loss_fn: Callable[[Any, Any], Any]
    mean: bool  # true: the loss is the mean over the items; false: it is their sum
    whole: Part
    pieces: List[Part]

    def loss(self, part: Part) -> Tuple[float, Any]:
        found = self.loss_fn(self.model, part.data)
        check_number(found)
        return float(found.detach().float()), found.dtype

    def weight(self, part: Part) -> float:
        """The weight of this part's loss in the loss of the whole batch."""
        return part.items / self.whole.items if self.mean else 1.0

    def share(self, part: Part, loss: float) -> float:
        return loss * self.weight(part)


def compared(model: Any, loss_fn: Callable[[Any, Any], Any], batch: Any, parts: int, count: Optional[Count], reduction: str,
             calm: Callable[[Any], bool]) -> Optional[Compared]:
    """Compares the loss of a batch with the losses of its parts. Returns None if fewer than two parts have items that count. An error of a part in training
    mode is raised unchanged.

    Parameters
    ----------
    calm : callable
        Takes a layer and returns whether it must always be in eval mode.

    Raises
    ------
    CannotCompare
        Another error, which is its cause.
    """
    pieces = [part for part in divided(batch, parts, count) if part.items]
    trial = Trial(model, loss_fn, reduction == "mean", divided(batch, 1, count)[0], pieces)
    if len(pieces) < 2 or not trial.whole.items:
        return None
    found = _in_training(trial, calm) or _in_eval(trial)
    if found.training:
        try:
            found.training = not _in_eval(trial).differs
        except CannotCompare:  # the model returns a loss only in training mode
            pass
    if found.tells or found.differs or max(abs(found.whole), abs(found.parts)) < 1e-6:
        return found
    with _not_zero(model) as some:
        return (_in_training(trial, calm) or _in_eval(trial)) if some else found


def _in_eval(trial: Trial) -> Compared:
    with aside(trial.model) as held:
        trial.model.eval()
        with sys.modules["torch"].no_grad():
            try:
                found = cast(Compared, _both(trial, held))
                # Compute the loss again. If it differs from the first result, it depends on random numbers.
                again = trial.share(trial.whole, trial.loss(trial.whole)[0]) if found.differs else found.whole
            except Exception as why:
                raise CannotCompare from why
    if abs(again - found.whole) > found.tolerance:
        raise DrawsForItems
    return found


def _in_training(trial: Trial, calm: Callable[[Any], bool]) -> Optional[Compared]:
    """Compares in training mode. Returns None if the passes draw random numbers, or if the loss differs each time."""
    for saving in (_saving_nothing, contextlib.nullcontext):
        with aside(trial.model) as held:
            without_dropout(trial.model, calm)
            with sys.modules["torch"].enable_grad(), saving():
                try:
                    found = _both(trial, held)
                    if found is None or not found.differs:
                        return found
                    held.begin()
                    again = trial.share(trial.whole, trial.loss(trial.whole)[0])
                    return dataclasses.replace(found, training=True) if abs(again - found.whole) <= found.tolerance else None
                except Exception as why:
                    if saving is contextlib.nullcontext or is_oom(why.__cause__ or why):
                        raise
    return None


def without_dropout(model: Any, calm: Callable[[Any], bool]) -> None:
    """Sets eval mode for layers that draw random numbers or must always be in eval mode. Other layers keep their mode."""
    modules = sys.modules["torch"].nn
    dropouts = (modules.modules.dropout._DropoutNd, modules.MultiheadAttention, modules.RNNBase)
    for module in model.modules():
        if isinstance(module, dropouts) or calm(module):
            module.training = False


def _both(trial: Trial, held: "_Aside") -> Optional[Compared]:
    """Runs the parts first, and then the whole batch. Returns None if a part draws random numbers. Detects which buffers the parts write."""
    torch, model = sys.modules["torch"], trial.model
    found, dtypes = [], {one.dtype for one in model.parameters()}
    for part in trial.pieces:
        held.mark()
        loss, dtype = trial.loss(part)
        if torch.is_grad_enabled() and not held.is_calm():
            return None
        found.append(loss)
        dtypes.add(dtype)
    writes = held.written()
    held.begin()
    try:
        whole, dtype = trial.loss(trial.whole)
    except Exception as why:
        raise CannotCompare from why
    shares = [trial.share(part, loss) for part, loss in zip(trial.pieces, found)]
    one = trial.share(trial.whole, whole)
    relative = _tolerance(model, dtypes, dtype)
    largest = max(map(abs, found))
    tells = math.isfinite(one) and (not trial.mean or max(found) - min(found) > min(2 * relative, _ALIKE) * largest)
    return Compared(one, sum(shares), relative * max(abs(one), sum(map(abs, shares)), 1e-6), tells, False, writes, relative)


def computing_types(model: Any, dtypes: Any) -> Any:
    """The types in which a pass computes: the types of the parameters and the loss, and autocast's type."""
    torch = sys.modules["torch"]
    types = {one for one in dtypes if one.is_floating_point}
    for kind in ("cuda", "cpu"):
        try:
            if torch.is_autocast_enabled(kind):
                types.add(torch.get_autocast_dtype(kind))
        except (TypeError, AttributeError):  # for PyTorch before 2.4
            if torch.is_autocast_enabled() if kind == "cuda" else torch.is_autocast_cpu_enabled():
                types.add(torch.get_autocast_gpu_dtype() if kind == "cuda" else torch.get_autocast_cpu_dtype())
    return types


def _tolerance(model: Any, dtypes: Any, loss: Any) -> float:
    """The tolerance for the relative difference. If all types are as precise as float32: 1e-4 on the CPU, 1e-3 on other devices. If not: the rounding error
    of the loss's type, plus half that of the least precise type. Half, because errors average out over many numbers."""
    torch = sys.modules["torch"]
    coarse = max(torch.finfo(one).eps for one in computing_types(model, {*dtypes, loss}))
    if coarse < 1e-6:
        return 1e-4 if {one.device.type for one in model.parameters()} <= {"cpu"} else 1e-3
    return float(torch.finfo(loss).eps + coarse / 2)


def check_number(loss: Any) -> None:
    """Refuses a loss that is not a tensor with one number."""
    if getattr(loss, "numel", int)() != 1:
        raise InvalidRequest(text("the loss function returns {}{}, not a single number", type(loss).__name__, tuple(getattr(loss, 'shape', ()))),
                             hint="loss_fn=lambda model, part: model(**part).loss" if hasattr(loss, "loss") else
                             text("return its mean, or with reduction='sum' its sum"))


def _saving_nothing() -> ContextManager[Any]:
    """A context in which no activations are saved, because there is no backward pass."""
    return cast(ContextManager[Any], sys.modules["torch"].autograd.graph.saved_tensors_hooks(lambda one: None, lambda one: one))


@contextlib.contextmanager
def _not_zero(model: Any) -> Iterator[bool]:
    """A context in which parameters that are all zeros, such as those of a new head, get random values. With zeros, the loss might not depend on the
    items."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        zeros = [one for one in model.parameters() if one.is_floating_point() and one.numel() and not bool(one.any())]
    state = kept()
    try:
        with torch.no_grad():
            for one in zeros:
                one.normal_(0, 1 / math.sqrt(one.shape[-1]) if one.dim() > 1 else 0.5)
        state.restore()
        yield bool(zeros)
    finally:
        with torch.no_grad():
            for one in zeros:
                one.zero_()
        state.restore()


@contextlib.contextmanager
def aside(model: Any) -> Iterator["_Aside"]:
    """A context in which passes write to copies of the buffers. The copies are discarded at the end."""
    held = _Aside(model)
    try:
        held.begin()
        yield held
    finally:
        held.end()


class _Aside:
    """Saves and restores what passes change: modes, random numbers, buffers, and other attributes of modules. Passes write to copies of the buffers."""

    def __init__(self, model: Any) -> None:
        torch = sys.modules["torch"]
        self._modes = [(one, one.training) for one in model.modules()]
        self._state: Randomness = kept()
        self._buffers: List[Tuple[str, Any, str, Any]] = []
        self._others: List[Tuple[Dict[str, Any], Dict[str, Any]]] = []
        for path, module in model.named_modules():
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    self._buffers.append((f"{path}.{name}" if path else name, module._buffers, name, buffer))
            held = vars(module)
            self._others.append((held, {name: one for name, one in held.items() if torch.is_tensor(one) or type(one) in (int, float)}))
        self._marked: List[Tuple[Any, int]] = []

    def begin(self) -> None:
        """Restores the saved state, with new copies of the buffers. Call it before a pass."""
        copies: Dict[int, Any] = {}
        for _, buffers, name, buffer in self._buffers:
            if id(buffer) not in copies:
                copies[id(buffer)] = buffer.detach().clone()
            buffers[name] = copies[id(buffer)]
        self._put_back(copied=True)
        self._state.restore()

    def end(self) -> None:
        for module, training in self._modes:
            module.training = training
        for _, buffers, name, buffer in self._buffers:
            buffers[name] = buffer
        self._put_back(copied=False)
        self._state.restore()

    def _put_back(self, copied: bool) -> None:
        is_tensor = sys.modules["torch"].is_tensor
        for held, before in self._others:
            for name in [name for name, one in held.items() if name not in before and is_tensor(one)]:
                del held[name]
            for name, one in before.items():
                small = copied and is_tensor(one) and one.numel() * one.element_size() <= _LARGE
                held[name] = one.detach().clone() if small else one

    def is_calm(self) -> bool:
        """Whether no random number was drawn since the state was last restored."""
        return self._state.is_now()

    def mark(self) -> None:
        self._marked = [(buffers[name], buffers[name]._version) for _, buffers, name, _ in self._buffers]

    def written(self) -> List[str]:
        """The buffers that were written since the mark."""
        return [path for (path, buffers, name, _), (one, version) in zip(self._buffers, self._marked)
                if buffers[name] is not one or one._version != version]
