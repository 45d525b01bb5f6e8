"""Mixed precision for Keras 3. Device and back end determine the precision.

    mixed = berth.keras.amp()                                  # before the layers are made
    model = keras.Sequential([...])
    model.compile(mixed.optimizer(keras.optimizers.Adam()), "mse")

`import berth` does not load this module; `amp` loads Keras and its back end.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any, Dict, Optional, Tuple

from .errors import InvalidRequest, Unsupported
from .frameworks import needed, tensorflow_has_devices
from .language import text

__all__ = ["KerasAmp", "amp"]

_POLICIES = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16", "fp32": "float32"}


@dataclasses.dataclass(frozen=True)
class KerasAmp:
    """The precision that `amp` chose.

    Attributes
    ----------
    precision : str
        "bf16", "fp16" or "fp32".
    policy : str
        Keras's dtype policy: "mixed_bfloat16", "mixed_float16" or "float32". Variables are float32 with each policy.
    device : str
        "gpu", "tpu" or "cpu".
    why : str
        The reason for this precision.
    """

    precision: str
    policy: str
    device: str
    why: str

    def optimizer(self, optimizer: Any) -> Any:
        """Returns the optimizer. With fp16, wraps it in a LossScaleOptimizer. `model.compile` does this by itself, but a training loop of your own must
        call this method."""
        if self.precision != "fp16":
            return optimizer
        kind = needed("keras", "keras.amp").optimizers.LossScaleOptimizer
        return optimizer if isinstance(optimizer, kind) else kind(optimizer)


def amp(precision: str = "auto") -> KerasAmp:
    """Sets the global dtype policy of Keras: bf16 if the device supports it. If not: fp16 with loss scaling, or fp32 if the device supports neither.

    Call this before you create layers, because they read the policy when they are created. The back ends TensorFlow, JAX and PyTorch are supported.

    Parameters
    ----------
    precision : {"auto", "bf16", "fp16", "fp32"}
        On the CPU, "auto" is fp32, because most CPUs have no instructions for bf16 and are slower with it.

    Raises
    ------
    Unsupported
        Keras is missing or older than 3, or the device does not support this precision.

    Examples
    --------
    >>> mixed = amp("bf16")                   # doctest: +SKIP
    >>> keras.config.dtype_policy().name      # doctest: +SKIP
    'mixed_bfloat16'
    """
    if precision != "auto" and precision not in _POLICIES:
        raise InvalidRequest(text("precision: {!r} is not one of {}", precision, ', '.join(("auto", *_POLICIES))), "E0003")
    keras = needed("keras", "keras.amp")
    if not hasattr(keras, "config") or not hasattr(keras.config, "set_dtype_policy"):
        raise Unsupported(text("berth.{} needs {}: {}", "keras.amp", "Keras 3", getattr(keras, "__version__", "")), "E0568", "pip install 'keras>=3'")
    device, capability = _device(keras.config.backend())
    chosen, why = _best(device, capability) if precision == "auto" else (precision, text("as requested"))
    if chosen == "bf16" and device == "gpu" and capability is not None and capability < (8, 0):
        raise Unsupported(text("this GPU has no bf16"), "E0570", "precision='fp16'")
    if chosen == "fp16" and device == "tpu":
        raise Unsupported(text("a TPU computes in bf16, and not in fp16"), "E0570", "precision='bf16'")
    if chosen == "fp16" and device == "cpu":
        raise Unsupported(text("fp16 on the CPU is slower than fp32"), "E0570", "precision='bf16'")
    keras.config.set_dtype_policy(_POLICIES[chosen])
    return KerasAmp(chosen, _POLICIES[chosen], device, why)


Capability = Optional[Tuple[int, int]]


def _device(backend: str) -> Tuple[str, Capability]:
    """The kind of the back end's first device. For an NVIDIA GPU also its compute capability; None for other devices."""
    way = {"tensorflow": _of_tensorflow, "jax": _of_jax, "torch": _of_torch}.get(backend)
    return way(importlib.import_module(backend)) if way is not None else ("cpu", None)


def _of_tensorflow(tf: Any) -> Tuple[str, Capability]:
    # A remote TPU is listed only as a logical device. Listing logical devices would initialise the runtime, and then its memory options
    # could no longer be changed.
    if tf.config.list_physical_devices("TPU") or (tensorflow_has_devices() and tf.config.list_logical_devices("TPU")):
        return "tpu", None
    gpus = tf.config.get_visible_devices("GPU")
    if not gpus:
        return "cpu", None
    details: Dict[str, Any] = tf.config.experimental.get_device_details(gpus[0])
    found = details.get("compute_capability")
    return "gpu", None if found is None or tf.test.is_built_with_rocm() else (int(found[0]), int(found[1]))


def _of_jax(jax: Any) -> Tuple[str, Capability]:
    first = jax.devices()[0]
    if first.platform not in ("gpu", "cuda", "rocm"):
        return ("tpu" if first.platform == "tpu" else "cpu"), None
    # the capability is "8.0" on an NVIDIA GPU, and "gfx90a" on an AMD GPU
    major, dot, minor = str(getattr(first, "compute_capability", "")).partition(".")
    return "gpu", (int(major), int(minor)) if dot and major.isdigit() and minor.isdigit() else None


def _of_torch(torch: Any) -> Tuple[str, Capability]:
    if not torch.cuda.is_available():
        return ("gpu" if getattr(getattr(torch, "xpu", None), "is_available", bool)() else "cpu"), None
    return "gpu", None if getattr(torch.version, "hip", None) else tuple(torch.cuda.get_device_capability())


def _best(device: str, capability: Capability) -> Tuple[str, str]:
    if device == "tpu":
        return "bf16", text("a TPU computes in it, and it needs no loss scaling")
    if device == "cpu":
        return "fp32", text("lower precision is usually slower on a CPU: try 'bf16'")
    if capability is None or capability >= (8, 0):  # None: a GPU of AMD or Intel, which is assumed to support bf16
        return "bf16", text("the GPU supports it, and it needs no scaler")
    if capability >= (7, 0):
        return "fp16", text("the GPU has fast fp16, but no bf16")
    return "fp32", text("lower precision is not faster on this GPU")
