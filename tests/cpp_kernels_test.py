#!/usr/bin/env python3
"""berth/kernels.hpp on an OpenCL device (PoCL): results bit for bit, the pool, and mistakes; compiled by each compiler, with and without
exceptions. And its calls of CUDA on the simulated driver, which runs no kernels.

usage: cpp_kernels_test.py BERTH
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BERTH = ""
ROOT = pathlib.Path(__file__).resolve().parent.parent
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wold-style-cast", "-Wnon-virtual-dtor", "-Werror"]
COMPILERS = [name for name in ("g++", "clang++-14") if shutil.which(name)]


class Kernels(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_with(self, compiler, flags, *words, machine=None, **variables):
        program = self.folder / "kernels"
        subprocess.run([compiler, "-std=c++17", *WARNINGS, *flags, f"-I{ROOT}/include", ROOT / "tests/library/kernels.cpp", "-o", program,
                        "-ldl", "-pthread"], check=True)
        simulated = [BERTH, "sim", "--machine", machine, "--"] if machine else []
        done = subprocess.run([*simulated, program, *words], capture_output=True, text=True, timeout=100,
                              env={**os.environ, "LC_ALL": "C.UTF-8", **variables})
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(line.partition("=")[::2] for line in done.stdout.splitlines())

    def check_pool_and_mistakes(self, found):
        self.assertEqual((found["copies"], found["launch"]), ("1", "1"))
        self.assertEqual((found["allocations"], found["reuses"], found["used"], found["kept"]), ("1", "99", "0", "1024"))
        self.assertEqual(found["trimmed"], "0")
        self.assertEqual((found["broken"], found["line"]), ("E0580", "1"))
        for name in ("absent", "fewer", "wide", "empty", "beyond"):
            self.assertEqual(found[name], "E0582", name)
        self.assertIn(found["huge"], ("E0584", "E0585"))

    def test_kernels_buffers_and_the_pool(self):
        for compiler in COMPILERS:
            for flags in ([], ["-O2"], ["-fno-exceptions", "-fno-rtti"])[:3 if compiler == "g++" else 2]:
                with self.subTest(compiler=compiler, flags=flags):
                    found = self.run_with(compiler, flags, "opencl")
                    if "none" in found:
                        self.assertEqual(found["none"], "E0581")
                        self.skipTest("no OpenCL device here")
                    self.assertEqual((found["backend"], found["axpy"], found["turn"]), ("opencl", "1", "1"), found["device"])
                    self.check_pool_and_mistakes(found)
                    self.assertEqual(found.get("thrown"), None if "-fno-exceptions" in flags else "E0580")

    def test_cuda_on_the_simulated_driver(self):
        nvrtc = self.folder / "nvrtc.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", nvrtc, ROOT / "tests/library/fake_nvrtc.c"], check=True)
        # The H100 is newer than this NVRTC, so it gets PTX.
        for machine, name, words in (("workstation-4090", "NVIDIA GeForce RTX 4090", ()), ("dgx-h100-8", "NVIDIA H100 80GB HBM3", ("cuda",))):
            found = self.run_with("g++", [], *words, machine=machine, BERTH_NVRTC_LIBRARY=str(nvrtc))
            self.assertEqual((found["device"], found["backend"]), (name, "cuda"))
            self.check_pool_and_mistakes(found)
            self.assertEqual(found["thrown"], "E0580")
        self.assertEqual(self.run_with("g++", [], "cuda", machine="workstation-4090", BERTH_NVRTC_LIBRARY="/nonexistent.so")["none"], "E0581")
        self.assertEqual(self.run_with("g++", [], "cuda", machine="none", BERTH_NVRTC_LIBRARY=str(nvrtc))["none"], "E0581")
        hidden = self.run_with("g++", [], "cuda", machine="workstation-4090", BERTH_NVRTC_LIBRARY=str(nvrtc), CUDA_VISIBLE_DEVICES="-1")
        self.assertEqual(hidden["none"], "E0581")

    def test_without_cuda_it_is_opencl(self):
        found = self.run_with("g++", [])
        self.assertIn(found.get("backend", found.get("none")), ("opencl", "E0581"))

    def test_parameters_are_read_in_the_source(self):
        found = self.run_with("g++", [], BERTH_OPENCL_LIBRARY="/nonexistent.so")
        self.assertEqual([found[f"parameters_{name}"] for name in ("f", "empty", "KERNELS", "g")], ["8 4 8 1 2 ", "", "none", "none"])

    def test_without_a_library_the_error_says_so(self):
        self.assertEqual(self.run_with("g++", [], BERTH_OPENCL_LIBRARY="/nonexistent.so")["none"], "E0581")


if __name__ == "__main__":
    BERTH = os.path.abspath(sys.argv.pop(1))
    unittest.main()
