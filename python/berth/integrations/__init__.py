"""Berth in the training loops of other projects: device readings for their loggers, and steps that fit for their trainers.

Each framework has a module of its own: `berth.integrations.huggingface`, `.accelerate`, `.lightning`, `.keras`. Import the one you use; it loads
its framework. `wandb` and `mlflow` are here, and load nothing.

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
    """Writes device readings to Weights & Biases. They are logged with the step that the program logs next, so its step numbers do not change.

    Parameters
    ----------
    run
        What `wandb.init()` returns.
    every : float
        Seconds between two readings. A call between them takes a microsecond.

    Raises
    ------
    InvalidRequest
        The run has no `log`.
    """
    return readings_log(run, "run", "log", "wandb.init(project=…)", lambda readings, step: run.log(readings, commit=False), every)


def mlflow(module: Any, *, every: float = 10.0) -> ReadingsLog:
    """Writes device readings to the active run of MLflow.

    Parameters
    ----------
    module
        The module `mlflow`, or an object with `log_metrics(metrics, step=…)`.
    every : float
        Seconds between two readings. A call between them takes a microsecond.

    Raises
    ------
    InvalidRequest
        The module has no `log_metrics`.
    """
    return readings_log(module, "module", "log_metrics", "import mlflow; berth.integrations.mlflow(mlflow)",
                        lambda readings, step: module.log_metrics(readings, step=step), every)
