"""`berth doctor` as a function: what prevents the use of a GPU, the evidence, and the fix."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import Any, List, Mapping, Optional, Tuple, Union

from . import _library
from .errors import InvalidRequest, NotFound
from .language import text

__all__ = ["Diagnosis", "Finding", "doctor"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One cause. `fix` has commands to paste; `data` is the whole finding in `berth doctor --json`."""

    id: str
    severity: str
    title: str
    evidence: Tuple[str, ...]
    fix: Tuple[str, ...]
    data: Mapping[str, Any] = dataclasses.field(repr=False, compare=False, default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """The verdict and its causes, the root cause first."""

    verdict: str
    findings: Tuple[Finding, ...]
    data: Mapping[str, Any] = dataclasses.field(repr=False, compare=False, default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if no finding prevents the use of a GPU. `data` lists what could not be checked."""
        return not any(one.severity in ("fatal", "error") for one in self.findings)

    def __repr__(self) -> str:
        lines = [f"{one.id} {one.title}" + "".join(f"\n    {word}" for word in one.fix) for one in self.findings]
        return "\n".join([self.verdict, *lines])


def _words(value: Any) -> Tuple[str, ...]:
    return tuple(one if isinstance(one, str) else str(one.get("command", one)) for one in value or ())


def doctor(*files: Union[str, "os.PathLike[str]"], python: Optional[str] = None, static: bool = False) -> Diagnosis:
    """Examines the environment of an interpreter, or files. Runs neither of them.

    Parameters
    ----------
    files : path
        Scripts, notebooks, Dockerfiles or requirements files, which are read line by line.
    python : path, optional
        The interpreter to examine. By default, it is the one that runs this code.
    static : bool
        If True, only reads files, and calls no driver library.

    Raises
    ------
    NotFound
        A file does not exist.
    """
    try:
        words: List[str] = ["doctor", *map(os.fsdecode, files), "--python", os.fsdecode(python or sys.executable)]
    except TypeError:
        raise InvalidRequest(text("{}: {!r} is not text", "doctor", (*files, python)), "E0104") from None
    for one in files:
        if os.fsdecode(one) != "-" and not os.path.lexists(one):
            raise NotFound(text("{!s}: there is no such file", os.fsdecode(one)), "E0110")
    said = _library.document(*words, *(["--static"] if static else []))
    findings = tuple(Finding(one["id"], one["severity"], one["title"], _words(one["evidence"]), _words(one["fix"]), one)
                     for one in said["findings"])
    verdict = said["verdict"]
    return Diagnosis(verdict if isinstance(verdict, str) else str(verdict.get("sentence", verdict)), findings, said)
