#!/usr/bin/env python3
"""Every way to find the driver's functions leads through the guard, and the guard changes no answer: names, versions and flags give the
same result with and without it."""
import ctypes
import functools
import json
import os
import re
import sys
import tempfile
import unittest

import support
from support import FOLDER, GIB, program_paths

BERTH, DIRECT, TOMORROW, VFORK, DEEP = program_paths(5) if len(sys.argv) > 5 else [""] * 5
simulated = functools.partial(support.simulated, BERTH)
HERE = os.path.abspath(__file__)
NEWEST = os.path.join(FOLDER, "cuda-13.5.toml")
RUNTIME_ASKS = os.path.join(FOLDER, "..", "data", "cuda", "cudart_queries.csv")
VERSIONS = os.path.join(FOLDER, "..", "..", "src", "vendor", "cuda", "versions.inc")


class DlInfo(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def queries():
    """Queries for every name: the version that introduced it, the one before, an early and a late one, with all flags."""
    with open(VERSIONS) as file:
        rows = re.findall(r"^BERTH_CUDA\((\w+), (\d+),", file.read(), re.M)
    for name, version in rows + [("cuNoSuchFunction", "12000")]:
        for asked in (int(version) - 1, int(version), 13050, 2000):
            for flags in (0, 1, 2):
                yield name, asked, flags


def runtime_queries():
    """The queries of programs with the runtimes of CUDA 12.9, 13.0 and 13.5 when they start: (name, version, flags)."""
    with open(RUNTIME_ASKS) as file:
        for name, version, flags in (line.split(",") for line in file):
            yield name, int(version), int(flags)


def print_answers(asked):
    """Runs in the simulation. Prints the answer to each query, from the driver or from the guard."""
    cuda, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
    cuda.cuInit(0)
    answers = []
    for name, version, flags in asked:
        function, status = ctypes.c_void_p(), ctypes.c_int(-1)
        result = cuda.cuGetProcAddress_v2(name.encode(), ctypes.byref(function), version, ctypes.c_uint64(flags), ctypes.byref(status))
        info = DlInfo()
        if function.value:
            libc.dladdr(function, ctypes.byref(info))
        answers.append([name, version, flags, result, status.value, (info.name or b"").decode(), os.path.basename((info.file or b"").decode())])
    print(json.dumps(answers))


class Paths(unittest.TestCase):
    def test_a_program_that_is_linked_to_the_driver(self):
        plain = simulated(DIRECT, str(2 * GIB))
        self.assertEqual(plain.stdout, "0 0 0\n", plain.stderr)
        held = simulated(BERTH, "run", "--memory", "2GiB", "--", DIRECT, str(2 * GIB))
        self.assertEqual(held.stdout, "2 2 0\n", held.stderr)

    def test_a_program_that_starts_others_by_vfork_keeps_its_memory_charged(self):
        held = simulated(BERTH, "run", "--memory", "2GiB", "--", VFORK, str(GIB))
        # The child sees the parent's memory. It has ended when the parent takes the rest.
        self.assertEqual(held.stdout, f"child 0 {GIB}\nparent 0 {GIB}\n", held.stderr)
        self.assertEqual(held.stderr.count("out of memory"), 0, held.stderr)
        held = simulated(BERTH, "run", "--memory", "1GiB", "--", VFORK, str(GIB // 2 + 512))
        self.assertEqual([line.split()[1] for line in held.stdout.splitlines()], ["2", "2"], held.stderr)

    def deep(self, call, *options):
        """A library that is opened with RTLD_DEEPBIND allocates 1 GiB, and holds it for a while."""
        program = ("import ctypes, os, sys, time\n"
                   f"print(ctypes.CDLL({DEEP!r}, mode=os.RTLD_NOW | os.RTLD_DEEPBIND).{call}(ctypes.c_size_t({GIB})), flush=True)\n"
                   "time.sleep(3)")
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            done = simulated(BERTH, "run", *options, "--report", report, "--", sys.executable, "-c", program)
            with open(report) as file:
                return done, json.load(file)

    def test_a_library_that_is_opened_with_deepbind_works_and_the_report_says_that_nothing_held(self):
        done, report = self.deep("take", "--memory", "512MiB")
        self.assertEqual(done.stdout, "0\n", done.stderr)
        self.assertEqual((report["isolation"]["by"], report["isolation"]["programs"]), (None, 0))
        self.assertRegex(report["isolation"]["not_counted"] or "", r"^1.00 GiB used by .*, which runs without the guard$")

    def test_a_function_of_a_newer_driver_is_named_in_the_report_if_it_may_take_memory(self):
        program = "import ctypes, sys; cuda = ctypes.CDLL('libcuda.so.1'); cuda.cuInit(0); print(getattr(cuda, sys.argv[1]) is not None)"
        for name, not_counted in (("cuMemAllocTomorrow", "memory that cuMemAllocTomorrow may have allocated: Berth does not know this function, so a "
                                                         "program may exceed the quota"), ("cuDeviceLookTomorrow", None)):
            with tempfile.TemporaryDirectory() as folder:
                report = os.path.join(folder, "report.json")
                done = simulated(BERTH, "run", "--memory", "2GiB", "--report", report, "--", "env",
                                 f"LD_LIBRARY_PATH={os.path.dirname(TOMORROW)}", sys.executable, "-c", program, name)
                self.assertEqual(done.stdout, "True\n", done.stderr)
                with open(report) as file:
                    isolation = json.load(file)["isolation"]
                self.assertEqual((isolation["programs"], isolation["not_counted"]), (1, not_counted))

    def test_newer_and_older_versions_of_functions_do_the_same(self):
        program = f"""
import sys; sys.path.insert(0, {FOLDER!r})
from program import *
from over import Location
begin()
managed, one, context, device = ctypes.c_uint64(), ctypes.c_int(-1), ctypes.c_void_p(), ctypes.c_int(-1)
stream, graph, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
check(cuda.cuMemAllocManaged(ctypes.byref(managed), ctypes.c_size_t(4096), 1))
check(cuda.cuMemAdvise_v2(managed, ctypes.c_size_t(4096), 3, Location(1, 0)))
check(cuda.cuMemRangeGetAttribute(ctypes.byref(one), ctypes.c_size_t(4), 2, managed, ctypes.c_size_t(4096)))
check(cuda.cuCtxCreate_v3(ctypes.byref(context), None, 0, 0, 0))
check(cuda.cuCtxGetDevice_v2(ctypes.byref(device), context))
print(one.value, device.value, cuda.cuCtxGetDevice_v2(ctypes.byref(device), stream))
call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: print("called", data))
check(cuda.cuLaunchHostFunc_v2(None, call, 7, 0))
check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
check(cuda.cuStreamBeginCapture(stream))
check(cuda.cuLaunchKernel(kernel("step"), 1, 1, 1, 1, 1, 1, 0, stream, None, None))
check(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
check(cuda.cuGraphGetNodes(graph, None, ctypes.byref(count)))
print(count.value)
"""
        done = simulated(sys.executable, "-c", program, "1")
        self.assertEqual(done.stdout, "0 0 0\ncalled 7\n1\n", done.stderr)

    def test_kernels_of_libraries_are_launched(self):
        program = f"""
import sys; sys.path.insert(0, {FOLDER!r})
from program import *
begin()
library, first, again, function, module, of_module = (ctypes.c_void_p() for _ in range(6))
events, took, threads = (ctypes.c_void_p * 2)(), ctypes.c_float(), ctypes.c_int()
check(cuda.cuLibraryLoadData(ctypes.byref(library), b"image", None, None, 0, None, None, 0))
for kernel in (first, again):
    check(cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, b"step_20ms"))
check(cuda.cuKernelGetFunction(ctypes.byref(function), first))
check(cuda.cuLibraryGetModule(ctypes.byref(module), library))
check(cuda.cuModuleGetFunction(ctypes.byref(of_module), module, b"step_20ms"))
check(cuda.cuFuncGetAttribute(ctypes.byref(threads), 0, function))
for _ in events:
    check(cuda.cuEventCreate(ctypes.byref(one := ctypes.c_void_p()), 0))
    events[0], events[1] = events[1], one
check(cuda.cuEventRecord(ctypes.c_void_p(events[0]), None))
for kernel in (first, function):
    check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None))
check(cuda.cuEventRecord(ctypes.c_void_p(events[1]), None))
check(cuda.cuCtxSynchronize())
check(cuda.cuEventElapsedTime(ctypes.byref(took), ctypes.c_void_p(events[0]), ctypes.c_void_p(events[1])))
print(first.value == again.value, function.value == of_module.value, threads.value, took.value >= 40)
check(cuda.cuLibraryUnload(library))
"""
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            done = simulated(BERTH, "run", "--memory", "2GiB", "--report", report, "--", sys.executable, "-c", program)
            self.assertEqual(done.stdout, "True True 1024 True\n", done.stderr)
            with open(report) as file:
                self.assertEqual(json.load(file)["isolation"]["devices"][0]["launches"], 2)

    def test_attributes_of_streams_and_pools_are_those_that_were_set(self):
        program = f"""
import sys; sys.path.insert(0, {FOLDER!r})
from program import *
begin()
stream, pool, context, mine = (ctypes.c_void_p() for _ in range(4))
priority, flags, device, threshold, reuse = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int(-1), ctypes.c_uint64(4096), ctypes.c_int(0)
check(cuda.cuStreamCreateWithPriority(ctypes.byref(stream), 1, -3))
check(cuda.cuStreamGetPriority(stream, ctypes.byref(priority)))
check(cuda.cuStreamGetFlags(stream, ctypes.byref(flags)))
check(cuda.cuStreamGetDevice(stream, ctypes.byref(device)))
check(cuda.cuStreamGetCtx(stream, ctypes.byref(context)))
check(cuda.cuCtxGetCurrent(ctypes.byref(mine)))
check(cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0))
check(cuda.cuMemPoolSetAttribute(pool, 4, ctypes.byref(threshold)))
check(cuda.cuMemPoolSetAttribute(pool, 2, ctypes.byref(reuse)))
threshold.value, reuse.value = 0, 7
check(cuda.cuMemPoolGetAttribute(pool, 4, ctypes.byref(threshold)))
check(cuda.cuMemPoolGetAttribute(pool, 2, ctypes.byref(reuse)))
print(priority.value, flags.value, device.value, context.value == mine.value, threshold.value, reuse.value,
      cuda.cuMemPoolGetAttribute(pool, 5, ctypes.byref(threshold)))
"""
        done = simulated(sys.executable, "-c", program)
        self.assertEqual(done.stdout, "-3 1 0 True 4096 0 801\n", done.stderr)

    def answers(self, which, machine):
        """Compares the answers without and with the guard: result, status, the function's full name (with version and variant, so its ABI),
        and its library. Only the library may differ."""
        plain = simulated(sys.executable, HERE, which, machine=machine)
        held = simulated(BERTH, "run", "--memory", "2GiB", "--", sys.executable, HERE, which, machine=machine)
        before, after = json.loads(plain.stdout), json.loads(held.stdout)
        self.assertEqual([one[:6] for one in before], [other[:6] for other in after])
        return after, {other[5] for one, other in zip(before, after) if one[6] != other[6]}

    def test_every_query_gets_the_same_answer(self):
        answers, replaced = self.answers("all", "workstation-4090")
        self.assertGreater(len(answers), 5000)
        self.assertIn("cuMemAlloc_v2", replaced)
        self.assertIn("cuLaunchKernel", replaced)
        self.assertNotIn("cuDeviceGetCount", replaced)

    def test_what_the_runtimes_ask_gets_the_same_answer(self):
        for machine in (NEWEST, "workstation-4090"):  # drivers for CUDA 13.5 and 13.0
            answers, replaced = self.answers("runtime", machine)
            self.assertEqual(len(answers), 482)
            # Memory functions and launches for both kinds of default stream go through the guard.
            for name in ("cuMemAlloc_v2", "cuMemAllocAsync_ptsz", "cuArrayCreate_v2", "cuGraphLaunch", "cuGraphLaunch_ptsz",
                         "cuLaunchKernel_ptsz", "cuMemcpyHtoDAsync_v2_ptsz", "cuMemGetInfo_v2"):
                self.assertIn(name, replaced)

    def test_the_driver_for_cuda_13_5_has_all_that_the_runtimes_ask_for(self):
        answers, replaced = self.answers("runtime", NEWEST)
        # The runtimes also ask for an empty name, and for functions that no header has.
        self.assertEqual({name for name, *_, result, _, _, _ in answers if result != 0},
                         {"", "cuSubgridCreate", "cuSubgridWorkerGridCreate", "cuSubgridWorksetCreate"})
        for name in ("cuMemcpyWithAttributesAsync", "cuMemcpyWithAttributesAsync_ptsz", "cuMemcpy3DWithAttributesAsync_ptsz"):
            self.assertIn(name, replaced)

    def test_copies_with_attributes_are_counted_in_per_thread_default_streams(self):
        program = (f"import sys; sys.path.insert(0, {FOLDER!r})\nfrom program import *\nbegin()\naddress = allocate(4096)[1]\n"
                   "for copy in (cuda.cuMemcpyWithAttributesAsync, cuda.cuMemcpyWithAttributesAsync_ptsz):\n"
                   "    check(copy(ctypes.c_uint64(address.value + 2048), address, ctypes.c_size_t(1024), None, None))")
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            done = simulated(BERTH, "run", "--memory", "2GiB", "--report", report, "--", sys.executable, "-c", program, machine=NEWEST)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(report) as file:
                device = json.load(file)["isolation"]["devices"][0]
            self.assertEqual((device["copies"], device["copied_other_bytes"]), (2, 2048))


if __name__ == "__main__":
    if BERTH:
        unittest.main(verbosity=2)
    print_answers(runtime_queries() if sys.argv[1] == "runtime" else queries())
