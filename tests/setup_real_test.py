#!/usr/bin/env python3
"""`berth setup` with real packages from PyPI, or from the index that pip is configured for: ./dev test --frameworks. Downloads about 300 MB.

usage: setup_real_test.py BERTH
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import venv

BERTH = os.path.abspath(sys.argv[1])


class Real(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.work = pathlib.Path(self.home.name)

    def tearDown(self):
        self.home.cleanup()

    def setup(self, *words, path=None):
        variables = {**os.environ, "LC_ALL": "C.UTF-8"} | ({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            variables.pop(name, None)
        return subprocess.run([BERTH, "setup", *words], cwd=self.work, env=variables, capture_output=True, text=True, timeout=900)

    def computes(self, done, *names):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "".join(rf"{name} \S+ on the CPU; a test computation ran\n" for name in names) + "$")

    def test_two_frameworks_by_pip_and_a_check(self):
        self.computes(self.setup("jax", "onnxruntime", "--cpu"), "JAX", "ONNX Runtime")
        document = json.loads(self.setup("--check", "--json").stdout)
        self.assertEqual({one["framework"]: one["state"] for one in document["frameworks"]}, {"jax": "ran_on_cpu", "onnxruntime": "ran_on_cpu"})

    def test_an_upgrade_from_an_older_release(self):
        self.computes(self.setup("onnxruntime", "1.26", "--cpu"), "ONNX Runtime")
        done = self.setup("onnxruntime", "1.27", "--cpu", "--upgrade")
        self.assertIn("~ onnxruntime 1.26", done.stdout)
        self.assertIn("ONNX Runtime 1.27", done.stdout)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([one.name for one in self.work.iterdir()], [".venv"])

    def test_uv(self):
        tools = self.work / "tools"
        venv.create(tools, with_pip=True)
        subprocess.run([tools / "bin/pip", "install", "--quiet", "uv"], check=True)
        self.computes(self.setup("onnxruntime", "--cpu", "--uv", path=tools / "bin"), "ONNX Runtime")
        script = next((self.work / ".venv/bin").glob("activate"))
        self.assertNotIn(".part-", script.read_text())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
