#!/usr/bin/env python3
"""NVML inside a job shows the quota as the device's memory, and only the job's processes. Berth's own commands there show the device.

usage: nvml_test.py BERTH"""
import functools
import json
import os
import sys
import unittest

import support
from support import FOLDER, GIB, PROGRAM, WithFolder, program_paths

BERTH, = program_paths(1)
simulated = functools.partial(support.simulated, BERTH)
LOOK = os.path.join(FOLDER, "nvml_program.py")
# Another program, which is not in a job.
OTHER = f"mkfifo $BERTH_SIM_DIR/pipe; {sys.executable} {PROGRAM} hold {GIB} > $BERTH_SIM_DIR/pipe & read held < $BERTH_SIM_DIR/pipe; "
HEAD = f"import sys; sys.path.insert(0, {FOLDER!r}); from nvml_program import *\nnvml.nvmlInit_v2()\n"


class Nvml(WithFolder):
    def job(self, *command, before=""):
        report = os.path.join(self.folder, "report.json")
        done = simulated("sh", "-c", f'{before}{BERTH} run --memory 2GiB --report {report} -- "$@"; ended=$?; kill $!; exit $ended', "sh", *command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_quota_is_the_memory_and_other_programs_are_not_listed(self):
        first, then = (json.loads(line) for line in self.job(sys.executable, LOOK, str(GIB), before=OTHER).splitlines())
        self.assertEqual(first["memory"], [0, 0, 2 * GIB, 0, 2 * GIB, 2 * GIB, 0, 2 * GIB])
        self.assertEqual(then["memory"], [0, 0, 2 * GIB, GIB, GIB, 2 * GIB, GIB, GIB])
        self.assertEqual((first["pids"], then["pids"]), ([[0]] * 3, [[7, then["own"]]] * 3))

    def test_without_the_guard_it_shows_the_device(self):
        done = simulated("sh", "-c", f"{OTHER}{sys.executable} {LOOK} 512; kill $!")
        shown = json.loads(done.stdout.splitlines()[-1])
        self.assertGreater(shown["memory"][2], 20 * GIB)
        self.assertEqual([len(pids) for pids in shown["pids"]], [3] * 3)

    def test_berth_in_the_job_sees_the_device(self):
        seen = json.loads(self.job(BERTH, "ls", "--json", before=OTHER))["devices"][0]
        self.assertGreater(seen["memory_total_bytes"], 20 * GIB)
        self.assertGreater(seen["memory_used_bytes"], GIB)

    def test_a_program_that_only_looks_is_not_counted_as_one_that_uses_cuda(self):
        self.job(sys.executable, "-c", HEAD + "seen()")
        self.assertEqual(self.report()["isolation"]["programs"], 0)

    def test_kernels_are_utilization(self):
        """The simulated machine itself uses about 2 %."""
        job = f"{BERTH} run --memory 1GiB --share 50% --report {self.folder}/report.json -- {sys.executable} {PROGRAM} work k_1ms 4"
        done = simulated("sh", "-c", f"{job} > /dev/null & sleep 2; {BERTH} ls --json; wait; sleep 1; {BERTH} ls --json")
        during, after = (json.loads(line)["devices"][0]["utilization_percent"] for line in done.stdout.splitlines())
        self.assertGreater(during, 50, done.stderr)
        self.assertLess(after, 20)
        self.assertGreater(self.report()["devices"][0]["utilization_mean_percent"], 40)

    def test_kernels_are_the_utilization_of_their_process(self):
        """Two processes with endless work have half of the device each. `berth ps` showed 0 %."""
        job = f"{sys.executable} {PROGRAM} work k_1ms 9 > /dev/null &"
        done = simulated("sh", "-c", f"{job} a=$!; {job} b=$!; sleep 2; {BERTH} ps --json; kill -9 $a $b")
        shares = [one["sm_percent"] for one in json.loads(done.stdout)["processes"] if PROGRAM in one["command"]]
        self.assertEqual(len(shares), 2, done.stdout)
        for share in shares:
            self.assertGreater(share, 30)
            self.assertLess(share, 70)

    def test_functions_that_the_loader_finds_and_null_pointers(self):
        lines = self.job(sys.executable, "-c", HEAD + f"""
linked = ctypes.CDLL(None)
device, first, count = POINTER(), Memory(), UINT(1)
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
print(linked.nvmlDeviceGetMemoryInfo(device, ctypes.byref(first)), first.total)
print(nvml.nvmlDeviceGetMemoryInfo(device, None) != 0, nvml.nvmlDeviceGetMemoryInfo(None, ctypes.byref(first)) != 0)
print(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, None, None) != 0)
program.begin()
print(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), None) != 0)
""").splitlines()
        self.assertEqual(lines, [f"0 {2 * GIB}", "True True", "True", "True"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
