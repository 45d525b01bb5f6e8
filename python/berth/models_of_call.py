"""Finds the PyTorch models that a call can reach: through its arguments, the names and closures of the function, their attributes, and the attributes of
these."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, Dict, Iterator, List, Mapping, Set, Tuple

__all__ = ["ReachedModels"]

_DEPTH = 2  # how many levels of called functions are followed, if they are called by name
_HELD = 2   # how deep attributes are followed: self.trainer.model
_MOST = 100  # the most members of a list, or attributes of an object, that are examined
_PLAIN = frozenset((int, float, bool, str, bytes, type(None)))
_FIXED = (types.ModuleType, type, types.BuiltinFunctionType)


class ReachedModels:
    """The models of one function. Names in it are resolved once, but their values are read at each call, because a name may get another
    model later."""

    def __init__(self, function: Any) -> None:
        self._owners: List[Any] = []
        self._cells: List[Any] = []
        self._globals: List[Tuple[Dict[str, Any], str]] = []
        self._follow(function, _DEPTH, set())

    def _follow(self, function: Any, depth: int, seen: Set[int]) -> None:
        while isinstance(function, functools.partial):
            self._owners += [*function.args, *function.keywords.values()]
            function = function.func
        if isinstance(function, types.MethodType):
            self._owners.append(function.__self__)
            function = function.__func__
        if not isinstance(function, types.FunctionType):
            self._owners.append(function)  # `function` is an object with __call__()
            return
        if id(function) in seen:
            return
        seen.add(id(function))
        self._owners += function.__defaults__ or ()
        for cell in function.__closure__ or ():
            self._cells.append(cell)
            self._deeper(_contents(cell), depth, seen)
        for name in function.__code__.co_names:
            held = function.__globals__.get(name)
            if not isinstance(held, _FIXED):  # a name without a value is kept too, because it may be assigned later
                if name in function.__globals__ or name not in _builtin_names():
                    self._globals.append((function.__globals__, name))
                self._deeper(held, depth, seen)

    def _deeper(self, held: Any, depth: int, seen: Set[int]) -> None:
        if depth and isinstance(held, (types.FunctionType, types.MethodType, functools.partial)):
            self._follow(held, depth - 1, seen)

    def now(self, args: Tuple[Any, ...], named: Mapping[str, Any]) -> List[Any]:
        """The models for these arguments, each once."""
        kind = sys.modules["torch"].nn.Module
        found: Dict[int, Any] = {}
        looked: Set[int] = set()
        level = list(self._values(args, named))
        for depth in range(_HELD, -1, -1):
            inside: List[Any] = []
            for one in level:
                if isinstance(one, kind):
                    found[id(one)] = one
                elif isinstance(one, (list, tuple)):
                    found.update((id(each), each) for each in one[:_MOST] if isinstance(each, kind))
                elif depth and id(one) not in looked and not isinstance(one, (types.FunctionType, *_FIXED)):
                    held = one if isinstance(one, dict) else getattr(one, "__dict__", None)
                    if type(held) is dict and len(inside) < _MOST * 10:
                        looked.add(id(one))
                        inside += [each for each in list(held.values())[:_MOST] if type(each) not in _PLAIN]
            level = inside
        return list(found.values())

    def _values(self, args: Tuple[Any, ...], named: Mapping[str, Any]) -> Iterator[Any]:
        yield from args
        yield from named.values()
        yield from self._owners
        for cell in self._cells:
            yield _contents(cell)
        for names, name in self._globals:
            yield names.get(name)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the closure's variable has no value yet
        return None


def _builtin_names() -> Any:
    return vars(sys.modules["builtins"])
