"""A batch that fits: found by trying, smaller after each time that memory ran out."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from typing import Any, Callable, Iterator, Mapping, Optional, TypeVar, cast

from .errors import BerthError, InvalidRequest
from .retrying import attempt, first_line, release_memory

__all__ = ["DoesNotFit", "chunked", "find_batch", "fit_batch"]

Function = TypeVar("Function", bound=Callable[..., Any])

_POLICIES: Mapping[str, Callable[[int], int]] = {"halve": lambda size: size // 2, "x0.9": lambda size: min(size - 1, int(size * 0.9))}


class DoesNotFit(BerthError, MemoryError):
    """Memory runs out with the smallest batch as well."""


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidRequest(f"{name}: {value!r} is not a whole number of at least 1", "E0104")
    return value


def fit_batch(function: Optional[Function] = None, *, start: int = 128, least: int = 1, policy: str = "halve", report: bool = True,
              starting_batch_size: Optional[int] = None) -> Any:
    """Calls a function with a batch size as its first argument, and again with a smaller one each time memory runs out.

    The function begins anew with each size, so it makes its loader, and whatever has the size in it, itself. The size that fitted
    is kept in the function's `batch_size`, and is where the next call begins. Code for accelerate's `find_executable_batch_size`
    moves over unchanged.

    Parameters
    ----------
    start : int
        The first size; `starting_batch_size` is another name for it.
    least : int
        Below this, DoesNotFit is raised.
    policy : {"halve", "x0.9"}
        The next size.

    Examples
    --------
    >>> @fit_batch(start=128, report=False)
    ... def train(batch_size):
    ...     if batch_size > 40:
    ...         raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    ...     return batch_size
    >>> train(), train.batch_size
    (32, 32)
    """
    if function is None:
        return functools.partial(fit_batch, start=start, least=least, policy=policy, report=report, starting_batch_size=starting_batch_size)
    first = _positive("start", start if starting_batch_size is None else starting_batch_size)
    _positive("least", least)
    if policy not in _POLICIES:
        raise InvalidRequest(f"policy: {policy!r} is none of {', '.join(_POLICIES)}")
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidRequest(f"{function.__name__} is a generator or a coroutine: it cannot begin anew with another size",
                             hint="put the loop into a plain function")
    names = list(inspect.signature(function).parameters)
    if not names:
        raise InvalidRequest(f"{function.__name__} takes no batch size: it must be the first argument", hint=f"def {function.__name__}(batch_size, …):")
    call = cast(Callable[..., Any], function)
    places = _places(function)

    @functools.wraps(call)
    def fitted(*args: Any, **named: Any) -> Any:
        if names[0] in named or len(args) >= places:
            raise InvalidRequest(f"{call.__name__} gets its {names[0]} from fit_batch: call it without",
                                 hint=f"{call.__name__}({', '.join(names[1:])})")
        size = getattr(fitted, "batch_size", 0)
        if not size:  # a size that has fitted is tried as it is: collecting takes longer than most calls
            size = first
            release_memory()
        while True:
            good, result = attempt(call, (size, *args), named)
            if good:
                setattr(fitted, "batch_size", size)
                return result
            release_memory()
            smaller = _POLICIES[policy](size)
            if smaller < least:
                raise DoesNotFit(f"memory runs out with a batch of {size} as well: {first_line(result)}",
                                 hint="a smaller model, a shorter sequence, less precision, or a GPU with more memory")
            if report:
                print(f"berth: a batch of {size} does not fit in {call.__name__} ({first_line(result)}); trying {smaller}", file=sys.stderr)
            size = smaller
    return fitted


def _places(function: Callable[..., Any]) -> float:
    """How many arguments it takes by their place."""
    kinds = [one.kind for one in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return math.inf
    return sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)


def find_batch(trial: Callable[[int], Any], *, start: int = 128, least: int = 1, most: int = 8192, margin: float = 0.025) -> int:
    """The largest batch that fits, less a margin for what a whole run needs beyond a few steps.

    Parameters
    ----------
    trial : callable
        Takes a size and runs what a run would: some steps with gradients and the optimizer, on the largest items.
    margin : float
        Part of the size that is left off, and how exactly it is searched.

    Returns
    -------
    int
        At least 95 % of the largest size that fits, where the margin is 0.025.

    Examples
    --------
    >>> def trial(size):
    ...     if size > 1000:
    ...         raise MemoryError
    >>> 950 <= find_batch(trial) <= 1000
    True
    """
    for name, value in (("start", start), ("least", least), ("most", most)):
        _positive(name, value)
    if not least <= start <= most or not 0 <= margin < 1:
        raise InvalidRequest(f"least {least}, start {start} and most {most} are not in this order, or the margin {margin!r} is not below 1")
    # By halves of the logarithm: a range of a hundred times is no more work near ten than near ten thousand.
    fits, fails, size = least - 1, most + 1, start
    said = ""
    while fails - fits > max(1, math.ceil(fits * margin)):
        release_memory()
        good, result = attempt(trial, (size,), {})
        if good:
            fits = size
        else:
            fails, said = size, first_line(result)
        size = min(max(math.isqrt(max(fits, 1) * fails), fits + 1), fails - 1)
    release_memory()
    if fits < least:
        raise DoesNotFit(f"memory runs out with a batch of {least} as well: {said}")
    return fits if fits == most else max(least, fits - math.floor(fits * margin))


def chunked(x: Any, size: int) -> Iterator[Any]:
    """Parts of so many items each, the last one with what is left: of a tensor or array along its first axis, of a sequence, or
    of a dict, tuple or list of tensors or arrays that are equally long.

    Examples
    --------
    >>> list(chunked([1, 2, 3, 4, 5], 2))
    [[1, 2], [3, 4], [5]]
    >>> [part["y"] for part in chunked({"x": "abc", "y": [1, 2, 3]}, 2)]
    [[1, 2], [3]]
    """
    _positive("size", size)
    length = _length(x)
    return (_part(x, at, at + size) for at in range(0, length, size))


def _is_group(x: Any) -> bool:
    """Several tensors or arrays side by side, and no list of items."""
    return isinstance(x, (tuple, list)) and bool(x) and all(hasattr(one, "shape") and getattr(one, "shape", ()) for one in x)


def _length(x: Any) -> int:
    if isinstance(x, Mapping):
        lengths = {key: _length(one) for key, one in x.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidRequest(f"the parts of the batch are not equally long: {lengths}")
        return next(iter(lengths.values()), 0)
    if _is_group(x):
        counts = [_length(one) for one in x]
        if len(set(counts)) > 1:
            raise InvalidRequest(f"the parts of the batch are not equally long: {counts}")
        return counts[0]
    try:
        return len(x)
    except TypeError:
        raise InvalidRequest(f"a {type(x).__name__} has no length, so it cannot be split", hint="make a list of it, or split what it yields") from None


def _part(x: Any, first: int, last: int) -> Any:
    if isinstance(x, Mapping):
        return {key: _part(one, first, last) for key, one in x.items()}
    if _is_group(x):
        return type(x)(_part(one, first, last) for one in x)
    return x[first:last]
