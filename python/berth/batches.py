"""Finds a batch size that fits: tries one, and a smaller one each time memory runs out."""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Protocol, Tuple, TypeVar, cast, overload

from .agreement import FAILED, Agreement, RankFailed, agreement
from .errors import BerthError, InvalidRequest
from .language import text
from .parts import positive
from .retrying import attempt, check_callable, first_line, name_of, release_memory
from .sizes import number

__all__ = ["DoesNotFit", "find_batch", "fit_batch"]

if TYPE_CHECKING:  # these types describe the arguments after the size; typing_extensions is part of every type checker
    from typing_extensions import Concatenate, ParamSpec
    Rest = ParamSpec("Rest")
Given = TypeVar("Given", covariant=True)
Owner = TypeVar("Owner", contravariant=True)

_POLICIES: Mapping[str, Callable[[int], int]] = {"halve": lambda size: size // 2, "x0.9": lambda size: min(size - 1, int(size * 0.9))}


class DoesNotFit(BerthError, MemoryError):
    """Memory runs out even with the smallest batch."""

    may_try_again = False


if TYPE_CHECKING:
    class Fitted(Protocol[Rest, Given]):
        """The wrapper that `fit_batch` returns for a function. Callers omit the size."""

        batch_size: Optional[int]

        def __call__(self, *args: Rest.args, **named: Rest.kwargs) -> Given: ...

    class FittedMethod(Protocol[Owner, Rest, Given]):
        """The wrapper that `fit_batch` returns for a method whose size is the first argument after `self`. Callers omit the size."""

        batch_size: Optional[int]

        def __call__(self, owner: Owner, /, *args: Rest.args, **named: Rest.kwargs) -> Given: ...

        def __get__(self, owner: Owner, kind: Any = None) -> Fitted[Rest, Given]: ...

    class FittedAnyhow(Protocol[Given]):
        """The wrapper for a function whose size is not the first argument, but another one called batch_size. Types of the other arguments are not
        checked."""

        batch_size: Optional[int]

        def __call__(self, *args: Any, **named: Any) -> Given: ...

        def __get__(self, owner: Any, kind: Any = None) -> "FittedAnyhow[Given]": ...

    class Fits(Protocol):
        """The decorator that `fit_batch(start=…)` returns."""

        @overload
        def __call__(self, function: Callable[Concatenate[int, Rest], Given]) -> Fitted[Rest, Given]: ...  # type: ignore[overload-overlap]
        @overload
        def __call__(self, function: Callable[Concatenate[Owner, int, Rest], Given]) -> FittedMethod[Owner, Rest, Given]: ...
        @overload
        def __call__(self, function: Callable[..., Given]) -> FittedAnyhow[Given]: ...


class _Sizes:
    """The last sizes that fitted: one size for a function, or one for each object on which a method is called. Only weak references to the objects are
    kept."""

    def __init__(self, method: bool) -> None:
        self._method = method
        self._of: Dict[int, Tuple[Any, int]] = {}

    def get(self, last: Optional[int], args: Tuple[Any, ...]) -> Optional[int]:
        if not self._method or not last or not args:
            return last
        held = self._of.get(id(args[0]))
        return held[1] if held is not None and held[0]() is args[0] else None

    def put(self, size: int, args: Tuple[Any, ...]) -> None:
        if not self._method or not args:
            return
        at = id(args[0])
        try:
            self._of[at] = (weakref.ref(args[0], lambda _: self._of.pop(at, None)), size)
        except TypeError:  # no weak reference to the object is possible, so each call starts with the first size
            pass


@overload
def fit_batch(function: Callable[Concatenate[int, Rest], Given], start: int = 128, reduce_batch_size_fn: Optional[Callable[..., int]] = None, *, least: int = 1,  # type: ignore[overload-overlap]
              policy: str = "halve", report: bool = True, starting_batch_size: Optional[int] = None, group: Any = None) -> Fitted[Rest, Given]: ...


@overload
def fit_batch(function: Callable[Concatenate[Owner, int, Rest], Given], start: int = 128, reduce_batch_size_fn: Optional[Callable[..., int]] = None, *, least: int = 1,
              policy: str = "halve", report: bool = True, starting_batch_size: Optional[int] = None, group: Any = None) -> FittedMethod[Owner, Rest, Given]: ...


@overload
def fit_batch(function: Callable[..., Given], start: int = 128, reduce_batch_size_fn: Optional[Callable[..., int]] = None, *, least: int = 1,
              policy: str = "halve", report: bool = True, starting_batch_size: Optional[int] = None, group: Any = None) -> FittedAnyhow[Given]: ...


@overload
def fit_batch(function: None = None, start: int = 128, reduce_batch_size_fn: Optional[Callable[..., int]] = None, *, least: int = 1,
              policy: str = "halve", report: bool = True, starting_batch_size: Optional[int] = None, group: Any = None) -> Fits: ...


def fit_batch(function: Optional[Callable[..., Any]] = None, start: int = 128, reduce_batch_size_fn: Optional[Callable[..., int]] = None, *, least: int = 1,
              policy: str = "halve", report: bool = True, starting_batch_size: Optional[int] = None, group: Any = None) -> Any:
    """Calls a function with a batch size. Calls it again with a smaller size each time memory runs out.

    The size is passed as the parameter `batch_size`. If there is none, it is the first argument (in methods the first after `self`). Each try calls the
    function from its start. So create the data loader inside the function. The next call starts with the size that fitted. docs/python-memory.md has more.

    Parameters
    ----------
    start, least : int
        The first size (also called `starting_batch_size`), and the smallest size. Raises DoesNotFit if the smallest does not fit. The first size is
        multiplied by BERTH_BATCH_SCALE, which `berth run --retries` sets after memory ran out.
    policy : {"halve", "x0.9"}
        How the next size is computed. If `reduce_batch_size_fn` is given, that function computes it instead.
    group : torch.distributed group, or False, optional
        If torch.distributed is initialised, all ranks must call the function. False: this rank is independent.

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
        return functools.partial(fit_batch, start=start, reduce_batch_size_fn=reduce_batch_size_fn, least=least, policy=policy, report=report,
                                 starting_batch_size=starting_batch_size, group=group)
    whole = _first(start if starting_batch_size is None else starting_batch_size, least)
    first = _scaled(whole, least)
    if policy not in _POLICIES:
        raise InvalidRequest(text("policy: {!r} is not one of {}", policy, ', '.join(_POLICIES)), "E0003")
    check_callable(function, "fit_batch", "start")
    name, place, places = _where(function)
    smaller = _POLICIES[policy] if reduce_batch_size_fn is None else _asked(reduce_batch_size_fn)
    call, sizes = function, _Sizes(_is_method(function))
    sized = call if place == 0 else _with_size_first(call, name, place)

    @functools.wraps(call)
    def fitted(*args: Any, **named: Any) -> Any:
        if name in named or len(args) >= places:
            raise InvalidRequest(text("{} gets its {} from fit_batch: omit it in the call", name_of(call), name), hint=f"{name_of(call)}(…)")
        size = sizes.get(getattr(fitted, "batch_size"), args)
        if not size:  # collect garbage only in the first call, because that takes longer than most calls
            size = first
            if report and first < whole:
                print(text("berth: {} starts with a batch of {} instead of {}, because {} is set", name_of(call), first, whole, "BERTH_BATCH_SCALE"),
                      file=sys.stderr)
            release_memory()
        result, size = _smaller_until_it_fits(sized, size, args, named, (least, smaller, report), agreement(group))
        setattr(fitted, "batch_size", size)
        sizes.put(size, args)
        return result
    setattr(fitted, "batch_size", None)  # replaces an attribute of this name that the function itself may have
    return cast(Any, fitted)


def _is_method(call: Callable[..., Any]) -> bool:
    try:
        return next(iter(inspect.signature(call).parameters), "") in ("self", "cls")
    except (TypeError, ValueError):
        return False


def _first(start: Any, least: Any) -> int:
    """The size to try first."""
    if positive("least", least) > positive("start", start):
        raise InvalidRequest(text("start {} is below least {}", start, least), "E0104")
    return int(start)


def _scaled(size: int, least: int) -> int:
    """Multiplies the first size by BERTH_BATCH_SCALE, which `berth run --retries` sets if memory ran out in earlier tries of the process."""
    given = os.environ.get("BERTH_BATCH_SCALE", "")
    try:
        scale = float(given or 1)
    except ValueError:
        scale = math.nan
    if not 0 < scale <= 1:
        raise InvalidRequest(text("{}={!r} is not a number above 0 and up to 1", "BERTH_BATCH_SCALE", given), "E0104", "unset BERTH_BATCH_SCALE")
    return max(least, int(size * scale))


def _with_size_first(call: Callable[..., Any], name: str, place: int) -> Callable[..., Any]:
    @functools.wraps(call)
    def sized(size: int, *args: Any, **named: Any) -> Any:
        if len(args) < place:
            return call(*args, **{name: size}, **named)
        return call(*args[:place], size, *args[place:], **named)
    return sized


def _smaller_until_it_fits(call: Callable[..., Any], size: int, args: Tuple[Any, ...], named: Mapping[str, Any],
                           how: Tuple[int, Callable[[int], int], bool], together: Agreement) -> Tuple[Any, int]:
    least, next_size, report = how
    size = together.least(size)
    while True:
        result, fits = _tried(call, (size, *args), named, together)
        if fits:
            check_result(call, result)
            return result, size
        smaller = together.least(together.each(lambda: next_size(size)))
        if smaller < least:
            try:
                raise DoesNotFit(text("memory runs out even with a batch of {}: {}", size, _why(result)), "E0562",
                                 text("use a smaller model, a shorter sequence, less precision, or a GPU with more memory")) from result
            finally:
                del result
        if report and together.rank == 0:
            print(text("berth: a batch of {} does not fit in {} ({}); trying {}", size, name_of(call), _why(result), smaller), file=sys.stderr)
        size = smaller


def _where(function: Callable[..., Any]) -> Tuple[str, int, float]:
    """Finds the argument for the size: its name, its position, and the number of positional arguments. Refuses functions that cannot be
    called again."""
    _check_plain(function)
    try:
        arguments = inspect.signature(function).parameters
    except (TypeError, ValueError):  # functions that are written in C may not have a signature
        return "batch_size", 0, math.inf
    names = list(arguments)
    method = names[:1] in (["self"], ["cls"])
    name = "batch_size" if "batch_size" in arguments else next(iter(names[1:] if method else names), "")
    if not name or arguments[name].kind is inspect.Parameter.VAR_KEYWORD:
        raise InvalidRequest(text("{} takes no batch size: it must be the first argument", name_of(function)),
                             hint=f"def {name_of(function)}({'self, ' if method else ''}batch_size, …):")
    by_place = [one for one in names if arguments[one].kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    endless = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in arguments.values())
    if name not in by_place and arguments[name].kind is inspect.Parameter.KEYWORD_ONLY:
        return name, sys.maxsize, math.inf if endless else len(by_place) + 1
    return name, names.index(name), math.inf if endless else len(by_place)


def _asked(smaller: Callable[..., int]) -> Callable[[int], int]:
    """Wraps the caller's function for the next size, and checks its result. A function written for accelerate is called without an argument."""
    check_callable(smaller, "fit_batch", "reduce_batch_size_fn")
    try:
        takes = any(one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL)
                    for one in inspect.signature(smaller).parameters.values())
    except (TypeError, ValueError):
        takes = True

    def smaller_than(size: int) -> int:
        said = smaller(size) if takes else smaller()
        if isinstance(said, bool) or not hasattr(said, "__index__"):
            raise InvalidRequest(text("reduce_batch_size_fn returned {!r}, which is not a whole number", said), "E0104")
        if said >= size:
            raise InvalidRequest(text("reduce_batch_size_fn returned {} after {} did not fit: it must return a smaller size", said, size), "E0104")
        return int(said)
    return smaller_than


def check_result(function: Any, result: Any) -> None:
    """Refuses generators and coroutines as results, because their work would be done after the try that must detect a lack of memory."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result) or inspect.iscoroutine(result):
        getattr(result, "close", int)()
        raise _not_restartable(function)


def _check_plain(function: Any) -> None:
    call = getattr(type(function), "__call__", None)  # if `function` is a callable object
    for one in (function, call):
        if inspect.isgeneratorfunction(one) or inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one):
            raise _not_restartable(function)


def _not_restartable(function: Any) -> InvalidRequest:
    return InvalidRequest(text("{} is a generator or a coroutine: it cannot restart with another size", name_of(function)), "E0569",
                          text("put the loop into a plain function"))


def _tried(call: Callable[..., Any], args: Tuple[Any, ...], named: Mapping[str, Any], together: Agreement) -> Tuple[Any, bool]:
    """Calls the function once. Returns (result, True), or (exception, False) if memory ran out. The frames of the exception are cleared. The
    exception is None if memory ran out in another rank."""
    if together.ranks == 1:
        good, result = attempt(call, args, named)
    else:
        good, result = True, None
        try:
            good, result = attempt(call, args, named)
        except Exception:
            together.most(FAILED)  # tell the other ranks before this rank raises the exception
            raise
        said = together.most(0 if good else 1)
        if said == FAILED:
            raise RankFailed(text("another rank failed for a reason other than memory: see its output"), "E0564")
        if good and said:
            good, result = False, None
    if not good:
        release_memory()
    try:
        return result, good
    finally:  # the exception's traceback keeps this frame alive, so the frame must not keep the exception
        del result


def _why(lack: Optional[BaseException]) -> str:
    return text("in another rank") if lack is None else first_line(lack)


def _wait_for_devices() -> None:
    """Waits until the GPU has finished its work. Calls to a GPU return before their work is done."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_available() and cuda.is_initialized():
        cuda.synchronize()


def _seconds_of(trial: Callable[[int], Any], size: int, together: Agreement) -> float:
    """The median time of three calls, after a first call that is not counted. Returns the time of the slowest rank, or infinity if memory runs out."""
    times = []
    for _ in range(4):
        release_memory()
        began = time.perf_counter()
        result, good = _tried(trial, (size,), {}, together)
        if not good:
            return math.inf
        together.each(functools.partial(check_result, trial, result))
        del result
        _wait_for_devices()
        times.append(time.perf_counter() - began)
    return together.most(round(sorted(times[1:])[1] * 1e9)) / 1e9


def _fastest(trial: Callable[[int], Any], least: int, most: int, together: Agreement) -> int:
    """The smallest size that reaches at least 95 % of the highest number of items per second."""
    speeds: Dict[int, float] = {}

    def speed(size: int) -> float:
        if size not in speeds:
            seconds = _seconds_of(trial, size, together)
            speeds[size] = size / max(seconds, 1e-9)
        return speeds[size]

    size, without_gain = least, 0
    while size <= most and without_gain < 2:
        best = max(speeds.values(), default=0.0)
        if speed(size) == 0:  # memory ran out, so the largest size that fits is between the size before and this one
            fits = max((one for one, items in speeds.items() if items), default=size)
            for _ in range(3):
                middle = (fits + size) // 2
                fits, size = (middle, size) if middle in (fits, size) or speed(middle) else (fits, middle)
            break
        without_gain = without_gain + 1 if speeds[size] < best * 1.05 else 0
        size = size * 2 if size * 2 <= most or size == most else most
    wanted = max(speeds.values()) * 0.95
    if wanted == 0:
        raise DoesNotFit(text("memory runs out even with a batch of {}: {}", least, _why(None)), "E0562")
    enough = min(size for size, items in speeds.items() if items >= wanted)
    too_small = max((size for size in speeds if size < enough), default=enough)
    for _ in range(3):  # bisect between the largest size that is too slow and the smallest that is fast enough
        middle = (too_small + enough) // 2
        if middle in (too_small, enough):
            break
        if speed(middle) >= wanted:
            enough = middle
        else:
            too_small = middle
    return enough


def find_batch(trial: Callable[[int], Any], *, start: int = 128, least: int = 1, most: int = 8192, margin: float = 0.025, goal: str = "size",
               group: Any = None) -> int:
    """Finds the largest batch that fits, minus a margin, because a whole run needs more memory than a few steps. If none fits, raises DoesNotFit.
    `goal="speed"` finds the smallest batch that is within 5 % of the best throughput.

    Parameters
    ----------
    trial : callable
        Takes a size and runs some steps as a run would: with gradients and the optimizer, on the largest items.
    start, least, most : int
        The size to try first, the smallest size, and the largest size.
    margin : float
        The fraction by which the largest size is reduced, and the precision of the search. With 0.025, the result is at least 95 % of the largest
        size that fits.
    goal : "size" or "speed"
        With "speed", each size is timed four times, from `least` on; `start` and `margin` are not used.
    group : torch.distributed group, or False, optional
        As in `fit_batch`. All ranks find the same size.

    Examples
    --------
    >>> def trial(size):
    ...     if size > 1000:
    ...         raise MemoryError
    >>> 950 <= find_batch(trial) <= 1000
    True
    """
    if goal not in ("size", "speed"):
        raise InvalidRequest(text("goal: {!r} is neither {!r} nor {!r}", goal, "size", "speed"))
    if goal == "speed":
        start = least
    for name, value in (("start", start), ("least", least), ("most", most)):
        positive(name, value)
    number("margin", margin)
    if not least <= start <= most or not 0 <= margin < 1:
        raise InvalidRequest(text("least {}, start {} and most {} are not in this order, or the margin {!r} is not below 1", least, start, most, margin))
    check_callable(trial, "find_batch", "trial")
    _check_plain(trial)
    if goal == "speed":
        return _fastest(trial, least, most, agreement(group))
    # Bisect on a logarithmic scale, so that finding a large size takes as many trials as finding a small one.
    fits, fails, size = least - 1, most + 1, start
    lack, together = None, agreement(group)
    # `least - 1` in `fits` is not measured, so `least` itself must be tried
    while fails - fits > max(1, math.ceil(fits * margin)) or fits < least < fails:
        release_memory()
        result, good = _tried(trial, (size,), {}, together)
        together.each(functools.partial(check_result, trial, result))
        if good:
            fits = size
        else:
            fails, lack = size, result
        # if the margin is less than two items, bisect on a linear scale, to reach every size
        middle = (fits + fails) // 2 if fails * margin < 2 else math.isqrt(max(fits, 1) * fails)
        near = fits < least and fails - least <= max(1, math.ceil(least * margin))
        size = least if near else min(max(middle, fits + 1), fails - 1)
    release_memory()
    try:
        if fits < least:
            raise DoesNotFit(text("memory runs out even with a batch of {}: {}", least, _why(lack)), "E0562") from lack
    finally:
        del lack, result
    return fits if fits == most else max(least, fits - math.floor(fits * margin))
