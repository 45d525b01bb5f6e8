"""Finds how a DataLoader should load, by a short trial within the cores, memory and shared memory of this process."""

from __future__ import annotations

import itertools
import os
import pickle
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import _library
from .errors import BerthError, InvalidRequest
from .frameworks import needed, sees_gpu
from .language import text
from .parts import positive
from .randomness import kept
from .retrying import first_line
from .sizes import number, whole

__all__ = ["LoaderOptions", "dataloader_options"]

_WORTH = 1.05  # more workers must be faster than fewer by at least this factor
_SHARED = "/dev/shm"


class LoaderOptions(Dict[str, Any]):
    """Keywords for a DataLoader: `DataLoader(dataset, batch_size=…, **options)`. `report` explains the choice."""

    report: str = ""

    def __repr__(self) -> str:
        return self.report or super().__repr__()


def usable_cores() -> Tuple[int, str]:
    """The number of cores that this process may use, and what limits it: its affinity, or the quota of its control group."""
    cores = len(os.sched_getaffinity(0))
    try:
        host = _library.document("ls")["host"]
    except BerthError:
        return cores, text("{} usable cores", cores)
    if host["cores_quota"] is not None and host["cores_usable"] < cores:
        return max(1, int(host["cores_usable"])), text("a quota of {:.1f} cores", host['cores_quota'])
    return cores, text("{} usable cores", cores)


def shared_free() -> Optional[int]:
    """The bytes that are free in /dev/shm, through which workers pass batches; None if there is no /dev/shm."""
    try:
        said = os.statvfs(_SHARED)
    except OSError:
        return None
    return said.f_bavail * said.f_frsize


def _bytes_in(x: Any) -> int:
    if hasattr(x, "element_size") and hasattr(x, "numel"):
        return int(x.numel() * x.element_size())
    if isinstance(x, dict):
        return sum(map(_bytes_in, x.values()))
    if isinstance(x, (tuple, list)):
        return sum(map(_bytes_in, x))
    return int(getattr(x, "nbytes", 0)) or sys.getsizeof(x)


class _Trials:
    """Measures how many batches per second different numbers of workers load."""

    def __init__(self, torch: Any, dataset: Any, batch_size: int, collate: Any, seconds: float) -> None:
        self.torch, self.dataset, self.batch_size, self.collate, self.seconds = torch, dataset, batch_size, collate, seconds
        begun = time.perf_counter()
        try:
            dataset[0]
        except (LookupError, TypeError) as why:
            raise InvalidRequest(text("dataset: item 0 of a {} cannot be read: {}: {}", type(dataset).__name__, type(why).__name__, why), "E0560") from why
        # If items load slowly, reduce the trial's batches, so that loading four of them takes at most the time of one trial.
        self.tried = max(1, min(batch_size, int(seconds / 4 / max(time.perf_counter() - begun, 1e-9))))
        self.bytes = 0

    def rates(self, all_workers: List[int]) -> Tuple[Dict[int, float], str]:
        """The rate for each number of workers, and the reason if workers cannot be started. Since Python 3.14, workers get the dataset by
        pickle."""
        found: Dict[int, float] = {}
        for workers in all_workers:
            try:
                found[workers] = self.rate(workers)
            except (pickle.PicklingError, AttributeError, TypeError, RuntimeError) as why:
                words = first_line(why)
                if workers == 0 or not ("pickle" in words or "exited unexpectedly" in words):
                    raise
                return {0: found[0]}, words
        return found, ""

    def rate(self, workers: int) -> float:
        """Batches per second. The time for starting workers is not counted."""
        part = self.tried / self.batch_size
        loader = self.torch.utils.data.DataLoader(self.dataset, batch_sampler=_Around(len(self.dataset), self.tried), num_workers=workers,
                                                  collate_fn=self.collate)
        batches = iter(loader)
        try:
            self.bytes = max(self.bytes, int(_bytes_in(next(batches)) / part))
            begun, count, ready = time.perf_counter(), 0, 2 * workers
            # Take at least as many batches as there are workers, because all workers deliver their first batch at the same time.
            while time.perf_counter() - begun < self.seconds or count < max(1, workers):
                next(batches)
                count += 1
                if count == ready:  # do not count batches that were prefetched before the clock started
                    begun, count, ready = time.perf_counter(), 0, 0
            return part * count / (time.perf_counter() - begun)
        finally:
            del batches


class _Around:
    """A batch sampler that starts again at the first item after the last one, without end."""

    def __init__(self, length: int, size: int) -> None:
        self._length, self._size = length, size

    def __iter__(self) -> Iterator[List[int]]:
        for at in itertools.count():
            yield [(at * self._size + one) % self._length for one in range(self._size)]


def _candidates(cores: int) -> List[int]:
    doubled = [1 << power for power in range(10) if 1 << power < cores]
    return [0, *doubled, cores]


def dataloader_options(dataset: Any, *, batch_size: int = 1, collate_fn: Any = None, step_seconds: Optional[float] = None, seconds: float = 0.4,
                       most: Optional[int] = None, report: bool = True) -> LoaderOptions:
    """Chooses workers, prefetch and pinned memory for a DataLoader, from a short trial of the dataset itself.

    It does not choose the batch size. The report also shows the speed with the common rule "cores − 1" for the number of workers.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset
        It must support len() and indices. Some items are loaded twice. The state of random generators is restored.
    batch_size : int
        The batch size of the DataLoader.
    collate_fn : callable, optional
        The DataLoader's argument of the same name.
    step_seconds : float, optional
        The duration of a training step. The smallest number of workers that keeps up with it is chosen.
    seconds : float
        Each number of workers is tried for at most twice this time, and for at least two items of each worker. Starting the workers takes extra time.
    most : int, optional
        The largest number of workers. By default, it is the number of usable cores.

    Returns
    -------
    LoaderOptions
        A dict with `num_workers` and `pin_memory`. If there are workers, also with `prefetch_factor` and `persistent_workers`.
    """
    positive("batch_size", batch_size)
    number("seconds", seconds, above=True)
    if step_seconds is not None:
        number("step_seconds", step_seconds, above=True)
    if most is not None:
        whole("most", most, 0)
    if hasattr(dataset, "batch_sampler") and hasattr(dataset, "dataset"):
        raise InvalidRequest(text("dataset: a {} is already a loader", type(dataset).__name__), hint="berth.dataloader_options(loader.dataset, batch_size=…)")
    try:
        length = len(dataset)
    except TypeError:
        raise InvalidRequest(text("dataset: a {} has no length, so it cannot be measured", type(dataset).__name__), "E0560") from None
    if length == 0:
        raise InvalidRequest(text("dataset: it is empty"), "E0560")
    torch = needed("torch", "dataloader_options")
    if isinstance(dataset, torch.utils.data.IterableDataset):
        raise InvalidRequest(text("dataset: a {} cannot be indexed, so it cannot be measured", type(dataset).__name__), "E0560")
    cores, why = usable_cores()
    folk, limit = cores - 1, min(most if most is not None else cores, cores)
    random = kept()
    try:
        trials = _Trials(torch, dataset, batch_size, collate_fn, seconds)
        rates, refused = trials.rates(sorted({*(one for one in _candidates(cores) if one <= limit), max(0, folk)}))
    finally:
        random.restore()  # the trial draws a number of random numbers that depends on its speed, so restore the generators
    chosen = _chosen({workers: rate for workers, rate in rates.items() if workers <= limit}, step_seconds)
    options = LoaderOptions(num_workers=chosen, pin_memory=sees_gpu(torch))
    said = _with_prefetch(options, trials.bytes, shared_free())
    options.report = "\n".join([text("berth: {} workers: {:.1f} batches/s of {} ({}){}", chosen, rates[chosen], batch_size, why, said),
                                _beside(rates, max(0, folk), refused)])
    if report:
        print(options.report, file=sys.stderr)
    return options


def _beside(rates: Dict[int, float], folk: int, refused: str) -> str:
    if refused:
        return text("berth: no worker can be started: {}; put the dataset's class into a module and the program's beginning below if __name__ == '__main__', or use DataLoader(multiprocessing_context='fork')", refused)
    return text("berth: the common rule (cores − 1) gives {}: {:.1f} batches/s; no workers: {:.1f}", folk, rates[folk], rates[0])


def _chosen(rates: Dict[int, float], step_seconds: Optional[float]) -> int:
    """The smallest number of workers that keeps up with the steps. If none does, the smallest that is nearly as fast as the fastest."""
    best = max(rates.values())
    for workers in sorted(rates):
        if (step_seconds and rates[workers] * step_seconds >= _WORTH) or rates[workers] * _WORTH >= best:
            return workers
    return max(rates)


def _with_prefetch(options: LoaderOptions, bytes_a_batch: int, free: Optional[int]) -> str:
    """Adds how many batches each worker prefetches, so that all of them fit into half of the shared memory."""
    workers = options["num_workers"]
    if workers == 0:
        return ""
    room = None if free is None else int(free * 0.5 // max(1, bytes_a_batch))
    prefetch = 2 if room is None else max(1, min(4 if bytes_a_batch < 1 << 20 else 2, room // workers))
    options.update(prefetch_factor=prefetch, persistent_workers=True)
    if room is not None and room < workers * 2:
        return text("; /dev/shm has {} MiB free, and a batch takes {}: --shm-size of the container, or "
                    "torch.multiprocessing.set_sharing_strategy('file_system')", (free or 0) >> 20, bytes_a_batch >> 20)
    return text(", {} batches each", prefetch)
