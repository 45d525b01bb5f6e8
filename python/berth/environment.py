"""Environment variables that frameworks read when they load. They have no effect later."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, Union

from . import _library
from .errors import TooLate
from .frameworks import has_chosen
from .language import text
from .leases import request_of

# For Intel, as `berth run --cpu` does: SYCL has such a variable, and PyTorch uses SYCL. Level Zero has none.
_HIDES = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1", "ROCR_VISIBLE_DEVICES": "-1", "ONEAPI_DEVICE_SELECTOR": "*:cpu", "JAX_PLATFORMS": "cpu"}


def env(gpus: Optional[int] = None, *, memory: Union[int, str, None] = None, cpus: Optional[int] = None) -> Dict[str, Optional[str]]:
    """The variables that `berth run` would set: name to value, None for a variable that it would remove.

    Nothing is set, and nothing is leased.
    """
    request = request_of(gpus, memory, None, cpus, None)
    words = ["env"]
    for option, key, unit in (("--gpus", "gpus", ""), ("--memory", "memory_bytes", "B"), ("--cpus", "cpus", "")):
        if key in request:
            words += [option, f"{request[key]}{unit}"]
    said: Dict[str, Any] = _library.document(*words)
    return {one["name"]: one["value"] for one in said["settings"] if one["action"] != "keep"}


def disable_gpu() -> None:
    """Hides the GPUs of NVIDIA, AMD and Intel from the libraries that this process loads from now on.

    Programs that call Intel's Level Zero or OpenCL directly still see Intel's GPU; no variable hides it from them.

    Raises
    ------
    TooLate
        A framework or a driver has initialised its devices already, and would go on using them.
    """
    already = has_chosen()
    if already:
        raise TooLate(text("{} has initialised its devices already, and goes on using them", already),
                      hint=text("berth.disable_gpu() above the first use of a device; or: berth run --cpu -- python …"))
    os.environ.update(_HIDES)
