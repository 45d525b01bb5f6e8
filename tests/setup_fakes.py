"""Stand-ins for tests of `berth setup`: wheels with a few lines, package indices that answer or refuse, and programs named uv and conda
that create environments with this Python's venv and pip."""
import http.server
import os
import pathlib
import sys
import threading
import zipfile

TORCH = """class _Sum(float):
    pass
class _Ones:
    def __init__(self, n, x=1.0): self.n, self.x = n, x
    def __mul__(self, k): return _Ones(self.n, self.x * k)
    def sum(self): return _Sum(self.n * self.x)
ones = _Ones
from torch.version import __version__
"""
VERSION = "__version__ = '{0}+cpu'\ncuda = None\nhip = None\nxpu = None\ndebug = False\n"
TENSORFLOW = """import sys
print("E0000 failed call to cuInit: INTERNAL: CUDA error", file=sys.stderr)
__version__ = "{0}"
class ones:
    def __init__(self, n): self.sum = float(n)
    def __mul__(self, k): self.sum *= k; return self
def reduce_sum(x): return x.sum
"""
JAX = "from jax import numpy\n__version__ = '{0}'\n"
JAX_NUMPY = "import torch\nones = torch.ones\n"


def wheel(index: pathlib.Path, name: str, version: str, files: dict, needs=(), padding: int = 0):
    """Creates a wheel in a folder that pip can use as an index."""
    info = f"{name}-{version}.dist-info"
    folder = index / name
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        for path, text in files.items():
            file.writestr(path, text)
        if padding:
            file.writestr(f"{name}/padding.bin", os.urandom(padding))
        required = "".join(f"Requires-Dist: {need}\n" for need in needs)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{name}-hello = {name}:ones\n")
        file.writestr(f"{info}/RECORD", "")
    names = sorted(path.name for path in folder.glob("*.whl"))
    (folder / "index.html").write_text("<!DOCTYPE html>" + "".join(f'<a href="{one}">{one}</a>' for one in names))


def torch_wheel(index: pathlib.Path, version: str, init: str = TORCH, **more):
    wheel(index, "torch", version, {"torch/__init__.py": init, "torch/version.py": VERSION.format(version)}, **more)


def jax_wheel(index: pathlib.Path, version: str, **more):
    """This jax imports the torch above, so both must be installed."""
    wheel(index, "jax", version, {"jax/__init__.py": JAX.format(version), "jax/numpy.py": JAX_NUMPY}, **more)


def tensorflow_wheel(index: pathlib.Path, version: str):
    """Like the real one, it reports a missing CUDA driver as an error."""
    wheel(index, "tensorflow", version, {"tensorflow/__init__.py": TENSORFLOW.format(version)})


class Refusing:
    """An HTTP server on localhost, as an index or a proxy, that answers every request with one code."""

    def __init__(self, code: int):
        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                asked.append(self.path)
                self.send_response(code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_HEAD = do_CONNECT = answer

            def log_message(self, *_):
                pass

        self.asked = asked = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


UV = """#!/bin/sh
echo "uv $*" >>"$FAKE_LOG"
case "$1 $2" in
  "venv --python") exec {python} -m venv "$6" ;;
  "pip install") python=$4; shift 4; exec "$python" -m pip install "$@" ;;
  "pip uninstall") python=$4; shift 4; exec "$python" -m pip uninstall --yes "$@" ;;
esac
echo "uv: $*" >&2; exit 2
"""
CONDA = """#!/bin/sh
echo "conda $*" >>"$FAKE_LOG"
case "$1 $2" in
  "info --json") echo '{{"envs_dirs": ["{envs}"]}}'; exit 0 ;;
  "create --yes") {python} -m venv "$4" && rm "$4/pyvenv.cfg.none" 2>/dev/null; mkdir "$4/conda-meta"; exit 0 ;;
esac
echo "conda: $*" >&2; exit 2
"""


def programs(folder: pathlib.Path, envs: pathlib.Path):
    """uv and conda in `folder`; conda's environments are in `envs`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("uv", UV), ("conda", CONDA)):
        path = folder / name
        path.write_text(text.format(python=sys.executable, envs=envs))
        path.chmod(0o755)
