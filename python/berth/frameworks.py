"""The devices of frameworks that this process has loaded. Only device_of() imports a framework, which the user has named."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import warnings
from typing import Any, Callable, Optional

from .errors import InvalidRequest, Unsupported
from .language import text


def initialised() -> Optional[str]:
    """The name of a loaded framework that has initialised a GPU; from then on, variables no longer select what it sees."""
    torch = sys.modules.get("torch")
    if torch is not None and getattr(getattr(torch, "cuda", None), "is_initialized", bool)():
        return "PyTorch"
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and any(name not in ("cpu", "interpreter") for name in getattr(bridge, "_backends", None) or ()):
        return "JAX"
    context = sys.modules.get("tensorflow.python.eager.context")
    if context is not None:
        made = context.context_safe() if hasattr(context, "context_safe") else None
        if made is not None and getattr(made, "_context_handle", None) is not None:
            return "TensorFlow"
    cupy = sys.modules.get("cupy.cuda.memory")
    if cupy is not None and _cupy_has_memory():
        return "CuPy"
    return None


# Drivers that tell whether they are initialised in this process. Asking does not initialise them.
_ASKED = (("CUDA", "libcuda.so.1", "cuDeviceGetCount"), ("Level Zero", "libze_loader.so.1", "zeDriverGet"))
# Drivers that do not tell, but open a device when they are initialised.
_OPENS = (("ROCm", "libhsa-runtime64.so.1", "/dev/kfd"), ("OpenCL", "libnvidia-opencl.so.1", "/dev/nvidia"), ("OpenCL", "libigdrcl.so", "/dev/dri/render"))


def has_chosen() -> Optional[str]:
    """The name of a framework or driver that has already read which devices it may see, and will not read it again. A count of devices is enough for that
    (`torch.cuda.is_available()`). Drivers are checked too, for frameworks that are not known here.
    """
    xpu = getattr(sys.modules.get("torch"), "xpu", None)
    if getattr(xpu, "is_initialized", bool)():
        return "PyTorch"
    numba: Any = sys.modules.get("numba.cuda.cudadrv.driver")
    if getattr(getattr(numba, "driver", None), "is_initialized", False):
        return "Numba"
    return initialised() or _driver()


def _driver() -> Optional[str]:
    for name, library, question in _ASKED:
        driver, count = _loaded(library), ctypes.c_uint(0)
        if driver is not None and getattr(driver, question, _fails)(ctypes.byref(count), None) == 0 and count.value:
            return name
    for name, library, device in _OPENS:
        if _loaded(library) is not None and _is_open(device):
            return name
    return None


def _fails(*how: Any) -> int:
    return -1


def _loaded(library: str) -> Optional[ctypes.CDLL]:
    """The module, if this process has loaded it."""
    try:
        return ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None


def _is_open(device: str) -> bool:
    for one in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{one}").startswith(device):
                return True
        except OSError:  # the folder itself, closed by now
            pass
    return False


def _cupy_has_memory() -> bool:
    cupy = sys.modules.get("cupy")
    try:
        return cupy is not None and cupy.get_default_memory_pool().total_bytes() > 0
    except Exception:  # a CuPy without a driver
        return False


def needed(module: str, what: str, package: str = "") -> Any:
    """Imports a module that a function of ours is about.

    Raises
    ------
    Unsupported
        It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as why:
        raise Unsupported(text("berth.{} needs {}: {}", what, module.split('.')[0], why), "E0568",
                          f"pip install {package or module.split('.')[0]}") from why


def sees_gpu(torch: Any) -> bool:
    """Whether PyTorch has a GPU. It makes no CUDA call that would fix which one, because a lease may come later; from PyTorch 2.0 on it asks NVML."""
    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        return bool(torch.cuda.is_available())
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _gpus_of_jax(jax: Any) -> Any:
    try:
        return jax.devices("gpu")
    except RuntimeError:
        return []


def _sees(gpus: Callable[[], Any], has_gpu: bool, framework: str) -> bool:
    """Whether the framework sees a GPU, if the lease has one for it."""
    if not has_gpu or gpus():
        return has_gpu
    warnings.warn(text("the lease has a GPU, and {} sees none: it goes on with the CPU (a build for the CPU, or for a later driver). What stands "
                       "against it: berth doctor", framework), stacklevel=4)
    return False


def device_of(framework: str, has_gpu: bool) -> Any:
    """The framework's own object for the first visible GPU, or for its CPU."""
    if framework == "torch":
        torch = needed("torch", "Lease.device")
        return torch.device("cuda" if _sees(torch.cuda.is_available, has_gpu, "PyTorch") else "cpu")
    if framework == "jax":
        jax = needed("jax", "Lease.device")
        return jax.devices("gpu" if _sees(lambda: _gpus_of_jax(jax), has_gpu, "JAX") else "cpu")[0]
    if framework in ("tf", "tensorflow"):
        tf = needed("tensorflow", "Lease.device")
        return tf.device("/GPU:0" if _sees(lambda: tf.config.list_physical_devices("GPU"), has_gpu, "TensorFlow") else "/CPU:0")
    if framework == "cupy":
        if not has_gpu:
            raise InvalidRequest(text("CuPy has no device on the CPU, and the lease has no GPU"), hint="berth.lease(gpus=1)")
        return needed("cupy", "Lease.device").cuda.Device(0)
    raise InvalidRequest(text("{!r} is no framework that is known here", framework), hint=text("one of: torch, jax, tf, cupy"))
