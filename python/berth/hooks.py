"""Hooks on the gradients of parameters: called once with that of the whole batch, and not with each part's, which may be another thing (one
that clips, an optimizer that steps in the backward pass)."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Dict, Iterable, Iterator, List, Tuple

from .splittable import inner

__all__ = ["Hooks"]


class Hooks:
    """Of a model's and an optimizer's parameters."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self._of_tensors: List[Tuple[Any, Dict[Any, Any]]] = []
        self._after: List[Tuple[Any, Dict[Any, Any]]] = []
        for one in _parameters(model, optimizer):
            for found, name in ((self._of_tensors, "_backward_hooks"), (self._after, "_post_accumulate_grad_hooks")):
                hooks = getattr(one, name, None)
                if hooks:
                    found.append((one, hooks))

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """No backward pass calls them."""
        held = [(hooks, dict(hooks)) for _, hooks in (*self._of_tensors, *self._after)]
        for hooks, _ in held:
            hooks.clear()
        try:
            yield
        finally:
            for hooks, before in held:
                hooks.update(before)

    def of_tensors(self) -> None:
        """Those that may give another gradient."""
        with sys.modules["torch"].no_grad():
            for one, hooks in self._of_tensors:
                for hook in list(hooks.values()) if one.grad is not None else ():
                    said = hook(one.grad)
                    if said is not None:
                        one.grad = said

    def after(self) -> None:
        """Those that are called when gradients are whole."""
        with sys.modules["torch"].no_grad():
            for one, hooks in self._after:
                for hook in list(hooks.values()) if one.grad is not None else ():
                    hook(one)


def _parameters(model: Any, optimizer: Any) -> Iterable[Any]:
    """Each once."""
    found = {id(one): one for one in inner(model).parameters()}
    found.update((id(one), one) for group in optimizer.param_groups for one in group["params"])
    return found.values()
