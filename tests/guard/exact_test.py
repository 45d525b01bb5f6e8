#!/usr/bin/env python3
"""The guard's sums on the simulated driver. They equal what the driver gave after every random request. They never exceed the quota when
processes race. They are zero again after kills at any moment. This runs a sample; BERTH_SOAK=1 runs the full counts."""
import re
import unittest

from support import SOAK, program_paths, simulated

BERTH, RANDOM_MEMORY, RACE = program_paths(3)


class Exact(unittest.TestCase):
    def numbers(self, *command, options=()):
        done = simulated(BERTH, BERTH, "run", "--memory", "1GiB", *options, "--", *command)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [int(number) for number in re.findall(r"\d+", done.stdout)]

    def test_what_is_counted_is_what_the_driver_gave_over_all_kinds_of_memory(self):
        for seed in ("1", "2", "3"):
            refused, launched, graphs_refused, left = self.numbers(RANDOM_MEMORY, "1000000" if SOAK else "20000", seed)
            self.assertGreater(refused, 100)
            self.assertGreater(launched, 500)
            self.assertGreater(graphs_refused, 20)
            self.assertEqual(left, 0)

    def test_what_is_spilled_is_counted_exactly_too(self):
        for seed in ("4", "5"):
            refused, launched, _, left = self.numbers(RANDOM_MEMORY, "1000000" if SOAK else "20000", seed, options=("--spill",))
            self.assertGreater(refused, 100)  # kinds of memory that are never spilled
            self.assertGreater(launched, 500)
            self.assertEqual(left, 0)

    def test_processes_that_race_never_get_more_than_the_quota(self):
        for processes in (2, 4, 16):
            granted, refused, over = self.numbers(RACE, "pairs", "1000000" if SOAK else "20000", str(processes))
            self.assertGreater(granted, 100)
            self.assertGreater(refused, 100)
            self.assertEqual(over, 0)

    def test_threads_that_get_each_others_freed_handles_leave_nothing_charged(self):
        self.assertEqual(self.numbers(RACE, "handles", "1000000" if SOAK else "100000", "4"), [0, 0])

    def test_a_kill_at_any_moment_leaves_nothing_behind_and_blocks_nobody(self):
        count = 10000 if SOAK else 200
        probes, failed, slowest, slowest_call = self.numbers(RACE, "kills", str(count))
        self.assertEqual((probes, failed), (count, 0))
        # The goals are 20 ms, and that no waiting process is blocked for 50 ms. The limit here allows for a busy machine.
        self.assertLess(max(slowest, slowest_call), 1_000_000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
