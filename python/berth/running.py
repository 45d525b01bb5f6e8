"""`berth run` from Python: runs a command on the right device, and reports how the command used the device."""

from __future__ import annotations

import collections.abc
import dataclasses
import json
import os
import shutil
import subprocess
import tempfile
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _library
from .errors import BerthError, BrokerUnavailable, InvalidRequest, NotFound, error_from, in_python
from .language import text
from .leases import Size, in_own_lease, request_of
from .sizes import word

__all__ = ["Finished", "run", "run_async"]

Word = Union[str, "os.PathLike[str]"]
_NOT_EXECUTED = 126


@dataclasses.dataclass(frozen=True)
class Finished:
    """A command that has ended.

    Attributes
    ----------
    exit_code : int
        The command's exit code; 128 + N if signal N ended it.
    outcome : str
        How the command ended: "ok", "failed", "signal", "out_of_memory" or another class of `berth run --json`.
    stdout, stderr : str
        The command's output if `capture` was True; "" if not.
    report : dict
        The whole report of `berth run --json`.
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
        """Returns itself if the command succeeded.

        Raises
        ------
        BerthError
            The command failed.
        """
        if not self.ok:
            tail = "\n".join(self.stderr.splitlines()[-5:])
            raise BerthError(text("the command ended with {} ({})", self.exit_code, self.outcome) + (f"\n{tail}" if tail else ""), "E0571")
        return self


def program() -> str:
    """The path of the program `berth`."""
    named = os.environ.get("BERTH_PROGRAM")
    found = named or _library._program() or shutil.which("berth")
    if not found:
        raise BrokerUnavailable(text("this installation has no program `berth`"), "E0550", _library.without_binaries())
    if named and not (os.path.isfile(named) and os.access(named, os.X_OK)):
        raise BrokerUnavailable(text("{}: it is not an executable program", named), "E0550", "unset BERTH_PROGRAM")
    return found


def _line(command: Sequence[Word], report: str, wishes: Mapping[str, Any]) -> List[str]:
    words = [program(), "run", "--report", report]
    request = request_of(*(wishes[name] for name in ("gpus", "memory", "share", "cpus", "devices")))
    for option, key, form in (("--gpus", "gpus", str), ("--cpus", "cpus", str), ("--memory", "memory_bytes", "{}B".format),
                              ("--share", "share_permille", lambda part: str(part / 1000)), ("--devices", "devices", ",".join)):
        if key in request:
            words += [option, form(request[key])]
    if wishes["name"]:
        words += ["--name", _word("name", wishes["name"])]
    if wishes["wait"] not in (True, False, None):
        raise InvalidRequest(text("wait: {!r} is not True or False", wishes['wait']), "E0104", "with berth.lease(wait=5) as lease: berth.run(…)")
    if wishes["wait"] is not None and not wishes["wait"]:
        words.append("--no-wait")
    return [*words, "--", *_words_of(command)]


def _words_of(command: Sequence[Word]) -> List[str]:
    hint = "berth.run(['python', 'train.py'])"
    if isinstance(command, (str, bytes)) or not isinstance(command, collections.abc.Iterable):
        raise InvalidRequest(text("the command must be a list of words"), "E0516", hint)
    words = [_word("the command", one) for one in command]
    if not words or not words[0]:
        raise InvalidRequest(text("the command must be a list of words"), "E0516", hint)
    return words


def _word(name: str, one: Any) -> str:
    """Converts an argument to the text that a program gets."""
    try:
        said = os.fsdecode(one)
    except TypeError:
        raise InvalidRequest(text("{}: {!r} is not text", name, one), "E0104", f"{str(one)!r}") from None
    return word(name, said)


def _surroundings(env: Optional[Mapping[str, str]], cwd: Optional[Word]) -> Dict[str, Any]:
    """Checks the command's environment and working directory, and returns them as arguments for subprocess."""
    for name, value in (env or {}).items():
        _word("env", name), _word(f"env[{name!r}]", value)
    if cwd is not None and not os.path.isdir(cwd):
        raise NotFound(text("{!s}: there is no such folder", os.fspath(cwd)), "E0110")
    return {"env": env, "cwd": cwd}


def _finished(report: str, code: int, out: Optional[bytes], err: Optional[bytes], command: Sequence[Word]) -> Finished:
    """Makes the result from the report of `berth run`. Raises the error if the command was not started."""
    try:
        with open(report, encoding="utf-8") as file:
            said: Dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        raise BerthError(text("berth run failed with {} and started nothing: see standard error", code), "E0512", _tail(err)) from None
    if "error" in said:
        raise in_python(error_from(said), "berth.run([…], {})", in_own_lease())
    outcome = str((said.get("outcome") or {}).get("class"))
    if outcome == "not_found":
        raise NotFound(text("{!s}: there is no such command", command[0]), "E0510")
    if code == _NOT_EXECUTED and outcome != "failed":
        raise BerthError(text("{!s} cannot be executed", command[0]), "E0511")
    return Finished(code, outcome, _text(out), _text(err), said)


def _text(said: Optional[bytes]) -> str:
    """The output as text. A program may write bytes that are not UTF-8."""
    return (said or b"").decode("utf-8", "replace")


def _tail(err: Optional[bytes]) -> str:
    return "\n".join(_text(err).splitlines()[-5:])


def _bytes(input: Union[str, bytes, None]) -> Optional[bytes]:
    if input is None or isinstance(input, bytes):
        return input
    if not isinstance(input, str):
        raise InvalidRequest(text("input: a {} is not text or bytes", type(input).__name__), "E0104")
    return input.encode("utf-8", "surrogateescape")


def _files() -> Tuple["tempfile.TemporaryDirectory[str]", str]:
    folder = tempfile.TemporaryDirectory(prefix="berth-run-")
    return folder, os.path.join(folder.name, "report.json")


def run(command: Sequence[Word], *, gpus: Optional[int] = None, memory: Optional[Size] = None, share: Union[float, str, None] = None,
        cpus: Optional[int] = None, devices: Union[Sequence[Union[int, str]], int, None] = None, name: str = "", wait: bool = True, capture: bool = False,
        input: Union[str, bytes, None] = None, env: Optional[Mapping[str, str]] = None, cwd: Optional[Word] = None) -> Finished:
    """Runs a command on a free device, as `berth run` does, and waits until it ends. No process of the command is left behind.

    Raises Refused, NoDevice, NotFound or BerthError if the command was not started. The result of a command that failed raises in `.check()`.

    Parameters
    ----------
    command : list of str or path
        The program and its arguments.
    gpus, memory, share, cpus, devices, name
        As in `berth.lease`.
    wait, capture : bool
        If `wait` is False, raises Refused instead of waiting for a device. If `capture` is True, keeps the output. Invalid UTF-8 becomes "�".
    input : str or bytes, optional
        The command's standard input.
    env : dict of str, optional
        The command's environment variables, to which Berth adds its own. By default, they are those of this program.
    cwd : path, optional
        The working directory of the command.

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
        # On Ctrl-C, subprocess kills `berth run`, and the job's keeper then ends all processes of the command.
        done = subprocess.run(_line(command, report, wishes), stdout=pipe, stderr=pipe, input=_bytes(input), **_surroundings(env, cwd))
        code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        return _finished(report, code, done.stdout, done.stderr, command)


async def run_async(command: Sequence[Word], *, gpus: Optional[int] = None, memory: Optional[Size] = None,
                    share: Union[float, str, None] = None, cpus: Optional[int] = None, devices: Union[Sequence[Union[int, str]], int, None] = None,
                    name: str = "", wait: bool = True, capture: bool = False, input: Union[str, bytes, None] = None,
                    env: Optional[Mapping[str, str]] = None, cwd: Optional[Word] = None) -> Finished:
    """`run` for programs with an event loop. If the task is cancelled, the command is ended."""
    import asyncio
    wishes = {"gpus": gpus, "memory": memory, "share": share, "cpus": cpus, "devices": devices, "name": name, "wait": wait}
    folder, report = _files()
    with folder:
        pipe = asyncio.subprocess.PIPE if capture else None
        started = await asyncio.create_subprocess_exec(*_line(command, report, wishes), stdout=pipe, stderr=pipe, **_surroundings(env, cwd),
                                                       stdin=asyncio.subprocess.PIPE if input is not None else None)
        try:
            out, err = await started.communicate(_bytes(input))
        except BaseException:
            if started.returncode is None:
                started.kill()
                await started.wait()
            raise
        code = started.returncode or 0
        return _finished(report, code if code >= 0 else 128 - code, out, err, command)
