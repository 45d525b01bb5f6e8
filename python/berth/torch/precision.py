"""Mixed precision that fits the device and the version of PyTorch."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, ContextManager, Optional

from ..errors import InvalidRequest, Unsupported
from ..frameworks import needed
from ..language import text
from ..sizes import number

__all__ = ["Amp", "amp"]

_PRECISIONS = ("auto", "bf16", "fp16", "fp32")


@dataclasses.dataclass
class Amp:
    """The result of `amp`: a context for the forward pass, and a scaler if the precision needs one.

    Attributes
    ----------
    precision : str
        "bf16", "fp16" or "fp32".
    why : str
        The reason for this precision.
    scaler : torch.amp.GradScaler, optional
        A scaler for fp16; None for other precisions. `berth.split_step(scaler=…)` accepts both.
    """

    precision: str
    why: str
    device: str
    dtype: Any
    scaler: Any
    model: Any = dataclasses.field(repr=False)
    optimizer: Any = dataclasses.field(repr=False)

    def autocast(self) -> ContextManager[Any]:
        """A context for the forward pass and the loss, but not for `backward`."""
        if self.dtype is None:
            return contextlib.nullcontext()
        context: ContextManager[Any] = needed("torch", "torch.amp").autocast(self.device, dtype=self.dtype)
        return context

    def backward(self, loss: Any) -> None:
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def step(self, clip_norm: Optional[float] = None) -> Optional[float]:
        """Clips gradients, steps, and removes the gradients. Returns their norm if they were clipped."""
        torch = needed("torch", "torch.amp")
        norm = None
        if clip_norm is not None:
            number("clip_norm", clip_norm, above=True)
            if self.scaler is not None:
                self.scaler.unscale_(self.optimizer)
            norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip_norm))
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return norm


def amp(model: Any, optimizer: Any, precision: str = "auto") -> Amp:
    """Chooses mixed precision for a model on its device: bf16 if the device supports it. If not: fp16 with a scaler, or fp32.

    Parameters
    ----------
    model : torch.nn.Module
        Its parameters stay float32, because optimizer steps need that. Autocast converts them for each operation.
    precision : {"auto", "bf16", "fp16", "fp32"}
        On the CPU, "auto" is fp32, because most CPUs have no instructions for bf16 and are slower with it.

    Raises
    ------
    Unsupported
        The device, or this version of PyTorch, does not support the precision.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(model.parameters(), 0.1)
    >>> mixed = amp(model, optimizer, "bf16")
    >>> with mixed.autocast():
    ...     loss = model(torch.ones(2, 4)).square().mean()
    >>> mixed.backward(loss); norm = mixed.step(clip_norm=1.0)
    >>> mixed.precision, mixed.scaler
    ('bf16', None)
    """
    if precision not in _PRECISIONS:
        raise InvalidRequest(text("precision: {!r} is not one of {}", precision, ', '.join(_PRECISIONS)), "E0003")
    torch = needed("torch", "torch.amp")
    if not isinstance(model, torch.nn.Module):
        raise InvalidRequest(text("model: a {} is not a torch.nn.Module", type(model).__name__))
    if not hasattr(optimizer, "param_groups"):
        raise InvalidRequest(text("optimizer: a {} is not a torch.optim.Optimizer", type(optimizer).__name__))
    parameters = list(model.parameters())
    if not parameters:
        raise InvalidRequest(text("the model has no parameters, so it is on no device"))
    halves = {str(one.dtype) for one in parameters} & {"torch.float16", "torch.bfloat16"}
    if halves and precision != "fp32":
        raise InvalidRequest(text("the model's parameters are already {}: the optimizer would step in that precision", ', '.join(sorted(halves))), hint="model.float()")
    device = parameters[0].device.type
    chosen, why = (_best(torch, device) if precision == "auto" else (precision, text("as requested")))
    if chosen == "bf16" and device == "cuda" and not torch.cuda.is_bf16_supported():
        raise Unsupported(text("this GPU has no bf16"), "E0570", "precision='fp16'")
    if chosen == "fp16" and device == "cpu":
        raise Unsupported(text("fp16 on the CPU is slower than fp32, and PyTorch before 2.3 has no scaler for it"), "E0570", "precision='bf16'")
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": None}[chosen]
    return Amp(chosen, why, device, dtype, _scaler(torch, device) if chosen == "fp16" else None, model, optimizer)


def _best(torch: Any, device: str) -> "tuple[str, str]":
    if device == "cuda":
        major = torch.cuda.get_device_capability()[0]
        if major >= 8 or getattr(torch.version, "hip", None):
            return "bf16", text("the GPU supports it, and it needs no scaler")
        if major >= 7:
            return "fp16", text("the GPU has fast fp16, but no bf16")
        return "fp32", text("lower precision is not faster on this GPU")
    if device == "xpu":
        return "bf16", text("the GPU supports it, and it needs no scaler")
    if device == "mps":
        return "fp32", text("autocast differs between versions on this device: try 'bf16' or 'fp16'")
    return "fp32", text("lower precision is usually slower on a CPU: try 'bf16'")


def _scaler(torch: Any, device: str) -> Any:
    """Makes a GradScaler. The name of its class depends on the version of PyTorch."""
    kind = getattr(getattr(torch, "amp", None), "GradScaler", None)
    if kind is not None:
        return kind(device)
    return torch.cuda.amp.GradScaler()
