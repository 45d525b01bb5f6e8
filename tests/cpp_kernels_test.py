#!/usr/bin/env python3
"""berth/kernels.hpp on an OpenCL device (PoCL): results bit for bit, the pool, and mistakes; compiled by each compiler, with and without
exceptions.

usage: cpp_kernels_test.py
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wold-style-cast", "-Wnon-virtual-dtor", "-Werror"]
COMPILERS = [name for name in ("g++", "clang++-14") if shutil.which(name)]


class Kernels(unittest.TestCase):
    def run_with(self, compiler, flags, **variables):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "kernels")
            subprocess.run([compiler, "-std=c++17", *WARNINGS, *flags, f"-I{ROOT}/include", ROOT / "tests/library/kernels.cpp", "-o", program,
                            "-ldl", "-pthread"], check=True)
            done = subprocess.run([program], capture_output=True, text=True, timeout=100, env={**os.environ, "LC_ALL": "C.UTF-8", **variables})
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(line.partition("=")[::2] for line in done.stdout.splitlines())

    def test_kernels_buffers_and_the_pool(self):
        for compiler in COMPILERS:
            for flags in ([], ["-O2"], ["-fno-exceptions", "-fno-rtti"])[:3 if compiler == "g++" else 2]:
                with self.subTest(compiler=compiler, flags=flags):
                    found = self.run_with(compiler, flags)
                    if "none" in found:
                        self.assertEqual(found["none"], "E0581")
                        self.skipTest("no OpenCL device here")
                    self.assertEqual((found["axpy"], found["turn"]), ("1", "1"), found["device"])
                    self.assertEqual((found["allocations"], found["reuses"], found["used"], found["kept"]), ("1", "99", "0", "1024"))
                    self.assertEqual(found["trimmed"], "0")
                    self.assertEqual((found["broken"], found["line"]), ("E0580", "1"))
                    for name in ("absent", "fewer", "wide", "empty", "beyond"):
                        self.assertEqual(found[name], "E0582", name)
                    self.assertIn(found["huge"], ("E0584", "E0585"))
                    self.assertEqual(found.get("thrown"), None if "-fno-exceptions" in flags else "E0580")

    def test_without_a_library_the_error_says_so(self):
        self.assertEqual(self.run_with("g++", [], BERTH_OPENCL_LIBRARY="/nonexistent.so")["none"], "E0581")


if __name__ == "__main__":
    sys.argv[1:] = []
    unittest.main()
