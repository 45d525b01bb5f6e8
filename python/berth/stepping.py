"""What a call has changed that a second try would change once more: whether an optimizer or a scheduler has stepped in it, and what its backward passes
have added to gradients."""

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
    """Memory ran out while an optimizer stepped, or after that, or after gradients were added to others: the step is not tried again."""

    may_try_again = False


_open: List["Steps"] = []
_here: "contextvars.ContextVar[Optional[Steps]]" = contextvars.ContextVar("berth_steps", default=None)
_watching = False
_OPTIMIZED = 1  # of code: a function's, whose variables are no dict


class Steps:
    """In one call, what steps and adds gradients in its thread or task, or in a thread that Python did not start: PyTorch's, for a
    backward pass. What another thread of Python's does meanwhile may be the call's, which has started it, or its own: nobody knows."""

    __slots__ = ("around", "has_ended", "others", "_thread", "_steppers", "_gradients")

    def __init__(self) -> None:
        self.has_ended = False
        self.others = False  # another thread has stepped or added gradients
        self._thread = threading.get_ident()
        self._steppers: Optional[Dict[int, Any]] = None
        self._gradients: Optional[Gradients] = None
        self.around = _here.get()
        _here.set(self)
        _open.append(self)

    def end(self) -> None:
        self.has_ended = True  # a task that it has left behind still finds it
        _here.set(self.around)
        _open.remove(self)

    def remain(self) -> List[str]:
        """What has stepped and outlives the call. What it had made itself is gone with it, once garbage is collected. After put_back()."""
        names = [type(one).__name__ for one in (ref() for ref in (self._steppers or {}).values()) if one is not None]
        if not names and self._gradients is not None and self._gradients.parameters_are_new():
            return [text("something that writes into parameters")]
        return names

    def put_back(self) -> bool:
        """Gradients, as they were before the call. False where they cannot be."""
        return self._gradients is None or self._gradients.put_back()

    def look(self, problem: BaseException) -> None:
        """Where it came from inside of a step that had begun to change something, that is one as well."""
        at = problem.__traceback__
        while at is not None:
            code = at.tb_frame.f_code
            if code.co_name == "step" and code.co_varnames[:1] == ("self",) and code.co_flags & _OPTIMIZED:
                held = at.tb_frame.f_locals
                if isinstance(held.get("self"), sys.modules["torch.optim.optimizer"].Optimizer) and _has_begun(held):
                    self.note(held["self"])
                if isinstance(held, dict):  # a copy, which the frame would keep even when it is cleared
                    held.clear()
            at = at.tb_next

    def note(self, stepper: Any) -> None:
        if self._steppers is None:
            self._steppers = {}
        self._steppers[id(stepper)] = weakref.ref(stepper)

    def is_elsewhere(self) -> bool:
        """Another thread's. In its own, a task that it has begun would know it."""
        return self._thread != threading.get_ident()

    def gradients(self) -> Gradients:
        if self._gradients is None:
            self._gradients = Gradients()
        return self._gradients


def watch() -> Optional[Steps]:
    """Until its end(); None where no PyTorch is loaded."""
    return Steps() if _watching or _begin() else None


def _begin() -> bool:
    global _watching
    module = sys.modules.get("torch.optim.optimizer")
    autograd = sys.modules.get("torch.autograd")
    if not hasattr(module, "Optimizer") or not hasattr(autograd, "backward"):  # none, or half of it
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
    before = module.Optimizer._optimizer_step_code  # PyTorch 1 calls it after each step, for who looks on

    def after(optimizer: Any) -> None:
        _stepped(optimizer)
        before(optimizer)
    module.Optimizer._optimizer_step_code = after


def _watch_schedulers(module: Any) -> None:
    """Of the learning rate: those of PyTorch, and what inherits from them."""
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
    """There is no hook for it: `loss.backward()` looks for this function each time."""
    before = autograd.backward

    @functools.wraps(before)
    def backward(tensors: Any, *args: Any, **named: Any) -> Any:
        if _open:
            if not isinstance(tensors, (tuple, list)) and not hasattr(tensors, "grad_fn"):
                tensors = tuple(tensors)  # what gives them once
            _adds(tensors if isinstance(tensors, (tuple, list)) else (tensors,))
        return before(tensors, *args, **named)
    autograd.backward = backward


def _has_begun(held: Mapping[str, Any]) -> bool:
    """By the variables of a step, of PyTorch's own optimizers at least: with a closure it computes the loss first."""
    return held.get("closure") is None or any(held.get(name) is not None for name in ("loss", "orig_loss"))


def _begins(optimizer: Any, args: Any, named: Any) -> None:
    """Also of a kind of optimizer that `look` does not know by its step's variables."""
    if (args[1] if len(args) > 1 else named.get("closure")) is None:
        _stepped(optimizer)


def _foreign() -> bool:
    return isinstance(threading.current_thread(), threading._DummyThread)


def _calls(one: Optional[Steps]) -> List[Steps]:
    """It, and those around it, that have not ended."""
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
    """Whose step or pass it is, nobody knows."""
    for one in list(_open):
        one.others = one.others or one.is_elsewhere()
