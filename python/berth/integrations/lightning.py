"""For Lightning: device measurements in its loggers, help if memory runs out, a summary at the end, and a backward pass that fits into memory.

    trainer = Trainer(callbacks=[berth.integrations.lightning.callback()])

With `self.automatic_optimization = False` a training step may split its batch where memory runs out:

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        berth.integrations.lightning.backward(self, loss_fn, batch)
        optimizer.step()
"""

from __future__ import annotations

import sys
from typing import Any, Optional

from ..errors import InvalidRequest, Unsupported
from ..fitting import BackwardResult, Loss, backward_in_parts
from ..frameworks import needed
from ..language import text
from ..memory import memory_summary
from ..oom import is_oom
from ..run_summary import RunSummary
from ..weighted_parts import Count

__all__ = ["backward", "callback"]


def callback(*, every: float = 10.0, report: bool = True) -> Any:
    """Returns a callback for Lightning's Trainer. It writes device measurements to each of the Trainer's loggers, and prints a summary of what the run
    used.

    If memory runs out, it prints what uses the memory and what to do. It does not change the error.

    Parameters
    ----------
    every : float
        Seconds between two measurements.
    report : bool
        If False, prints nothing.

    Raises
    ------
    Unsupported
        Neither `lightning` nor `pytorch_lightning` is installed.
    """
    # Both packages define these classes. The Trainer belongs to the package that is loaded, so use that package.
    name = "pytorch_lightning" if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules else "lightning.pytorch"
    kind = needed(name, "integrations.lightning.callback", name.split(".")[0].replace("_", "-")).Callback
    summary = RunSummary(every)

    class Readings(kind):  # type: ignore[misc, valid-type]
        """The callback that `callback` returns."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            summary.begin()

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if summary.step(vars(pl_module).pop("_berth_result", None)):
                for logger in trainer.loggers:
                    logger.log_metrics(summary.readings(), step=trainer.global_step)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            if report and trainer.is_global_zero:
                print("\n".join(summary.lines()), file=sys.stderr)

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            if report and isinstance(exception, Exception) and is_oom(exception):
                print("\n".join([*summary.lines(), str(memory_summary()), text(
                    "hint: {}", text("berth.integrations.lightning.backward splits the batch; berth.fit_batch around trainer.fit takes a smaller one"))]),
                    file=sys.stderr)
    return Readings()


def backward(module: Any, loss_fn: Loss, batch: Any, *, count: Optional[Count] = None, parts: Optional[int] = None, batch_norm: str = "refuse",
             in_batch: str = "refuse", report: bool = True) -> BackwardResult:
    """Computes the loss of a batch and calls `module.manual_backward`. If memory runs out, the batch is split; the gradients stay the same.

    It works on one device. With several ranks, it raises `Unsupported`, because a rank that tries again would let the others wait. Raises `NotSplittable`
    if a batch cannot be split (docs/python-memory.md).

    Parameters
    ----------
    module : LightningModule
        Its `automatic_optimization` must be False.
    loss_fn : callable
        `loss_fn(module, part)` returns the mean loss of a part of the batch.
    count : callable, optional
        Takes a part and returns over how many items the part's loss is averaged. By default, every row counts.
    parts : int, optional
        The number of parts to try first. By default, it is the number that fitted before.
    batch_norm, in_batch : {"refuse", "warn", "allow"}
        What to do if a layer or the loss depends on which items are in the same part.
    report : bool
        If False, prints nothing.
    """
    if not callable(getattr(module, "manual_backward", None)):
        raise InvalidRequest(text("{}: a {} has no {}()", "module", type(module).__name__, "manual_backward"), hint="lightning.LightningModule")
    if module.automatic_optimization:
        raise InvalidRequest(text("module: Lightning makes its backward pass itself"), hint="self.automatic_optimization = False")
    if module.trainer.world_size > 1:
        raise Unsupported(text("Lightning's ranks synchronise in each backward pass: if one retries, the others wait forever"), "E0565",
                          "devices=1")
    result = backward_in_parts(module, loss_fn, batch, backward=module.manual_backward, parts=parts, count=count, batch_norm=batch_norm,
                               in_batch=in_batch, report=report)
    vars(module)["_berth_result"] = result
    return result
