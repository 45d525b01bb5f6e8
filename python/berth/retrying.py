"""Repeats a call if memory ran out. Before, it frees memory and gives other processes time to free theirs.

An exception refers to the frames of the failed call, and the frames refer to its tensors. So a repeated call within the `except` block has less memory than
the first call. This module leaves the block first, clears the frames, collects garbage, and empties the caches. Then it repeats the call.
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

from .buffers import Buffers
from .errors import BerthError, InvalidRequest
from .language import text
from .models_of_call import ReachedModels
from .oom import is_oom, is_sticky, may_try_again, members
from .randomness import kept
from .sizes import number, part, whole
from .stepping import StepInterrupted, Steps, watch

__all__ = ["ContextLost", "retry", "release_memory"]

Function = TypeVar("Function", bound=Callable[..., Any])


class ContextLost(BerthError):
    """The device's context is lost, for example after an illegal address or a failed assertion on the device.

    Nothing that this process does on the device works any more. Start a new process; `compute-sanitizer` and CUDA_LAUNCH_BLOCKING=1 find the cause.
    """


def release_memory(thorough: bool = True) -> None:
    """Collects garbage, then empties the caches of the frameworks that are loaded. No framework is imported.

    Parameters
    ----------
    thorough : bool
        If False, collects only recent garbage, which includes that of a failed try. A complete collection takes 30 to 60 ms if a framework is loaded.
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
            except RuntimeError:  # this build of PyTorch does not support the device
                pass
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()


def drop_frames(problem: BaseException) -> None:
    """Clears the frames in the tracebacks of an exception and its causes, so that the frames no longer refer to variables. The text of the traceback stays
    the same."""
    seen, todo = set(), [problem]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        traceback.clear_frames(one.__traceback__)
        todo.extend(other for other in (one.__cause__, one.__context__, *members(one)) if other is not None)


def may_fit_later(problem: Exception) -> bool:
    """Whether memory ran out and another try may succeed. Raises ContextLost if the device's context is lost."""
    if is_sticky(problem):
        raise ContextLost(text("the device's context is lost: {}", problem), "E0566",
                          text("start a new process; CUDA_LAUNCH_BLOCKING=1 names the call")) from problem
    return is_oom(problem) and may_try_again(problem)


def attempt(function: Callable[..., Any], args: Tuple[Any, ...], named: Mapping[str, Any], steps: Optional[Steps] = None) -> Tuple[bool, Any]:
    """Calls once. Returns (True, result), or (False, exception) if memory ran out. In the second case, the except block has been left and
    the frames are cleared."""
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
    finally:  # the traceback refers to this frame, so this frame must refer neither to the exception nor to the arguments
        del failed, function, args, named, steps


def first_line(problem: BaseException) -> str:
    return str(problem).split("\n", 1)[0][:200] or type(problem).__name__


def name_of(function: Any) -> str:
    """The name of the function. Also works for a functools.partial and a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _pause(at: int, first: float, factor: float, most: float, jitter: float) -> float:
    return min(most, first * factor ** at) * (1 + jitter * (2 * random.Random().random() - 1))


def check_callable(function: Any, what: str, name: str) -> None:
    """Refuses an argument that is not a function. `@berth.retry(3)`, for example, passes a number."""
    if isinstance(function, (classmethod, staticmethod)):
        raise InvalidRequest(text("berth.{} does not take a {}", what, type(function).__name__), "E0551", text("put @{} above @berth.{}",
                                                                                                               type(function).__name__, what))
    if not callable(function):
        raise InvalidRequest(text("berth.{}: {!r:.80} is not a function", what, function), "E0551", f"berth.{what}({name}=…)")


def _check(function: Callable[..., Any]) -> None:
    call = getattr(type(function), "__call__", None)  # if `function` is a callable object
    if any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in (function, call)):
        raise InvalidRequest(text("{} is a generator: values that it has yielded cannot be undone, so it cannot be retried",
                                  name_of(function)), "E0569",
                             text("retry the function that consumes it"))


def _awaits(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(type(function), "__call__", None))


def _check_steps(call: Callable[..., Any], failed: BaseException, stepped: List[str], whole: bool, others: bool, lost: List[str]) -> None:
    """Raises an exception if another try would not start in the same state as the first one."""
    if lost:
        raise StepInterrupted(text("a forward pass has modified {}, and no copy exists, so the step cannot be retried", ', '.join(lost)),
                              "E0563") from failed
    if others:
        raise StepInterrupted(text("memory ran out in {}, and a thread that may be its own has stepped or added to gradients meanwhile: {}",
                                   name_of(call), first_line(failed)), "E0563",
                              text("run backward passes and steps in the thread that is retried; use berth.retry also in a thread that trains on its own")) from failed
    if stepped:
        raise StepInterrupted(text("memory ran out in {} after {} had stepped, so a retry would step twice: {}", name_of(call),
                                   ", ".join(stepped), first_line(failed)), "E0563",
                              text("call optimizer.step() after the function, not in it")) from failed
    if not whole:
        raise StepInterrupted(text("memory ran out in {} after it had added to gradients of earlier passes, which cannot be taken back: {}", name_of(call),
                                   first_line(failed)), "E0563",
                              text("call zero_grad() of every model in the passes before each call; or make one call for all passes that add up, with zero_grad() at its beginning")) from failed


@overload
def retry(function: Function) -> Function: ...


@overload
def retry(function: None = None, *, tries: int = 4, first: float = 0.5, factor: float = 2.0, most: float = 30.0, jitter: float = 0.2,
          same_random: bool = True, report: bool = True) -> Callable[[Function], Function]: ...


def retry(function: Optional[Function] = None, *, tries: int = 4, first: float = 0.5, factor: float = 2.0, most: float = 30.0,
          jitter: float = 0.2, same_random: bool = True, report: bool = True) -> Any:
    """Calls a function, and calls it again if memory ran out in it. There are at most `tries` calls.

    Before the next call, it frees memory and restores random generators, gradients and buffers; docs/python-memory.md tells what cannot be restored. The
    function must not call `optimizer.step()`; call that after the function. Other ranks must not wait for the function. Raises StepInterrupted if the
    function cannot be called again, and ContextLost if the error has destroyed the device's context.

    Parameters
    ----------
    tries, same_random : int, bool
        The number of calls in all. False: do not restore random generators, which saves about 20 µs a call, and more for each GPU.
    first, factor, most, jitter : float
        The first pause in seconds; the factor between one pause and the next; the longest pause; the fraction by which pauses vary at random.

    Examples
    --------
    >>> @retry(first=0.0, report=False)
    ... def step(calls=[]):
    ...     calls.append(1)
    ...     if len(calls) < 3:
    ...         raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    ...     return len(calls)
    >>> step()
    3
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

    def between(at: int, failed: BaseException, before: _Before) -> float:
        """Called after a failed try. Restores the state, frees memory, prints a report, and returns the seconds to wait."""
        whole, steps = before.put_back(), before.steps
        release_memory()
        if steps is not None:
            _check_steps(call, failed, steps.remain(), whole, steps.others, before.lost())
        pause = _pause(at, first, factor, most, jitter)
        if report:
            print(text("berth: memory ran out in {} ({}); try {} of {} in {:.1f} s", name_of(call), first_line(failed), at + 2, tries, pause),
                  file=sys.stderr)
        return pause
    return (_awaited if _awaits(function) else _called)(call, tries, between, same_random)


_BEGUN = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


class _Before:
    """The state before a call, to be restored for another try: random numbers, running statistics of models in training mode, and
    gradients."""

    __slots__ = ("state", "buffers", "steps")

    def __init__(self, reached: List[ReachedModels], call: Callable[..., Any], args: Tuple[Any, ...], named: Mapping[str, Any], same_random: bool) -> None:
        self.state = kept() if same_random else None
        self.buffers: Optional[Buffers] = None
        self.steps: Optional[Steps] = None
        if hasattr(sys.modules.get("torch"), "nn"):
            if not reached:  # only at the first call, because the names in the function may not exist before
                reached.append(ReachedModels(call))
            models = reached[0].now(args, named)
            if models:
                self.buffers = Buffers(models, training_only=True)

    def watch(self) -> None:
        self.steps = watch()

    def look(self, problem: BaseException) -> None:
        if self.steps is not None:
            self.steps.look(problem)

    def end(self) -> None:
        if self.steps is not None:
            self.steps.end()

    def put_back(self) -> bool:
        """Restores the state. False if gradients cannot be restored."""
        if self.buffers is not None:
            self.buffers.put_back()
        return self.steps is None or self.steps.put_back()

    def lost(self) -> List[str]:
        return self.buffers.lost() if self.buffers is not None else []


Between = Callable[[int, BaseException, _Before], float]


def _called(call: Callable[..., Any], tries: int, between: Between, same_random: bool) -> Callable[..., Any]:
    reached: List[ReachedModels] = []

    @functools.wraps(call)
    def again(*args: Any, **named: Any) -> Any:
        before = _Before(reached, call, args, named, same_random)
        for at in range(tries):
            before.watch()
            try:
                good, result = attempt(call, args, named, before.steps)
            finally:
                before.end()
            if good:
                if isinstance(result, _BEGUN):
                    getattr(result, "close", int)()
                    raise InvalidRequest(text("{} returns a {}, which runs only later, so it cannot be retried", name_of(call),
                                              type(result).__name__), "E0569", text("retry the function that consumes it"))
                return result
            if at + 1 == tries:
                before.put_back()
                try:
                    raise result
                finally:
                    del result
            try:
                pause = between(at, result, before)
            finally:
                del result
            time.sleep(pause)
            if before.state is not None:
                before.state.restore()
        raise AssertionError("not reached")
    return again


def _awaited(call: Callable[..., Any], tries: int, between: Between, same_random: bool) -> Callable[..., Any]:
    import asyncio
    reached: List[ReachedModels] = []

    @functools.wraps(call)
    async def again(*args: Any, **named: Any) -> Any:
        before = _Before(reached, call, args, named, same_random)
        for at in range(tries):
            before.watch()
            try:
                result = await call(*args, **named)
                return result
            except Exception as problem:
                if not may_fit_later(problem):
                    raise
                if at + 1 == tries:
                    before.put_back()
                    raise
                before.look(problem)
                failed = problem
            finally:
                before.end()
            drop_frames(failed)
            try:
                pause = between(at, failed, before)
            finally:
                del failed
            await asyncio.sleep(pause)
            if before.state is not None:
                before.state.restore()
        raise AssertionError("not reached")
    return again
