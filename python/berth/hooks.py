"""Hooks on gradients of parameters. A hook that clips or steps would give wrong results with the gradient of each part. So each hook is called only once,
with the gradient of the whole batch.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Dict, Iterable, Iterator, List, Tuple

from .splittable import inner

__all__ = ["Hooks"]


class Hooks:
    """The hooks on parameters of a model and its optimizers."""

    def __init__(self, model: Any, optimizers: List[Any]) -> None:
        self._of_tensors: List[Tuple[Any, Dict[Any, Any]]] = []
        self._after: List[Tuple[Any, Dict[Any, Any]]] = []
        for one in _parameters(model, optimizers):
            for found, name in ((self._of_tensors, "_backward_hooks"), (self._after, "_post_accumulate_grad_hooks")):
                hooks = getattr(one, name, None)
                if hooks:
                    found.append((one, hooks))

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """A context in which the hooks are removed, so that backward passes do not call them."""
        held = [(hooks, dict(hooks)) for _, hooks in (*self._of_tensors, *self._after)]
        for hooks, _ in held:
            hooks.clear()
        try:
            yield
        finally:
            for hooks, before in held:
                hooks.update(before)

    def of_tensors(self) -> None:
        """Calls the hooks that may replace a gradient."""
        with sys.modules["torch"].no_grad():
            for one, hooks in self._of_tensors:
                for hook in list(hooks.values()) if one.grad is not None else ():
                    said = hook(one.grad)
                    if said is not None:
                        one.grad = said

    def after(self) -> None:
        """Calls the hooks that run when a gradient is complete."""
        with sys.modules["torch"].no_grad():
            for one, hooks in self._after:
                for hook in list(hooks.values()) if one.grad is not None else ():
                    hook(one)


def _parameters(model: Any, optimizers: List[Any]) -> Iterable[Any]:
    """All parameters of the model and the optimizers, each once."""
    found = {id(one): one for one in inner(model).parameters()}
    found.update((id(one), one) for optimizer in optimizers for group in optimizer.param_groups for one in group["params"])
    return found.values()
