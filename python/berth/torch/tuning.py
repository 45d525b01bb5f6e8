"""Tries PyTorch's speed settings one by one with the user's own step, and keeps those that make it faster."""

from __future__ import annotations

import copy
import dataclasses
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..errors import InvalidRequest
from ..frameworks import needed
from ..language import text
from ..machine import _table
from ..randomness import kept
from ..retrying import attempt, first_line, release_memory
from ..sizes import number, whole
from .measuring import drift, timed

__all__ = ["Trial", "TuneReport", "tune"]


@dataclasses.dataclass(frozen=True)
class Trial:
    """The result for one setting, compared with the best combination before it.

    Attributes
    ----------
    seconds : float, optional
        The seconds of a step. None if the setting was not tried; then `note` says why.
    speed : float, optional
        Speed relative to the best before; a value above 1 means faster.
    memory_bytes : int
        Peak memory on the GPU; 0 without a GPU.
    drift : float, optional
        The largest difference from the first result, relative to its largest number.
    kept : bool
    """

    name: str
    seconds: Optional[float]
    speed: Optional[float]
    memory_bytes: int
    drift: Optional[float]
    kept: bool
    note: str = ""

    def _cells(self) -> List[str]:
        def said(value: Optional[float], shape: str) -> str:
            return "-" if value is None else format(value, shape)
        return [self.name, said(self.seconds and self.seconds * 1e3, ".2f"), said(self.speed, ".2f"),
                f"{self.memory_bytes / 2**20:.0f} MiB" if self.memory_bytes else "-", said(self.drift, ".1e"), text("kept") if self.kept else "", self.note]


_TITLES = ("switch", "ms", "speed", "memory", "drift", "", "note")


class TuneReport(List[Trial]):
    """The trials in order; printed as a table. Use `model` from now on, because compile creates another one."""

    model: Any = None

    def __repr__(self) -> str:
        return _table((one._cells() for one in self), _TITLES)


class _Switch:
    """A switch that can be turned on and off. on() returns the reason if it cannot be turned on here."""

    def __init__(self, name: str, on: Callable[[], Optional[str]], off: Callable[[], None]) -> None:
        self.name, self.on, self.off = name, on, off


def _attribute(owner: Any, name: str, value: Any) -> Tuple[Callable[[], Optional[str]], Callable[[], None]]:
    before = getattr(owner, name)

    def on() -> Optional[str]:
        if getattr(owner, name) == value:
            return text("already on")
        setattr(owner, name, value)
        return None
    return on, lambda: setattr(owner, name, before)


def _switches(torch: Any, holder: Dict[str, Any]) -> List[_Switch]:
    """The switches to try. A step is called with `holder["model"]`, so a switch can replace the model."""
    has_gpu = torch.cuda.is_available()
    found = []
    for name, owner, attribute, value in (("cudnn.benchmark", torch.backends.cudnn, "benchmark", True),
                                          ("TF32 in products", torch.backends.cuda.matmul, "allow_tf32", True),
                                          ("TF32 in convolutions", torch.backends.cudnn, "allow_tf32", True)):
        on, off = _attribute(owner, attribute, value)
        found.append(_Switch(name, on if has_gpu else lambda: text("for NVIDIA GPUs"), off if has_gpu else lambda: None))

    def channels_on() -> Optional[str]:
        if holder["model"] is None:
            return text("needs model=")
        if not any(one.dim() == 4 for one in holder["model"].parameters()):
            return text("the model has no 2D convolutions")
        holder["model"].to(memory_format=torch.channels_last)
        return None

    def compile_on() -> Optional[str]:
        if holder["model"] is None:
            return text("needs model=")
        if not hasattr(torch, "compile"):
            return text("PyTorch {} has none", torch.__version__)
        holder["plain"] = holder["model"]
        holder["model"] = torch.compile(holder["model"])
        return None
    found.append(_Switch("channels_last", channels_on, lambda: holder["model"].to(memory_format=torch.contiguous_format)))
    found.append(_Switch("compile", compile_on, lambda: holder.update(model=holder["plain"])))
    return found


class _State:
    """The model, its gradients, the optimizer and the random numbers, saved so that each trial does the same work."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self._model, self._optimizer, self._random = model, optimizer, kept()
        parameters = list(model.parameters()) if model is not None else []
        parameters += [one for group in optimizer.param_groups for one in group["params"]] if optimizer is not None else []
        self._gradients = [(one, one.grad, None if one.grad is None else one.grad.clone()) for one in parameters]
        self._held = copy.deepcopy(model.state_dict()) if model is not None else None
        self._stepped = copy.deepcopy(optimizer.state_dict()) if optimizer is not None else None

    def restore(self) -> None:
        if self._held is not None:
            self._model.load_state_dict(self._held)
        if self._stepped is not None:
            self._optimizer.load_state_dict(copy.deepcopy(self._stepped))
        for one, gradient, held in self._gradients:
            one.grad = gradient
            if gradient is not None:
                gradient.detach().copy_(held)
        self._random.restore()


def tune(step: Callable[..., Any], *, model: Any = None, optimizer: Any = None, repeat: int = 10, seconds: float = 5.0, win: float = 1.03,
         tolerance: float = 0.01, report: bool = True) -> TuneReport:
    """Tries the settings cudnn.benchmark, TF32, channels_last and compile one by one. Keeps those that make the step faster and change its result only a
    little.

    Parameters
    ----------
    step : callable
        A function that runs one step of your training loop. It gets the model as its argument if `model` is given, and no argument if not. Its results are
        compared.
    model, optimizer
        channels_last and compile change the model, so they are tried only if it is given. The optimizer's state is restored before each call.
    repeat, seconds : int, float
        The largest number of timed calls for each setting, and the time limit for them. At least two calls are timed.
    win, tolerance : float
        A switch is kept if the step is at least `win` times as fast, and its `drift` is at most `tolerance`.
    report : bool
        If False, prints nothing.

    Examples
    --------
    >>> import torch
    >>> line = torch.nn.Linear(8, 8); data = torch.randn(4, 8)
    >>> found = tune(lambda model: model(data).sum(), model=line, repeat=2, seconds=0.1, report=False)
    >>> found[0].name, found[0].kept
    ('as it is', True)
    """
    if not callable(step):
        raise InvalidRequest(text("step: a {} cannot be called", type(step).__name__))
    whole("repeat", repeat, 1)
    number("seconds", seconds, above=True)
    number("win", win, above=True)
    number("tolerance", tolerance)
    torch = needed("torch", "torch.tune")
    holder: Dict[str, Any] = {"model": model}
    state = _State(model, optimizer)

    def measured() -> Tuple[float, int, Any]:
        # Each call does the same work. The result is copied, because the next call may overwrite it.
        took, most, result = timed(torch, lambda: step(holder["model"]) if model is not None else step(), repeat, seconds, state.restore)
        return took, most, copy.deepcopy(_detached(result))
    try:
        best, memory, first = measured()
        found = TuneReport([Trial("as it is", best, 1.0, memory, 0.0, True)])
        for switch in _switches(torch, holder):
            trial = _tried(switch, measured, best, first, (win, tolerance))
            best = trial.seconds if trial.kept and trial.seconds is not None else best
            found.append(trial)
    finally:
        state.restore()
    found.model = holder["model"]
    if report:
        print(repr(found), file=sys.stderr)
    return found


def _tried(switch: _Switch, measured: Callable[[], Any], best: float, first: Any, how: Tuple[float, float]) -> Trial:
    win, tolerance = how
    why = switch.on()
    if why:
        return Trial(switch.name, None, None, 0, None, False, why)
    try:
        good, said = attempt(measured, (), {})
    except Exception as problem:  # for example, there is no compiler, or an operation does not support channels_last
        switch.off()
        return Trial(switch.name, None, None, 0, None, False, f"{type(problem).__name__}: {first_line(problem)}")
    if not good:
        switch.off()
        release_memory()
        return Trial(switch.name, None, None, 0, None, False, text("memory runs out with it"))
    took, memory, result = said
    off_by, speed = drift(first, result), best / took
    keep = speed >= win and off_by <= tolerance
    if not keep:
        switch.off()
    return Trial(switch.name, took, speed, memory, off_by, keep, "" if off_by <= tolerance else text("changes the result"))


def _detached(x: Any) -> Any:
    if isinstance(x, dict):
        return {key: _detached(one) for key, one in x.items()}
    if isinstance(x, (list, tuple)):
        return [_detached(one) for one in x]
    return x.detach() if hasattr(x, "detach") else x
