"""Exports numbers of a training loop and of the devices to Prometheus and loggers."""

from __future__ import annotations

import re
import threading
from typing import Any, Callable, Dict, Iterator, Optional

from .errors import BerthError, InvalidRequest
from .frameworks import needed
from .language import text
from .readings import NAMES, Recent, as_logged, resident_bytes
from .sizes import number, whole

__all__ = ["Metrics", "Tensorboard", "export_metrics", "tensorboard"]

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

# For each measured value: the name of its metric, and the factor that converts it to the metric's base unit, as in `berth exporter`
# (docs/watch.md).
EXPORTED = {
    "memory_used_bytes": ("berth_device_memory_used_bytes", 1.0),
    "memory_total_bytes": ("berth_device_memory_total_bytes", 1.0),
    "utilization_percent": ("berth_device_utilization_ratio", 0.01),
    "power_milliwatts": ("berth_device_power_watts", 0.001),
    "temperature_celsius": ("berth_device_temperature_celsius", 1.0),
}


class Metrics:
    """The object that `export_metrics` returns. `metrics["loss"] = 0.3` sets a gauge. `close()` or the end of a `with` block stops the server.

    Attributes
    ----------
    port : int
        The TCP port of the server.
    """

    def __init__(self, client: Any, port: int, address: str) -> None:
        self._client, self._recent = client, Recent()
        self._gauges: Dict[str, Any] = {}
        self._server: Any = None
        self.registry = client.CollectorRegistry(auto_describe=True)
        self.registry.register(self)
        try:
            served = client.start_http_server(port, addr=address, registry=self.registry)
        except OSError as why:
            raise BerthError(text("cannot listen on {}:{}: {}", address, port, why), "E0916",
                             text("choose another port; `ss -ltnp` shows which program uses it")) from why
        self._server = served[0] if served else None  # older versions of prometheus_client return None
        self.port: int = self._server.server_port if self._server is not None else port

    def collect(self) -> Iterator[Any]:
        """prometheus_client calls this for each request. Returns the device measurements."""
        families = self._families()
        seen = set()
        for one in self._recent.read():
            labels = [str(one.device.index), one.device.uuid or ""]
            families[one.name].add_metric(labels, one.value * EXPORTED[one.name][1])
            if one.device.index not in seen:
                seen.add(one.device.index)
                families["info"].add_metric([*labels, one.device.name or ""], 1)
        families[""].add_metric([], resident_bytes())
        yield from (family for family in families.values() if family.samples)

    def describe(self) -> Iterator[Any]:
        """The names of the metrics, without reading a device."""
        yield from self._families().values()

    @staticmethod
    def _families() -> Dict[str, Any]:
        kind = needed("prometheus_client.core", "export_metrics", "prometheus-client").GaugeMetricFamily
        families = {name: kind(EXPORTED[name][0], f"Of a GPU: {name} of `berth ls --json`, in base units", labels=["device", "uuid"]) for name in NAMES}
        families["info"] = kind("berth_device_info", "What does not change of a GPU; joined by uuid", labels=["device", "uuid", "name"])
        families[""] = kind("berth_process_resident_bytes", "Of this process, in the host's memory", labels=[])
        return families

    def __setitem__(self, name: str, value: float) -> None:
        self.set(name, value)

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """Sets a gauge, for example `metrics.set("loss", 0.3, phase="train")`.

        Raises
        ------
        InvalidRequest
            The name or the value is not allowed.
        """
        if not isinstance(name, str):
            raise InvalidRequest(text("{}: {!r} is not text", "name", name), "E0104")
        if not _NAME.fullmatch(name):
            raise InvalidRequest(text("{!r} is not a valid gauge name", name), hint=text("letters, digits and _: {}", re.sub(r"\W+", "_", name) or "loss"))
        gauge = self._gauges.get(name)
        if gauge is None:
            try:
                gauge = self._gauges[name] = self._client.Gauge(name, f"{name}, as the program sets it", sorted(labels), registry=self.registry)
            except ValueError as why:
                raise InvalidRequest(text("{!r} is not a valid gauge name: {}", name, why)) from why
        try:
            (gauge.labels(**labels) if labels else gauge).set(float(value))
        except (ValueError, TypeError) as why:
            raise InvalidRequest(text("{}: {!r} with the labels {} cannot be set: {}", name, value, labels, why), "E0104") from why

    def close(self) -> None:
        """Stops the server."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *what: Any) -> None:
        self.close()


def export_metrics(port: int, *, address: str = "127.0.0.1") -> Metrics:
    """Starts a server from which Prometheus reads device measurements and gauges of this program. The package prometheus_client is needed.

    Parameters
    ----------
    port : int
        The TCP port. 0: any free port.
    address : str
        The address to listen on. By default only this machine can read.

    Raises
    ------
    BerthError
        The port is in use (E0916).
    Unsupported
        prometheus_client is not installed.

    Examples
    --------
    >>> metrics = export_metrics(9400)  # doctest: +SKIP
    >>> metrics["loss"] = 0.31          # doctest: +SKIP
    """
    port = whole("port", port, 0, 65535)
    if not isinstance(address, str):
        raise InvalidRequest(text("{}: {!r} is not text", "address", address), "E0104")
    return Metrics(needed("prometheus_client", "export_metrics", "prometheus-client"), port, address)


class ReadingsLog:
    """Writes device measurements to a logger. Call it in the training loop, with the number of the step."""

    def __init__(self, write: Callable[[Dict[str, float], int], None], every: float) -> None:
        self._write, self._recent = write, Recent(every)
        self._said: Optional[Any] = None
        self._lock = threading.Lock()

    def __call__(self, step: int) -> int:
        """If there are new measurements, writes them. Returns how many were written."""
        with self._lock:
            found = self._recent.read()
            if found is self._said:
                return 0
            self._said = found
            readings = as_logged(found)
            self._write(readings, step)
            return len(readings)


def readings_log(logger: Any, name: str, method: str, hint: str, write: Callable[[Dict[str, float], int], None], every: float) -> ReadingsLog:
    """Makes a ReadingsLog that calls this method of the logger. Error messages use `name` for the logger.

    Raises
    ------
    InvalidRequest
        The logger does not have this method, or `every` is not a number of seconds.
    """
    if not callable(getattr(logger, method, None)):
        raise InvalidRequest(text("{}: a {} has no {}()", name, type(logger).__name__, method), hint=hint)
    return ReadingsLog(write, number("every", every))


def tensorboard(writer: Any, *, every: float = 10.0) -> ReadingsLog:
    """Writes device measurements to TensorBoard, next to the loss.

    Parameters
    ----------
    writer : SummaryWriter
        Or any object with `add_scalar(tag, value, step)`.
    every : float
        Seconds between two measurements. A call in between only takes a microsecond.

    Raises
    ------
    InvalidRequest
        The writer has no `add_scalar`.

    Examples
    --------
    >>> class Writer:
    ...     def add_scalar(self, tag, value, step):
    ...         print(tag, step) if "power" in tag else None
    >>> board = tensorboard(Writer())
    >>> for step in range(3):
    ...     written = board(step)
    berth/gpu0/power_milliwatts 0
    """
    def write(readings: Dict[str, float], step: int) -> None:
        for name, value in readings.items():
            writer.add_scalar(name, value, step)
    return readings_log(writer, "writer", "add_scalar", "torch.utils.tensorboard.SummaryWriter()", write, every)
