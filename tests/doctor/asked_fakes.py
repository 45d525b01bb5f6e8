"""A module that plays a GPU framework, depending on FAKE_NAME: it works, fails, crashes, hangs or leaves children behind. Also
environments with such modules."""
import os
import sys

FAKE = '''
import os, signal, subprocess, sys, time
__version__ = "9.9"
how = os.environ.get("FAKE_" + __name__.upper(), "ok")
if how == "import":
    raise ImportError("libcudart.so.12: cannot open shared object file: No such file or directory")


class version:
    cuda = None if how == "cpu" else "12.4"


class Number:
    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return Number(self.value + other)

    def get(self):
        return [self.value]

    def item(self):
        return self.value


def ones(count, device=None):
    if how == "fail" and str(device).endswith(":1"):
        raise RuntimeError("CUDA error: no kernel image is available for execution on the device\\nmore")
    if how == "crash":
        sys.stderr.write("Fatal: it breaks here\\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hang":
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(one, signal.SIG_IGN)
        time.sleep(1000)
    if how == "noise":
        for _ in range(100000):
            print("x" * 100)
        os.write(2, b"\\x1b]0;title\\x07\\xff\\x00")
    if how == "children":
        for _ in range(20):
            subprocess.Popen(["setsid", "sh", "-c", "(sleep 4711 &) ; exec sleep 4711"])
        time.sleep(0.3)
    return Number(1.0)


class Api:
    def device_count(self):
        return 0 if how == "none" else 2

    getDeviceCount = device_count

    def init(self):
        if how == "none":
            raise RuntimeError("No CUDA GPUs are available")

    def get_device_name(self, index):
        return "Fake \\x1b[31mGPU %d" % index

    def getDeviceProperties(self, index):
        return {"name": b"Fake \\xff"}

    class Device:
        def __init__(self, index):
            self.index = index

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False


cuda = Api()
cuda.runtime = cuda
'''


def make_venv(folder, *modules):
    site = folder / "lib" / ("python%d.%d" % sys.version_info[:2]) / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to(os.path.realpath(sys.executable))
    (folder / "pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n"
                                       "version = %d.%d.0\n" % sys.version_info[:2])
    for module in modules:
        (site / module).mkdir()
        (site / module / "__init__.py").write_text(FAKE)
    return folder
