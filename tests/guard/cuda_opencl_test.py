#!/usr/bin/env python3
"""One GPU that CUDA and OpenCL programs use at once has one row of turns. CUDA is the simulated driver; OpenCL is PoCL, whose device seems
to be the same GPU by a layer below the guard's (opencl_pci.c).

usage: cuda_opencl_test.py BERTH LAYER"""
import ctypes
import functools
import json
import os
import shlex
import sys
import unittest

import support
from support import FOLDER, PROGRAM, WithFolder, program_paths

BERTH, LAYER = program_paths(2)
simulated = functools.partial(support.simulated, BERTH)
COMMANDS, WORK = (os.path.join(FOLDER, name) for name in ("opencl_commands.py", "opencl_work.py"))
# One thread of the program uses CUDA, the other OpenCL.
BOTH = f"""
import sys, threading, time
sys.path.insert(0, {FOLDER!r})
import opencl_work, program
end = time.monotonic() + 4
def with_cuda():
    program.begin()
    program.work(program.kernel("k_1ms"), end - time.monotonic())
thread = threading.Thread(target=with_cuda)
thread.start()
opencl_work.work_until(opencl_work.Work(), end)
thread.join()
"""


class OneGpu(WithFolder):
    @classmethod
    def setUpClass(cls):
        try:
            ctypes.CDLL("libOpenCL.so.1")
        except OSError:
            raise unittest.SkipTest("no libOpenCL.so.1 here")

    def job(self, name, options, *program, form="khr"):
        """Words for a shell."""
        report = os.path.join(self.folder, f"{name}.json")
        return shlex.join([BERTH, "run", "--memory", "1GiB", *options, "--report", report, "--", "sh", "-c",
                           f'OPENCL_PCI={form} OPENCL_LAYERS={LAYER}:$OPENCL_LAYERS exec "$@"', "sh", sys.executable, *program])

    def together(self, one, other):
        """Runs both jobs at once. Returns the device seconds of each, and how long the longer one took."""
        done = simulated("sh", "-c", f"{one} & {other}; wait")
        self.assertEqual(done.returncode, 0, done.stderr)
        reports = [self.report(name) for name in ("a.json", "b.json")]
        return *(one["isolation"]["devices"][0]["device_seconds"] for one in reports), max(one["wall_seconds"] for one in reports)

    def test_a_cuda_job_and_an_opencl_job_take_turns(self):
        a, b, wall = self.together(self.job("a", ["--share", "60%"], PROGRAM, "work", "k_1ms", "4"),
                                   self.job("b", ["--share", "30%"], WORK, self.folder, "1", "4"))
        self.assertGreater(min(a, b), 0.2)
        # Without common turns, each has its device all the time.
        self.assertLess(a + b, wall + 0.5)
        self.assertTrue(0.5 < a / (a + b) < 0.85, (a, b))

    def test_a_program_that_uses_both_has_its_share_once(self):
        a, b, wall = self.together(self.job("a", ["--share", "50%"], "-c", BOTH),
                                   self.job("b", ["--share", "50%"], PROGRAM, "work", "k_1ms", "4"))
        # At a change between its two parts, up to 2 ms of work overlap. Without common turns it would be twice the time.
        self.assertLess(a + b, 1.4 * wall)
        self.assertTrue(0.3 < a / (a + b) < 0.62, (a, b))
        device = self.report("a.json")["isolation"]["devices"][0]
        self.assertGreater(device["launches"], 20)

    def test_a_device_is_recognised_by_each_form_of_its_address_and_by_its_uuid(self):
        gpu = json.loads(simulated(BERTH, "ls", "--json").stdout)["devices"][0]
        for form in ("khr", "nv", "amd", gpu["uuid"].removeprefix("GPU-").replace("-", "")):
            done = simulated("sh", "-c", self.job("a", ["--share", "30%"], COMMANDS, form=form))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"copy Intel's shared memory: 0 1\n")
            self.assertRegex(done.stdout, r"unmap a buffer: 0 1\n")
            device = self.report("a.json")["isolation"]["devices"][0]
            self.assertGreater(device["device_seconds"], 0, form)

    def test_a_gpu_that_opencl_does_not_identify_is_named_in_the_report(self):
        done = simulated("sh", "-c", self.job("a", ["--share", "30%"], COMMANDS, form="none"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"unmap a buffer: 0 0\n")
        self.assertIn("neither its uuid nor its PCI address", self.report("a.json")["isolation"]["not_counted"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
