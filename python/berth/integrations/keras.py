"""Device measurements in the logs of Keras, and a summary at the end of training.

    model.fit(data, callbacks=[berth.integrations.keras.callback()])

Keras passes the logs of an epoch from one callback to the next. So put this callback before TensorBoard, CSVLogger or W&B's callback. Keras always calls
`History` last.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, Optional

from ..frameworks import needed
from ..run_summary import RunSummary

__all__ = ["callback"]


def callback(*, every: float = 10.0, report: bool = True) -> Any:
    """Returns a callback for `model.fit`. It adds device measurements to the logs of each epoch, and prints a summary of what the run used.

    Parameters
    ----------
    every : float
        Seconds between two measurements.
    report : bool
        If False, prints nothing.

    Raises
    ------
    Unsupported
        Keras is not installed.

    Examples
    --------
    >>> history = model.fit(x, y, epochs=2, callbacks=[callback()])  # doctest: +SKIP
    >>> history.history["berth/gpu0/memory_used_bytes"]              # doctest: +SKIP
    [8589934592.0, 8589934592.0]
    """
    kind = needed("keras.callbacks", "integrations.keras.callback", "keras").Callback
    summary = RunSummary(every)

    class Readings(kind):  # type: ignore[misc, valid-type]
        """The callback that `callback` returns."""

        def on_train_begin(self, logs: Optional[Dict[str, float]] = None) -> None:
            summary.begin()

        def on_train_batch_end(self, batch: int, logs: Optional[Dict[str, float]] = None) -> None:
            summary.step()

        def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, float]] = None) -> None:
            if logs is not None:
                logs.update(summary.readings())

        def on_train_end(self, logs: Optional[Dict[str, float]] = None) -> None:
            if report:
                print("\n".join(summary.lines()), file=sys.stderr)
    return Readings()
