"""Takes a lease for each worker process of joblib, so that each worker sees only its own GPU.

    with berth.joblib.leases(gpus=1):
        results = joblib.Parallel(n_jobs=2)(joblib.delayed(train)(x) for x in parameters)

Importing this module loads joblib.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Dict, Iterator

import joblib  # type: ignore[import-untyped]
from joblib._parallel_backends import FallbackToBackend, LokyBackend  # type: ignore[import-untyped]
from joblib.externals.loky import get_reusable_executor  # type: ignore[import-untyped]

from . import worker_leases
from .leases import lease

__all__ = ["leases"]


class _Backend(LokyBackend):  # type: ignore[misc]
    """The back end loky, with workers that take a lease before their first task. joblib 1.2 has no other way to run a function in new
    workers."""

    def __init__(self, wishes: Dict[str, Any], here: contextlib.ExitStack, **more: Any) -> None:
        super().__init__(**more)
        self._wishes, self._here = wishes, here
        self._begin = functools.partial(worker_leases.hold, wishes)  # loky keeps its workers only while the initializer is the same object

    def configure(self, *words: Any, **more: Any) -> Any:
        try:
            return super().configure(*words, **{**more, "initializer": self._begin})
        except FallbackToBackend:  # joblib uses only one worker, which is this process
            self._here.enter_context(lease(**self._wishes))
            raise


@contextlib.contextmanager
def leases(**wishes: Any) -> Iterator[None]:
    """Inside the block, each worker of `joblib.Parallel` takes a lease when it starts. With `n_jobs=1`, there are no workers, so this process takes a
    lease.

    At the end of the block, the workers and their leases end. If there are more workers than free GPUs, the surplus workers wait for a GPU, and the others
    do the tasks.

    Parameters
    ----------
    gpus, memory, share, cpus, devices, name, wait
        As in `berth.lease`, for each worker.
    """
    wishes = worker_leases.checked({"name": "joblib", **wishes})
    choose = getattr(joblib, "parallel_config", joblib.parallel_backend)  # joblib before 1.3 only has parallel_backend
    with contextlib.ExitStack() as here:
        here.callback(lambda: get_reusable_executor(reuse=True).shutdown(wait=True))
        with choose(_Backend(wishes, here)):
            yield
