#!/usr/bin/env python3
"""Every C++ file is formatted by clang-format 14 (fix with: check_format.py --fix). No test name contains ";", because CMake would split
it and ctest would report success without running anything."""
import pathlib
import re
import shutil
import subprocess

import checking

SPLIT = re.compile(r'TEST_CASE\(\s*"([^"]*;[^"]*)"')
FOLDERS = ("src", "simulator", "include", "tests", "fuzz", "examples", "benchmarks")


def misformatted(paths, fix=False):
    if not paths:
        return []
    if fix:
        subprocess.run(["clang-format-14", "-i", *paths], check=True)
        return []
    done = subprocess.run(["clang-format-14", "--dry-run", "-Werror", *paths], capture_output=True, text=True)
    names = [line.split(":")[0] for line in done.stderr.splitlines() if "[-Wclang-format-violations]" in line]
    return list(dict.fromkeys(names)) or ([] if done.returncode == 0 else [done.stderr])


def check(arguments):
    paths = [str(path) for folder in FOLDERS for path in sorted((arguments.root / folder).rglob("*"))
             if path.suffix in (".hpp", ".cpp", ".c", ".h")]
    for name in misformatted(paths, arguments.fix):
        yield f"{name}: not formatted; fix it with: scripts/check_format.py --fix"
    for path in paths:
        for name in SPLIT.findall(pathlib.Path(path).read_text()):
            yield f'{path}: a test with ";" in its name would never run: {name}'


def self_test():
    with checking.tree({".clang-format": "BasedOnStyle: Google\n", "a.cpp": "int  f( ){return 1 ;}\n"}) as root:
        assert misformatted([str(root / "a.cpp")]), "a badly formatted file passed"
    assert SPLIT.findall('TEST_CASE("one; two") {') == ["one; two"]


if __name__ == "__main__":
    if shutil.which("clang-format-14") is None:
        checking.skip("clang-format-14 is not installed")
    checking.main(__doc__, check, self_test, [("--fix", {"action": "store_true"})])
