"""A backward pass that fits, for loops with Hugging Face Accelerate.

    for batch in loader:
        with accelerator.accumulate(model):
            berth.integrations.accelerate.backward(accelerator, model, loss_fn, batch, count=count)
            optimizer.step()
            optimizer.zero_grad()
"""

from __future__ import annotations

from typing import Any, Optional

from ..errors import InvalidRequest
from ..fitting import BackwardResult, Loss, backward_in_parts
from ..language import text
from ..weighted_parts import Count

__all__ = ["backward"]


def backward(accelerator: Any, model: Any, loss_fn: Loss, batch: Any, *, count: Optional[Count] = None, parts: Optional[int] = None,
             over: str = "all", batch_norm: str = "refuse", in_batch: str = "refuse", report: bool = True) -> BackwardResult:
    """Computes the loss of a batch and calls `accelerator.backward`. If memory runs out, the batch is split; the gradients stay the same.

    It can be used inside `accelerator.accumulate(model)`. With several ranks, this function exchanges the gradients of each batch. Raises `Unsupported` for
    FSDP and DeepSpeed, and `NotSplittable` if a batch cannot be split (docs/python-memory.md).

    Parameters
    ----------
    accelerator, model
        The Accelerator, and what its `prepare` returned for the model.
    loss_fn : callable
        `loss_fn(model, part)` returns the mean loss of a part of the batch. Use `accelerator.autocast()` inside this function.
    count : callable, optional
        Takes a part and returns the number of items over which its loss is averaged. For a model that predicts the next token:
        `lambda part: (part["labels"][:, 1:] != -100).sum()`. By default, every row counts.
    parts : int, optional
        The number of parts to try first. By default, it is the number that fitted before.
    over : {"all", "rank"}
        "all": the loss is the mean over the items of all ranks. "rank": it is the mean of the ranks' means.
    batch_norm, in_batch : {"refuse", "warn", "allow"}
        What to do if a layer or the loss depends on which items are in the same part.
    report : bool
        If False, prints nothing.
    """
    if not callable(getattr(accelerator, "backward", None)):
        raise InvalidRequest(text("{}: a {} has no {}()", "accelerator", type(accelerator).__name__, "backward"), hint="accelerate.Accelerator()")
    return backward_in_parts(model, loss_fn, batch, backward=accelerator.backward, scaler=getattr(accelerator, "scaler", None), parts=parts, count=count,
                             over=over, batch_norm=batch_norm, in_batch=in_batch, report=report)
