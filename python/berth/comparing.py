"""The loss of some items beside that of their parts together, in passes without a backward one: whether a batch can be split.

In training mode as it is, with dropout off, because much depends on the batch in training alone; in eval mode where something draws random
numbers even so, as parts would draw others. Whatever the passes write into the model lies in copies, which are dropped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Tuple, cast

from .accumulating import Count, Part, divided
from .errors import InvalidRequest
from .language import text
from .oom import is_oom
from .randomness import Randomness, kept, unused

__all__ = ["CannotCompare", "Compared", "DrawsForItems", "compared"]

_ALIKE = 1e-3        # at most: parts whose means differ by less tell nothing of how they are to be weighed
_LARGE = 16 << 20    # bytes of a tensor that is neither parameter nor buffer, which is not copied


class CannotCompare(Exception):
    """The whole has a pass that fails, or eval mode has; parts in training may have none."""


class DrawsForItems(CannotCompare):
    """The loss of the same items differs with what is drawn for them, as noise is: parts draw other noise than the whole."""


@dataclasses.dataclass
class Compared:
    """What was found.

    Attributes
    ----------
    tells : bool
        False where all parts have the same mean: that would come out with any weights, and says nothing of the next batch.
    training : bool
        They differ in training alone.
    writes : list of str
        Buffers that each pass writes.
    """

    whole: float
    parts: float
    tolerance: float
    tells: bool
    training: bool
    writes: List[str]

    @property
    def differs(self) -> bool:
        return math.isfinite(self.whole) and not abs(self.whole - self.parts) <= self.tolerance


@dataclasses.dataclass
class _Trial:
    model: Any  # without its wrapper
    loss_fn: Callable[[Any, Any], Any]
    mean: bool  # of items, and not their sum
    whole: Part
    pieces: List[Part]

    def loss(self, part: Part) -> Tuple[float, Any]:
        found = self.loss_fn(self.model, part.data)
        check_number(found)
        return float(found.detach().float()), found.dtype

    def share(self, part: Part, loss: float) -> float:
        return loss * (part.items if self.mean else 1) / self.whole.items


def compared(model: Any, loss_fn: Callable[[Any, Any], Any], batch: Any, parts: int, count: Optional[Count], reduction: str,
             calm: Callable[[Any], bool]) -> Optional[Compared]:
    """None where there is nothing to compare. An error that parts have in training is raised as it is.

    Parameters
    ----------
    calm : callable
        Whether this layer is to be in eval mode in any case.

    Raises
    ------
    CannotCompare
        Another error, which is its cause.
    """
    pieces = [part for part in divided(batch, parts, count) if part.items]
    trial = _Trial(model, loss_fn, reduction == "mean", divided(batch, 1, count)[0], pieces)
    if len(pieces) < 2 or not trial.whole.items:
        return None
    found = _in_training(trial, calm) or _in_eval(trial)
    if found.training:
        try:
            found.training = not _in_eval(trial).differs
        except CannotCompare:  # there is a loss in training alone
            pass
    if found.tells or found.differs or max(abs(found.whole), abs(found.parts)) < 1e-6:
        return found
    with _not_zero(model) as some:
        return (_in_training(trial, calm) or _in_eval(trial)) if some else found


def _in_eval(trial: _Trial) -> Compared:
    with _aside(trial.model) as aside:
        trial.model.eval()
        with sys.modules["torch"].no_grad():
            try:
                found = cast(Compared, _both(trial, aside))
                again = trial.share(trial.whole, trial.loss(trial.whole)[0]) if found.differs else found.whole  # with other random numbers
            except Exception as why:
                raise CannotCompare from why
    if abs(again - found.whole) > found.tolerance:
        raise DrawsForItems
    return found


def _in_training(trial: _Trial, calm: Callable[[Any], bool]) -> Optional[Compared]:
    """None where it draws random numbers, or gives another loss each time."""
    modules = sys.modules["torch"].nn
    dropouts = (modules.modules.dropout._DropoutNd, modules.MultiheadAttention, modules.RNNBase)
    for saving in (_saving_nothing, contextlib.nullcontext):
        with _aside(trial.model) as aside:
            for module in trial.model.modules():
                if isinstance(module, dropouts) or calm(module):
                    module.training = False
            with sys.modules["torch"].enable_grad(), saving():
                try:
                    found = _both(trial, aside)
                    if found is None or not found.differs:
                        return found
                    aside.begin()
                    again = trial.share(trial.whole, trial.loss(trial.whole)[0])
                    return dataclasses.replace(found, training=True) if abs(again - found.whole) <= found.tolerance else None
                except Exception as why:
                    if saving is contextlib.nullcontext or is_oom(why.__cause__ or why):
                        raise
    return None


def _both(trial: _Trial, aside: "_Aside") -> Optional[Compared]:
    """Parts first: what they draw, and write last, is seen by the way."""
    torch, model = sys.modules["torch"], trial.model
    found, dtypes = [], {one.dtype for one in model.parameters()}
    for part in trial.pieces:
        aside.mark()
        loss, dtype = trial.loss(part)
        if torch.is_grad_enabled() and not aside.is_calm():
            return None
        found.append(loss)
        dtypes.add(dtype)
    writes = aside.written()
    aside.begin()
    try:
        whole, dtype = trial.loss(trial.whole)
    except Exception as why:
        raise CannotCompare from why
    shares = [trial.share(part, loss) for part, loss in zip(trial.pieces, found)]
    one = trial.share(trial.whole, whole)
    precise = dtypes | {dtype} <= {torch.float32, torch.float64} and not torch.is_autocast_enabled()
    relative = (1e-4 if {one.device.type for one in model.parameters()} <= {"cpu"} else 1e-3) if precise else 3e-2
    largest = max(map(abs, found))
    tells = math.isfinite(one) and (not trial.mean or max(found) - min(found) > min(2 * relative, _ALIKE) * largest)
    return Compared(one, sum(shares), relative * max(abs(one), sum(map(abs, shares)), 1e-6), tells, False, writes)


def check_number(loss: Any) -> None:
    """What a loss function gives."""
    if getattr(loss, "numel", int)() != 1:
        raise InvalidRequest(text("the loss function gives {}{} and not one number", type(loss).__name__, tuple(getattr(loss, 'shape', ()))),
                             hint="loss_fn=lambda model, part: model(**part).loss" if hasattr(loss, "loss") else
                             text("its mean, or with reduction='sum' its sum"))


def _saving_nothing() -> ContextManager[Any]:
    """Of activations for a backward pass that is never made."""
    return cast(ContextManager[Any], sys.modules["torch"].autograd.graph.saved_tensors_hooks(lambda one: None, lambda one: one))


@contextlib.contextmanager
def _not_zero(model: Any) -> Iterator[bool]:
    """Parameters that are all zeros, such as those of a head at its beginning, are not: else the loss may be the same whatever the items are."""
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
        unused(state)


@contextlib.contextmanager
def _aside(model: Any) -> Iterator["_Aside"]:
    aside = _Aside(model)
    try:
        aside.begin()
        yield aside
    finally:
        aside.end()


class _Aside:
    """What passes write: modes, random numbers, buffers, and what else modules hold. Buffers that they see are copies."""

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
        """All of it as it was."""
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
        unused(self._state)

    def _put_back(self, copied: bool) -> None:
        is_tensor = sys.modules["torch"].is_tensor
        for held, before in self._others:
            for name in [name for name, one in held.items() if name not in before and is_tensor(one)]:
                del held[name]
            for name, one in before.items():
                small = copied and is_tensor(one) and one.numel() * one.element_size() <= _LARGE
                held[name] = one.detach().clone() if small else one

    def is_calm(self) -> bool:
        """Nothing random was drawn."""
        return self._state.is_now()

    def mark(self) -> None:
        self._marked = [(buffers[name], buffers[name]._version) for _, buffers, name, _ in self._buffers]

    def written(self) -> List[str]:
        """Buffers, since the mark."""
        return [path for (path, buffers, name, _), (one, version) in zip(self._buffers, self._marked)
                if buffers[name] is not one or one._version != version]
