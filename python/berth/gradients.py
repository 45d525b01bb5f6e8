"""What backward passes add to `.grad` in a try: noted as a pass begins, and put back where memory runs out in the try.

Nothing is copied, as memory is short. Where a parameter had no gradient, it has none again; where it had zeros, they are zeros again (whether
they were is one number each, of the gradients that are there as the pass begins). What was added in place to anything else is lost.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

__all__ = ["Gradients"]


class _Noted(NamedTuple):
    parameter: Any
    before: Any   # its gradient, or None
    version: int  # it counts what is written into a tensor
    size: Any     # the sum of what is in it, each without its sign; None where it was not asked for
    written: int  # what is written into the parameter itself


class Gradients:
    """Of the parameters that backward passes have reached since this was made: as they were before the first of them."""

    __slots__ = ("_noted", "_written")

    def __init__(self) -> None:
        self._noted: Dict[int, _Noted] = {}
        self._written: List[Any] = []

    def note(self, roots: Any) -> None:
        """Before a backward pass that begins at these tensors."""
        new = [one for one in _leaves(roots) if id(one) not in self._noted]
        there = [one.grad for one in new if one.grad is not None and not one.grad.is_sparse]
        sizes = iter(_sizes(there))
        for one in new:
            before = one.grad
            has_size = before is not None and not before.is_sparse
            self._noted[id(one)] = _Noted(one, before, 0 if before is None else before._version, next(sizes) if has_size else _nothing(before),
                                          one._version)

    def put_back(self) -> bool:
        """False where something is lost. Keeps no parameter alive after that."""
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
        """Something has written into parameters since they were noted, as a step does, that outlive the call. After put_back()."""
        return any(one() is not None for one in self._written)


def _nothing(sparse: Any) -> Optional[int]:
    """0 for a sparse gradient that holds nothing, as zero_grad() may leave it."""
    return 0 if sparse is not None and sparse._nnz() == 0 else None


def _sizes(tensors: List[Any]) -> List[Any]:
    """The sum of what is in each, without signs: 0 where all of it is zero. On a GPU nobody waits for it."""
    torch = sys.modules["torch"]
    if not tensors:
        return []
    with torch.no_grad():
        try:
            return list(torch._foreach_norm(tensors, 1))
        except (AttributeError, RuntimeError, TypeError):  # an older PyTorch, or tensors of kinds that it does not take together
            return [one.abs().sum() for one in tensors]


def _leaves(roots: Any) -> Iterator[Any]:
    """The tensors that a pass from there adds gradients to."""
    todo: List[Any] = []
    for one in roots:
        node: Optional[Any] = getattr(one, "grad_fn", None) or getattr(one, "node", None)
        if node is not None:
            todo.append(node)
        elif getattr(one, "requires_grad", False):  # a leaf itself
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
