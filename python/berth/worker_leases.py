"""The lease of a worker process of Dask, joblib or Ray (for berth.dask, berth.joblib and berth.ray). It ends when the process ends or calls release()."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

from .environment import disable_gpu
from .errors import Refused, TooLate
from .language import text
from .leases import Lease, lease

_held: Optional[Lease] = None


def checked(wishes: Dict[str, Any]) -> Dict[str, Any]:
    """Checks arguments of `berth.lease`, and returns them. Reserves nothing."""
    lease(**wishes)
    return wishes


def _new(wishes: Dict[str, Any]) -> Lease:
    """Makes the lease of this worker. Refused inside a job, where all workers would get the same devices."""
    if _held is not None and _held._owner == os.getpid():
        raise Refused(text("this process has the lease of job {} already: each worker needs a process of its own", _held.job), "E0573",
                      text("use a cluster whose workers are processes"))
    if "BERTH_JOB" in os.environ:
        raise Refused(text("these workers are inside job {}, so all of them would get the same devices of this job", os.environ["BERTH_JOB"]), "E0997",
                      text("start the workers outside of `berth run` and of `with berth.lease()`"))
    return lease(**wishes)


def _hide() -> None:
    """Hides the GPUs from a worker that got no lease, because some schedulers still give it tasks."""
    if _held is not None:
        return
    try:
        disable_gpu()
    except TooLate:  # a framework has already initialised its devices; the caller raises the error of the lease
        pass


def hold(wishes: Dict[str, Any]) -> Lease:
    """Takes the lease of this worker process, and waits for it. If that fails, hides the GPUs from this process."""
    global _held
    try:
        _held = _new(wishes).__enter__()
    except BaseException:
        _hide()
        raise
    return _held


async def hold_async(wishes: Dict[str, Any]) -> Lease:
    """Does the same as hold(), but does not block the event loop."""
    global _held
    try:
        _held = await _new(wishes).__aenter__()
    except BaseException:
        _hide()
        raise
    return _held


def release() -> None:
    """Ends the lease of this process before the process ends."""
    global _held
    ended, _held = _held, None
    if ended is not None:
        ended.__exit__(None, None, None)
