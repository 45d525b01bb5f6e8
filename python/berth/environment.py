"""Environment variables that frameworks read when they load. A later change has no effect."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Optional, Union

from . import _library
from .errors import InvalidRequest, TooLate, Unsupported
from .frameworks import has_chosen, jax_has_devices, needed
from .language import text
from .leases import request_of

# The variables that `berth run --cpu` sets. ONEAPI_DEVICE_SELECTOR hides Intel GPUs from SYCL, which PyTorch uses. Level Zero has no such
# variable.
_HIDES = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1", "ROCR_VISIBLE_DEVICES": "-1", "ONEAPI_DEVICE_SELECTOR": "*:cpu", "JAX_PLATFORMS": "cpu",
          "PJRT_DEVICE": "CPU"}


def env(gpus: Optional[int] = None, *, memory: Union[int, str, None] = None, cpus: Optional[int] = None) -> Dict[str, Optional[str]]:
    """Returns the variables that `berth run` would set, as {name: value}. The value is None if `berth run` would remove the variable.

    Sets no variable, and takes no lease.

    Parameters
    ----------
    gpus, memory, cpus
        As in `lease`.
    """
    request = request_of(gpus, memory, None, cpus, None)
    words = ["env"]
    for option, key, unit in (("--gpus", "gpus", ""), ("--memory", "memory_bytes", "B"), ("--cpus", "cpus", "")):
        if key in request:
            words += [option, f"{request[key]}{unit}"]
    said: Dict[str, Any] = _library.document(*words)
    return {one["name"]: one["value"] for one in said["settings"] if one["action"] != "keep"}


def disable_gpu(framework: Optional[str] = None) -> None:
    """Hides GPUs of NVIDIA, AMD and Intel, and TPUs. Affects all libraries that this process loads later. With `framework`, affects only that framework.

    Code that calls Level Zero or OpenCL directly still sees Intel's GPU, because these have no such variable.

    Parameters
    ----------
    framework : {"tensorflow", "jax"}, optional
        Hides the devices from this framework only. "tensorflow" imports TensorFlow.

    Raises
    ------
    TooLate
        A framework or a driver has initialised its devices already, and would continue to use them.
    Unsupported
        The devices cannot be hidden from this framework only.
    """
    if framework is not None:
        return _disable_in(framework)
    already = has_chosen()
    if already:
        raise _too_late(already)
    os.environ.update(_HIDES)


def _too_late(already: str) -> TooLate:
    return TooLate(text("{} has already initialised its devices, and keeps using them", already),
                   hint=text("berth.disable_gpu() above the first use of a device; or: berth run --cpu -- python …"))


def _disable_in(framework: str) -> None:
    if framework in ("tensorflow", "tf"):
        config = needed("tensorflow", "disable_gpu").config
        try:
            for kind in ("GPU", "TPU"):
                config.set_visible_devices([], kind)
        except RuntimeError as why:  # TensorFlow does not allow this change after it has initialised its devices
            raise _too_late("TensorFlow") from why
    elif framework == "jax":
        if jax_has_devices():
            raise _too_late("JAX")
        os.environ["JAX_PLATFORMS"] = "cpu"
        if "jax" in sys.modules:  # JAX has already read the variable
            sys.modules["jax"].config.update("jax_platforms", "cpu")
    elif framework in ("torch", "cupy"):
        raise Unsupported(text("{} reads the same variables as other frameworks, so GPUs cannot be hidden from it alone", framework), "E0574",
                          text("use a process of its own: berth.run([…], gpus=0)"))
    else:
        raise InvalidRequest(text("{!r} is not a known framework", framework), hint=text("one of: {}", "tensorflow, jax"))
