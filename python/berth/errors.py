"""What can go wrong, as exceptions: one tree under BerthError, made in one place."""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional

from .language import text, width

__all__ = [
    "BerthError", "InvalidRequest", "NoDevice", "NotFound", "Refused", "BrokerUnavailable", "NotPermitted", "Unsupported", "TooLate",
]


class BerthError(Exception):
    """Anything that Berth says no to.

    Attributes
    ----------
    id : str
        What to search for in either language ("E0412"); docs/errors.md lists all of them.
    hint : str
        The command, or commands, one a line, that mend it; "" where there is none.
    """

    usual_id = ""  # where none is given
    may_try_again = True  # False: not even where it is a lack of memory

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
        more = "\n" + " " * width(text("hint: {}", ""))  # lines stand under the first one
        return f"{said}\n" + text("hint: {}", self.hint.replace("\n", more))


class InvalidRequest(BerthError, ValueError):
    """What was asked for makes no sense: a size without its unit, two wishes that contradict each other."""

    usual_id = "E0551"


class NotFound(BerthError, LookupError):
    """There is no such device, job or file."""


class NoDevice(BerthError):
    """This machine has no such device, or fewer than were asked for."""


class Refused(BerthError):
    """There is such a device, and it is not to be had: others have it, or a limit says no."""


class BrokerUnavailable(BerthError):
    """No broker answers and none could be started, or the program `berth` is not there."""


class NotPermitted(BerthError, PermissionError):
    """It is another user's, or only root may do it."""

    def __str__(self) -> str:
        return BerthError.__str__(self)


class Unsupported(BerthError):
    """This machine, driver or library cannot do it."""


class TooLate(BerthError, RuntimeError):
    """It must be done before a framework has initialised the devices, and one has."""

    usual_id = "E0572"


_OPTION = re.compile(r"--(cpus?|gpus|memory|share|devices)(?: ([^\s-]\S*))?\s+")
_RUN = re.compile(rf"berth run ((?:{_OPTION.pattern})+)…")


_LEASE = re.compile(r"berth lease --gpus (\d+)")


def in_python(problem: BerthError, call: str, in_own_lease: bool = False) -> BerthError:
    """The same, with the options of `berth run` in its hint as arguments of this call of ours, and those of `berth lease` where the lease
    that this is in is this process's own."""
    def said(line: "re.Match[str]") -> str:
        wishes = ["gpus=0" if name == "cpu" else f"{name}={value if value.isdecimal() else repr(value)}" for name, value in _OPTION.findall(line[1])]
        return call.format(", ".join(wishes))
    problem.hint = _RUN.sub(said, problem.hint)
    if in_own_lease:
        problem.hint = _LEASE.sub(r"berth.lease(gpus=\1)", problem.hint)
    return problem


_BY_CODE = {
    "invalid_argument": InvalidRequest, "not_found": NotFound, "no_device": NoDevice, "unsupported": Unsupported,
    "unavailable": BrokerUnavailable, "permission_denied": NotPermitted, "refused": Refused,
}


def error_from(document: Mapping[str, Any]) -> BerthError:
    """The exception for `{"error":{"id","code","message","hint"}}`."""
    said: Mapping[str, Any] = document.get("error") or {}
    kind = _BY_CODE.get(str(said.get("code")), BerthError)
    hint: Optional[str] = said.get("hint")
    return kind(str(said.get("message") or text("Berth failed and did not say why")), str(said.get("id") or ""), hint or "")
