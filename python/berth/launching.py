"""`launch` calls a function of this program in several ranks, as `berth run --ranks` starts a program. `stacks` shows what processes are executing."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
from multiprocessing import spawn
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from .errors import BerthError, InvalidRequest, Unsupported, error_from
from .language import text
from .leases import Size
from .running import _files, _finished, _line, program

__all__ = ["launch", "stacks"]

_BOOT = ("import pickle, sys; data = pickle.load(open(sys.argv[1] + '/call', 'rb')); sys.path[:] = data['path']; "
         "from berth import launching; launching._run_rank(sys.argv[1], data)")
_loads_main = False  # True in a rank while it imports the caller's program


def _has_main_file() -> bool:
    main = sys.modules["__main__"]
    return getattr(main, "__spec__", None) is not None or os.path.isfile(getattr(main, "__file__", None) or "")


def _call_of(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Pickles the call for another process. A function of a notebook needs cloudpickle, because there is no file from which a rank could import it."""
    call = (function, tuple(args), dict(kwargs))
    try:
        if getattr(function, "__module__", None) == "__main__" and not _has_main_file():
            import cloudpickle  # type: ignore[import-untyped, import-not-found, unused-ignore]
            return bytes(cloudpickle.dumps(call))
        return pickle.dumps(call)
    except ImportError:
        raise Unsupported(text("berth.{} needs {}: {}", "launch", "cloudpickle", text("in a notebook")), "E0568",
                          "pip install cloudpickle") from None
    except (pickle.PicklingError, AttributeError, TypeError) as problem:
        raise InvalidRequest(text("{} cannot be sent to another process: {!s}", getattr(function, "__name__", "function"), problem), "E0551",
                             text("pass a function of a module, not one inside another function")) from problem


def _hide_own_frames() -> None:
    """Removes Berth's frames from the start of tracebacks, so that they begin with the caller's code. If the error itself is in Berth, keeps the frames."""
    show = sys.excepthook

    def show_from_function(kind: Any, problem: BaseException, trace: Any) -> None:
        first = trace
        while first is not None and first.tb_frame.f_code.co_filename in ("<string>", __file__):
            first = first.tb_next
        show(kind, problem.with_traceback(first or trace), first or trace)

    sys.excepthook = show_from_function


def _run_rank(folder: str, data: Mapping[str, Any]) -> None:
    """Runs in the rank: calls the function, and writes its result to a file."""
    global _loads_main
    _loads_main = True
    spawn.prepare(dict(data["preparation"]))
    _loads_main = False
    function, args, kwargs = pickle.loads(data["call"])
    _hide_own_frames()
    result = function(*args, **kwargs)
    path = os.path.join(folder, "result-" + os.environ["RANK"])
    with open(path + ".new", "wb") as file:
        pickle.dump(result, file)
    os.replace(path + ".new", path)


def _failure(report: Mapping[str, Any], outcome: str) -> BerthError:
    """The exception for the rank that failed first. Its message contains that rank's traceback."""
    for rank in report.get("ranks") or ():
        if rank["part"] == "failed first":
            words = (rank["traceback"] or "\n".join(rank["last_lines"])).rstrip()
            return BerthError(text("rank {} of {} failed", rank["rank"], len(report["ranks"])) + (f"\n{words}" if words else ""), "E0951")
    return BerthError(text("the ranks ended with: {}", outcome), "E0951")


def launch(function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Mapping[str, Any]] = None, *, ranks: Union[int, str] = "gpu",
           gpus_per_rank: Optional[int] = None, gpus: Optional[int] = None, memory: Optional[Size] = None, share: Union[float, str, None] = None,
           cpus: Optional[int] = None, devices: Union[Sequence[Union[int, str]], int, None] = None, name: str = "", retries: int = 0,
           wait: bool = True) -> List[Any]:
    """Calls a function in several ranks, and returns their results in the order of the ranks. Each rank is a process with the variables of
    `berth run --ranks`, such as RANK, WORLD_SIZE and MASTER_ADDR. If a rank fails, raises BerthError (E0951) with the rank's traceback.

    Parameters
    ----------
    function : callable
        A function of a module or of this program. If it is defined in a notebook, cloudpickle is needed. A program that calls `launch` needs
        `if __name__ == "__main__":`, because each rank imports the program.
    args, kwargs
        The function's arguments, which are the same in all ranks. Arguments and results are pickled.
    ranks : int or str
        The number of ranks. "gpu": one for each GPU. "2:4": one for each free GPU, but at least 2 and at most 4.
    gpus_per_rank, retries
        As `--gpus-per-rank` and `--retries` of `berth run`.
    gpus, memory, share, cpus, devices, name, wait
        As in `berth.run`.

    Examples
    --------
    >>> import operator
    >>> launch(operator.add, (2, 3), ranks=2, gpus=0)
    [5, 5]
    """
    if _loads_main:
        raise InvalidRequest(text("berth.launch was called while a rank imported the program"), "E0952", 'if __name__ == "__main__":')
    preparation: Dict[str, Any] = {key: value for key, value in spawn.get_preparation_data("rank").items() if key != "authkey"}
    wishes = {"gpus": gpus, "memory": memory, "share": share, "cpus": cpus, "devices": devices, "name": name, "wait": wait}
    folder, report = _files()
    with folder:
        data = {"path": sys.path, "preparation": preparation, "call": _call_of(function, args, kwargs or {})}
        with open(os.path.join(folder.name, "call"), "wb") as file:
            pickle.dump(data, file)
        command = [sys.executable, "-c", _BOOT, folder.name]
        words = _line(command, report, wishes)
        more = ["--ranks", str(ranks), "--nodes", "1"]
        if gpus_per_rank is not None:
            more += ["--gpus-per-rank", str(gpus_per_rank)]
        if retries:
            more += ["--retries", str(retries)]
        done = subprocess.run(words[:2] + more + words[2:], stdin=subprocess.DEVNULL)
        code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        finished = _finished(report, code, None, None, command)
        if not finished.ok:
            raise _failure(finished.report, finished.outcome)
        return [_result(folder.name, rank) for rank in range(len(finished.report["ranks"]))]


def _result(folder: str, rank: int) -> Any:
    with contextlib.suppress(FileNotFoundError):
        with open(os.path.join(folder, f"result-{rank}"), "rb") as file:
            return pickle.load(file)
    raise BerthError(text("rank {} ended without a result", rank), "E0951")


def stacks(of: Optional[int] = None) -> List[Dict[str, Any]]:
    """Returns the stacks of the processes of a running job, like `berth stacks`. Does not stop the processes.

    Parameters
    ----------
    of : int, optional
        The number of a job or process. By default, it is this process and its descendants.

    Returns
    -------
    list of dict
        One for each process: `pid`, `rank`, `command`, `threads` and, if it registered for that, the `python` stacks.

    Examples
    --------
    >>> any(one["pid"] == os.getpid() for one in stacks())
    True
    """
    done = subprocess.run([program(), "stacks", "--json", *(["--pid", str(os.getpid())] if of is None else [str(of)])], capture_output=True, stdin=subprocess.DEVNULL)
    try:
        said = json.loads(done.stdout or done.stderr)
    except ValueError:
        raise BerthError(text("{} failed with {}", "berth stacks", done.returncode), "E0532") from None
    if "error" in said:
        raise error_from(said)
    return list(said["processes"])
