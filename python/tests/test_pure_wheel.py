"""Tests the Python package without its compiled parts, as it is installed on other platforms. Steps, sizes and retries work. Other functions report what is
missing.

usage: test_pure_wheel.py [WHEEL]     (without one: a copy of the package's Python files)
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
import zipfile

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "berth"
WHEEL = ""


class Pure(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        if WHEEL:
            with zipfile.ZipFile(WHEEL) as wheel:
                wheel.extractall(cls.folder.name)
        else:
            shutil.copytree(PACKAGE, pathlib.Path(cls.folder.name, "berth"), ignore=shutil.ignore_patterns("lib", "__pycache__"))

    def prints(self, code, **more):
        with tempfile.TemporaryDirectory() as empty:  # an empty folder as PATH, so that no `berth` is found
            plain = {key: value for key, value in os.environ.items() if not key.startswith(("BERTH_", "LC_", "LANG"))}
            done = subprocess.run([sys.executable, "-c", "import berth\n" + textwrap.dedent(code)], capture_output=True, text=True, cwd=empty,
                                  env={**plain, "LC_ALL": "C.UTF-8", "PATH": empty, "PYTHONPATH": self.folder.name, **more})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_it_has_no_compiled_part(self):
        self.assertEqual([str(path) for path in pathlib.Path(self.folder.name).rglob("*.so*")], [])
        self.assertFalse(pathlib.Path(self.folder.name, "berth/lib").exists())
        self.assertIn(self.folder.name, self.prints("print(berth.__file__)"))

    def test_sizes_and_retries(self):
        self.assertEqual(self.prints("""
            tries = []
            @berth.retry(first=0.0, report=False)
            def step():
                tries.append(1)
                if len(tries) < 3: raise MemoryError
                return len(tries)
            @berth.fit_batch(start=64, report=False)
            def train(batch_size):
                if batch_size > 20: raise RuntimeError("CUDA out of memory")
                return batch_size
            print(step(), train(), berth.is_oom(MemoryError()), berth.is_oom(ValueError()), list(berth.chunked([1, 2, 3], 2)))
            print([part.items for part in berth.accumulate([1, 2, 3], 2)])
            """), "3 16 True False [[1, 2], [3]]\n[1, 2]\n")

    def test_steps(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            self.skipTest("this Python has no PyTorch")
        self.assertEqual(self.prints("""
            import torch
            model, short = torch.nn.Linear(4, 1), []
            def loss_fn(model, part):
                if len(part[0]) > 3 and torch.is_grad_enabled():
                    raise RuntimeError("CUDA out of memory")
                return torch.nn.functional.mse_loss(model(part[0]), part[1])
            done = berth.split_step(model, loss_fn, torch.optim.SGD(model.parameters(), 0.1), (torch.randn(8, 4), torch.randn(8, 1)), report=False)
            print(done.parts, done.stepped, berth.torch.amp(model, torch.optim.SGD(model.parameters(), 0.1)) is not None)
            """), "4 True True\n")

    def test_the_rest_says_what_is_missing(self):
        code = """
            for name, call in (("devices", berth.devices), ("lease", lambda: berth.lease().__enter__()), ("doctor", berth.doctor), ("env", lambda: berth.env(gpus=1)),
                               ("limit_memory", lambda: berth.limit_memory("8GiB")), ("run", lambda: berth.run(["true"]))):
                try: call()
                except berth.BrokerUnavailable as problem: print(name, problem.id, problem.args[0].split(":")[0], "|", problem.hint)
            """
        said = self.prints(code).splitlines()
        self.assertEqual([line.split()[:2] for line in said], [[name, "E0550"] for name in ("devices", "lease", "doctor", "env", "limit_memory", "run")])
        for line in said:
            self.assertRegex(line, "this installation has no (libberth, which is the compiled part of Berth|program `berth`)")
            self.assertIn("pip install --force-reinstall berth-gpu; fit_batch, split_step, accumulate, retry and is_oom work without it", line)
        self.assertIn("此安装不含 libberth", self.prints(code, LC_ALL="zh_CN.UTF-8", PYTHONUTF8="1"))

    def test_readings_and_summaries_leave_out_what_they_cannot_read(self):
        self.assertEqual(self.prints("""
            written = []
            log = berth.tensorboard(type("Writer", (), {"add_scalar": lambda self, *what: written.append(what)})())
            print(log(1) == len(written), all("gpu" not in name for name, *_ in written), len(berth.memory_summary()))
            """), "True True 1\n")


if __name__ == "__main__":
    WHEEL = os.path.abspath(sys.argv.pop(1)) if sys.argv[1:] else ""
    unittest.main(argv=sys.argv[:1])
