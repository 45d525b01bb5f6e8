"""Device readings in Lightning's loggers, help where memory runs out, and a few lines at the end; and a backward pass that fits.

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
    """A callback for Lightning's Trainer: writes readings to each of its loggers, and prints what the run used.

    If memory runs out, it prints how the memory is divided and what to do. The error is raised unchanged.

    Parameters
    ----------
    every : float
        Seconds between two readings.
    report : bool
        False: print nothing.

    Raises
    ------
    Unsupported
        Neither `lightning` nor `pytorch_lightning` is installed.
    """
    # Both packages define these classes. Use the package that is loaded, because the Trainer belongs to it.
    name = "pytorch_lightning" if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules else "lightning.pytorch"
    kind = needed(name, "integrations.lightning.callback", name.split(".")[0].replace("_", "-")).Callback
    summary = RunSummary(every)

    class Readings(kind):  # type: ignore[misc, valid-type]
        """What `callback` returns."""

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

    It works on one device: with several ranks, a rank that tries again would leave the others waiting (`Unsupported`).
    docs/python-memory.md says when a batch cannot be split (`NotSplittable`).

    Parameters
    ----------
    module : LightningModule
        With `automatic_optimization = False`.
    loss_fn : callable
        `loss_fn(module, part)` returns the mean loss of a part of the batch.
    count : callable, optional
        Takes a part and returns the number of items over which its loss is averaged. Without it, every row counts.
    parts : int, optional
        The least number of parts. Without it, as few as fitted before.
    batch_norm, in_batch : {"refuse", "warn", "allow"}
        What to do about layers and losses that depend on which items are together.
    report : bool
        False: print nothing.
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
