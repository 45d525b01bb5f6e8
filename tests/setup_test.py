#!/usr/bin/env python3
"""`berth setup`: a new environment exists completely or not at all. Packages come from a folder, not from the network.

usage: setup_test.py BERTH
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

BERTH = sys.argv[1]
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


def wheel(folder: pathlib.Path, version: str, init: str = TORCH):
    """A wheel of that name with a few lines in it."""
    info = f"torch-{version}.dist-info"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / f"torch-{version}-py3-none-any.whl", "w") as file:
        file.writestr("torch/__init__.py", init)
        file.writestr("torch/version.py", VERSION.format(version))
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/entry_points.txt", "[console_scripts]\ntorch-hello = torch:ones\n")
        file.writestr(f"{info}/RECORD", "")
    name = next(folder.glob("*.whl")).name
    (folder / "index.html").write_text(f'<!DOCTYPE html><a href="{name}">{name}</a>')


class Setup(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.work = pathlib.Path(self.home.name) / "a place"
        self.work.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": self.home.name,
                            "PIP_CONFIG_FILE": "/dev/null"}

    def tearDown(self):
        self.home.cleanup()

    def setup(self, *words, **more):
        return subprocess.run([BERTH, "setup", *words], cwd=self.work, env={**self.environment, **more},
                              capture_output=True, text=True, timeout=110)

    def planned(self, *words):
        done = self.setup("torch", "--dry-run", "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def index(self, **wheel_words):
        folder = pathlib.Path(self.home.name) / "index"
        wheel(folder / "torch", self.planned("--cpu")["release"] + ".0", **wheel_words)
        return f"file://{folder}"

    def names(self):
        return sorted(path.name for path in self.work.iterdir())

    def test_a_new_environment_computes_and_knows_its_own_place(self):
        done = self.setup("torch", "--cpu", "--index", self.index())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^PyTorch \S+ on the CPU; a kernel ran\n$")
        self.assertEqual(self.names(), [".venv"])
        for path in [self.work / ".venv/pyvenv.cfg", *(self.work / ".venv/bin").iterdir()]:
            if not path.is_symlink():
                self.assertNotIn(b".part-", path.read_bytes(), path)
        pip = subprocess.run([self.work / ".venv/bin/pip", "--version"], capture_output=True, text=True)
        self.assertIn(str(self.work / ".venv"), pip.stdout + pip.stderr)
        again = self.setup("torch", "--cpu")
        self.assertEqual(again.returncode, 2)
        self.assertIn("E0841", again.stderr)

    def test_a_framework_that_does_not_start_is_a_failure_with_a_next_step(self):
        done = self.setup("torch", "--cpu", "--json", "--index", self.index(init="raise ImportError('libfoo.so')\n"))
        self.assertEqual(done.returncode, 1, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["state"], "failed")
        self.assertTrue(document["says"])
        self.assertTrue(document["hint"])
        self.assertIsNone(document["devices"])

    def test_nothing_is_left_where_pip_finds_no_package(self):
        empty = pathlib.Path(self.home.name) / "empty"
        empty.mkdir()
        done = self.setup("torch", "--cpu", "--index", f"file://{empty}")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("E0845", done.stderr)
        self.assertEqual(self.names(), [])

    def test_nothing_is_left_where_somebody_ends_it(self):
        child = subprocess.Popen([BERTH, "setup", "torch", "--cpu"], cwd=self.work, env=self.environment,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not self.names() and time.monotonic() < deadline:
            time.sleep(0.01)
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(60), -signal.SIGTERM)
        self.assertEqual(self.names(), [])

    def test_what_is_there_is_left_as_it_is(self):
        for make in (lambda path: path.mkdir(), lambda path: path.write_text("mine"), lambda path: path.symlink_to("gone")):
            path = self.work / "mine"
            make(path)
            done = self.setup("torch", "--cpu", "--venv", "mine")
            self.assertEqual(done.returncode, 2)
            self.assertIn("E0841", done.stderr)
            self.assertEqual(self.names(), ["mine"])
            path.rmdir() if path.is_dir() else path.unlink()

    def test_a_folder_that_cannot_be_made(self):
        done = self.setup("torch", "--cpu", "--venv", "no/such/parent")
        self.assertEqual(done.returncode, 5)
        self.assertIn("E0842", done.stderr)
        if os.geteuid() != 0:
            self.work.chmod(0o555)
            done = self.setup("torch", "--cpu")
            self.work.chmod(0o755)
            self.assertEqual(done.returncode, 5)
        self.assertEqual(self.names(), [])

    def test_a_python_that_is_none(self):
        done = self.setup("torch", "--cpu", "--python", str(self.work / "python3"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("E0846", done.stderr)

    def test_words_that_make_no_sense(self):
        for words in ([], ["numpy"], ["torch", "latest"], ["torch", "jax"], ["torch", "2.7", "x"], ["torch", "2"],
                      ["torch", "--venv", ""], ["torch", "--cpu", "--gpu", "H100"], ["torch", "--cpu", "--driver", "550"]):
            done = self.setup(*words)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
        self.assertEqual(self.names(), [])

    def test_each_driver_and_gpu_gets_a_build_that_serves_it(self):
        # The highest CUDA that a build for this driver can have: by minor-version compatibility that of its major.
        rows = {"470.82": ("11", ("A100", "V100", "RTX 3090", "T4", "A10")),
                "535.161": ("12", ("H100", "A100", "RTX 4090", "RTX 3090", "T4", "L4")),
                "550.54": ("12", ("H100", "A100", "RTX 4090", "L40S", "V100")),
                "580.65": ("13", ("H100", "RTX 5090", "B200", "A100", "RTX 4090"))}
        for driver, (cuda, gpus) in rows.items():
            for gpu in gpus:
                document = self.planned("--driver", driver, "--gpu", gpu)
                self.assertLessEqual(int(document["cuda"].split(".")[0]), int(cuda), (driver, gpu, document))
                self.assertEqual(document["state"], "planned")
                self.assertIsNone(document["devices"])
                self.assertIn(document["packages"][0], document["commands"][1])
        self.assertEqual(self.names(), [])

    def test_a_driver_that_is_too_old_is_named_first(self):
        done = self.setup("torch", "--dry-run", "--driver", "390.82", "--gpu", "A100")
        self.assertIn("E0831", done.stderr)
        self.assertIn("450.80.02", done.stderr)
        self.assertIn("berth setup torch --cpu", done.stderr)

    def test_a_release_is_what_was_asked_for_or_is_refused(self):
        machine = ("--driver", "580.65", "--gpu", "A100")
        release = self.planned(*machine)["release"]
        exact = self.setup("torch", release + ".7", "--dry-run", *machine)
        self.assertIn(f"torch=={release}.7", exact.stdout)
        refused = self.setup("torch", "0.3", "--dry-run", *machine)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("E0843", refused.stderr)

    def test_a_password_in_an_address_is_not_shown(self):
        done = self.setup("torch", "--cpu", "--dry-run", "--index", "https://me:geheim@mirror.lab/simple")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mirror.lab", done.stdout)
        self.assertNotIn("geheim", done.stdout + done.stderr)
        self.assertNotIn("pytorch.org", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
