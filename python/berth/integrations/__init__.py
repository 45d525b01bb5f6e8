"""Connects Berth to the training loops of other projects: device measurements for their loggers, and steps that fit into memory for their trainers.

Each framework has a module: `berth.integrations.huggingface`, `.accelerate`, `.lightning`, `.keras`. Importing the module loads the framework. The
functions `wandb` and `mlflow` are in this module, and load nothing.

    log = berth.integrations.wandb(run)
    for step, batch in enumerate(loader):
        ...
        log(step)
        run.log({"loss": loss})
"""

from __future__ import annotations

from typing import Any

from ..metrics import ReadingsLog, readings_log

__all__ = ["mlflow", "wandb"]


def wandb(run: Any, *, every: float = 10.0) -> ReadingsLog:
    """Writes device measurements to Weights & Biases. They are logged together with the values that the program logs next, so the program's step numbers do
    not change.

    Parameters
    ----------
    run
        The object that `wandb.init()` returns.
    every : float
        Seconds between two measurements. A call in between only takes a microsecond.

    Raises
    ------
    InvalidRequest
        The run has no `log`.
    """
    return readings_log(run, "run", "log", "wandb.init(project=…)", lambda readings, step: run.log(readings, commit=False), every)


def mlflow(module: Any, *, every: float = 10.0) -> ReadingsLog:
    """Writes device measurements to the active run of MLflow.

    Parameters
    ----------
    module
        The module `mlflow`, or an object with `log_metrics(metrics, step=…)`.
    every : float
        Seconds between two measurements. A call in between only takes a microsecond.

    Raises
    ------
    InvalidRequest
        The module has no `log_metrics`.
    """
    return readings_log(module, "module", "log_metrics", "import mlflow; berth.integrations.mlflow(mlflow)",
                        lambda readings, step: module.log_metrics(readings, step=step), every)
