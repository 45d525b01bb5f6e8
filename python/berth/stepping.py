"""Detects changes by a call that a second try would repeat: steps of optimizers and schedulers, and gradients added to existing gradients."""

from __future__ import annotations

import contextvars
import functools
import sys
import threading
import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional

from .errors import BerthError
from .gradients import Gradients
from .language import text

__all__ = ["Steps", "StepInterrupted", "watch"]


class StepInterrupted(BerthError, MemoryError):
    """Memory ran out during or after an optimizer's step, or after gradients were added to earlier ones. So the step cannot be tried again."""

    may_try_again = False


_open: List["Steps"] = []
_here: "contextvars.ContextVar[Optional[Steps]]" = contextvars.ContextVar("berth_steps", default=None)
_watching = False
_OPTIMIZED = 1  # CO_OPTIMIZED, a flag of code objects; only functions have it, not module or class code


class Steps:
    """Records the steps and backward passes of one call: those in its thread or task, and those in threads that Python did not start, such as PyTorch's
    own.

    Another Python thread may or may not belong to the call, so a step in such a thread only sets `others`.
    """

    __slots__ = ("around", "has_ended", "others", "_thread", "_steppers", "_gradients")

    def __init__(self) -> None:
        self.has_ended = False
        self.others = False  # whether another thread has stepped or added gradients
        self._thread = threading.get_ident()
        self._steppers: Optional[Dict[int, Any]] = None
        self._gradients: Optional[Gradients] = None
        self.around = _here.get()
        _here.set(self)
        _open.append(self)

    def end(self) -> None:
        self.has_ended = True  # a task that outlives the call may still refer to this object
        _here.set(self.around)
        _open.remove(self)

    def remain(self) -> List[str]:
        """The names of the optimizers and schedulers that have stepped and still exist. Those that the call itself created do not exist after garbage
        collection. Call this after put_back()."""
        names = [type(one).__name__ for one in (ref() for ref in (self._steppers or {}).values()) if one is not None]
        if not names and self._gradients is not None and self._gradients.parameters_are_new():
            return [text("code that modifies parameters")]
        return names

    def put_back(self) -> bool:
        """Restores gradients. Returns False if that is not possible."""
        return self._gradients is None or self._gradients.put_back()

    def look(self, problem: BaseException) -> None:
        """If the exception was raised inside an optimizer's step, after it had begun to change something, records the optimizer."""
        at = problem.__traceback__
        while at is not None:
            code = at.tb_frame.f_code
            if code.co_name == "step" and code.co_varnames[:1] == ("self",) and code.co_flags & _OPTIMIZED:
                held = at.tb_frame.f_locals
                if isinstance(held.get("self"), sys.modules["torch.optim.optimizer"].Optimizer) and _has_begun(held):
                    self.note(held["self"])
                if isinstance(held, dict):  # f_locals is a dict of its own, which clearing the frame does not empty
                    held.clear()
            at = at.tb_next

    def note(self, stepper: Any) -> None:
        if self._steppers is None:
            self._steppers = {}
        self._steppers[id(stepper)] = weakref.ref(stepper)

    def is_elsewhere(self) -> bool:
        """Whether the current thread is not the call's thread. Everything that runs in the call's thread counts as part of the call."""
        return self._thread != threading.get_ident()

    def gradients(self) -> Gradients:
        if self._gradients is None:
            self._gradients = Gradients()
        return self._gradients


def watch() -> Optional[Steps]:
    """Records steps and backward passes until end() is called. Returns None if PyTorch is not loaded."""
    return Steps() if _watching or _begin() else None


def _begin() -> bool:
    global _watching
    module = sys.modules.get("torch.optim.optimizer")
    autograd = sys.modules.get("torch.autograd")
    if not hasattr(module, "Optimizer") or not hasattr(autograd, "backward"):  # PyTorch is not loaded, or only partly
        return False
    _watching = True
    _watch_optimizers(module)
    _watch_schedulers(sys.modules.get("torch.optim.lr_scheduler"))
    _watch_backward(autograd)
    return True


def _watch_optimizers(module: Any) -> None:
    if hasattr(module, "register_optimizer_step_pre_hook"):
        module.register_optimizer_step_pre_hook(_begins)
        module.register_optimizer_step_post_hook(lambda optimizer, args, named: _stepped(optimizer))
        return
    before = module.Optimizer._optimizer_step_code  # PyTorch 1 calls this function after each step

    def after(optimizer: Any) -> None:
        _stepped(optimizer)
        before(optimizer)
    module.Optimizer._optimizer_step_code = after


def _watch_schedulers(module: Any) -> None:
    """Replaces step() in PyTorch's learning rate schedulers, so that steps are recorded, also in classes that inherit from these."""
    for kind in list(vars(module).values()) if module is not None else ():
        if isinstance(kind, type) and kind.__module__ == module.__name__ and "step" in vars(kind):
            setattr(kind, "step", _noting(getattr(kind, "step")))


def _noting(before: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(before)
    def step(self: Any, *args: Any, **named: Any) -> Any:
        _stepped(self)
        return before(self, *args, **named)
    return step


def _watch_backward(autograd: Any) -> None:
    """Replaces autograd.backward(), because PyTorch has no hook for it. `loss.backward()` looks up this function at each call."""
    before = autograd.backward

    @functools.wraps(before)
    def backward(tensors: Any, *args: Any, **named: Any) -> Any:
        if _open:
            if not isinstance(tensors, (tuple, list)) and not hasattr(tensors, "grad_fn"):
                tensors = tuple(tensors)  # the argument may be an iterator, which can be read only once
            _adds(tensors if isinstance(tensors, (tuple, list)) else (tensors,))
        return before(tensors, *args, **named)
    autograd.backward = backward


def _has_begun(held: Mapping[str, Any]) -> bool:
    """Whether a step has begun to change something, according to its local variables. A step with a closure computes the loss first."""
    return held.get("closure") is None or any(held.get(name) is not None for name in ("loss", "orig_loss"))


def _begins(optimizer: Any, args: Any, named: Any) -> None:
    """Called before each step. Records it unless it has a closure. This includes optimizers whose local variables look() does not know."""
    if (args[1] if len(args) > 1 else named.get("closure")) is None:
        _stepped(optimizer)


def _foreign() -> bool:
    return isinstance(threading.current_thread(), threading._DummyThread)


def _calls(one: Optional[Steps]) -> List[Steps]:
    """This call and the calls that contain it, without calls that have ended."""
    found = []
    while one is not None:
        if not one.has_ended:
            found.append(one)
        one = one.around
    return found


def _stepped(stepper: Any) -> None:
    calls = _calls(_here.get())
    if not calls and _foreign():
        calls = list(_open)
    for one in calls:
        one.note(stepper)
    if not calls:
        _others()


def _adds(roots: Any) -> None:
    calls = _calls(_here.get())
    if not calls and _foreign() and _open:
        calls = _calls(_open[-1])
        if len(calls) < len(_open):
            calls = []
    for one in calls:
        one.gradients().note(roots)
    if not calls:
        _others()


def _others() -> None:
    """Records a step or backward pass that cannot be assigned to a call."""
    for one in list(_open):
        one.others = one.others or one.is_elsewhere()
