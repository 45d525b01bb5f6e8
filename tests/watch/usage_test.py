#!/usr/bin/env python3
"""What `berth usage` and `berth history` say of jobs that share a GPU under the guard.

usage: usage_test.py BERTH"""
import json
import pathlib
import signal
import subprocess
import sys
import unittest

from daemon_bed import BERTH, Daemon

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "guard" / "program.py"


class Shared(Daemon):
    MACHINE = ("workstation-4090",)

    def test_each_job_has_the_device_time_that_its_guard_measured(self):
        jobs = [subprocess.Popen([BERTH, "run", "--memory", "1GiB", "--share", f"{share}%", "--", sys.executable, PROGRAM, "work", "k_1ms", "8"],
                                 env=self.variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for share in (25, 75)]
        for job in jobs:
            self.assertEqual(job.communicate(timeout=100)[1].count("error"), 0)
            self.assertEqual(job.returncode, 0)
        self.daemon.send_signal(signal.SIGTERM)  # it writes what it has collected
        self.daemon.wait(60)
        rows = json.loads(self.berth("usage", "--by", "job", "--json").stdout)["usage"]
        used = {row["name"]: row["used_seconds"] for row in rows if row["name"] != "-"}
        self.assertEqual(sorted(used), ["1", "2"], rows)
        # The two do not start and end at the same time, and this machine may be busy.
        small, large = sorted(used.values())
        self.assertTrue(0.12 < small / (small + large) < 0.42, used)
        self.assertLess(small + large, 8 + 2)
        for name, seconds in used.items():
            (row,) = json.loads(self.berth("history", "--job", name, "--json").stdout)["usage"]
            self.assertEqual(row["used_seconds"], seconds)


if __name__ == "__main__":
    unittest.main(verbosity=2)
