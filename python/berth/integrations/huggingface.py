"""For Hugging Face's Trainer: steps that fit into memory, device measurements in its logs, and a summary at its end. A subclass of Trainer is not needed.

    trainer = Trainer(model, args, train_dataset=data)
    berth.integrations.huggingface.attach(trainer)
    trainer.train()
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Dict, Optional

from ..errors import InvalidRequest, Unsupported
from ..fitting import BackwardResult, Passes, backward_in_parts
from ..frameworks import needed
from ..language import text
from ..parts import length_of, part_of
from ..randomness import kept
from ..run_summary import RunSummary
from ..weighted_parts import Count, Part

__all__ = ["Attached", "attach", "count_labels"]

_IGNORED = -100  # Hugging Face's losses ignore tokens with this label


def attach(trainer: Any, *, count: Optional[Count] = None, every: float = 10.0, batch_norm: str = "refuse", in_batch: str = "refuse",
           report: bool = True) -> "Attached":
    """Makes the training steps of a Trainer fit into memory. If memory runs out, the batch of a device is split; gradients and loss stay the same.

    Also adds device measurements to the Trainer's logs, and prints a summary at the end. docs/python-trainers.md has more.

    Parameters
    ----------
    trainer : transformers.Trainer
        Its class and settings do not change. Raises `Unsupported` for `DataParallel`, FSDP and DeepSpeed.
    count : callable, optional
        Takes a part of a batch and returns over how many items the part's loss is averaged. By default, labels other than -100 count. If the model shifts
        its labels, the first label of each row does not count. If tokens have no labels, rows count.
    every : float
        Seconds between two measurements.
    batch_norm, in_batch : {"refuse", "warn", "allow"}
        What to do if a layer or the loss depends on which items are in the same part.
    report : bool
        If False, prints nothing.

    Examples
    --------
    >>> attached = attach(trainer); trainer.train()  # doctest: +SKIP
    >>> attached.last.parts, attached.last.tries     # doctest: +SKIP
    (4, 3)
    """
    for method in ("training_step", "compute_loss", "add_callback"):
        if not callable(getattr(trainer, method, None)):
            raise InvalidRequest(text("{}: a {} has no {}()", "trainer", type(trainer).__name__, method), hint="transformers.Trainer(model, args)")
    if isinstance(vars(trainer).get("training_step"), _Step):
        raise InvalidRequest(text("trainer: attach was called for it already"), hint="attached.detach()")
    if getattr(trainer.args, "n_gpu", 1) > 1:
        raise Unsupported(text("the Trainer copies the model to several GPUs at each step (DataParallel)"), "E0565",
                          "torchrun --nproc-per-node N, or CUDA_VISIBLE_DEVICES=0")
    return Attached(trainer, count, RunSummary(every), {"batch_norm": batch_norm, "in_batch": in_batch, "report": report})


class Attached:
    """The object that `attach` returns.

    Attributes
    ----------
    last : BackwardResult, optional
        The result for the last batch: its `loss`, the number of `parts`, and the number of `tries`.
    summary : RunSummary
        What this training used, such as the numbers of steps and tries.
    """

    def __init__(self, trainer: Any, count: Optional[Count], summary: RunSummary, options: Dict[str, Any]) -> None:
        self.summary = summary
        self.last: Optional[BackwardResult] = None
        self._trainer = trainer
        self._callback = _callback(summary, options["report"])
        trainer.add_callback(self._callback)
        step = _Step(self, trainer, count, options)
        trainer.training_step, trainer.compute_loss, trainer.log = step, step.compute_loss, step.log

    def detach(self) -> None:
        """Restores the Trainer to its state before `attach`."""
        self._trainer.remove_callback(self._callback)
        for name in ("training_step", "compute_loss", "log"):
            vars(self._trainer).pop(name, None)


def count_labels(shifted: bool) -> Count:
    """Returns a function that can be passed as `count` for batches of Hugging Face.

    Parameters
    ----------
    shifted : bool
        True for a model that predicts the next token: the first label of each row is not predicted.

    Examples
    --------
    >>> import torch
    >>> int(count_labels(True)({"labels": torch.tensor([[5, 6, 7], [5, 6, -100]])}))
    3
    """
    return _Labels(shifted)


class _Labels:
    def __init__(self, shifted: bool) -> None:
        self._shifted = shifted

    def __call__(self, batch: Any) -> Any:
        labels = batch.get("shift_labels")
        shifted = self._shifted and labels is None
        labels = batch.get("labels") if labels is None else labels
        if labels is None or labels.is_floating_point() or labels.dim() < 2:
            return length_of(batch)
        return ((labels[..., 1:] if shifted else labels) != _IGNORED).sum()


def _shifts(trainer: Any) -> bool:
    """Whether the model's loss compares each output with the following label."""
    if getattr(trainer, "_loss_shifts_labels", False):
        return True
    model = trainer.accelerator.unwrap_model(trainer.model)
    while hasattr(model, "get_base_model"):  # unwrap models of the package peft
        model = model.get_base_model()
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        return False
    # GPT-2 and other models name no loss in their configuration, and get the loss for causal models.
    if getattr(getattr(model, "loss_function", None), "__name__", "") == "ForCausalLMLoss":
        return True
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    return type(model).__name__ in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()


class _Step:
    """Replaces the Trainer's `training_step`, and calls the original for each part."""

    def __init__(self, attached: Attached, trainer: Any, count: Optional[Count], options: Dict[str, Any]) -> None:
        self._attached, self._trainer, self._options = attached, trainer, options
        self._step, self._loss, self._log = trainer.training_step, trainer.compute_loss, trainer.log
        self._count = count_labels(_shifts(trainer)) if count is None else count
        self._reduction: Optional[str] = None
        self._more: Any = ()
        self._part: Optional[Part] = None
        self._passes: Optional[Passes] = None

    def __call__(self, model: Any, inputs: Any, *more: Any, **named: Any) -> Any:
        self._more = (*more, *named.values())  # `more` contains the number of items that the Trainer counted; older Trainers pass nothing
        result = backward_in_parts(model, self._loss_of, inputs, one=self._one, before_split=self._choose, count=self._count, over="rank",
                                   scaler=getattr(self._trainer.accelerator, "scaler", None), **self._options)
        self._attached.last = result
        self._attached.summary.step(result)
        return sys.modules["torch"].tensor(result.loss, device=self._trainer.args.device)

    def _one(self, part: Part, passes: Passes) -> Any:
        self._part, self._passes = part, passes
        try:
            return self._step(passes.model, part.data, *self._more)
        finally:
            self._part = self._passes = None

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **named: Any) -> Any:
        """Replaces the Trainer's method `compute_loss`. Within a training step, returns the loss weighted for the part."""
        found = self._loss(model, inputs, *args, **named)
        if self._part is None or self._passes is None:
            return found
        loss, rest = (found[0], found[1:]) if isinstance(found, tuple) else (found, None)
        share = self._part.share(loss, self._passes.reduction)
        self._passes.grads.begin(share)
        return share if rest is None else (share, *rest)

    def _loss_of(self, model: Any, data: Any) -> Any:
        return self._loss_with(model, data, self._more)

    def _loss_with(self, model: Any, data: Any, more: Any) -> Any:
        with self._trainer.compute_loss_context_manager():
            return self._loss(model, self._trainer._prepare_inputs(data), **({"num_items_in_batch": more[0]} if more else {}))

    def _choose(self, passes: Passes) -> None:
        """Determines whether the loss is a mean, or a sum divided by the number of items that the Trainer counted. Newer Trainers pass this number to most
        models."""
        if self._reduction is None:
            self._reduction = "sum" if self._more and self._more[0] is not None and self._is_divided(passes) else "mean"
        passes.reduction = self._reduction

    def _is_divided(self, passes: Passes) -> bool:
        """Whether the loss of one row halves if the number of items doubles."""
        torch, model, state = sys.modules["torch"], passes.model, kept()
        modes = [(one, one.training) for one in model.modules()]
        model.eval()
        try:
            with torch.no_grad():
                for at in range(length_of(passes.batch)):
                    row = part_of(passes.batch, at, at + 1)
                    once, twice = (float(self._loss_with(model, row, (self._more[0] * factor,))) for factor in (1, 2))
                    if once and once == once:  # skip a row that contains only padding, because its loss is 0 or NaN
                        return abs(twice - once / 2) < abs(twice - once)
        finally:
            for one, training in modes:
                one.training = training
            state.restore()
        return False

    def log(self, logs: Dict[str, float], *args: Any, **named: Any) -> Any:
        """Adds device measurements to a log that contains a training loss."""
        return self._log({**logs, **self._attached.summary.readings()} if "loss" in logs else logs, *args, **named)


def _callback(summary: RunSummary, report: bool) -> Any:
    kind = needed("transformers", "integrations.huggingface.attach").TrainerCallback

    class Report(kind):  # type: ignore[misc, valid-type]
        """Starts the counts when training begins, and prints them at its end."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            summary.begin()

        def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if report and state.is_world_process_zero:
                print("\n".join(summary.lines()), file=sys.stderr)
    return Report()
