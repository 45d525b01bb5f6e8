"""The contents of the source distribution, listed by the tools that `scripts/wheel.sh` downloaded. Needs no network.

usage: test_sdist.py     (77: the tools are not there)
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = pathlib.Path(os.environ.get("BERTH_WHEEL_TOOLS", ROOT / "build/wheel-tools")) / "bin/python"
# Lists files like build_sdist(). Fails if single files of tests/machines are compared with the rules, which takes long. A rule must exclude
# the whole folder, so that its files are not listed.
LISTS = """
import json, pathlib
from scikit_build_core._compat import tomllib
from scikit_build_core.build import _file_processor as files
from scikit_build_core.settings.skbuild_read_settings import SettingsReader
settings = SettingsReader(tomllib.loads(pathlib.Path("pyproject.toml").read_text()), {}, state="sdist").settings
real = files.match_path
def asked(path, *how, **more):
    if path.parts[:2] == ("tests", "machines") and len(path.parts) > 2: raise SystemExit(f"{path} is held against the rules by itself")
    return real(path, *how, **more)
files.match_path = asked
found = files.each_unignored_file(pathlib.Path(), include=settings.sdist.include, exclude=settings.sdist.exclude, build_dir=settings.build_dir,
                                  mode=settings.sdist.inclusion_mode)
print(json.dumps([str(one) for one in found]))
"""


@unittest.skipUnless(TOOLS.exists(), "the tools that make a wheel are not here; scripts/wheel.sh fetches them")
class Sdist(unittest.TestCase):
    def test_it_has_what_a_build_reads_and_no_recorded_machine_is_looked_at(self):
        done = subprocess.run([str(TOOLS), "-c", LISTS], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        for wanted in ("pyproject.toml", "CMakeLists.txt", "LICENSE", "README.md", "src/CMakeLists.txt", "python/berth/py.typed", "include/berth/berth.h"):
            self.assertIn(wanted, found)
        for kept_out in ("tests/machines/", "benchmarks/results/", "build/"):
            self.assertEqual([one for one in found if one.startswith(kept_out)][:3], [])


if __name__ == "__main__":
    if not TOOLS.exists():
        print("skipped: the tools that make a wheel are not here; scripts/wheel.sh fetches them")
        sys.exit(77)
    unittest.main()
