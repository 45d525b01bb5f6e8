"""Makes models smaller with the quantization of torchao or PyTorch and the pruning of PyTorch, and reports the effect."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import warnings
from typing import Any, Callable, List, Optional, Tuple

from ..errors import InvalidRequest, Unsupported
from ..frameworks import needed
from .measuring import bytes_of, drift, timed
from ..language import text

__all__ = ["ShrinkReport", "prune", "quantize"]


@dataclasses.dataclass(frozen=True)
class ShrinkReport:
    """A smaller model, and how it differs from the original.

    Attributes
    ----------
    model
        The smaller copy; the original is unchanged.
    bytes_before, bytes_after : int
        The size of the saved model. A zero takes as much space as another number.
    parameters, zeros : int
        The number of weights that pruning considered, and how many of them are zero.
    seconds_before, seconds_after : float, optional
        The seconds of a call with the samples; None if there were no samples.
    drift : float, optional
        The largest difference between outputs, relative to the largest output.
    notes : tuple of str
    """

    model: Any = dataclasses.field(repr=False)
    what: str
    bytes_before: int
    bytes_after: int
    parameters: int
    zeros: int
    seconds_before: Optional[float]
    seconds_after: Optional[float]
    drift: Optional[float]
    notes: Tuple[str, ...]

    def __repr__(self) -> str:
        lines = [text("{}: {:.2f} MiB before, {:.2f} MiB after, as saved", self.what, self.bytes_before / 2**20, self.bytes_after / 2**20)]
        if self.parameters:
            lines.append(text("zeros: {} of {} weights ({:.0%})", self.zeros, self.parameters, self.zeros / self.parameters))
        if self.seconds_before is not None and self.seconds_after is not None:
            lines.append(text("a call: {:.2f} ms before, {:.2f} ms after; outputs differ by at most {:.1e} of the largest", self.seconds_before * 1e3,
                              self.seconds_after * 1e3, self.drift))
        return "\n".join([*lines, *self.notes])


def _called(torch: Any, model: Any, samples: Any) -> Callable[[], Any]:
    def call() -> Any:
        with torch.no_grad():
            if isinstance(samples, dict):
                return model(**samples)
            return model(*samples) if isinstance(samples, tuple) else model(samples)
    return call


def _report(torch: Any, what: str, before: Any, after: Any, samples: Any, after_samples: Any, notes: List[str], weights: List[Any]) -> ShrinkReport:
    times: Tuple[Optional[float], Optional[float]] = (None, None)
    off_by = None
    if samples is not None:
        modes = [(one, one.training) for model in (before, after) for one in model.modules()]  # a frozen layer may be in another mode than its model
        before.eval()
        after.eval()
        try:
            first, _, expected = timed(torch, _called(torch, before, samples), 10, 2.0)
            second, _, given = timed(torch, _called(torch, after, after_samples), 10, 2.0)
        except RuntimeError as why:
            if "not implemented for" not in str(why):
                raise
            raise Unsupported(text("an operation of the model has no {} here: {}", what, why), "E0570", text("'bf16', or another device")) from why
        except TypeError as why:
            raise InvalidRequest(text("samples: the model cannot be called with this {}: {}", type(samples).__name__, why),
                                 hint=text("pass a tensor, a tuple of arguments, or a dict of named ones")) from why
        finally:
            for one, training in modes:
                one.training = training
        times, off_by = (first, second), drift(expected, given)
    else:
        notes.append(text("latency and drift were not measured: pass samples="))
    zeros = sum(int((one == 0).sum()) for one in weights)
    return ShrinkReport(after, what, bytes_of(torch, before), bytes_of(torch, after), sum(one.numel() for one in weights), zeros, *times, off_by, tuple(notes))


def _checked(torch: Any, model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise InvalidRequest(text("model: a {} is not a torch.nn.Module", type(model).__name__))
    if hasattr(model, "no_sync"):
        raise InvalidRequest(text("model: it is wrapped for several ranks"), hint=text("pass the inner model: model.module"))


def quantize(model: Any, to: str = "int8", *, samples: Any = None) -> ShrinkReport:
    """Returns a copy of a model with smaller numbers, for inference.

    Parameters
    ----------
    to : {"int8", "fp16", "bf16"}
        "int8" converts the weights of linear layers with torchao. Without torchao, or if the model has recurrent layers, it uses PyTorch's
        `quantize_dynamic` on the CPU, which is deprecated. "fp16" and "bf16" convert all parameters.
    samples : tensor, tuple of arguments, or dict of named ones, optional
        Arguments for calls of the model, with which speed and drift are measured.

    Raises
    ------
    Unsupported
        No layer of the model can be quantized, or this build of PyTorch has no engine for it.
    """
    torch = needed("torch", "torch.quantize")
    _checked(torch, model)
    if to in ("fp16", "bf16"):
        dtype = torch.float16 if to == "fp16" else torch.bfloat16
        small = copy.deepcopy(model).to(dtype)
        notes = [text("usually slower on a CPU: it only saves memory")] if not torch.cuda.is_available() else []
        return _report(torch, to, model, small, samples, _converted(samples, dtype), notes, [])
    if to != "int8":
        raise InvalidRequest(text("to: {!r} is not int8, fp16 or bf16", to), "E0003")
    nn = torch.nn
    kinds = {nn.Linear, nn.LSTM, nn.GRU}
    # PyTorch 2.8 and later deprecate this in favour of torchao, which does not quantize recurrent layers.
    quantization: Any = getattr(getattr(torch, "ao", torch), "quantization", None)
    dynamic = getattr(quantization, "quantize_dynamic", None)
    elsewhere = any(one.device.type != "cpu" for one in model.parameters())
    recurrent = dynamic is not None and not elsewhere and any(isinstance(one, nn.RNNBase) for one in model.modules())
    small, linear = (None, 0) if recurrent else _by_torchao(torch, model)
    if small is not None:
        return _report(torch, to, model, small, samples, samples, [_of_layers(linear)], [])
    if elsewhere:
        raise Unsupported(text("int8 linear layers run on the CPU, but the model is on another device"), "E0570",
                          text("pip install torchao; model.cpu(); or 'bf16'"))
    if dynamic is None:
        raise Unsupported(text("PyTorch {} no longer has quantize_dynamic", torch.__version__), "E0570", text("pip install torchao; or 'bf16'"))
    layers = [name for name, one in model.named_modules() if type(one) in kinds]
    if not layers:
        raise Unsupported(text("the model has no linear or recurrent layers, and only these are quantized"), "E0570", "'bf16'")
    if torch.backends.quantized.engine == "none":
        usable = [one for one in torch.backends.quantized.supported_engines if one != "none"]
        if not usable:
            raise Unsupported(text("this build of PyTorch has no engine for int8 (FBGEMM, QNNPACK)"), "E0570", text("use another build of PyTorch, or 'bf16'"))
        torch.backends.quantized.engine = usable[0]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning, message="torch.ao.quantization is deprecated")
        small = dynamic(copy.deepcopy(model).eval(), kinds, dtype=torch.qint8)
    return _report(torch, to, model, small, samples, samples, [_of_layers(len(layers))], [])


def _of_layers(layers: int) -> str:
    return text("{} layers have int8 weights; all others, such as embeddings and convolutions, are unchanged", layers)


def _by_torchao(torch: Any, model: Any) -> Tuple[Any, int]:
    """Returns a copy whose linear layers have int8 weights, and the number of these layers. Returns (None, 0) if there are none, or if torchao is missing
    or too old."""
    linear = sum(type(one) is torch.nn.Linear for one in model.modules())
    if not linear:
        return None, 0
    try:
        torchao = importlib.import_module("torchao.quantization")
        how = torchao.Int8DynamicActivationInt8WeightConfig()
    except Exception:  # torchao is not installed, or it does not support this version of PyTorch
        return None, 0
    small = copy.deepcopy(model).eval()
    torchao.quantize_(small, how)
    return small, linear


def _converted(samples: Any, dtype: Any) -> Any:
    if isinstance(samples, dict):
        return {key: _converted(one, dtype) for key, one in samples.items()}
    if isinstance(samples, tuple):
        return tuple(_converted(one, dtype) for one in samples)
    return samples.to(dtype) if hasattr(samples, "is_floating_point") and samples.is_floating_point() else samples


def prune(model: Any, amount: float, *, samples: Any = None) -> ShrinkReport:
    """Returns a copy of a model in which the smallest weights are zero. Linear and convolution layers are ranked together.

    The copy is not smaller, because a zero takes as much space as another number. It is faster only on hardware that skips zeros. Pruning helps if the file
    is compressed, or if another tool removes the zeros.

    Parameters
    ----------
    amount : float
        The fraction of the weights to set to zero, between 0 and 1.
    samples
        As in `quantize`.

    Examples
    --------
    >>> import torch
    >>> said = prune(torch.nn.Linear(10, 10), 0.3)
    >>> said.zeros, said.parameters
    (30, 100)
    """
    torch = needed("torch", "torch.prune")
    _checked(torch, model)
    if isinstance(amount, bool) or not isinstance(amount, float) or not 0 < amount < 1:
        raise InvalidRequest(text("amount: {!r} is not a fraction such as 0.3", amount), "E0102")
    pruning = needed("torch.nn.utils.prune", "torch.prune")
    small = copy.deepcopy(model)
    nn = torch.nn
    layers = [one for one in small.modules() if isinstance(one, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d))]
    if not layers:
        raise Unsupported(text("the model has no linear or convolution layer to prune"), "E0570")
    pruning.global_unstructured([(one, "weight") for one in layers], pruning_method=pruning.L1Unstructured, amount=amount)
    for one in layers:
        # replace the weights by the pruned ones; without this call, PyTorch stores both the original weights and a mask
        pruning.remove(one, "weight")
    notes = [text("zeros are stored like other numbers: memory and, without sparse kernels, speed stay the same")]
    return _report(torch, text("pruned by {:.0%}", amount), model, small, samples, samples, notes, [one.weight for one in layers])
