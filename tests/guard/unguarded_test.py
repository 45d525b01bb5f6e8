#!/usr/bin/env python3
"""A process of a job that uses device memory without the guard is named in the report and in the lists. With --strict it is ended, and a
program in which the guard cannot work gets no device.

usage: unguarded_test.py BERTH"""
import functools
import os
import sys
import unittest

import support
from support import FOLDER, GIB, MIB, PROGRAM, WithFolder, program_paths

BERTH, = program_paths(1)
simulated = functools.partial(support.simulated, BERTH)
NOT_PERMITTED = 800
# Starts a process with the guard and one without, waits until `seen()` is true, and ends them. Prints whether the second one lived.
JOB = f"""
import json, os, signal, subprocess, sys, time
without = {{key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "BERTH_GUARD")}}
hold = lambda size, env: subprocess.Popen([sys.executable, {PROGRAM!r}, "hold", str(size)], stdout=subprocess.PIPE, env=env)
inside, outside = hold({512 * MIB}, None), hold({3 * GIB}, without)
for one in (inside, outside):
    one.stdout.readline()
def listed(verb):
    return json.loads(subprocess.run([{BERTH!r}, verb, "--json"], capture_output=True, text=True).stdout)
end = time.monotonic() + 60
"""


class Unguarded(WithFolder):
    def job(self, script, *options):
        return simulated(BERTH, "run", "--memory", "2GiB", *options, "--report", f"{self.folder}/report.json", "--", sys.executable, "-c", script)

    def test_a_process_without_the_guard_is_named_in_the_report_and_the_lists(self):
        done = self.job(JOB + """
time.sleep(3)
names = f"pid {outside.pid} of job {os.environ['BERTH_JOB']} uses 3.00 GiB of device 0 without the job's guard"
print(outside.poll(), [listed(verb)["notes"].count(names) for verb in ("ps", "ls")], outside.pid)
inside.kill(), outside.kill()
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        lived, pid = done.stdout.rsplit(None, 1)
        self.assertEqual(lived, "None [1, 1]", done.stderr)
        report = self.report()
        self.assertRegex(report["isolation"]["not_counted"], rf"^3.00 GiB used by \S.* \(pid {pid}\), which runs without the guard$")
        self.assertEqual((report["isolation"]["by"], report["isolation"]["programs"]), ("guard", 1))

    def test_processes_with_the_guard_are_not_named(self):
        done = self.job(f"""
import subprocess, sys, time
some = [subprocess.Popen([sys.executable, {PROGRAM!r}, "hold", str({MIB})], stdout=subprocess.DEVNULL) for _ in range(3)]
time.sleep(3)
print(subprocess.run([{BERTH!r}, "ps"], capture_output=True, text=True).stdout)
for one in some:
    one.kill()
""", "--strict")
        self.assertNotIn("without the job's guard", done.stdout)
        self.assertIsNone(self.report()["isolation"]["not_counted"])
        self.assertEqual([note for note in self.report()["notes"] if "without" in note], [])

    def test_strict_ends_a_process_without_the_guard(self):
        done = self.job(JOB + """
print(outside.wait(60), inside.poll(), outside.pid)
time.sleep(1)
print(inside.poll())
inside.kill()
""", "--strict")
        self.assertEqual(done.returncode, 0, done.stderr)
        ended, lives, pid, still = done.stdout.split()
        self.assertIn(ended, ("-15", "-9"))
        self.assertEqual((lives, still), ("None", "None"))
        self.assertEqual(len([note for note in self.report()["notes"] if f"(pid {pid}) was ended: it used 3.00 GiB" in note]), 1)

    def test_strict_refuses_a_program_that_cannot_read_its_limits(self):
        script = ("import os, subprocess, sys; path = os.environ['BERTH_GUARD'] + '/limits'; os.rename(path, path + 2 * 'x')\n"
                  f"print(subprocess.run([sys.executable, {PROGRAM!r}, 'quota', '1024'], stderr=subprocess.STDOUT).returncode, flush=True)\n"
                  f"subprocess.run(['env', '-u', 'BERTH_GUARD', sys.executable, {PROGRAM!r}, 'quota', '1024'], stderr=subprocess.STDOUT)\n"
                  "os.rename(path + 2 * 'x', path)")
        said = self.job(script, "--strict").stdout
        self.assertEqual(said.count("with --strict, no device is used"), 2, said)
        self.assertEqual(said.count(f"CUDA error {NOT_PERMITTED}"), 2, said)
        self.assertIn("1 process could not read its limits", self.report()["isolation"]["why_not"])

    def test_a_guard_of_another_version_limits_nothing_and_says_so(self):
        """The version is behind the magic number of both files."""
        script = ("import os, subprocess, sys; path = os.environ['BERTH_GUARD'] + '/usage'; file = open(path, 'r+b'); file.seek(8)\n"
                  "before = file.read(4); file.seek(8); file.write(bytes([before[0] + 1])); file.flush()\n"
                  f"subprocess.run([sys.executable, {PROGRAM!r}, 'quota', '1024'])\nfile.seek(8); file.write(before); file.flush()")
        done = self.job(script)
        self.assertIn(": of another version of Berth); limits not enforced", done.stderr)
        self.assertIsNone(self.report()["isolation"]["by"])

    def test_strict_jobs_that_cannot_be_limited_do_not_start(self):
        for options, error in ((("--strict",), "E0013"), (("--strict", "--memory", "1GiB", "--isolation", "none"), "--isolation none")):
            done = simulated(BERTH, "run", *options, "--", "echo", "started")
            self.assertEqual(done.stdout, "", options)
            self.assertIn(error, done.stderr)
        inner = f"{BERTH} run --memory 1GiB --strict -- echo started"
        done = simulated(BERTH, "run", "--memory", "2GiB", "--", "sh", "-c", f"{inner}; echo $?")
        self.assertNotIn("started", done.stdout)
        self.assertIn("E1091", done.stderr)

    def test_a_queued_job_is_strict_too(self):
        script = (f"{BERTH} run --queue --strict --memory 1GiB -- env -u BERTH_GUARD {sys.executable} {PROGRAM} quota 512; "
                  f"{BERTH} wait 1; {BERTH} logs 1")
        done = simulated("sh", "-c", script)
        self.assertIn(f"CUDA error {NOT_PERMITTED}", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
