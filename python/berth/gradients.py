"""Records the gradients before the backward passes of a try, and restores them if memory runs out.

Gradients are not copied, because memory is scarce. If a parameter had no gradient, its gradient is removed. If a gradient was all zeros, it is set to zeros
again. One number per gradient records whether it was all zeros. If a backward pass adds in place to a nonzero gradient, that cannot be undone.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

__all__ = ["Gradients", "leaves"]


class _Noted(NamedTuple):
    parameter: Any
    before: Any   # its gradient before the pass, or None
    version: int  # the gradient's version, which PyTorch increments at each write
    size: Any     # the sum of its absolute values; None if not computed
    written: int  # the parameter's version, which PyTorch increments at each write


class Gradients:
    """The gradients that backward passes have reached since this object was created, and their state before the first of these passes."""

    __slots__ = ("_noted", "_written")

    def __init__(self) -> None:
        self._noted: Dict[int, _Noted] = {}
        self._written: List[Any] = []

    def note(self, roots: Any) -> None:
        """Call it before a backward pass that begins at these tensors."""
        new = [one for one in leaves(roots) if id(one) not in self._noted]
        there = [one.grad for one in new if one.grad is not None and not one.grad.is_sparse]
        sizes = iter(_sizes(there))
        for one in new:
            before = one.grad
            has_size = before is not None and not before.is_sparse
            self._noted[id(one)] = _Noted(one, before, 0 if before is None else before._version, next(sizes) if has_size else _nothing(before),
                                          one._version)

    def put_back(self) -> bool:
        """Restores gradients. Returns False if some are lost. Afterwards, this object keeps no parameter alive."""
        noted, whole = list(self._noted.values()), True
        self._noted.clear()
        self._written = [weakref.ref(one.parameter) for one in noted if one.parameter._version != one.written]
        with sys.modules["torch"].no_grad():
            for one in noted:
                if one.parameter.grad is not one.before:
                    one.parameter.grad = one.before
                if one.before is not None and one.before._version != one.version:
                    if one.size is not None and float(one.size) == 0:
                        one.before.zero_()
                    else:
                        whole = False
        return whole

    def parameters_are_new(self) -> bool:
        """Whether parameters that outlive the call were written since they were recorded, for example by an optimizer's step. Call it
        after put_back()."""
        return any(one() is not None for one in self._written)


def _nothing(sparse: Any) -> Optional[int]:
    """Returns 0 for a sparse gradient without values, as zero_grad() may leave it."""
    return 0 if sparse is not None and sparse._nnz() == 0 else None


def _sizes(tensors: List[Any]) -> List[Any]:
    """The sum of the absolute values of each tensor; 0 means all zeros. On a GPU, returns before they are computed."""
    torch = sys.modules["torch"]
    if not tensors:
        return []
    with torch.no_grad():
        try:
            return list(torch._foreach_norm(tensors, 1))
        # this PyTorch has no such function, or the function does not support such tensors
        except (AttributeError, RuntimeError, TypeError):
            return [one.abs().sum() for one in tensors]


def leaves(roots: Any) -> Iterator[Any]:
    """The tensors to which a backward pass from these roots adds gradients."""
    todo: List[Any] = []
    for one in roots:
        node: Optional[Any] = getattr(one, "grad_fn", None) or getattr(one, "node", None)
        if node is not None:
            todo.append(node)
        elif getattr(one, "requires_grad", False):  # the root is a leaf itself
            yield one
    seen = set(todo)
    while todo:
        node = todo.pop()
        if type(node).__name__ == "AccumulateGrad":
            yield node.variable
            continue
        for other, _ in node.next_functions:
            if other is not None and other not in seen:
                seen.add(other)
                todo.append(other)
