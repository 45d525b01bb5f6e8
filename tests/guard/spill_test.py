#!/usr/bin/env python3
"""`berth run --spill` on the simulated driver: linear memory beyond the quota is managed memory, counted apart. Other memory is not.

usage: spill_test.py BERTH"""
import functools
import json
import os
import shlex
import sys
import unittest

import support
from support import FOLDER, GIB, MIB, PROGRAM, WithFolder, program_paths

BERTH, = program_paths(1)
simulated = functools.partial(support.simulated, BERTH)
OUT_OF_MEMORY, NOT_SUPPORTED, INVALID_VALUE = 2, 801, 1
PREFERRED_LOCATION, ACCESSED_BY = 2, 3
START = f"""
import ctypes, os, subprocess, sys
sys.path.insert(0, {FOLDER!r})
import program
from program import allocate, check, cuda
program.begin()
size = ctypes.c_size_t
def advised(address, attribute):
    device = ctypes.c_int(-9)
    return cuda.cuMemRangeGetAttribute(ctypes.byref(device), size(4), attribute, address, size(1)), device.value
"""


class Spill(WithFolder):
    def job(self, script, *options):
        return simulated(BERTH, "run", *options, "--report", os.path.join(self.folder, "report.json"), "--", sys.executable, "-c",
                         START + script)

    def printed(self, script, *options):
        done = self.job(script, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def device(self):
        device, = self.report()["isolation"]["devices"]
        return device

    def test_without_the_option_memory_beyond_the_quota_is_refused(self):
        script = f"print(allocate({GIB})[0], allocate({GIB} + 1)[0])"
        self.assertEqual(self.printed(script, "--memory", "2GiB"), ["0 2"])
        self.assertIsNone(self.device()["spilled_peak_bytes"])

    def test_memory_beyond_the_quota_is_managed_with_advice_and_counted_apart(self):
        script = f"""
inside, beyond = allocate({GIB})[1], allocate({GIB} + 1)[1]
print([advised(address, attribute) for address in (inside, beyond) for attribute in ({PREFERRED_LOCATION}, {ACCESSED_BY})])
print(program.info())
check(cuda.cuMemFree_v2(beyond))
again, more = allocate(512), allocate({3 * GIB})
check(cuda.cuMemFree_v2(more[1]))
print(again[0], more[0], advised(again[1], {PREFERRED_LOCATION})[0], program.info()[0])
"""
        lines = self.printed(script, "--memory", "2GiB", "--spill")
        self.assertEqual(lines, [str([(INVALID_VALUE, -9), (INVALID_VALUE, -9), (0, 0), (0, 0)]), str((GIB, 2 * GIB)),
                                 f"0 0 {INVALID_VALUE} {GIB - 512}"])
        device = self.device()
        self.assertEqual((device["spilled_peak_bytes"], device["memory_peak_bytes"]), (3 * GIB, GIB + 512))
        self.assertEqual((device["allocations"], device["frees"], device["refusals"], device["slice_milliseconds"]), (4, 2, 0, 2000))

    def test_the_report_says_how_much_was_spilled_at_most_by_all_processes_together(self):
        script = f"""
if len(sys.argv) == 1:
    held = allocate({2 * GIB})[1]
    subprocess.run([sys.executable, "-c", os.environ["SCRIPT"], "child"], check=True)
else:
    print(allocate({2 * GIB})[0], allocate({GIB})[0])
"""
        done = simulated("env", f"SCRIPT={START + script}", BERTH, "run", "--memory", "1GiB", "--spill", "--report", "-", "--",
                         sys.executable, "-c", START + script)
        self.assertEqual(done.stdout, "0 0\n", done.stderr)
        self.assertIn("spilled at most 4.00 GiB", done.stderr)

    def test_lists_and_traces_show_what_is_spilled_now(self):
        script = f"""
held = allocate({GIB})[1], allocate({2 * GIB})[1]
for words in ("ps --json", "ls --json", "ps"):
    print(subprocess.run(["{BERTH}", *words.split()], capture_output=True, text=True).stdout.replace("\\n", "|"))
"""
        ps, ls, shown = self.printed(script, "--memory", "2GiB", "--spill")
        process, = (one for one in json.loads(ps.rstrip("|"))["processes"] if one["guard_spilled_bytes"])
        self.assertEqual((process["guard_memory_bytes"], process["guard_spilled_bytes"]), (GIB, 2 * GIB))
        lease, = (lease for device in json.loads(ls.rstrip("|"))["devices"] for lease in device["leases"])
        self.assertEqual(lease["guard_spilled_bytes"], 2 * GIB)
        self.assertRegex(shown, r"memory +spilled")
        self.assertIn("2.00 GiB", shown)

    def test_rows_and_managed_memory_of_the_program_are_spilled_too(self):
        script = f"""
address, pitch = ctypes.c_uint64(), size()
print(cuda.cuMemAllocPitch_v2(ctypes.byref(address), ctypes.byref(pitch), size(1000), size(1 << 20), 4), pitch.value,
      advised(address, {PREFERRED_LOCATION}))
print(cuda.cuMemAllocPitch_v2(ctypes.byref(address), ctypes.byref(pitch), size(1000), size(1 << 20), 3),
      cuda.cuMemAllocPitch_v2(None, ctypes.byref(pitch), size(1000), size(1 << 20), 4), cuda.cuMemAlloc_v2(None, size({GIB})))
print(cuda.cuMemAllocManaged(ctypes.byref(address), size({GIB}), 1), advised(address, {PREFERRED_LOCATION}))
"""
        self.assertEqual(self.printed(script, "--memory", "512MiB", "--spill"),
                         ["0 1024 (0, 0)", f"{INVALID_VALUE} {INVALID_VALUE} {INVALID_VALUE}", "0 (0, -2)"])
        self.assertEqual(self.device()["spilled_peak_bytes"], 2 * GIB)

    def test_more_than_the_device_has_is_granted_and_more_than_addresses_is_refused(self):
        done = self.job(f"print(allocate({64 * GIB})[0], allocate(1 << 60)[0])", "--memory", "2GiB", "--spill")
        self.assertEqual(done.stdout, f"0 {OUT_OF_MEMORY}\n", done.stderr)
        self.assertIn("berth: out of memory beyond the job's quota: the driver refused 1073741824.00 GiB of managed memory", done.stderr)
        self.assertEqual((self.device()["spilled_peak_bytes"], self.device()["refusals"]), (64 * GIB, 1))

    def test_the_quota_holds_for_memory_that_cannot_become_managed(self):
        script = f"""
address, low, pool = ctypes.c_uint64(), ctypes.c_uint32(), ctypes.c_void_p()
print(cuda.cuMemAllocAsync(ctypes.byref(address), size({2 * MIB}), None), cuda.cuMemAlloc(ctypes.byref(low), {2 * MIB}))
"""
        self.assertEqual(self.printed(script, "--memory", "1MiB", "--spill"), ["2 2"])
        self.assertEqual((self.device()["spilled_peak_bytes"], self.device()["refusals"]), (0, 2))

    def test_spilled_memory_is_moved_to_the_device_when_a_turn_begins(self):
        script = f"""
inside, beyond, managed = allocate({GIB}), allocate({2 * GIB}), ctypes.c_uint64()
check(cuda.cuMemAllocManaged(ctypes.byref(managed), size({GIB}), 1))
kernel = program.kernel("k_1ms")
program.work(kernel, 0.1)
"""
        self.printed(script, "--memory", "1GiB", "--spill")
        device = self.device()
        # Memory within the quota is there, and the program's own managed memory is the program's affair.
        self.assertEqual((device["prefetches"], device["prefetched_bytes"]), (1, 2 * GIB))
        self.assertTrue(0 < device["prefetch_seconds"] < device["device_seconds"], device)
        # Nothing limits how much a job without a share sends, and the simulated driver's queue has no end.
        self.printed(script.replace("kernel, 0.1", "kernel, 0.001"), "--memory", "8GiB")
        self.assertEqual([self.device()[key] for key in ("prefetches", "prefetched_bytes", "prefetch_seconds")], [None] * 3)

    def test_no_more_is_moved_than_fits(self):
        script = f"""
all = [allocate({20 * GIB})[0], allocate({10 * GIB})[0], allocate({30 * GIB})[0]]
program.work(program.kernel("k_1ms"), 0.05)
print(all)
"""
        self.assertEqual(self.printed(script, "--memory", "1GiB", "--spill"), ["[0, 0, 0]"])
        # The simulated driver puts the first 20 GiB on the device, which has 24 GiB.
        self.assertEqual(self.device()["prefetches"], 1)
        self.assertTrue(3 * GIB < self.device()["prefetched_bytes"] <= 4 * GIB, self.device())

    def test_each_of_two_jobs_moves_its_memory_back_when_it_gets_the_device(self):
        script = f"""
held = allocate({64 * MIB + 1})
program.work(program.kernel("k_1ms"), 4)
"""
        job = [BERTH, "run", "--memory", "64MiB", "--spill", "--slice", "50ms"]
        one, other = (shlex.join([*job, "--report", os.path.join(self.folder, name), "--", sys.executable, "-c", START + script])
                      for name in ("a.json", "b.json"))
        done = simulated("sh", "-c", f"{one} & {other}; wait")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("a.json", "b.json"):
            device, = self.report(name)["isolation"]["devices"]
            # They do not begin and end together.
            self.assertGreaterEqual(device["prefetches"], 2, name)
            self.assertEqual(device["prefetched_bytes"], device["prefetches"] * (64 * MIB + 512))

    def test_a_program_that_exports_memory_is_refused_at_that_call(self):
        script = f"""
handle, address = ctypes.create_string_buffer(64), allocate(512)[1]
print(cuda.cuIpcGetMemHandle(handle, address))
"""
        self.assertEqual(self.printed(script, "--memory", "1GiB"), ["0"])
        done = self.job(script, "--memory", "1GiB", "--spill")
        self.assertEqual(done.stdout, f"{NOT_SUPPORTED}\n", done.stderr)
        self.assertRegex(done.stderr, r"berth: python\S* \(pid \d+\) called cuIpcGetMemHandle, which is refused in a job with --spill")

    def test_a_job_that_cannot_spill_does_not_start(self):
        for options, error in ((("--spill",), "E0013"), (("--spill", "--memory", "1GiB", "--isolation", "mps"), "E1096"),
                               (("--spill", "--memory", "1GiB", "--isolation", "none"), "E1096")):
            done = self.job("print('started')", *options)
            self.assertEqual(done.stdout, "", options)
            self.assertIn(error, done.stderr)
        done = simulated(BERTH, "run", "--gpus", "2", "--spill", "--memory", "1GiB", "--", "echo", "started", machine="dgx-h100-8")
        self.assertEqual(done.stdout, "", done.stderr)
        self.assertIn("E1096", done.stderr)

    def test_null_pointers_and_absurd_numbers_never_crash_it(self):
        hooks = os.path.join(FOLDER, "..", "..", "preload", "cuda", "hooks.inc")
        done = simulated(BERTH, "run", "--memory", "1MiB", "--spill", "--", sys.executable, os.path.join(FOLDER, "absurd.py"), hooks)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(done.stdout.splitlines()), 1000)

    def test_a_queued_job_spills_too(self):
        script = f"{BERTH} run --queue --spill --memory 1GiB -- {sys.executable} {PROGRAM} quota {3 * GIB} && {BERTH} wait 1 && {BERTH} report 1"
        done = simulated("sh", "-c", script)
        self.assertIn("spilled at most 6.00 GiB", done.stdout, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
