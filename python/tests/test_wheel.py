"""Installs the wheel in a new environment for every Python of this machine, and tests it. `scripts/wheel.sh` calls this. No network is needed.

usage: test_wheel.py [WHEEL]     (77: there is none in build/package)
"""
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

OLDEST = (3, 9)
SEES = """
import json, os, sys, berth
try: berth.lease(gpus=-1)
except berth.InvalidRequest as problem: said = str(problem)
with berth.lease(gpus=0) as lease: job = lease.job
print(json.dumps([berth.__file__.startswith(sys.prefix), len(berth.devices()) > 0, job > 0, berth.run(["true"], gpus=0).ok, said]))
"""


def pythons():
    """The Pythons of this machine by version, such as {(3, 11): path}: those on PATH, the system's, and pyenv's."""
    places = [*os.environ.get("PATH", "").split(":"), "/usr/bin", *glob.glob(os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")) + "/versions/*/bin")]
    found = {}
    for path in (path for place in places for path in sorted(glob.glob(place + "/python3*")) if re.fullmatch(r"python3(\.\d+)?", os.path.basename(path))):
        done = subprocess.run([path, "-c", "import sys, venv, ensurepip; print(*sys.version_info[:2])"], capture_output=True, text=True)
        if done.returncode == 0:
            found.setdefault(tuple(map(int, done.stdout.split())), path)
    return found


MADE = glob.glob(str(pathlib.Path(__file__).resolve().parents[2] / "build/package/berth_gpu-*.whl"))


class Wheel(unittest.TestCase):
    wheel = os.path.abspath(MADE[0]) if MADE else ""

    def setUp(self):
        if not self.wheel:
            self.skipTest("no wheel was made; scripts/wheel.sh makes one")

    def install(self, python, folder):
        subprocess.run([python, "-m", "venv", folder], check=True)
        return subprocess.run([folder + "/bin/pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", self.wheel],
                              capture_output=True, text=True)

    def test_every_python_has_it(self):
        for version, python in sorted(pythons().items()):
            with self.subTest(python=python), tempfile.TemporaryDirectory() as folder:
                done = self.install(python, folder)
                if version < OLDEST:
                    self.assertNotEqual(done.returncode, 0, "it is not for this one")
                    self.assertRegex(done.stderr + done.stdout, "Requires-Python|requires a different Python|requires Python")
                    continue
                self.assertEqual(done.returncode, 0, done.stderr)
                self.check(folder)
                print(f"Python {'.'.join(map(str, version))}: installed, imported, used", flush=True)

    def check(self, folder):
        plain = {"PATH": "/usr/bin:/bin", "HOME": folder, "BERTH_RUNTIME_DIR": folder + "/run", "LC_ALL": "zh_CN.UTF-8", "PYTHONUTF8": "1"}
        pathlib.Path(folder, "run").mkdir(mode=0o700)
        done = subprocess.run([folder + "/bin/python", "-c", SEES], env=plain, cwd=folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout), [True, True, True, True, "gpus：-1 不是 0 到 1024 之间的整数 (E0104)"])
        for words in ([folder + "/bin/berth"], [folder + "/bin/python", "-m", "berth"]):
            said = subprocess.run([*words, "--version"], env=plain, cwd=folder, capture_output=True, text=True, check=True).stdout
            self.assertRegex(said, r"^berth \d")
        said = subprocess.run([folder + "/bin/pip", "show", "berth-gpu"], env=plain, cwd=folder, capture_output=True, text=True).stdout
        self.assertIn("Name: berth-gpu", said)
        typed = glob.glob(folder + "/lib/python*/site-packages/berth/py.typed")
        self.assertEqual(len(typed), 1)


if __name__ == "__main__":
    made = sys.argv[1:2] or MADE
    if not made:
        print("skipped: no wheel was made; scripts/wheel.sh makes one")
        sys.exit(77)
    Wheel.wheel = os.path.abspath(made[0])
    unittest.main(argv=sys.argv[:1])
