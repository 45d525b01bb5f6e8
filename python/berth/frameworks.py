"""Finds the devices of frameworks that this process has loaded. Only device_of() may import a framework, which the user names."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import warnings
from typing import Any, Callable, Collection, Optional

from .errors import InvalidRequest, Unsupported
from .language import text


def initialised() -> Optional[str]:
    """The name of a loaded framework that has initialised a GPU. From then on, the framework ignores changes of environment variables that select
    devices."""
    torch = sys.modules.get("torch")
    if torch is not None and getattr(getattr(torch, "cuda", None), "is_initialized", bool)():
        return "PyTorch"
    if jax_has_devices():
        return "JAX"
    if tensorflow_has_devices():
        return "TensorFlow"
    cupy = sys.modules.get("cupy.cuda.memory")
    if cupy is not None and _cupy_has_memory():
        return "CuPy"
    return None


def jax_has_devices() -> bool:
    """Whether JAX has initialised a device other than the CPU."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and any(name not in ("cpu", "interpreter") for name in getattr(bridge, "_backends", None) or ())


def tensorflow_has_devices() -> bool:
    """Whether TensorFlow has initialised its runtime. This check does not initialise it."""
    context = sys.modules.get("tensorflow.python.eager.context")
    made = context.context_safe() if hasattr(context, "context_safe") else None  # type: ignore[union-attr]
    return getattr(made, "_context_handle", None) is not None


# Drivers with a function that fails if the driver is not initialised in this process. Calling the function does not initialise it.
_ASKED = (("CUDA", "libcuda.so.1", "cuDeviceGetCount"), ("Level Zero", "libze_loader.so.1", "zeDriverGet"))
# Drivers without a function to ask. Such a driver is initialised if the process has this device file open.
_OPENS = (("ROCm", "libhsa-runtime64.so.1", "/dev/kfd"), ("OpenCL", "libnvidia-opencl.so.1", "/dev/nvidia"), ("OpenCL", "libigdrcl.so", "/dev/dri/render"))


def has_chosen() -> Optional[str]:
    """The name of a framework or driver that has already read which devices are visible, and ignores later changes. Counting devices, as
    `torch.cuda.is_available()` may do, is enough. The check of drivers covers frameworks that Berth does not know.
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
        except OSError:  # the descriptor of the listed folder itself, which is closed by now
            pass
    return False


def _cupy_has_memory() -> bool:
    cupy = sys.modules.get("cupy")
    try:
        return cupy is not None and cupy.get_default_memory_pool().total_bytes() > 0
    except Exception:  # CuPy is installed, but there is no driver
        return False


def needed(module: str, what: str, package: str = "") -> Any:
    """Imports a module that a function of Berth needs.

    Raises
    ------
    Unsupported
        The module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as why:
        raise Unsupported(text("berth.{} needs {}: {}", what, module.split('.')[0], why), "E0568",
                          f"pip install {package or module.split('.')[0]}") from why


def sees_gpu(torch: Any) -> bool:
    """Whether PyTorch has a GPU. PyTorch 2.0 and later ask NVML and do not initialise CUDA, so that a later lease can still choose the GPU."""
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


def _xla(torch: Any) -> Any:
    """The device of PyTorch/XLA, or None if it is not installed or has only the CPU."""
    try:
        torch_xla = importlib.import_module("torch_xla")
        # older versions have xla_device() instead of device()
        make = getattr(torch_xla, "device", None) or importlib.import_module("torch_xla.core.xla_model").xla_device
        kind = importlib.import_module("torch_xla.runtime").device_type()
        return make() if kind not in (None, "CPU") else None
    except (ImportError, RuntimeError):  # RuntimeError: the runtime has no such device
        return None


def _of_torch(name: str) -> Callable[[Any], Any]:
    """Returns a function that returns PyTorch's device of this name. It returns None if PyTorch was built without this device or finds none."""
    def found(torch: Any) -> Any:
        module = getattr(torch.backends if name == "mps" else torch, name, None)  # older versions do not have xpu and mps
        return torch.device(name) if getattr(module, "is_available", bool)() else None
    return found


def _of_jax(platform: str) -> Callable[[Any], Any]:
    def found(jax: Any) -> Any:
        try:
            return jax.devices(platform)[0]
        except (RuntimeError, IndexError):  # JAX does not have this platform
            return None
    return found


# For each group of vendors, a function that finds the framework's device. They are tried in this order.
_TORCH = ((("nvidia", "amd"), _of_torch("cuda")), (("intel",), _of_torch("xpu")), ((), _of_torch("mps")), (("google",), _xla))
_JAX = ((("nvidia", "amd"), _of_jax("gpu")), (("intel",), _of_jax("xpu")), (("google",), _of_jax("tpu")))


def _first(vendors: Collection[str], ways: Any, module: Any, name: str) -> Any:
    """The framework's device for one of these vendors. If no vendor is in the table: any device. If the framework finds none: None, with a warning."""
    if not vendors:
        return None
    known = {vendor for some, _ in ways for vendor in some}
    for some, way in ways:
        if not known.intersection(vendors) or set(some).intersection(vendors):
            device = way(module)
            if device is not None:
                return device
    _warn_none(name)
    return None


def _warn_none(framework: str) -> None:
    warnings.warn(text("the lease has a GPU, but {} sees none and uses the CPU (it is a CPU build, or needs a newer driver). berth doctor shows why", framework), stacklevel=5)


def device_of(framework: str, vendors: Collection[str]) -> Any:
    """The framework's own object for the first visible device of these vendors, or for its CPU.

    Parameters
    ----------
    vendors : collection of str
        The vendors of the lease's devices: "nvidia", "amd", "intel", "google", "other". Empty: the CPU.
    """
    if framework == "torch":
        torch = needed("torch", "Lease.device")
        device = _first(vendors, _TORCH, torch, "PyTorch")
        return torch.device("cpu") if device is None else device
    if framework == "jax":
        jax = needed("jax", "Lease.device")
        device = _first(vendors, _JAX, jax, "JAX")
        return jax.devices("cpu")[0] if device is None else device
    if framework in ("tf", "tensorflow"):
        tf = needed("tensorflow", "Lease.device")
        sees = bool(vendors) and bool(tf.config.list_physical_devices("GPU"))
        if vendors and not sees:
            _warn_none("TensorFlow")
        return tf.device("/GPU:0" if sees else "/CPU:0")
    if framework == "cupy":
        if not vendors:
            raise InvalidRequest(text("CuPy has no device on the CPU, and the lease has no GPU"), hint="berth.lease(gpus=1)")
        return needed("cupy", "Lease.device").cuda.Device(0)
    raise InvalidRequest(text("{!r} is not a known framework", framework), hint=text("one of: torch, jax, tf, cupy"))
