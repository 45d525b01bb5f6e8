"""A training loop's own numbers beside the device's: for Prometheus, and for TensorBoard."""

from __future__ import annotations

import re
import threading
from typing import Any, Dict, Iterator, Optional

from .errors import BerthError, InvalidRequest
from .frameworks import needed
from .language import text
from .readings import NAMES, Recent, resident_bytes
from .sizes import number, whole

__all__ = ["Metrics", "Tensorboard", "export_metrics", "tensorboard"]

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class Metrics:
    """What `export_metrics` gives: set gauges with `metrics["loss"] = 0.3`; `close()`, or a `with` block, ends it.

    Attributes
    ----------
    port : int
        Where Prometheus asks.
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
            raise BerthError(text("nobody can listen at {}:{}: {}", address, port, why), "E0916",
                             text("another port; `ss -ltnp` shows who has it")) from why
        self._server = served[0] if served else None  # an older client keeps it
        self.port: int = self._server.server_port if self._server is not None else port

    def collect(self) -> Iterator[Any]:
        """Of the devices, as Prometheus asks for them."""
        families = self._families()
        for one in self._recent.read():
            families[one.name].add_metric([str(one.device.index), one.device.name or "", one.device.uuid or ""], one.value)
        families[""].add_metric([], resident_bytes())
        yield from (family for family in families.values() if family.samples)

    def describe(self) -> Iterator[Any]:
        """The names that are taken. Nothing is read before somebody asks."""
        yield from self._families().values()

    @staticmethod
    def _families() -> Dict[str, Any]:
        kind = needed("prometheus_client.core", "export_metrics", "prometheus-client").GaugeMetricFamily
        families = {name: kind(f"berth_device_{name}", f"Of a GPU, as `berth ls` reads it: {name.replace('_', ' ')}", labels=["device", "name", "uuid"])
                    for name in NAMES}
        families[""] = kind("berth_process_resident_bytes", "Of this process, in the host's memory", labels=[])
        return families

    def __setitem__(self, name: str, value: float) -> None:
        self.set(name, value)

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """A gauge of one's own: `metrics.set("loss", 0.3, phase="train")`."""
        if not isinstance(name, str):
            raise InvalidRequest(text("{}: {!r} is no text", "name", name), "E0104")
        if not _NAME.fullmatch(name):
            raise InvalidRequest(text("a gauge cannot be called {!r}", name), hint=text("letters, digits and _: {}", re.sub(r"\W+", "_", name) or "loss"))
        gauge = self._gauges.get(name)
        if gauge is None:
            try:
                gauge = self._gauges[name] = self._client.Gauge(name, f"{name}, as the program sets it", sorted(labels), registry=self.registry)
            except ValueError as why:
                raise InvalidRequest(text("a gauge cannot be called {!r}: {}", name, why)) from why
        try:
            (gauge.labels(**labels) if labels else gauge).set(float(value))
        except (ValueError, TypeError) as why:
            raise InvalidRequest(text("{}: {!r} with the labels {} cannot be set: {}", name, value, labels, why), "E0104") from why

    def close(self) -> None:
        """Nobody can ask any more."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *what: Any) -> None:
        self.close()


def export_metrics(port: int, *, address: str = "127.0.0.1") -> Metrics:
    """Lets Prometheus ask for the devices' readings, and for the gauges of this program, by prometheus_client.

    Parameters
    ----------
    port : int
        0 for a free one.
    address : str
        This machine alone, unless another is given: whoever reaches it may read.

    Examples
    --------
    >>> metrics = export_metrics(9400)  # doctest: +SKIP
    >>> metrics["loss"] = 0.31          # doctest: +SKIP
    """
    port = whole("port", port, 0, 65535)
    if not isinstance(address, str):
        raise InvalidRequest(text("{}: {!r} is no text", "address", address), "E0104")
    return Metrics(needed("prometheus_client", "export_metrics", "prometheus-client"), port, address)


class Tensorboard:
    """What `tensorboard` gives: call it with the step, in the loop."""

    def __init__(self, writer: Any, every: float) -> None:
        self._writer, self._recent = writer, Recent(every)
        self._said: Optional[Any] = None
        self._lock = threading.Lock()

    def __call__(self, step: int) -> int:
        """Writes the devices' readings where there are new ones, and returns how many."""
        with self._lock:
            found = self._recent.read()
            if found is self._said:
                return 0
            self._said = found
            for one in found:
                self._writer.add_scalar(f"berth/gpu{one.device.index}/{one.name}", one.value, step)
            self._writer.add_scalar("berth/process_resident_bytes", resident_bytes(), step)
            return len(found) + 1


def tensorboard(writer: Any, *, every: float = 10.0) -> Tensorboard:
    """Device readings as scalars beside the loss.

    Parameters
    ----------
    writer : SummaryWriter
        Anything with `add_scalar(tag, value, step)`.
    every : float
        Seconds: between two readings, calls cost a microsecond.

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
    if not callable(getattr(writer, "add_scalar", None)):
        raise InvalidRequest(text("writer: a {} has no add_scalar", type(writer).__name__), hint="torch.utils.tensorboard.SummaryWriter()")
    return Tensorboard(writer, number("every", every))
