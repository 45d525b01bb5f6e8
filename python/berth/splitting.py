"""One training step in as many parts as the memory requires. The gradients are those of the whole batch, and the optimizer steps only once."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, List, Optional, Tuple

from .agreement import Agreement
from .earlier_steps import EarlierSteps
from .errors import InvalidRequest, Unsupported
from .fitting import Loss, Passes, agreement_of, check_choices, check_model, first_parts, until_it_fits
from .hooks import Hooks
from .language import text
from .oom import is_oom
from .retrying import first_line
from .sizes import number
from .step_gradients import StepGradients
from .stepping import StepInterrupted
from .weighted_parts import Count, check_over, check_reduction

__all__ = ["StepInterrupted", "StepResult", "split_step"]


@dataclasses.dataclass(frozen=True)
class StepResult:
    """The result of a step.

    Attributes
    ----------
    loss : float
        The mean over the items of all ranks that count. With `reduction="sum"`, it is the sum.
    items : int or float
        The number of this rank's items that count, according to `count`.
    parts : int
        The number of parts; 1 if the batch was not split.
    tries : int
        1 if memory did not run out.
    norm : float, optional
        The norm of the gradients before they were clipped.
    stepped : bool
        False if GradScaler skipped the step because a gradient was not finite.
    outputs : list, optional
        With `outputs=True`: the output that `loss_fn` returned together with the loss, for each part.
    """

    loss: float
    items: float
    parts: int
    tries: int
    norm: Optional[float]
    stepped: bool
    outputs: Optional[List[Any]] = None


def split_step(model: Any, loss_fn: Loss, optimizer: Any, batch: Any, *, parts: Optional[int] = None, count: Optional[Count] = None,
               reduction: str = "mean", scaler: Any = None, clip_norm: Optional[float] = None, batch_norm: str = "refuse",
               in_batch: str = "refuse", over: str = "all", outputs: bool = False, report: bool = True) -> StepResult:
    """A whole training step: zeroes gradients, runs forward and backward, clips, and steps once. If memory runs out, the batch is split.

    The parts' gradients add up to those of the whole batch. docs/python-memory.md explains parts, `count`, ranks, and models that are refused.

    Parameters
    ----------
    loss_fn : callable
        `loss_fn(model, part)` returns a tensor of one number: the mean over the items that count. Use autocast inside this function.
    optimizer, batch
        An optimizer of PyTorch or a list of them; tensors, or a dict, tuple or list of them, which are split along the first axis.
    parts : int, optional
        The number of parts to try first. By default, it is the number that fitted before.
    count : callable, optional
        Takes a part and returns the number of items over which its loss is averaged. For a model that predicts the next token:
        `lambda part: (part["labels"][:, 1:] != -100).sum()`. By default, all items count.
    scaler, clip_norm : torch.amp.GradScaler; float, optional
        The scaler is updated once. Gradients are clipped so that the norm of all together, without the scaler's factor, is at most `clip_norm`.
    reduction, over : {"mean", "sum"}; {"all", "rank"}
        Whether `loss_fn` returns a mean or a sum; whether to take the mean over the items of all ranks, or the mean of the ranks' means.
    batch_norm, in_batch : {"refuse", "warn", "allow"}
        What to do if the batch is split, and a layer or the loss depends on which items are in the same part.
    outputs : bool
        True: `loss_fn` returns the loss and an output. The result has the outputs of all parts, detached.
    """
    together = agreement_of(model)

    def begun() -> Tuple[Passes, EarlierSteps, Tuple[int, int]]:
        step = _made(model, loss_fn, optimizer, batch, count, reduction, scaler, over, outputs, together)
        check_choices(batch_norm, in_batch)
        if clip_norm is not None:
            number("clip_norm", clip_norm, above=True)
        return (step, *first_parts(model, batch, parts))
    step, known, first = together.each(begun)
    try:
        loss, pieces, tries = until_it_fits(step, first, (batch_norm, in_batch), known, report)
        loss = step.exchange(loss)
    except BaseException:  # even for Ctrl-C, so that no incomplete gradients are left
        step.grads.put_back()
        raise
    step.grads.add_up()
    norm, stepped = together.each(lambda: _apply(step, clip_norm))
    return StepResult(loss, sum(part.items for part in pieces), len(pieces), tries, norm, stepped, step.outputs)


def _made(model: Any, loss_fn: Loss, optimizer: Any, batch: Any, count: Optional[Count], reduction: str, scaler: Any, over: str, outputs: bool,
          together: Agreement) -> Passes:
    torch = sys.modules["torch"]
    check_over(over)
    check_reduction(reduction)
    optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
    _check_callables(torch, loss_fn, optimizers, count, scaler)
    if any(isinstance(one, torch.optim.LBFGS) for one in optimizers):
        raise Unsupported(text("LBFGS computes the loss several times per step, which is not supported"), "E0561", text("another optimizer"))
    check_model(model, together)
    return Passes(model, loss_fn, optimizers, batch, count, reduction, scaler, over, together, StepGradients(model, optimizers), Hooks(model, optimizers),
                 [] if outputs else None)


def _check_callables(torch: Any, loss_fn: Any, optimizers: List[Any], count: Any, scaler: Any) -> None:
    """Refuses arguments that are missing or in the wrong place."""
    mean = "loss_fn=lambda model, part: F.cross_entropy(model(part['x']), part['labels'])"
    if not callable(loss_fn) or isinstance(loss_fn, torch.nn.modules.loss._Loss):
        raise InvalidRequest(text("loss_fn: a {} does not take the model and a part of the batch", type(loss_fn).__name__), hint=mean)
    if not optimizers:
        raise InvalidRequest(text("optimizer: the list is empty"))
    for one in optimizers:
        if not hasattr(one, "param_groups"):
            raise InvalidRequest(text("optimizer: a {} is not a torch.optim.Optimizer", type(one).__name__))
    if count is not None and not callable(count):
        raise InvalidRequest(text("count: a {} cannot be called", type(count).__name__), hint="count=lambda batch: (batch['labels'] != -100).sum()")
    if scaler is not None and not hasattr(scaler, "scale"):
        raise InvalidRequest(text("scaler: a {} is not a GradScaler", type(scaler).__name__), hint="scaler=torch.amp.GradScaler()")


def _apply(step: Passes, clip_norm: Optional[float]) -> Tuple[Optional[float], bool]:
    """Clips the gradients and steps once. This is never repeated."""
    torch, norm = sys.modules["torch"], None
    try:
        step.hooks.after()
        if clip_norm is not None:
            for optimizer in step.optimizers if step.scaler is not None else ():
                step.scaler.unscale_(optimizer)
            norm = float(torch.nn.utils.clip_grad_norm_(step.parameters(), clip_norm))
        if step.scaler is None:
            for optimizer in step.optimizers:
                optimizer.step()
            return norm, True
        before = step.scaler.get_scale()
        for optimizer in step.optimizers:
            step.scaler.step(optimizer)
        step.scaler.update()
        return norm, bool(step.scaler.get_scale() >= before)
    except Exception as problem:
        if not is_oom(problem):
            raise
        raise StepInterrupted(text("memory ran out while the optimizer stepped, and some parameters may be new: {}", first_line(problem)), "E0563",
                              text("start from the last checkpoint, with smaller parts: parts=2")) from problem
