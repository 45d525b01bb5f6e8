#!/usr/bin/env python3
"""Programs under the guard, in valgrind and in the thread sanitizer, on the simulated driver. This runs a sample; BERTH_SOAK=1 runs more.

usage: checkers_test.py BERTH RANDOM_MEMORY DIRECT RACE_THREADS"""
import functools
import re
import shutil
import unittest

import support
from support import GIB, SOAK, program_paths

BERTH, RANDOM_MEMORY, DIRECT, RACE_THREADS = program_paths(4)
simulated = functools.partial(support.simulated, BERTH)
FOUND = 99


class Checkers(unittest.TestCase):
    def in_valgrind(self, *command, options=("--memory", "1GiB")):
        if shutil.which("valgrind") is None:
            self.skipTest("valgrind is not installed")
        done = simulated(BERTH, "run", *options, "--", "valgrind", "-q", f"--error-exitcode={FOUND}", *command)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("Invalid", done.stderr)
        return done.stdout

    def test_valgrind_finds_nothing_in_random_requests_of_all_kinds(self):
        for options in ((), ("--spill",), ("--share", "50%")) if SOAK else ((),):
            said = self.in_valgrind(RANDOM_MEMORY, "20000" if SOAK else "300", "7", options=("--memory", "128MiB", *options))
            refused, *_, left = [int(number) for number in re.findall(r"\d+", said)]
            self.assertGreater(refused, 0)
            self.assertEqual(left, 0)

    def test_the_guard_holds_in_valgrind(self):
        self.assertEqual(self.in_valgrind(DIRECT, str(GIB)), "2 2 0\n")

    def test_threads_that_get_each_others_freed_handles_do_not_race(self):
        # The program contains the guard, so it is not preloaded.
        done = simulated("env", f"TSAN_OPTIONS=exitcode={FOUND}", BERTH, "run", "--memory", "1GiB", "--", "env", "-u", "LD_PRELOAD", RACE_THREADS,
                         "handles", "1000000" if SOAK else "40000", "4")
        self.assertEqual((done.returncode, done.stdout), (0, "0 bytes counted, 0 bytes given\n"), done.stdout + done.stderr)
        self.assertNotIn("ThreadSanitizer", done.stderr)

    def test_processes_and_threads_that_race_for_the_quota_do_not_race_in_memory(self):
        done = simulated("env", f"TSAN_OPTIONS=exitcode={FOUND}", BERTH, "run", "--memory", "1GiB", "--", "env", "-u", "LD_PRELOAD", RACE_THREADS,
                         "pairs", "100000" if SOAK else "4000", "4")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        granted, refused, over = [int(number) for number in re.findall(r"\d+", done.stdout)]
        self.assertGreater(min(granted, refused), 10)
        self.assertEqual(over, 0)
        self.assertNotIn("ThreadSanitizer", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
