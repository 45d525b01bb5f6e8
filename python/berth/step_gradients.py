"""Keeps the gradients of one training step separate from those that existed before."""

from __future__ import annotations

import weakref
from typing import Any, List, Tuple

from .gradients import leaves
from .splittable import inner

__all__ = ["StepGradients"]


class StepGradients:
    """In each try, the gradients of the optimizers' parameters start from nothing. Backward passes may also reach other parameters, in the model or outside
    it. These keep their earlier gradients, and the gradients of the step are added at its end.
    """

    def __init__(self, model: Any, optimizers: List[Any]) -> None:
        own = [one for optimizer in optimizers for group in optimizer.param_groups for one in group["params"]]
        self._optimizers = optimizers
        self._known = {id(one): weakref.ref(one) for one in own}
        self._others: List[Tuple[Any, Any]] = []
        for one in inner(model).parameters():
            if one.requires_grad:
                self._add(one)

    def _add(self, leaf: Any) -> bool:
        held = self._known.get(id(leaf))
        if held is not None and held() is leaf:
            return False
        self._known[id(leaf)] = weakref.ref(leaf)
        # a weak reference, so that a tensor that belongs only to one part can be freed after the part
        self._others.append((weakref.ref(leaf), leaf.grad))
        return True

    def begin(self, loss: Any) -> None:
        """Call this before a backward pass from this loss."""
        for one in leaves((loss,)):
            if self._add(one):
                one.grad = None

    def clear(self) -> None:
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
        for one, _ in self._there():
            one.grad = None

    def put_back(self) -> None:
        self.clear()
        for one, before in self._there():
            one.grad = before

    def add_up(self) -> None:
        for one, before in self._there():
            if before is not None:
                one.grad = before if one.grad is None else before.add_(one.grad)

    def _there(self) -> List[Tuple[Any, Any]]:
        return [(one, before) for one, before in ((held(), before) for held, before in self._others) if one is not None]
