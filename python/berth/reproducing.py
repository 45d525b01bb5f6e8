"""Makes runs repeatable, and compares two results."""

from __future__ import annotations

import dataclasses
import math
import os
import random
import sys
from typing import Any, Iterator, List, Mapping, Optional, Tuple

from .errors import InvalidRequest
from .frameworks import initialised, needed
from .language import text
from .machine import _table
from .sizes import number, whole

__all__ = ["Comparison", "Switch", "compare_outputs", "reproducible"]


@dataclasses.dataclass(frozen=True)
class Switch:
    """A setting that was changed: its new value and its cost. `note` says why it may have no effect."""

    name: str
    value: str
    cost: str
    note: str = ""


_TITLES = ("switch", "value", "what it costs", "")


class Switches(List[Switch]):
    """A list of switches, printed as a table."""

    def __repr__(self) -> str:
        return _table(((one.name, one.value, one.cost, one.note) for one in self), _TITLES)


def _of_torch(torch: Any, seed: int) -> Iterator[Switch]:
    torch.manual_seed(seed)
    yield Switch("torch.manual_seed", str(seed), text("nothing"))
    variable = "CUBLAS_WORKSPACE_CONFIG"
    late = torch.cuda.is_initialized() and variable not in os.environ
    os.environ.setdefault(variable, ":4096:8")
    yield Switch(variable, os.environ[variable], text("24 MiB of each GPU"), text("too late for this process: it already uses a GPU") if late else "")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    yield Switch("torch.backends.cudnn", "benchmark=False, deterministic=True", text("slower convolutions where another algorithm is faster"))
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield Switch("torch.use_deterministic_algorithms", "True, warn_only=True", text("slower index and scatter operations on a GPU"),
                 text("operations without such an algorithm print a warning"))
    yield Switch("DataLoader", "generator=torch.Generator().manual_seed(seed)", text("nothing"), text("pass it yourself; workers are seeded from it"))


def _of_tensorflow(tensorflow: Any, seed: int) -> Iterator[Switch]:
    tensorflow.keras.utils.set_random_seed(seed)
    tensorflow.config.experimental.enable_op_determinism()
    yield Switch("tf.config.experimental.enable_op_determinism", "on", text("slower operations, input pipelines without parallel order"))


def reproducible(seed: int = 0) -> Switches:
    """Sets the switches that make the runs of the loaded frameworks reproducible. Call it after their import and before the first use of a device.

    Then the same program gives the same bits, if versions, kind of device, and numbers of ranks and threads are the same.

    Parameters
    ----------
    seed : int
        From 0 to 2³² − 1.

    Returns
    -------
    list of Switch
        The changed settings and the cost of each. The list's text is a table.

    Examples
    --------
    >>> import random
    >>> said = reproducible(7); first = random.random()
    >>> said = reproducible(7); first == random.random()
    True
    """
    seed = whole("seed", seed, 0, (1 << 32) - 1)
    random.seed(seed)
    done = [Switch("random.seed", str(seed), text("nothing"))]
    os.environ["PYTHONHASHSEED"] = str(seed)
    done.append(Switch("PYTHONHASHSEED", str(seed), text("nothing"), text("for child processes; this process read it at its start")))
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
        done.append(Switch("numpy.random.seed", str(seed), text("nothing"), text("a Generator of numpy.random.default_rng() has its own seed")))
    torch, tensorflow = sys.modules.get("torch"), sys.modules.get("tensorflow")
    if torch is not None:
        done.extend(_of_torch(torch, seed))
    if tensorflow is not None:
        done.extend(_of_tensorflow(tensorflow, seed))
    if "jax" in sys.modules:
        flags = os.environ.get("XLA_FLAGS", "")
        if "deterministic_ops" not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} --xla_gpu_deterministic_ops=true".strip()
        note = text("random numbers come from your keys")
        if initialised() == "JAX":
            note = text("too late for this process: it already uses a GPU") + "; " + note
        done.append(Switch("XLA_FLAGS", os.environ["XLA_FLAGS"], text("slower scatters and reductions on a GPU"), note))
    return Switches(done)


# Default tolerances (relative, absolute) for each type, from torch.testing. Values of other types, such as integers, must be equal.
_TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1.3e-6, 1e-5), "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5),
               "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7), "float": (1e-7, 1e-7)}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Whether two results are the same, and where they differ most. In a condition, this object is true if they are the same.

    Attributes
    ----------
    worst : float
        The largest difference as a multiple of the tolerance; at most 1 if the results are the same.
    absolute, relative : float
        The largest absolute and relative difference.
    where : str
        The path to the part with the largest difference, such as "['logits']".
    why : str
        If something else than numbers differs: what it is, such as a shape, a key or a type.
    """

    same: bool
    worst: float
    absolute: float
    relative: float
    where: str
    why: str = ""

    def __bool__(self) -> bool:
        return self.same

    def __repr__(self) -> str:
        if self.why:
            return text("different: {}", self.why)
        said = text("same") if self.same else text("different")
        return text("{}: at most {:.3g} absolute, {:.3g} relative, {:.3g} of the tolerance{}", said, self.absolute, self.relative, self.worst,
                    text(" at {}", self.where) if self.where else "")


class _Differs(Exception):
    pass


def _pairs(a: Any, b: Any, path: str) -> Iterator[Tuple[str, Any, Any]]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if set(a) != set(b):
            raise _Differs(text("the keys of {}: {} are only in one of them", path or text("the results"), sorted(map(str, set(a) ^ set(b)))))
        for key in a:
            yield from _pairs(a[key], b[key], f"{path}[{key!r}]")
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            raise _Differs(text("the lengths of {}: {} and {}", path or text("the results"), len(a), len(b)))
        for at, (one, other) in enumerate(zip(a, b)):
            yield from _pairs(one, other, f"{path}[{at}]")
    elif isinstance(a, Mapping) or isinstance(b, Mapping):
        raise _Differs(text("the types of {}: {} and {}", path or text("the results"), type(a).__name__, type(b).__name__))
    else:
        yield path, a, b


def _array(x: Any) -> Tuple[Any, str]:
    """The numbers as NumPy's doubles (or whole numbers), and the name of their type."""
    numpy = needed("numpy", "compare_outputs")
    name = str(getattr(x, "dtype", type(x).__name__)).split(".")[-1]
    if getattr(x, "is_meta", False):
        raise InvalidRequest(text("a tensor on the device meta has no numbers that could be compared"))
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = x.dequantize() if getattr(x, "is_quantized", False) else x
        x = x.to_dense() if "strided" not in str(getattr(x, "layout", "strided")) else x
        x = (x.double() if x.is_floating_point() else x).numpy()
    elif hasattr(x, "get") and hasattr(x, "__cuda_array_interface__"):
        x = x.get()
    array = numpy.asarray(x)
    if array.dtype.kind in "biufc":
        return array, name
    if name in _TOLERANCES:
        return array.astype("float64"), name
    if array.dtype.kind == "O" and all(isinstance(one, int) for one in array.flat):
        return array, name  # whole numbers that do not fit into 64 bits
    raise InvalidRequest(text("a {}{} cannot be compared", type(x).__name__, f' of {name}' if name != type(x).__name__ else ''),
                         hint=text("pass tensors, arrays of numbers, numbers or texts, or dicts, lists and tuples of them"))


def _doubles(array: Any, wide: str) -> Any:
    """Converts to doubles. Whole numbers that are too large become infinite."""
    try:
        return array.astype(wide)
    except OverflowError:
        most = 1 << 1023
        return needed("numpy", "compare_outputs").vectorize(lambda one: float(one) if abs(one) < most else math.inf if one > 0 else -math.inf, otypes=[wide])(array)


def _tolerance(names: Tuple[str, str], rtol: Optional[float], atol: Optional[float]) -> Tuple[float, float]:
    """The tolerances (relative, absolute). If the types differ, those of the less precise type."""
    known = [_TOLERANCES.get(name, (0.0, 0.0)) for name in names]
    relative, absolute = max(known)
    return (relative if rtol is None else rtol), (absolute if atol is None else atol)


def compare_outputs(a: Any, b: Any, *, rtol: Optional[float] = None, atol: Optional[float] = None, nan_equal: bool = True) -> Comparison:
    """Compares two results, and allows differences by rounding. Results are tensors, arrays or numbers, or dicts, lists and tuples of these.

    The allowed difference is `atol + rtol · |b|`. The defaults of (rtol, atol) depend on the type: (1.3e-6, 1e-5) for float32, (1e-3, 1e-5) for float16,
    (1.6e-2, 1e-5) for bfloat16, (1e-7, 1e-7) for float64. Integers and bools must be equal.

    Parameters
    ----------
    a, b : tensor, array, number, or dict, list or tuple of them
        `b` is the reference.
    rtol, atol : float, optional
        The relative and the absolute tolerance.
    nan_equal : bool
        True: two NaNs count as equal.

    Examples
    --------
    >>> bool(compare_outputs({"loss": 1.0}, {"loss": 1.0 + 1e-9}))
    True
    >>> compare_outputs({"loss": 1.0}, {"lost": 1.0})
    different: the keys of the results: ['loss', 'lost'] are only in one of them
    """
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None:
            number(name, value)
    worst = absolute = relative = 0.0
    where = ""
    try:
        for path, one, other in _pairs(a, b, ""):
            ratio, most, part = _compared(path, one, other, rtol, atol, nan_equal)
            absolute, relative = max(absolute, most), max(relative, part)
            if ratio > worst:
                worst, where = ratio, path
    except _Differs as why:
        return Comparison(False, math.inf, math.inf, math.inf, "", str(why))
    return Comparison(worst <= 1, worst, absolute, relative, where)


def _compared(path: str, a: Any, b: Any, rtol: Optional[float], atol: Optional[float], nan_equal: bool) -> Tuple[float, float, float]:
    """Returns the largest differences of two arrays: as a multiple of the tolerance, absolute, and relative."""
    if isinstance(a, (str, bytes, type(None))) or isinstance(b, (str, bytes, type(None))):
        if a != b:
            raise _Differs(text("{}: {!r:.80} and {!r:.80}", path or text("the results"), a, b))
        return 0.0, 0.0, 0.0
    numpy = needed("numpy", "compare_outputs")
    (one, name), (other, other_name) = _array(a), _array(b)
    if one.shape != other.shape:
        raise _Differs(text("the shapes of {}: {} and {}", path or text("the results"), one.shape, other.shape))
    if one.size == 0:
        return 0.0, 0.0, 0.0
    wide = "complex128" if "c" in (one.dtype.kind, other.dtype.kind) else "float64"
    allowed = _tolerance((name, other_name), rtol, atol)
    exact = one.dtype.kind in "biuO" and other.dtype.kind in "biuO"
    if exact and one.dtype.kind != other.dtype.kind:
        # because NumPy would convert integers of different kinds to doubles, which are not exact
        one, other = one.astype(object), other.astype(object)
    elif not exact:
        one, other = (_doubles(each, "float64") if each.dtype.kind == "O" else each for each in (one, other))
    equal = one == other
    with numpy.errstate(all="ignore"):
        if nan_equal and not exact:
            equal = equal | (numpy.isnan(one) & numpy.isnan(other))
        difference = numpy.where(equal, 0.0, numpy.abs(_doubles(one, wide) - _doubles(other, wide)))
        difference = numpy.where(numpy.isnan(difference), math.inf, difference)
        if exact:  # two different integers may be equal as doubles, so count a difference of at least 1
            difference = numpy.where(equal, 0.0, numpy.maximum(difference, 1.0))
        size = numpy.abs(_doubles(other, wide))
        limit = allowed[1] + allowed[0] * size
        ratio = numpy.where(difference == 0, 0.0, difference / limit)
        share = numpy.where(difference == 0, 0.0, difference / size)
    return tuple(float(numpy.nan_to_num(numpy.max(part), nan=math.inf, posinf=math.inf)) for part in (ratio, difference, share))  # type: ignore[return-value]
