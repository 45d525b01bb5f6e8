"""`berth run` from Python: a command on the right device, and how it used it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
import shutil
import subprocess
import tempfile
import textwrap
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _library
from .errors import BerthError, BrokerUnavailable, InvalidRequest, NoDevice, NotFound, Refused
from .sizes import bytes_of, permille_of

__all__ = ["Finished", "run", "run_async"]

Word = Union[str, "os.PathLike[str]"]
_NOT_EXECUTED, _REFUSED, _USAGE = 126, 6, 2
_SAID = re.compile(r"^error: (.*?) \((E\d{4})\)\s*(?:^hint: (.*))?\Z", re.M | re.S)


@dataclasses.dataclass(frozen=True)
class Finished:
    """A command that ended.

    Attributes
    ----------
    exit_code : int
        Its own; 128 + N where signal N ended it.
    outcome : str
        The class of its end: "ok", "failed", "signal", "out_of_memory", …, as in `berth run --json`.
    stdout, stderr : str
        With `capture`; else "".
    report : dict
        All of `berth run --json`.
    """

    exit_code: int
    outcome: str
    stdout: str = dataclasses.field(repr=False, default="")
    stderr: str = dataclasses.field(repr=False, default="")
    report: Mapping[str, Any] = dataclasses.field(repr=False, compare=False, default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    def check(self) -> "Finished":
        """Itself, where the command went well.

        Raises
        ------
        BerthError
            It did not.
        """
        if not self.ok:
            tail = "\n".join(self.stderr.splitlines()[-5:])
            raise BerthError(f"the command ended with {self.exit_code} ({self.outcome})" + (f"\n{tail}" if tail else ""), "E0571")
        return self


def _program() -> str:
    found = os.environ.get("BERTH_PROGRAM") or _library._program() or shutil.which("berth")
    if not found:
        raise BrokerUnavailable("the program berth is not there", "E0550", "pip install --force-reinstall berth")
    return found


def _line(command: Sequence[Word], report: str, wishes: Mapping[str, Any]) -> List[str]:
    if isinstance(command, (str, bytes)) or not command:
        raise InvalidRequest("the command is a list of words", "E0516", "berth.run(['python', 'train.py'])")
    words = [_program(), "run", "--report", report]
    for name in ("gpus", "cpus"):
        value = wishes[name]
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidRequest(f"{name}: {value!r} is not a whole number", "E0104")
            words += [f"--{name}", str(value)]
    if wishes["memory"] is not None:
        words += ["--memory", f"{bytes_of(wishes['memory'])}B"]
    if wishes["share"] is not None:
        words += ["--share", f"{permille_of(wishes['share']) / 1000}"]
    if wishes["devices"] is not None:
        words += ["--devices", ",".join(map(str, wishes["devices"]))]
    if wishes["name"]:
        words += ["--name", wishes["name"]]
    if not wishes["wait"]:
        words.append("--no-wait")
    return [*words, "--", *(os.fspath(one) for one in command)]


def _finished(report: str, code: int, out: str, err: str, command: Sequence[Word]) -> Finished:
    """What the report says; where there is none, Berth said no, in its own words on standard error."""
    try:
        with open(report, encoding="utf-8") as file:
            said: Dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        raise _refusal(code, err) from None
    outcome = str((said.get("outcome") or {}).get("class"))
    if outcome == "not_found":
        raise NotFound(f"{command[0]!s}: there is no such command", "E0510")
    if code == _NOT_EXECUTED and outcome != "failed":
        raise BerthError(f"{command[0]!s} cannot be executed", "E0511")
    return Finished(code, outcome, out, err, said)


def _refusal(code: int, err: str) -> BerthError:
    """In Berth's own words, where they were kept."""
    said = _SAID.search(err)
    kind = {_REFUSED: Refused, _USAGE: InvalidRequest}.get(code, BerthError)
    if said is None:
        return kind(f"berth run failed with {code}, and started nothing: standard error says why", "E0412" if code == _REFUSED else "E0512")
    return (NoDevice if said[2] == "E0411" else kind)(said[1], said[2], textwrap.dedent("      " + (said[3] or "")).strip())


def _files() -> Tuple["tempfile.TemporaryDirectory[str]", str]:
    folder = tempfile.TemporaryDirectory(prefix="berth-run-")
    return folder, os.path.join(folder.name, "report.json")


def run(command: Sequence[Word], *, gpus: Optional[int] = None, memory: Union[int, str, None] = None, share: Union[float, str, None] = None,
        cpus: Optional[int] = None, devices: Optional[Sequence[Union[int, str]]] = None, name: str = "", wait: bool = True, capture: bool = False,
        input: Optional[str] = None, env: Optional[Mapping[str, str]] = None, cwd: Optional[Word] = None) -> Finished:
    """Runs a command on a free device, as `berth run` does, and waits for its end. Nothing that it started is left behind.

    Parameters
    ----------
    command : list of str or path
    gpus, memory, share, cpus, devices, name
        As in `berth.lease`.
    wait : bool
        For a device, while none is free enough.
    capture : bool
        Keep its output; else it goes where this program's goes.
    input : str, optional
        For its standard input.

    Returns
    -------
    Finished
        Also where the command failed: `.check()` raises then.

    Raises
    ------
    Refused, NotFound, BerthError
        It was not started.

    Examples
    --------
    >>> import berth
    >>> berth.run(["sh", "-c", "echo on GPU $CUDA_VISIBLE_DEVICES"], gpus=1, capture=True).stdout
    'on GPU 0\\n'
    """
    wishes = {"gpus": gpus, "memory": memory, "share": share, "cpus": cpus, "devices": devices, "name": name, "wait": wait}
    folder, report = _files()
    with folder:
        pipe = subprocess.PIPE if capture else None
        # Ctrl-C: the front is killed, and its keeper ends all that the command started.
        done = subprocess.run(_line(command, report, wishes), stdout=pipe, stderr=pipe, input=input, text=True, env=env, cwd=cwd)
        code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        return _finished(report, code, done.stdout or "", done.stderr or "", command)


async def run_async(command: Sequence[Word], *, gpus: Optional[int] = None, memory: Union[int, str, None] = None,
                    share: Union[float, str, None] = None, cpus: Optional[int] = None, devices: Optional[Sequence[Union[int, str]]] = None,
                    name: str = "", wait: bool = True, capture: bool = False, input: Optional[str] = None,
                    env: Optional[Mapping[str, str]] = None, cwd: Optional[Word] = None) -> Finished:
    """`run`, for programs with an event loop: others go on meanwhile. Where the task is cancelled, the command is ended."""
    wishes = {"gpus": gpus, "memory": memory, "share": share, "cpus": cpus, "devices": devices, "name": name, "wait": wait}
    folder, report = _files()
    with folder:
        pipe = asyncio.subprocess.PIPE if capture else None
        started = await asyncio.create_subprocess_exec(*_line(command, report, wishes), stdout=pipe, stderr=pipe, env=env, cwd=cwd,
                                                       stdin=asyncio.subprocess.PIPE if input is not None else None)
        try:
            out, err = await started.communicate(None if input is None else input.encode())
        except BaseException:
            if started.returncode is None:
                started.kill()
                await started.wait()
            raise
        code = started.returncode or 0
        return _finished(report, code if code >= 0 else 128 - code, (out or b"").decode(errors="replace"), (err or b"").decode(errors="replace"), command)
