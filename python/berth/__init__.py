"""Berth for Python: list devices, lease them, and continue when memory runs out.

Importing this package loads neither a framework nor the C++ library; the library loads at its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:  # for type checkers only; at run time, __getattr__() imports each name at its first use
    from . import dask as dask, joblib as joblib, keras as keras, ray as ray, torch as torch
    from .errors import (
        BerthError as BerthError, InvalidRequest as InvalidRequest, NoDevice as NoDevice, NotFound as NotFound,
        Refused as Refused, BrokerUnavailable as BrokerUnavailable, NotPermitted as NotPermitted, Unsupported as Unsupported,
        TooLate as TooLate)
    from .machine import (
        Device as Device, Process as Process, Snapshot as Snapshot, devices as devices, processes as processes,
        snapshot as snapshot)
    from .leases import Lease as Lease, lease as lease
    from .environment import env as env, disable_gpu as disable_gpu
    from .limiting import limit_memory as limit_memory
    from .retrying import ContextLost as ContextLost, release_memory as release_memory, retry as retry
    from .agreement import RankFailed as RankFailed
    from .batches import (
        DoesNotFit as DoesNotFit, find_batch as find_batch, fit_batch as fit_batch)
    from .parts import chunked as chunked
    from .accumulating import accumulate as accumulate
    from .weighted_parts import Part as Part
    from .splittable import NotSplittable as NotSplittable, SplitWarning as SplitWarning
    from .stepping import StepInterrupted as StepInterrupted
    from .splitting import StepResult as StepResult, split_step as split_step
    from .sampling import DynamicBatchSampler as DynamicBatchSampler
    from .loading import LoaderOptions as LoaderOptions, dataloader_options as dataloader_options
    from .reproducing import Comparison as Comparison, compare_outputs as compare_outputs, reproducible as reproducible
    from .memory import MemorySummary as MemorySummary, memory_summary as memory_summary
    from .profiling import profile as profile
    from .metrics import export_metrics as export_metrics, tensorboard as tensorboard
    from .launching import launch as launch, stacks as stacks
    from .running import Finished as Finished, run as run, run_async as run_async
    from .notebook import load_ipython_extension as load_ipython_extension, unload_ipython_extension as unload_ipython_extension
    from .oom import is_oom as is_oom, is_sticky as is_sticky
    from .kernels import (
        Array as Array, DeviceOutOfMemory as DeviceOutOfMemory, Event as Event, Kernel as Kernel, KernelCompileError as KernelCompileError,
        asarray as asarray, empty as empty, kernel as kernel)
    from .streams import (
        HostArray as HostArray, PoolStatistics as PoolStatistics, Stream as Stream, memory_pool as memory_pool, pinned as pinned, trim_pool as trim_pool)
    from .diagnosis import doctor as doctor, Diagnosis as Diagnosis, Finding as Finding
    from .planning import Estimate as Estimate, plan as plan

_WHERE = {
    "errors": ("BerthError", "InvalidRequest", "NoDevice", "NotFound", "Refused", "BrokerUnavailable", "NotPermitted", "Unsupported",
               "TooLate"),
    "machine": ("Device", "Process", "Snapshot", "devices", "processes", "snapshot"),
    "leases": ("Lease", "lease"),
    "environment": ("env", "disable_gpu"),
    "limiting": ("limit_memory",),
    "retrying": ("ContextLost", "release_memory", "retry"),
    "agreement": ("RankFailed",),
    "batches": ("DoesNotFit", "find_batch", "fit_batch"),
    "parts": ("chunked",),
    "accumulating": ("accumulate",),
    "weighted_parts": ("Part",),
    "splittable": ("NotSplittable", "SplitWarning"),
    "stepping": ("StepInterrupted",),
    "splitting": ("StepResult", "split_step"),
    "sampling": ("DynamicBatchSampler",),
    "loading": ("LoaderOptions", "dataloader_options"),
    "reproducing": ("Comparison", "compare_outputs", "reproducible"),
    "memory": ("MemorySummary", "memory_summary"),
    "profiling": ("profile",),
    "metrics": ("export_metrics", "tensorboard"),
    "launching": ("launch", "stacks"),
    "running": ("Finished", "run", "run_async"),
    "notebook": ("load_ipython_extension", "unload_ipython_extension"),
    "oom": ("is_oom", "is_sticky"),
    "kernels": ("Array", "DeviceOutOfMemory", "Event", "Kernel", "KernelCompileError", "asarray", "empty", "kernel"),
    "streams": ("HostArray", "PoolStatistics", "Stream", "memory_pool", "pinned", "trim_pool"),
    "diagnosis": ("doctor", "Diagnosis", "Finding"),
    "planning": ("Estimate", "plan"),
}
_MODULES = ("dask", "joblib", "keras", "ray", "torch")  # modules of this package; berth.dask, for example, imports the package `dask`
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

__all__ = sorted(_MODULE_OF)
__version__ = "0.1.0"


if not TYPE_CHECKING:  # type checkers do not see this function, so that they report names that are not imported above
    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f".{name}", __name__)
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'berth' has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> List[str]:
    return sorted({*__all__, *_MODULES, *(name for name in globals() if name.startswith("__"))})
