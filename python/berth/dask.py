"""Takes a lease for each Dask worker, so that each worker sees only its own GPU.

    client.register_plugin(berth.dask.WorkerLease(gpus=1))

    dask worker tcp://scheduler:8786 --nworkers 2 --preload berth.dask --gpus 1

Each worker must be a separate process, for example with `LocalCluster(processes=True)`. The lease ends with the worker. Importing this module loads Dask.
"""

from __future__ import annotations

from typing import Any, Dict

import click
from distributed.diagnostics.plugin import WorkerPlugin

from . import worker_leases

__all__ = ["WorkerLease", "dask_setup", "dask_teardown"]


async def _take(worker: Any, wishes: Dict[str, Any]) -> None:
    await worker_leases.hold_async({**wishes, "name": wishes.get("name") or f"dask {worker.name}"})


class WorkerLease(WorkerPlugin):
    """A plugin that takes a lease in each worker, also in workers that start or restart later.

    Parameters
    ----------
    gpus, memory, share, cpus, devices, wait
        As in `berth.lease`, for each worker.
    name : str
        The name in `berth jobs`. By default, it is "dask" and the worker's name.

    Raises
    ------
    Refused
        Raised by `client.register_plugin`. A worker did not get its lease within `wait` seconds, or it is not a separate process. Such a worker sees no
        GPUs.
    """

    name = "berth"

    def __init__(self, **wishes: Any) -> None:
        self._wishes = worker_leases.checked(wishes)

    async def setup(self, worker: Any) -> None:
        await _take(worker, self._wishes)

    def teardown(self, worker: Any) -> None:
        worker_leases.release()


@click.command()
@click.option("--gpus", type=int, default=None, help="GPUs for each worker")
@click.option("--memory", default=None, help="memory on a GPU that others may use too, such as 8GiB")
@click.option("--share", default=None, help="with --memory: the share of the GPU's time, such as 30%")
async def dask_setup(worker: Any, **wishes: Any) -> None:
    """Called by `dask worker --preload berth.dask`, before the worker asks its scheduler for tasks."""
    await _take(worker, worker_leases.checked(wishes))


def dask_teardown(worker: Any) -> None:
    """Called when the worker closes."""
    worker_leases.release()
