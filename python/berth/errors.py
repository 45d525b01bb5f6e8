"""Berth's exceptions, which all inherit from BerthError."""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional

from .language import text, width

__all__ = [
    "BerthError", "InvalidRequest", "NoDevice", "NotFound", "Refused", "BrokerUnavailable", "NotPermitted", "Unsupported", "TooLate",
]


class BerthError(Exception):
    """The base class of Berth's exceptions.

    Attributes
    ----------
    id : str
        The identifier, such as "E0412". docs/errors.md lists all of them.
    hint : str
        Commands that fix the error, one per line; "" if none is known.
    """

    usual_id = ""  # the id if the caller passes none
    may_try_again = True  # False: do not retry, even if memory ran out

    def __init__(self, message: str, id: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.id = id or self.usual_id
        self.hint = hint

    def __str__(self) -> str:
        said = str(self.args[0])
        if self.id:
            first, _, rest = said.partition("\n")
            said = f"{first} ({self.id})" + (f"\n{rest}" if rest else "")
        if not self.hint:
            return said
        more = "\n" + " " * width(text("hint: {}", ""))  # indent the hint's further lines to align them with its first line
        return f"{said}\n" + text("hint: {}", self.hint.replace("\n", more))


class InvalidRequest(BerthError, ValueError):
    """The request makes no sense: a size without a unit, or two options that contradict each other."""

    usual_id = "E0551"


class NotFound(BerthError, LookupError):
    """A device, job or file with this name does not exist."""


class NoDevice(BerthError):
    """This machine has no device of the requested kind, or too few."""


class Refused(BerthError):
    """The device exists, but others are using it, or a limit forbids its use."""


class BrokerUnavailable(BerthError):
    """No broker answers and none could be started, or a compiled part of Berth is missing."""


class NotPermitted(BerthError, PermissionError):
    """The object belongs to another user, or only root may do this."""

    def __str__(self) -> str:
        return BerthError.__str__(self)


class Unsupported(BerthError):
    """This machine, driver or library does not support the request."""


class TooLate(BerthError, RuntimeError):
    """A framework has already initialised the devices, so the call would have no effect."""

    usual_id = "E0572"


_OPTION = re.compile(r"--(cpus?|gpus|memory|share|devices)(?: ([^\s-]\S*))?\s+")
_RUN = re.compile(rf"berth run ((?:{_OPTION.pattern})+)…")
_ONLY_A_COMMAND = "berth run --or-cpu-after"  # a hint without a counterpart in Python, so it is removed
_LEASE = re.compile(r"berth lease --gpus (\d+)")


def in_python(problem: BerthError, call: str, in_own_lease: bool = False) -> BerthError:
    """Rewrites the error's hint for Python.

    Options of `berth run` become arguments of `call`. Hints that only the command line has are left out. If `in_own_lease`, the process has its own lease,
    so `berth lease` becomes `berth.lease`.
    """
    def said(line: "re.Match[str]") -> str:
        wishes = ["gpus=0" if name == "cpu" else f"{name}={value if value.isdecimal() else repr(value)}" for name, value in _OPTION.findall(line[1])]
        return call.format(", ".join(wishes))
    problem.hint = "\n".join(line for line in _RUN.sub(said, problem.hint).split("\n") if not line.lstrip().startswith(_ONLY_A_COMMAND))
    if in_own_lease:
        problem.hint = _LEASE.sub(r"berth.lease(gpus=\1)", problem.hint)
    return problem


_BY_CODE = {
    "invalid_argument": InvalidRequest, "not_found": NotFound, "no_device": NoDevice, "unsupported": Unsupported,
    "unavailable": BrokerUnavailable, "permission_denied": NotPermitted, "refused": Refused,
}


def error_from(document: Mapping[str, Any]) -> BerthError:
    """The exception for a document `{"error":{"id","code","message","hint"}}`."""
    said: Mapping[str, Any] = document.get("error") or {}
    kind = _BY_CODE.get(str(said.get("code")), BerthError)
    hint: Optional[str] = said.get("hint")
    return kind(str(said.get("message") or text("Berth failed without an error message")), str(said.get("id") or ""), hint or "")
