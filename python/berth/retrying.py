"""Trying again when memory ran out: after what was held is let go of, and after others had time to let go of theirs.

The exception keeps the failed call's frames, and they keep its tensors, so a try in an `except` block has less memory than the
first one had. Here the block is left first, the frames are dropped, then garbage and caches; only then comes the next try.
"""

from __future__ import annotations

import functools
import gc
import inspect
import random
import sys
import time
import traceback
import types
from typing import Any, Callable, List, Mapping, Optional, Tuple, TypeVar, cast, overload

from .errors import BerthError, InvalidRequest
from .language import text
from .oom import is_oom, is_sticky, may_try_again, members
from .randomness import kept, unused
from .sizes import number, part, whole
from .stepping import StepInterrupted, Steps, watch

__all__ = ["ContextLost", "retry", "release_memory"]

Function = TypeVar("Function", bound=Callable[..., Any])


class ContextLost(BerthError):
    """The device's context is gone (an illegal address, a failed assertion on the device): whatever this process does there
    from now on fails. Start a new process; `compute-sanitizer` and CUDA_LAUNCH_BLOCKING=1 find the cause."""


def release_memory(thorough: bool = True) -> None:
    """Lets go of what nobody uses: garbage, then the caches of the frameworks that are loaded. None is imported.

    Not thorough: garbage of late alone, as a failed try leaves it. All of it takes 30 to 60 ms where a framework is loaded.
    """
    gc.collect(2 if thorough else 1)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    for name in ("mps", "xpu"):
        backend = getattr(torch, name, None)
        if backend is not None and getattr(backend, "empty_cache", None) and sys.modules.get(f"torch.{name}") is not None:
            try:
                backend.empty_cache()
            except RuntimeError:  # a build without it
                pass
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()


def drop_frames(problem: BaseException) -> None:
    """The frames of its traceback, and of what it came from, no longer keep their variables. The text stays."""
    seen, todo = set(), [problem]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        traceback.clear_frames(one.__traceback__)
        todo.extend(other for other in (one.__cause__, one.__context__, *members(one)) if other is not None)


def may_fit_later(problem: Exception) -> bool:
    """It is a lack of memory, after which another try may do. Where the device's context is lost, that is raised."""
    if is_sticky(problem):
        raise ContextLost(text("the device's context is lost: {}", problem), "E0566",
                          text("start a new process; CUDA_LAUNCH_BLOCKING=1 names the call")) from problem
    return is_oom(problem) and may_try_again(problem)


def attempt(function: Callable[..., Any], args: Tuple[Any, ...], named: Mapping[str, Any], steps: Optional[Steps] = None) -> Tuple[bool, Any]:
    """Whether it went well, and what it gave, or the exception: out of its except block, and without its frames."""
    try:
        return True, function(*args, **named)
    except Exception as problem:
        if not may_fit_later(problem):
            raise
        if steps is not None:
            steps.look(problem)
        failed = problem
    try:
        drop_frames(failed)
        return False, failed
    finally:  # its frame, which this one's traceback keeps, keeps neither it nor what the call was given
        del failed, function, args, named, steps


def first_line(problem: BaseException) -> str:
    return str(problem).split("\n", 1)[0][:200] or type(problem).__name__


def name_of(function: Any) -> str:
    """Also of a functools.partial and of an object that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _pause(at: int, first: float, factor: float, most: float, jitter: float) -> float:
    return min(most, first * factor ** at) * (1 + jitter * (2 * random.Random().random() - 1))


def check_callable(function: Any, what: str, name: str) -> None:
    """`@berth.retry(3)` gives a number where the function belongs."""
    if isinstance(function, (classmethod, staticmethod)):
        raise InvalidRequest(text("berth.{} does not take a {}", what, type(function).__name__), "E0551", text("@{} above @berth.{}",
                                                                                                               type(function).__name__, what))
    if not callable(function):
        raise InvalidRequest(text("berth.{}: {!r:.80} is no function", what, function), "E0551", f"berth.{what}({name}=…)")


def _check(function: Callable[..., Any]) -> None:
    call = getattr(type(function), "__call__", None)  # of an object that can be called
    if any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in (function, call)):
        raise InvalidRequest(text("{} is a generator: what it has given already cannot be taken back, so it cannot be tried again",
                                  name_of(function)), "E0569",
                             text("retry the function that consumes it"))


def _awaits(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(type(function), "__call__", None))


def _check_steps(call: Callable[..., Any], failed: BaseException, stepped: List[str], whole: bool, others: bool) -> None:
    """Refuses another try where it would not be as the first one was."""
    if others:
        raise StepInterrupted(text("memory ran out in {}, and a thread that may be its own has stepped or added to gradients meanwhile: {}",
                                   name_of(call), first_line(failed)), "E0563",
                              text("backward passes and steps in the thread that is tried again; berth.retry in a thread that trains on its own as well")) from failed
    if stepped:
        raise StepInterrupted(text("memory ran out in {} after {} had stepped in it, so another try would step again: {}", name_of(call),
                                   ", ".join(stepped), first_line(failed)), "E0563",
                              text("optimizer.step() after the function, and not in it")) from failed
    if not whole:
        raise StepInterrupted(text("memory ran out in {} after it had added to gradients of earlier passes, which cannot be taken back: {}", name_of(call),
                                   first_line(failed)), "E0563",
                              text("zero_grad() before each call, of every model that a pass goes through; one call for all the passes that add up, with zero_grad() at its beginning")) from failed


@overload
def retry(function: Function) -> Function: ...


@overload
def retry(function: None = None, *, tries: int = 4, first: float = 0.5, factor: float = 2.0, most: float = 30.0, jitter: float = 0.2,
          same_random: bool = True, report: bool = True) -> Callable[[Function], Function]: ...


def retry(function: Optional[Function] = None, *, tries: int = 4, first: float = 0.5, factor: float = 2.0, most: float = 30.0,
          jitter: float = 0.2, same_random: bool = True, report: bool = True) -> Any:
    """Calls a function again when memory ran out in it, at most `tries` times in all.

    Between two tries: the failed call's variables are let go of, garbage is collected, caches are emptied, and `first` seconds pass,
    then `factor` times as many each, at most `most`, give or take `jitter` of it, so that two who wait for each other do not meet
    again. The global random generators of Python, NumPy and PyTorch are set back to where they were before the first try; those
    that a program has made itself are its own to keep, and other threads and tasks draw from the global ones again. Gradients that its
    backward passes have written are put back as well: to none or to zeros, as `optimizer.zero_grad()` has left them. Nothing is copied for
    that, so where a pass has added to gradients of earlier passes, StepInterrupted is raised in place of another try: make it one call for
    all passes that add up. What is no lack of memory is raised as it is, and an error that has cost the device's context as ContextLost.

    The function must be one that may begin anew: it computes a step and has not applied it yet. Put `optimizer.step()` after it: where an
    optimizer or a scheduler of PyTorch's has stepped in it, or parameters were written, that it has not made itself, StepInterrupted is
    raised. What else it changes is not seen. Nor may other ranks wait for it: `split_step` and `fit_batch` agree with them, and this does not.

    Parameters
    ----------
    tries : int
        Calls in all; at least 1.
    first, most : float
        Seconds.
    same_random : bool
        False: leave generators as they are. A step that draws nothing needs no more, and each call saves what it takes to copy their
        states (about 1 µs for those of the CPU; of each GPU more).

    Examples
    --------
    >>> calls = []
    >>> @retry(first=0.0, report=False)
    ... def step():
    ...     calls.append(1)
    ...     if len(calls) < 3:
    ...         raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    ...     return "done"
    >>> step(), len(calls)
    ('done', 3)
    """
    if function is None:
        return functools.partial(retry, tries=tries, first=first, factor=factor, most=most, jitter=jitter, same_random=same_random, report=report)
    whole("tries", tries, 1)
    for name, value in (("first", first), ("factor", factor), ("most", most)):
        number(name, value)
    part("jitter", jitter)
    check_callable(function, "retry", "tries")
    _check(function)
    call = cast(Callable[..., Any], function)

    def between(at: int, failed: BaseException, steps: Optional[Steps]) -> float:
        """Undoes what it can, lets go of memory, says so, and returns how long to wait."""
        whole = steps is None or steps.put_back()
        release_memory()
        if steps is not None:
            _check_steps(call, failed, steps.remain(), whole, steps.others)
        pause = _pause(at, first, factor, most, jitter)
        if report:
            print(text("berth: memory ran out in {} ({}); try {} of {} in {:.1f} s", name_of(call), first_line(failed), at + 2, tries, pause),
                  file=sys.stderr)
        return pause
    return (_awaited if _awaits(function) else _called)(call, tries, between, same_random)


_BEGUN = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
Between = Callable[[int, BaseException, Optional[Steps]], float]


def _called(call: Callable[..., Any], tries: int, between: Between, same_random: bool) -> Callable[..., Any]:
    @functools.wraps(call)
    def again(*args: Any, **named: Any) -> Any:
        state = kept() if same_random else None
        for at in range(tries):
            steps = watch()
            try:
                good, result = attempt(call, args, named, steps)
            finally:
                if steps is not None:
                    steps.end()
            if good:
                unused(state)
                if isinstance(result, _BEGUN):
                    getattr(result, "close", int)()
                    raise InvalidRequest(text("{} gives a {}, which begins only later: it cannot be tried again", name_of(call),
                                              type(result).__name__), "E0569", text("retry the function that consumes it"))
                return result
            if at + 1 == tries:
                if steps is not None:
                    steps.put_back()
                try:
                    raise result
                finally:
                    del result
            try:
                pause = between(at, result, steps)
            finally:
                del result
            time.sleep(pause)
            if state is not None:
                state.restore()
        raise AssertionError("not reached")
    return again


def _awaited(call: Callable[..., Any], tries: int, between: Between, same_random: bool) -> Callable[..., Any]:
    import asyncio

    @functools.wraps(call)
    async def again(*args: Any, **named: Any) -> Any:
        state = kept() if same_random else None
        for at in range(tries):
            steps = watch()
            try:
                result = await call(*args, **named)
                unused(state)
                return result
            except Exception as problem:
                if not may_fit_later(problem):
                    raise
                if at + 1 == tries:
                    if steps is not None:
                        steps.put_back()
                    raise
                if steps is not None:
                    steps.look(problem)
                failed = problem
            finally:
                if steps is not None:
                    steps.end()
            drop_frames(failed)
            try:
                pause = between(at, failed, steps)
            finally:
                del failed
            await asyncio.sleep(pause)
            if state is not None:
                state.restore()
        raise AssertionError("not reached")
    return again
