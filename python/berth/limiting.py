"""Limits how much of a device's memory each framework takes. The variables differ by framework and version."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import os
import sys
from typing import Any, Dict, Optional, Tuple, Union

from .errors import InvalidRequest, NoDevice, TooLate
from .frameworks import initialised
from .language import text
from .machine import devices
from .sizes import device_bytes

__all__ = ["limit_memory"]


_own: Dict[str, str] = {}  # variables that the last call set


def _version(package: str) -> Optional[Tuple[int, ...]]:
    """The installed version of a package. Nothing is imported."""
    try:
        said = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    digits = [part for part in said.replace("+", ".").split(".")[:2] if part.isdigit()]
    return tuple(map(int, digits)) or None


def _fraction_name() -> str:
    """The name of JAX's variable for the fraction of memory. jaxlib fails if the old and the new name are both set, so this function looks into the file
    xla_client.py to see which one the installed version knows."""
    try:
        found = importlib.util.find_spec("jaxlib")
        place = os.path.join(os.path.dirname(found.origin or ""), "xla_client.py") if found is not None else ""
        with open(place, encoding="utf-8") as file:
            known = "'XLA_CLIENT_MEM_FRACTION'" in file.read()
    except (OSError, ValueError):
        known = True  # jaxlib is not installed, or a later version has other files: use the new name
    return "XLA_CLIENT_MEM_FRACTION" if known else "XLA_PYTHON_CLIENT_MEM_FRACTION"


def _total() -> int:
    """The memory that the driver reports for the smallest GPU that this process sees."""
    gpus = [one for one in devices() if one.is_gpu and one.memory_total_bytes]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        words = [word.strip() for word in visible.split(",")]
        gpus = [one for one in gpus if any(word == str(one.data.get("vendor_index")) or (word and (one.uuid or "").startswith(word)) for word in words)]
    if not gpus:
        raise NoDevice(text("no GPU with known memory was found"), "E0411", "berth.limit_memory(…, total='24GiB')")
    return min(int(one.memory_total_bytes or 0) for one in gpus)


def settings(limit: int, total: int) -> Dict[str, str]:
    """The variables for frameworks that this process loads later."""
    wanted = {_fraction_name(): f"{math.floor(limit / total * 100) / 100:.2f}", "TF_FORCE_GPU_ALLOW_GROWTH": "true", "CUPY_GPU_MEMORY_LIMIT": str(limit)}
    torch = _version("torch")
    if torch is None or torch >= (2, 1):  # older versions fail for a setting that they do not know
        # Some versions that know the new name do not read it for this setting, but all versions read the old name.
        wanted.update(PYTORCH_ALLOC_CONF="expandable_segments:True", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    return wanted


def limit_memory(memory: Union[int, str], *, total: Union[int, str, None] = None) -> Dict[str, str]:
    """Limits how much of each GPU's memory the frameworks use that this process loads later. Not every framework supports this fully.

    The driver does not enforce the limit; docs/python.md shows the effect on each framework. Variables that the user has set are not changed. Raises
    TooLate if JAX, TensorFlow or CuPy has already reserved its memory.

    Parameters
    ----------
    memory : int or str
        Bytes, or "8GiB".
    total : int or str, optional
        The memory of a GPU. By default, it is the memory of the smallest GPU that this process sees.

    Returns
    -------
    dict of str
        The variables that were set.

    Examples
    --------
    >>> set_here = limit_memory("6GiB", total="24GiB")
    >>> set_here["CUPY_GPU_MEMORY_LIMIT"], [value for name, value in set_here.items() if name.endswith("MEM_FRACTION")]
    ('6442450944', ['0.25'])
    """
    limit = device_bytes(memory)
    whole = device_bytes(total, "total") if total is not None else _total()
    if limit > whole:
        raise InvalidRequest(text("memory: {!r} is more than the GPU has ({:.1f} GiB)", memory, whole / 2**30), "E0420")
    if limit < whole / 100:
        raise InvalidRequest(text("memory: {!r} is less than 1 % of the GPU, which JAX cannot be limited to", memory), "E0104")
    already = initialised()
    if already and already != "PyTorch":
        raise TooLate(text("{} has already initialised its devices and reserved memory", already),
                      hint=text("call berth.limit_memory() before the first use of a device"))
    for name, value in _own.items():  # remove variables of an earlier call, which this call replaces
        if os.environ.get(name) == value:
            del os.environ[name]
    done = {name: value for name, value in settings(limit, whole).items() if name not in os.environ and not _other_name_is_set(name)}
    os.environ.update(done)
    _own.clear()
    _own.update(done)
    torch: Any = sys.modules.get("torch")
    if already == "PyTorch":
        for at in range(torch.cuda.device_count()):
            torch.cuda.set_per_process_memory_fraction(limit / whole, at)
    return done


def _other_name_is_set(name: str) -> bool:
    """Whether the user has set this limit under its other name. If both names were set, the framework would fail, or the limits would contradict each
    other."""
    for pair in (("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"), ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")):
        if name in pair and any(other in os.environ for other in pair):
            return True
    return False
