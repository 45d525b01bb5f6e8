"""Berth for Python: which GPUs there are, one of your own, and surviving when memory runs out.

Nothing here imports a framework by itself, and the C++ library loads at the first use.
"""

from __future__ import annotations

import importlib
from typing import Any, List

_WHERE = {
    "errors": ("BerthError", "InvalidRequest", "NoDevice", "NotFound", "Refused", "BrokerUnavailable", "NotPermitted", "Unsupported",
               "TooLate"),
    "machine": ("Device", "Process", "Snapshot", "devices", "processes", "snapshot"),
    "leases": ("Lease", "lease"),
    "environment": ("env", "disable_gpu"),
    "limiting": ("limit_memory",),
    "retrying": ("ContextLost", "release_memory", "retry"),
    "batches": ("DoesNotFit", "RankFailed", "chunked", "find_batch", "fit_batch"),
    "accumulating": ("Part", "accumulate"),
    "splittable": ("NotSplittable", "SplitWarning"),
    "splitting": ("StepInterrupted", "StepResult", "split_step"),
    "sampling": ("DynamicBatchSampler",),
    "loading": ("LoaderOptions", "dataloader_options"),
    "reproducing": ("Comparison", "compare_outputs", "reproducible"),
    "memory": ("MemorySummary", "memory_summary"),
    "profiling": ("profile",),
    "metrics": ("export_metrics", "tensorboard"),
    "running": ("Finished", "run", "run_async"),
    "notebook": ("load_ipython_extension", "unload_ipython_extension"),
    "oom": ("is_oom", "is_sticky"),
    "diagnosis": ("doctor", "Diagnosis", "Finding"),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

__all__ = sorted(_MODULE_OF)
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "torch":  # a module of ours: PyTorch is loaded with it, and not before
        return importlib.import_module(".torch", __name__)
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'berth' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted([*globals(), *__all__])
