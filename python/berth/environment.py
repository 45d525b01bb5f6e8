"""Variables that frameworks read when they load, set early or not at all."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, Union

from . import _library
from .errors import TooLate
from .frameworks import initialised

_HIDES = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1", "ROCR_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}


def env(gpus: Optional[int] = None, *, memory: Union[int, str, None] = None, cpus: Optional[int] = None) -> Dict[str, Optional[str]]:
    """What `berth run` with the same wishes would set: name to value, None for what it would take away. Nothing is set, and
    nothing leased."""
    words = ["env"]
    for option, value in (("--gpus", gpus), ("--memory", f"{memory}B" if isinstance(memory, int) else memory), ("--cpus", cpus)):
        if value is not None:
            words += [option, str(value)]
    said: Dict[str, Any] = _library.document(*words)
    return {one["name"]: one["value"] for one in said["settings"] if one["action"] != "keep"}


def disable_gpu() -> None:
    """Hides the GPUs of every vendor from the frameworks that this process loads from now on.

    Raises
    ------
    TooLate
        One of them has initialised a device already, and would go on using it.
    """
    already = initialised()
    if already:
        raise TooLate(f"{already} has initialised its devices already, and goes on using them",
                      hint="berth.disable_gpu() above the first use of a device; or: berth run --cpu -- python …")
    os.environ.update(_HIDES)
