"""Takes a lease for each actor or task of Ray, so that each of them sees only its own GPU.

    @ray.remote(num_gpus=0)
    @berth.ray.leased(gpus=1)
    class Trainer: ...

Ray counts GPUs on its own, and does not know of other users of the machine. With `num_gpus=0`, Berth alone chooses the GPU.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any, Callable, TypeVar

from . import worker_leases
from .errors import InvalidRequest
from .language import text

__all__ = ["leased"]

Target = TypeVar("Target", bound=Callable[..., Any])


def _hold(wishes: Any) -> None:
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":  # Ray's value to hide the GPUs from a worker with num_gpus=0
        del os.environ["CUDA_VISIBLE_DEVICES"]
    worker_leases.hold(wishes)


def leased(**wishes: Any) -> Callable[[Target], Target]:
    """Decorates an actor class or a function for `ray.remote`. Put it below `@ray.remote`.

    An actor takes its lease before its `__init__`, and keeps it until its process ends. A function keeps its lease while it runs. Add `max_calls=1` to
    `ray.remote` for a function. Then Ray runs each call in a new process, because a framework cannot change its GPU after initialisation.

    Parameters
    ----------
    gpus, memory, share, cpus, devices, name, wait
        As in `berth.lease`.
    """
    worker_leases.checked(wishes)

    def decorated(target: Target) -> Target:
        named = {"name": f"ray {getattr(target, '__name__', '')}".strip(), **wishes}
        if isinstance(target, type):
            original = target.__init__  # type: ignore[misc]

            @functools.wraps(original)
            def begin(self: Any, *words: Any, **more: Any) -> None:
                _hold(named)
                original(self, *words, **more)
            target.__init__ = begin  # type: ignore[misc]
            return target
        if not callable(target) or any(kind(target) for kind in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)):
            raise InvalidRequest(text("berth.ray.leased is for a class or a plain function"), "E0569", "@ray.remote(max_calls=1)\n@berth.ray.leased(gpus=1)\ndef f(): …")

        @functools.wraps(target)
        def call(*words: Any, **more: Any) -> Any:
            hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
            _hold(named)
            try:
                return target(*words, **more)
            finally:
                worker_leases.release()
                if hidden:  # hide the GPUs again, because the worker's next task may have no lease
                    os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return call  # type: ignore[return-value]
    return decorated
