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
    """The queries of a program with CUDA 13.0's static runtime when it starts: (name, version, flags)."""
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
        self.assertRegex(report["isolation"]["not_counted"] or "", r"^1.00 GiB of .*, which runs without the guard$")

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

    def answers(self, which):
        """Compares the answers without and with the guard: result, status, the function's full name (with version and variant, so its ABI),
        and its library. Only the library may differ."""
        plain = simulated(sys.executable, HERE, which)
        held = simulated(BERTH, "run", "--memory", "2GiB", "--", sys.executable, HERE, which)
        before, after = json.loads(plain.stdout), json.loads(held.stdout)
        self.assertEqual([one[:6] for one in before], [other[:6] for other in after])
        return len(after), {other[5] for one, other in zip(before, after) if one[6] != other[6]}

    def test_every_query_gets_the_same_answer(self):
        count, replaced = self.answers("all")
        self.assertGreater(count, 5000)
        self.assertIn("cuMemAlloc_v2", replaced)
        self.assertIn("cuLaunchKernel", replaced)
        self.assertNotIn("cuDeviceGetCount", replaced)

    def test_what_the_static_runtime_asks_gets_the_same_answer(self):
        count, replaced = self.answers("runtime")
        self.assertEqual(count, 439)
        # Memory functions and launches for both kinds of default stream go through the guard.
        for name in ("cuMemAlloc_v2", "cuMemAllocAsync_ptsz", "cuArrayCreate_v2", "cuGraphLaunch", "cuGraphLaunch_ptsz",
                     "cuLaunchKernel_ptsz", "cuMemcpyHtoDAsync_v2_ptsz", "cuMemGetInfo_v2"):
            self.assertIn(name, replaced)


if __name__ == "__main__":
    if BERTH:
        unittest.main(verbosity=2)
    print_answers(runtime_queries() if sys.argv[1] == "runtime" else queries())
