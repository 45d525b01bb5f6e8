"""A batch that fits: found by trying, smaller after each time that memory ran out."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from typing import Any, Callable, Iterator, List, Mapping, Optional, Tuple, TypeVar, cast

from .agreement import Agreement, agreement
from .errors import BerthError, InvalidRequest
from .retrying import attempt, first_line, name_of, release_memory

__all__ = ["DoesNotFit", "RankFailed", "chunked", "find_batch", "fit_batch"]

Function = TypeVar("Function", bound=Callable[..., Any])

_POLICIES: Mapping[str, Callable[[int], int]] = {"halve": lambda size: size // 2, "x0.9": lambda size: min(size - 1, int(size * 0.9))}


FAILED = 9  # what a rank says that ends with another error


class RankFailed(BerthError):
    """Another rank of the job failed with what is no lack of memory; this one had nothing wrong, and cannot go on alone."""

    may_try_again = False


class DoesNotFit(BerthError, MemoryError):
    """Memory runs out with the smallest batch as well."""

    may_try_again = False


def positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidRequest(f"{name}: {value!r} is not a whole number of at least 1", "E0104")
    return value


def fit_batch(function: Optional[Function] = None, *, start: int = 128, least: int = 1, policy: str = "halve", report: bool = True,
              starting_batch_size: Optional[int] = None, group: Any = None) -> Any:
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
    group : torch.distributed group, or False, optional
        Where ranks are initialised, all of them call it, and all go on to the next size when memory ran out in one. That is found at the
        end of the function, so it must not wait for other ranks in between (a trial does not, or runs under `no_sync`); `split_step` has
        no such limit. False: this rank calls it alone.

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
        return functools.partial(fit_batch, start=start, least=least, policy=policy, report=report, starting_batch_size=starting_batch_size,
                                 group=group)
    first = positive("start", start if starting_batch_size is None else starting_batch_size)
    positive("least", least)
    if policy not in _POLICIES:
        raise InvalidRequest(f"policy: {policy!r} is none of {', '.join(_POLICIES)}", "E0003")
    names, places = _restartable(function)
    call = cast(Callable[..., Any], function)

    @functools.wraps(call)
    def fitted(*args: Any, **named: Any) -> Any:
        if names[0] in named or len(args) >= places:
            raise InvalidRequest(f"{name_of(call)} gets its {names[0]} from fit_batch: call it without",
                                 hint=f"{name_of(call)}({', '.join(names[1:])})")
        size = getattr(fitted, "batch_size", 0)
        if not size:  # a size that has fitted is tried as it is: collecting takes longer than most calls
            size = first
            release_memory()
        result, size = _smaller_until_it_fits(call, size, args, named, (least, policy, report), agreement(group))
        setattr(fitted, "batch_size", size)
        return result
    return fitted


def _smaller_until_it_fits(call: Callable[..., Any], size: int, args: Tuple[Any, ...], named: Mapping[str, Any], how: Tuple[int, str, bool],
                           together: Agreement) -> Tuple[Any, int]:
    least, policy, report = how
    size = together.least(size)
    while True:
        result, fits = _tried(call, (size, *args), named, together)
        if fits:
            return result, size
        smaller = _POLICIES[policy](size)
        if smaller < least:
            raise DoesNotFit(f"memory runs out with a batch of {size} as well: {_why(result)}", "E0562",
                             "a smaller model, a shorter sequence, less precision, or a GPU with more memory") from result
        if report and together.rank == 0:
            print(f"berth: a batch of {size} does not fit in {name_of(call)} ({_why(result)}); trying {smaller}", file=sys.stderr)
        size = smaller


def _restartable(function: Callable[..., Any]) -> Tuple[List[str], float]:
    """The names of its arguments, and how many it takes by their place; refused where it cannot begin anew."""
    _check_plain(function)
    names = list(inspect.signature(function).parameters)
    if not names:
        raise InvalidRequest(f"{name_of(function)} takes no batch size: it must be the first argument",
                             hint=f"def {name_of(function)}(batch_size, …):")
    return names, _places(function)


def _check_plain(function: Any) -> None:
    call = getattr(type(function), "__call__", None)  # of an object that can be called
    for one in (function, call):
        if inspect.isgeneratorfunction(one) or inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one):
            raise _not_restartable(function)


def _not_restartable(function: Any) -> InvalidRequest:
    return InvalidRequest(f"{name_of(function)} is a generator or a coroutine: it cannot begin anew with another size", "E0569",
                          "put the loop into a plain function")


def _tried(call: Callable[..., Any], args: Tuple[Any, ...], named: Mapping[str, Any], together: Agreement) -> Tuple[Any, bool]:
    """What it gave, and True; or the exception without its frames (None where it is another rank's), and False, where memory ran out."""
    if together.ranks == 1:
        good, result = attempt(call, args, named)
    else:
        good, result = True, None
        try:
            good, result = attempt(call, args, named)
        except Exception:
            together.most(FAILED)  # the others are told before this rank leaves them
            raise
        said = together.most(0 if good else 1)
        if said == FAILED:
            raise RankFailed("another rank failed, and not for want of memory: its own output says how", "E0564")
        if good and said:
            good, result = False, None
    if not good:
        release_memory()
    return result, good


def _why(lack: Optional[BaseException]) -> str:
    return "in another rank" if lack is None else first_line(lack)


def _places(function: Callable[..., Any]) -> float:
    """How many arguments it takes by their place."""
    kinds = [one.kind for one in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return math.inf
    return sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)


def find_batch(trial: Callable[[int], Any], *, start: int = 128, least: int = 1, most: int = 8192, margin: float = 0.025, group: Any = None) -> int:
    """The largest batch that fits, less a margin for what a whole run needs beyond a few steps.

    Parameters
    ----------
    trial : callable
        Takes a size and runs what a run would: some steps with gradients and the optimizer, on the largest items.
    margin : float
        Part of the size that is left off, and how exactly it is searched.
    group : torch.distributed group, or False, optional
        As in `fit_batch`: all ranks find the same size.

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
        positive(name, value)
    if not least <= start <= most or not 0 <= margin < 1:
        raise InvalidRequest(f"least {least}, start {start} and most {most} are not in this order, or the margin {margin!r} is not below 1")
    _check_plain(trial)
    # By halves of the logarithm: a range of a hundred times is no more work near ten than near ten thousand.
    fits, fails, size = least - 1, most + 1, start
    lack, together = None, agreement(group)
    while fails - fits > max(1, math.ceil(fits * margin)):
        release_memory()
        result, good = _tried(trial, (size,), {}, together)
        if inspect.isgenerator(result) or inspect.isasyncgen(result) or inspect.iscoroutine(result):
            getattr(result, "close", int)()
            raise _not_restartable(trial)
        if good:
            fits = size
        else:
            fails, lack = size, result
        size = min(max(math.isqrt(max(fits, 1) * fails), fits + 1), fails - 1)
    release_memory()
    if fits < least:
        raise DoesNotFit(f"memory runs out with a batch of {least} as well: {_why(lack)}", "E0562") from lack
    return fits if fits == most else max(least, fits - math.floor(fits * margin))


def chunked(x: Any, size: int) -> Iterator[Any]:
    """Parts of so many items each, the last one with what is left: of a tensor or array along its first axis, of a sequence, or
    of a dict, tuple or list of tensors, arrays or sequences that are equally long. None, switches and numbers among them are in every part.

    Examples
    --------
    >>> list(chunked([1, 2, 3, 4, 5], 2))
    [[1, 2], [3, 4], [5]]
    >>> [part["y"] for part in chunked({"x": "abc", "y": [1, 2, 3]}, 2)]
    [[1, 2], [3]]
    """
    positive("size", size)
    length = length_of(x)
    return (part_of(x, at, at + size) for at in range(0, length, size))


def _is_group(x: Any) -> bool:
    """Fields side by side, and no list of items: tensors or arrays with what belongs to them, or lists in a tuple."""
    if not isinstance(x, (tuple, list)):
        return False
    return any(getattr(one, "shape", ()) for one in x) or (isinstance(x, tuple) and any(isinstance(one, list) for one in x))


def _is_shared(x: Any) -> bool:
    """It belongs to all items, and is in every part: a switch, a number, nothing."""
    return x is None or isinstance(x, (bool, int, float)) or getattr(x, "shape", None) == ()


def _equally_long(lengths: Any) -> int:
    found = set(lengths.values() if isinstance(lengths, dict) else lengths)
    if len(found) > 1:
        raise InvalidRequest(f"the parts of the batch are not equally long: {lengths}", "E0560")
    return int(next(iter(found), 0))


def length_of(x: Any) -> int:
    """How many items a batch has."""
    if isinstance(x, Mapping):
        return _equally_long({key: length_of(one) for key, one in x.items() if not _is_shared(one)})
    if _is_group(x):
        return _equally_long([length_of(one) for one in x if not _is_shared(one)])
    try:
        return len(x)
    except TypeError:
        raise InvalidRequest(f"a {type(x).__name__} has no length, so it cannot be split", "E0560",
                             "make a list of it, or split what it yields") from None


def part_of(x: Any, first: int, last: Optional[int], step: Optional[int] = None) -> Any:
    """The items from the first up to, and without, the last; with a step each so many-th."""
    if isinstance(x, Mapping):
        return {key: one if _is_shared(one) else part_of(one, first, last, step) for key, one in x.items()}
    if _is_group(x):
        parts = [one if _is_shared(one) else part_of(one, first, last, step) for one in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)  # a named tuple takes them one by one
    return x[first:last:step]
