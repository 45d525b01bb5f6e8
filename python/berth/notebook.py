"""`%load_ext berth`: devices below each cell, cells as jobs, and a warning if a shell's `export` would have no effect."""

from __future__ import annotations

import html
import re
import shlex
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional, Tuple

from .errors import BerthError, InvalidRequest
from .frameworks import has_chosen, initialised, needed
from .language import text
from .machine import devices
from .readings import Recent
from .running import program

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

# Matches `!export X=1` and a line with only `!X=1`. Both set the variable in a shell that ends with the line, so they have no effect.
_EXPORT = re.compile(r"^\s*!\s*(?:(?:export|set|setenv)\s+([A-Za-z_]\w*)[= ]\s*(\S*)|([A-Za-z_]\w*)=(\S*)\s*$)", re.M)
_SELECTS = re.compile(r"^\s*(?:%env\s+|os\.environ\[['\"]|%set_env\s+)(CUDA_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|JAX_PLATFORMS"
                      r"|PYTORCH_ALLOC_CONF|PYTORCH_CUDA_ALLOC_CONF|XLA_\w+|TF_FORCE_GPU_ALLOW_GROWTH)\b", re.M)
_STATUS = "berth-status"


def _usage() -> str:
    return text("%berth ls, %berth ps, %berth status on|off, or a cell: %%berth run --gpus 1")


def advice(cell: str) -> List[str]:
    """Warnings about lines of a cell that have no effect.

    Examples
    --------
    >>> advice("!export CUDA_VISIBLE_DEVICES=1")
    ['!export sets CUDA_VISIBLE_DEVICES in a shell that ends with the line: %env CUDA_VISIBLE_DEVICES=1 sets it here']
    """
    said = []
    for found in _EXPORT.finditer(cell):
        name, value = found[1] or found[3], (found[2] or found[4] or "…").strip("'\"")
        said.append(text("!{} sets {} in a shell that ends with the line: %env {}={} sets it here", 'export' if found[1] else name + '=', name, name,
                         value))
    set_here = _SELECTS.search(cell)
    # The driver reads variables whose names contain VISIBLE. Frameworks read the others.
    already = (has_chosen() if "VISIBLE" in set_here[1] else initialised()) if set_here else None
    if already:
        said.append(text("{} has initialised its devices already, and does not read such variables again: restart the kernel, and set it first", already))
    return said


class Extension:
    """The extension that `%load_ext berth` adds to a shell. `unload` removes it."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.recent = Recent(2.0)
        # Show the status line only in a notebook. A terminal cannot update output that it has already shown.
        self.status = type(shell).__name__ == "ZMQInteractiveShell"
        self.shown: Any = None

    def load(self) -> None:
        self.shell.register_magic_function(self.magic, magic_kind="line_cell", magic_name="berth")
        self.shell.events.register("pre_run_cell", self.before)
        self.shell.events.register("post_run_cell", self.after)
        self.after()

    def unload(self) -> None:
        self.shell.events.unregister("pre_run_cell", self.before)
        self.shell.events.unregister("post_run_cell", self.after)
        for kind in ("line", "cell"):
            self.shell.magics_manager.magics[kind].pop("berth", None)

    def before(self, info: Any = None) -> None:
        """Before a cell runs: warns about lines in it that have no effect."""
        for line in advice(getattr(info, "raw_cell", None) or ""):
            print(f"berth: {line}", file=sys.stderr)

    def after(self, result: Any = None) -> None:
        """Called after a cell has run. Updates the status line, which stays in the same place."""
        if not self.status:
            return
        display = needed("IPython.display", "notebook", "ipython")
        said = display.HTML(f"<small>{html.escape(self.line())}</small>")
        if self.shown is None:
            self.shown = display.display(said, display_id=_STATUS)
        else:
            self.shown.update(said)

    def line(self) -> str:
        """One line with the state of each GPU."""
        gpus: Dict[Tuple[int, Optional[str]], Dict[str, float]] = {}
        for one in self.recent.read():
            gpus.setdefault((one.device.index, one.device.name), {})[one.name] = one.value
        words = []
        for (index, name), seen in gpus.items():
            used, total, load = (seen.get(key) for key in ("memory_used_bytes", "memory_total_bytes", "utilization_percent"))
            size = text("{:.1f} of {:.0f} GiB", used / 2**30, total / 2**30) if used is not None and total else text("memory -")
            words.append(f"GPU {index} {name}: {size}" + (f", {load:.0f} %" if load is not None else ""))
        return "; ".join(words) or text("no GPU")

    def magic(self, line: str, cell: Optional[str] = None) -> Any:
        """Implements %berth ls | ps | VERB…, as in a terminal; %berth status on|off; and %%berth run OPTIONS, which runs the cell as a separate job."""
        try:
            return self._magic(line, cell)
        except BerthError as problem:  # a traceback would not help the user
            said = [f"{type(problem).__name__}: {problem}"]
            setattr(problem, "_render_traceback_", lambda *how: said)
            raise

    def _magic(self, line: str, cell: Optional[str]) -> Any:
        try:
            words = shlex.split(line)
        except ValueError as why:
            raise InvalidRequest(text("%berth {}: {}", line, why), "E0551", _usage()) from None
        if cell is not None:
            return self._run_cell(words, cell)
        if words == ["status"]:
            return print(self.line())
        if words[:1] == ["status"] and words[1:] in (["on"], ["off"]):
            self.status = words[1] == "on"
            return self.after()
        if not words:
            return devices()
        if words[0] == "run" and "--" not in words:
            raise InvalidRequest(text("%berth run is for a command: %berth run --gpus 1 -- python train.py; a cell begins with %%berth run"), "E0516",
                                 _usage())
        return self._stream([program(), *words])

    def _run_cell(self, words: List[str], cell: str) -> Any:
        if words[:1] != ["run"]:
            raise InvalidRequest(text("%%berth {}: only `run` works for a cell", ' '.join(words[:1])), "E0002", _usage())
        with tempfile.NamedTemporaryFile("w", suffix=".py", prefix="cell-", encoding="utf-8") as file:
            file.write(cell)
            file.flush()
            return self._stream([program(), *words, "--", sys.executable, file.name])

    def _stream(self, command: List[str]) -> None:
        """Runs a command. Shows its output in the notebook as it arrives."""
        started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        assert started.stdout is not None
        try:
            for line in started.stdout:
                print(line, end="", flush=True)
        except KeyboardInterrupt:  # the stop button ends the job and everything that it started
            started.kill()
            raise
        finally:
            started.stdout.close()
            code = started.wait()
        # exit code 1 of `berth doctor` means that it has findings, which are already shown
        if code and not (code == 1 and command[1] == "doctor"):
            raise BerthError(text("{} ended with {}", f"berth {command[1]}", code), "E0571")


_loaded: List[Extension] = []


def load_ipython_extension(shell: Any) -> None:
    """IPython calls this for `%load_ext berth`."""
    if not _loaded:
        _loaded.append(Extension(shell))
        _loaded[0].load()


def unload_ipython_extension(shell: Any) -> None:
    """IPython calls this for `%unload_ext berth`."""
    if _loaded:
        _loaded.pop().unload()
