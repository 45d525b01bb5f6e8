#!/usr/bin/env python3
"""The beginning and the end of a running job's output are kept, and its middle is removed above the limit. Output of ended jobs is deleted
above the limit, except for the newest.

usage: output_test.py BERTH
"""
import os
import pathlib
import subprocess
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
        settings.write_text('keep_output = "1MiB"\nadmins = ["gpuadmins"]\n')
        self.serve()

    def queue(self, who, script):
        done = who("run", "--queue", "--cpu", "--", "sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout.split()[-1])

    def test_the_middle_of_a_long_output_is_removed_while_the_job_runs(self):
        subprocess.run(["groupadd", "gpuadmins"], check=True)
        alice, boss = self.person("alice"), self.person("boss")
        subprocess.run(["usermod", "-aG", "gpuadmins", "boss"], check=True)
        boss.as_them[-1] = "--init-groups"
        script = f"seq 1 200000; while [ ! -e {alice.home}/more ]; do sleep 0.05; done; seq 200001 400000; echo all; "
        job = self.queue(alice, script + f"while [ ! -e {alice.home}/go ]; do sleep 0.05; done")
        log = pathlib.Path(f"/var/lib/berth/jobs/{job}.log")
        self.assertTrue(wait_until(lambda: log.exists() and log.stat().st_size == 1288895))
        self.serve_again()
        self.assertRegex(self.broker.stderr.readline(), rf"note: running job {job} has written more than 1.00 MiB: .* were removed\n")
        alice.command("touch", "more")
        self.assertTrue(wait_until(lambda: log.stat().st_size == 2688899))
        self.assertTrue(wait_until(lambda: log.stat().st_blocks * 512 < MIB))
        self.assertNotIn("output:", alice("jobs").stdout)
        self.assertIn("berth logs -f 1 (2.56 MiB so far)", alice("why", str(job)).stdout)
        lines = alice("logs", str(job)).stdout.splitlines()
        self.assertEqual((lines[0], lines[-2], lines[-1]), ("1", "400000", "all"))
        self.assertEqual(sum("output is larger than 1.00 MiB" in line for line in lines), 1)
        self.assertEqual(alice("logs", "-n", "2", str(job)).stdout, "400000\nall\n")
        told = alice("logs", "-n", "300000", str(job)).stdout
        self.assertTrue(told.endswith("\n400000\nall\n"))
        self.assertNotIn("\0", told)
        # The broker reads it for an administrator, who may not open the file.
        self.assertEqual(boss("logs", str(job)).stdout.splitlines(), lines)
        # The job ends. Its output is the newest, so it is kept.
        alice.command("touch", "go")
        self.assertEqual(alice("wait", str(job)).returncode, 0)
        self.serve_again()
        self.assertFalse(wait_until(lambda: not log.exists(), 2))
        later = self.queue(alice, "seq 1 150000; echo later")
        self.assertEqual(alice("wait", str(later)).returncode, 0)
        self.serve_again()
        self.assertTrue(wait_until(lambda: not log.exists(), 5))
        self.assertTrue(alice("logs", str(later)).stdout.endswith("\n150000\nlater\n"))


if __name__ == "__main__":
    Output.berth = os.path.abspath(sys.argv[1])
    machine_of_all.enter()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
