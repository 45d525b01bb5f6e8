#!/usr/bin/env python3
"""The guard and the simulated driver with NVIDIA's own headers, compilers and runtimes of CUDA 12.9 and 13.5, and with cuda-python's
bindings. scripts/cuda.sh gets them.

usage: cuda_test.py BERTH LIBCUDA TOOLKITS"""
import csv
import functools
import glob
import itertools
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path += [HERE, os.path.join(ROOT, "tests", "guard")]

import abi  # noqa: E402
import support  # noqa: E402
from support import MIB, WithFolder, program_paths  # noqa: E402

BERTH, LIBCUDA, TOOLKITS = program_paths(3)
simulated = functools.partial(support.simulated, BERTH, machine=os.path.join(ROOT, "tests", "guard", "cuda-13.5.toml"))
SIZE = 64 * MIB
# The runtimes ask for these tables of functions, which no header describes. The simulated driver does not have them.
PRIVATE_TABLES = {"f8cff95121468b4eb9e2fb469e7c0dd9", "6bd5fb6c5bf4e74a8987d93912fd9df9"}


class Toolkit:
    """What scripts/cuda.sh got of one version of CUDA."""

    def __init__(self, version):
        self.version, self.major = version, version.split(".", maxsplit=1)[0]
        self.python = os.path.join(TOOLKITS, version, "bin", "python")
        packages, = glob.glob(os.path.join(TOOLKITS, version, "lib", "python3*", "site-packages", "nvidia"))
        one_folder = os.path.join(packages, "cu13")
        self.runtime = one_folder if self.major == "13" else os.path.join(packages, "cuda_runtime")
        self.compiler = one_folder if self.major == "13" else os.path.join(packages, "cuda_nvcc")
        self.include = os.path.join(self.runtime, "include")
        self.nvcc = os.path.join(self.compiler, "bin", "nvcc")

    def has_nvcc(self):
        return os.path.exists(self.nvcc)

    def library(self, name):
        return os.path.join(self.runtime, "lib", name)


VERSIONS = [Toolkit("12.9"), Toolkit("13.5")]


def run(*command, **keywords):
    return subprocess.run(command, capture_output=True, text=True, check=False, **keywords)


class Declarations(WithFolder):
    def compiled(self, toolkit, change=None):
        """The generated file, and what the compiler says about it."""
        path = os.path.join(self.folder, f"abi-{toolkit.version}.cpp")
        text = abi.source(toolkit.include)
        with open(path, "w") as file:
            file.write(change(text) if change else text)
        done = run("g++", "-std=c++20", "-fsyntax-only", "-w", "-I", HERE, "-I", os.path.join(ROOT, "src"), "-isystem", toolkit.include, path)
        return text, done

    def test_ours_are_those_of_nvidias_headers(self):
        for toolkit in VERSIONS:
            text, done = self.compiled(toolkit)
            self.assertEqual(done.returncode, 0, done.stderr[-3000:])
            newer = re.findall(r"^// newer than these headers: (\w+): (\w+)", text, re.M)
            print(f"CUDA {toolkit.version}: {text.count('static_assert')} comparisons, {text.count('abi::Call')} of functions; "
                  f"{len(newer)} functions are newer")
            self.assertGreater(text.count("offsetof"), 100)
            self.assertGreater(text.count("abi::Call"), 400)
            if toolkit.version == "13.5":
                self.assertEqual(newer, [])

    def test_a_wrong_one_is_found(self):
        for right, wrong in (("CUresult(CUdeviceptr*, std::size_t, CUstream)", "CUresult(CUdeviceptr*, unsigned, CUstream)"),
                             ("CUresult(CUdeviceptr*, std::size_t, CUstream)", "CUresult(CUdeviceptr_v1*, std::size_t, CUstream)"),
                             ("offsetof(ours::CUmemAllocationProp, usage)", "offsetof(ours::CUmemAllocationProp, reserved)")):
            text, done = self.compiled(VERSIONS[1], lambda text, a=right, b=wrong: text.replace(a, b))
            self.assertIn(right, text)
            self.assertRegex(done.stderr, "static assertion failed: (guard: cuMemAllocAsync|CUmemAllocationProp.usage)")

    def test_every_function_of_the_headers_can_be_asked_for(self):
        with open(os.path.join(ROOT, "src", "vendor", "cuda", "versions.inc")) as file:
            rows = re.findall(r"^BERTH_CUDA\((\w+), (\d+), (\w+), (\w+)\)", file.read(), re.M)
        known = {(name, version) for name, version, *_ in rows}
        per_thread = {(name, variant[-5:]) for name, _, _, variant in rows if variant != "none"}
        for toolkit in VERSIONS:
            declared = set()
            for path in glob.glob(os.path.join(toolkit.include, "cuda*Typedefs.h")):
                with open(path) as file:
                    declared |= set(re.findall(r"\*PFN_(cu\w+?)_v(\d+)(_pt[ds][sz])?\)", file.read()))
            declared = {one for one in declared if one[0] != "cuWGLGetDevice"}  # on Windows
            self.assertGreater(len(declared), 600)
            self.assertEqual({one for one in declared if not one[2] and one[:2] not in known}, set())
            self.assertEqual({one for one in declared if one[2] and (one[0], one[2]) not in per_thread}, set())


class Driver(WithFolder):
    def kernels(self, toolkit):
        """A file with a kernel. CUDA 12.9's wheels have an assembler, but no nvcc."""
        source, out = (os.path.join(self.folder, f"kernels-{toolkit.version}{end}") for end in (".cu", ".cubin"))
        with open(source, "w") as file:
            if toolkit.has_nvcc():
                file.write('extern "C" __global__ void step_100us() {}\n')
                command = [toolkit.nvcc, "-cubin"]
            else:
                file.write(".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry step_100us() { ret; }\n")
                command = [os.path.join(toolkit.compiler, "bin", "ptxas")]
        done = run(*command, "-arch=sm_75", source, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out

    def test_a_program_with_nvidias_cuda_h_gets_exactly_its_quota(self):
        half = str(SIZE // 2)
        # By default, calls without a stream use the context's default stream, and with the option each thread's own.
        for toolkit, option in itertools.product(VERSIONS, ("", "CUDA_API_PER_THREAD_DEFAULT_STREAM")):
            program = os.path.join(self.folder, f"driver-{toolkit.version}")
            done = run("g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", *([f"-D{option}"] if option else []), "-isystem", toolkit.include,
                       os.path.join(HERE, "driver_program.cpp"), "-o", program, LIBCUDA, "-ldl")
            self.assertEqual(done.returncode, 0, done.stderr)
            needs = run("nm", "-D", program).stdout
            self.assertEqual(("U cuMemAllocAsync_ptsz" in needs, "U cuMemAlloc_v2" in needs), (bool(option), True))
            done = simulated(BERTH, "run", "--memory", "64MiB", "--report", os.path.join(self.folder, "report.json"), "--", program,
                             str(SIZE), self.kernels(toolkit))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            lines = [line.split("|") for line in done.stdout.splitlines()]
            ways = [line for line in lines if len(line) == 5]
            self.assertEqual(len(ways), 14 + 5 + 3 + 2)
            self.assertEqual([line for line in ways if line[1:] != ["0", "0", "2", str(SIZE)]], [])
            self.assertEqual([line for line in lines if len(line) != 5], [
                ["total", str(SIZE)], ["kernels", "3"], ["importer", half], ["exporter", half], ["exported handle", half],
                ["nothing held", str(SIZE)]])
            isolation = self.report()["isolation"]
            self.assertEqual((isolation["by"], isolation["programs"], isolation["not_counted"]), ("guard", 2, None))
            print(f"CUDA {toolkit.version} {option}: {len(ways)} ways to take memory")


class Runtime(WithFolder):
    def programs(self, toolkit):
        """A program with the runtime in it, and one with the shared runtime."""
        with_static, with_shared = (os.path.join(self.folder, f"runtime-{toolkit.version}-{kind}") for kind in ("static", "shared"))
        source, folder = os.path.join(HERE, "runtime_program.cpp"), self.library_folder(toolkit)
        shared = ["-L", folder, f"-l:libcudart.so.{toolkit.major}"]
        if toolkit.has_nvcc():
            compiler = [toolkit.nvcc, "-x", "cu", "-arch=sm_75", source, "-L", folder]
            commands = [[*compiler, "-cudart", "static", "-o", with_static],
                        [*compiler, "-cudart", "none", *shared, "-Xlinker", f"-rpath={folder}", "-o", with_shared]]
        else:
            compiler = ["g++", "-I", toolkit.include, "-I", os.path.join(toolkit.compiler, "include"), source]
            commands = [[*compiler, toolkit.library("libcudart_static.a"), "-ldl", "-lrt", "-lpthread", "-o", with_static],
                        [*compiler, *shared, f"-Wl,-rpath,{folder}", "-o", with_shared]]
        for command in commands:
            done = run(*command)
            self.assertEqual(done.returncode, 0, done.stderr)
        return with_static, with_shared

    @staticmethod
    def library_folder(toolkit):
        return os.path.dirname(toolkit.library(""))

    def recorded(self, program):
        """What the program asks the simulated driver for, by kind."""
        recorder, record = os.path.join(self.folder, "recorder.so"), os.path.join(self.folder, "record")
        if not os.path.exists(recorder):
            done = run("gcc", "-shared", "-fPIC", "-Wall", "-Wextra", os.path.join(HERE, "recorder.c"), "-o", recorder, "-ldl")
            self.assertEqual(done.returncode, 0, done.stderr)
        simulated("env", f"RECORD={record}", f"LD_PRELOAD={recorder}", program)
        asked = {"dlsym": set(), "query": set(), "table": set()}
        with open(record) as file:
            for line in file:
                kind, what = line.rstrip("\n").split(" ")
                asked[kind].add(what)
        os.unlink(record)
        return asked

    def test_what_the_runtimes_ask_for_is_in_the_recorded_queries(self):
        with open(os.path.join(ROOT, "tests", "data", "cuda", "cudart_queries.csv")) as file:
            known, seen = {",".join(row) for row in csv.reader(file)}, set()
        for toolkit in VERSIONS:
            static, shared = (self.recorded(program) for program in self.programs(toolkit))
            self.assertEqual(static, shared)
            self.assertEqual(static["query"] - known, set())
            self.assertLessEqual(static["dlsym"], {"cuDriverGetVersion", "cuGetProcAddress_v2"})
            self.assertEqual(static["table"], PRIVATE_TABLES)
            seen |= static["query"]
            print(f"CUDA {toolkit.version}: {len(static['query'])} queries")
        self.assertEqual(known, seen)

    def test_the_guard_is_reached_and_changes_no_answer(self):
        report = os.path.join(self.folder, "report.json")
        for toolkit in VERSIONS:
            for program in self.programs(toolkit):
                plain = simulated(program)
                held = simulated(BERTH, "run", "--memory", "64MiB", "--report", report, "--", program)
                self.assertEqual(held.stdout, plain.stdout, held.stderr)
                isolation = self.report()["isolation"]
                self.assertEqual((isolation["by"], isolation["programs"], isolation["not_counted"]), ("guard", 1, None))
                # The runtime gives up when the driver lacks its private tables.
                self.assertIn("\ncudaMalloc cudaErrorNotSupported\n", plain.stdout)


class Bindings(unittest.TestCase):
    def test_cuda_python_gets_exactly_its_quota(self):
        for toolkit in VERSIONS:
            done = simulated(BERTH, "run", "--memory", "64MiB", "--", toolkit.python, os.path.join(HERE, "bindings_program.py"), str(SIZE))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            first, *ways = done.stdout.splitlines()
            self.assertEqual(first, f"{SIZE} {SIZE} {SIZE}")
            self.assertEqual(len(ways), 7)
            for way in ways:
                self.assertEqual(way.split("|")[1:], ["0", "CUDA_ERROR_OUT_OF_MEMORY", str(SIZE)], way)
            print(f"cuda-python for CUDA {toolkit.version}: {len(ways)} ways to take memory")


class Libraries(WithFolder):
    def test_numba_and_cuda_core_get_exactly_their_quota_and_launch_a_kernel(self):
        done = simulated(BERTH, "run", "--memory", "64MiB", "--report", os.path.join(self.folder, "report.json"), "--", VERSIONS[1].python,
                         os.path.join(HERE, "numba_program.py"), str(SIZE))
        self.assertEqual(done.stdout, f"cuda.core {SIZE} True\nnumba {SIZE} True\nleft {SIZE}\n", done.stderr)
        device, = self.report()["isolation"]["devices"]
        self.assertEqual((device["launches"], device["memory_peak_bytes"]), (1, SIZE))


if __name__ == "__main__":
    unittest.main(verbosity=2)
