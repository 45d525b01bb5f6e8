"""The distribution is called berth-gpu. If another project's `berth` is installed in the same place, errors name it.

usage: test_package_name.py
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TELL = """
import berth
from berth import _library
_library._candidates = lambda: ["/no/such/libberth.so.1"]
try: berth.devices()
except berth.BrokerUnavailable as problem: print(problem.id, "|", problem.hint, "|", problem.args[0], "|", _library._program())
"""


class Name(unittest.TestCase):
    def says(self, *folders, place=None, **more):
        """Starts Python with an installed package, and returns its output. `place` is the folder that contains the package."""
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("BERTH_", "LC_", "LANG"))}
        done = subprocess.run([sys.executable, "-c", TELL], capture_output=True, text=True,
                              env={**plain, "LC_ALL": "C.UTF-8", "PYTHONPATH": os.pathsep.join([*folders, str(place or self.installed)]), **more})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_it_is_the_same_in_every_place(self):
        self.assertIn('\nname = "berth-gpu"\n', (ROOT / "pyproject.toml").read_text())
        for path in ("src/library/document.cpp", "python/berth/_library.py", "docs/errors.md"):
            self.assertNotRegex((ROOT / path).read_text(), r'--force-reinstall berth["`\s]', path)

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.installed = pathlib.Path(made.name, "lib", "python3", "site-packages")
        self.installed.mkdir(parents=True)
        (self.installed / "berth").symlink_to(ROOT / "python" / "berth")

    def test_the_source_tree_is_built(self):
        self.assertIn(f"| {ROOT}/dev build && export BERTH_LIBRARY={ROOT}/build/release/libberth.so ", self.says(place=ROOT / "python"))

    def test_the_hint_installs_it(self):
        self.assertIn("| pip install --force-reinstall berth-gpu; fit_batch, split_step,", self.says())

    def test_another_project_of_the_same_import_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            info = pathlib.Path(folder, "berth-0.4.2.dist-info")
            info.mkdir()
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: berth\nVersion: 0.4.2\n")
            said = self.says(folder)
            self.assertIn("| pip uninstall berth && pip install --force-reinstall berth-gpu; fit_batch,", said)
            self.assertIn('PyPI\'s "berth" 0.4.2, another project', said)
            self.assertIn("另一个项目", self.says(folder, LC_ALL="zh_CN.UTF-8", PYTHONUTF8="1"))

    def test_a_script_of_that_name_is_not_our_program(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("script", b"#!/bin/sh\n"), ("program", b"\x7fELF")):
                path = pathlib.Path(folder, name)
                path.write_bytes(text)
                sys.path.insert(0, str(ROOT / "python"))
                from berth import _library
                self.assertEqual(_library._is_script(str(path)), name == "script")


if __name__ == "__main__":
    unittest.main()
