"""Whether an optimizer has stepped in a call: what it has changed, a second try would change once more."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any, Dict, List, Mapping, Optional

from .errors import BerthError

__all__ = ["Steps", "StepInterrupted", "watch"]


class StepInterrupted(BerthError, MemoryError):
    """Memory ran out while an optimizer stepped, or after that: some parameters are new, so the step is not tried again."""

    may_try_again = False


_open: List["Steps"] = []
_watching = False


class Steps:
    """In one call, the optimizers that stepped in its thread, or in one that Python did not start: PyTorch's, for a backward pass."""

    __slots__ = ("_thread", "_optimizers")

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._optimizers: Dict[int, Any] = {}
        _open.append(self)

    def end(self) -> None:
        _open.remove(self)

    def remain(self) -> bool:
        """Whether one of them outlives the call. Those that it had made itself are gone with it, once garbage is collected."""
        return any(one() is not None for one in self._optimizers.values())

    def look(self, problem: BaseException) -> None:
        """Where it came from inside of a step that had begun to change something, that is one as well."""
        at = problem.__traceback__
        while at is not None:
            held = at.tb_frame.f_locals if at.tb_frame.f_code.co_name == "step" else {}
            if isinstance(held.get("self"), sys.modules["torch.optim.optimizer"].Optimizer) and _has_begun(held):
                self.note(held["self"])
            at = at.tb_next

    def note(self, optimizer: Any) -> None:
        self._optimizers[id(optimizer)] = weakref.ref(optimizer)


def watch() -> Optional[Steps]:
    """Until its end(); None where no PyTorch is loaded."""
    optimizer = sys.modules.get("torch.optim.optimizer")
    if optimizer is None or not hasattr(optimizer, "Optimizer"):  # none, or half of it
        return None
    if not _watching:
        _begin(optimizer)
    return Steps()


def _begin(module: Any) -> None:
    global _watching
    _watching = True
    if hasattr(module, "register_optimizer_step_pre_hook"):
        module.register_optimizer_step_pre_hook(_begins)
        module.register_optimizer_step_post_hook(lambda optimizer, args, named: _stepped(optimizer))
        return
    before = module.Optimizer._optimizer_step_code  # PyTorch 1 calls it after each step, for who looks on

    def after(optimizer: Any) -> None:
        _stepped(optimizer)
        before(optimizer)
    module.Optimizer._optimizer_step_code = after


def _has_begun(held: Mapping[str, Any]) -> bool:
    """By the variables of a step, of PyTorch's own optimizers at least: with a closure it computes the loss first."""
    return held.get("closure") is None or any(held.get(name) is not None for name in ("loss", "orig_loss"))


def _begins(optimizer: Any, args: Any, named: Any) -> None:
    """Also of a kind of optimizer that `look` does not know by its step's variables."""
    if (args[1] if len(args) > 1 else named.get("closure")) is None:
        _stepped(optimizer)


def _stepped(optimizer: Any) -> None:
    if not _open:
        return
    here, foreign = threading.get_ident(), isinstance(threading.current_thread(), threading._DummyThread)
    for one in list(_open):
        if foreign or one._thread == here:
            one.note(optimizer)
