#!/usr/bin/env python3
"""A running job's output is never truncated, but its user and the broker are told how large it is. Output of ended jobs is deleted above
the limit, except for the newest.

usage: output_test.py BERTH
"""
import os
import pathlib
import sys
import unittest

import machine_of_all
from machine_of_all import MachineOfAll, wait_until

MIB = 1 << 20


class Output(MachineOfAll):
    def serve_again(self):
        """Restarts the broker, because it looks for excess output soon after its start and then only once a minute."""
        self.stop()
        settings = pathlib.Path("/etc/berth/berth.toml")
        settings.parent.mkdir(exist_ok=True)
        settings.write_text('keep_output = "1MiB"\n')
        self.serve()

    def queue(self, who, script):
        done = who("run", "--queue", "--cpu", "--", "sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout.split()[-1])

    def test_what_a_job_writes_while_it_runs_is_told_and_never_cut(self):
        alice = self.person("alice")
        job = self.queue(alice, f"head -c {3 * MIB} /dev/zero; echo all; while [ ! -e {alice.home}/go ]; do sleep 0.05; done")
        log = pathlib.Path(f"/var/lib/berth/jobs/{job}.log")
        self.assertTrue(wait_until(lambda: log.exists() and log.stat().st_size == 3 * MIB + 4))
        self.assertNotIn("output:", alice("jobs").stdout)
        self.assertIn("berth logs -f 1 (3.00 MiB so far)", alice("why", str(job)).stdout)
        self.serve_again()
        self.assertEqual(self.broker.stderr.readline(),
                         f"note: running job {job} has written 3.00 MiB, more than the limit for the output of all ended jobs\n")
        self.assertEqual(log.stat().st_size, 3 * MIB + 4)
        os.truncate(log, 5 << 30)
        self.assertIn("\noutput: job 1 has written 5.00 GiB\n", alice("jobs").stdout)
        os.truncate(log, 3 * MIB + 4)
        # The job ends. Its output is the newest, so it is kept.
        alice.command("touch", "go")
        self.assertEqual(alice("wait", str(job)).returncode, 0)
        self.serve_again()
        self.assertFalse(wait_until(lambda: not log.exists(), 2))
        later = self.queue(alice, "echo later")
        self.assertEqual(alice("wait", str(later)).returncode, 0)
        self.serve_again()
        self.assertTrue(wait_until(lambda: not log.exists(), 5))
        self.assertEqual(alice("logs", str(later)).stdout, "later\n")


if __name__ == "__main__":
    Output.berth = os.path.abspath(sys.argv[1])
    machine_of_all.enter()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
