#!/usr/bin/env python3
"""Root's sampler shows what processes of another user use. GPUs are simulated; the process, its user and its CPU time are real.

usage: other_users_test.py BERTH"""
import json
import os
import signal
import subprocess
import time
import unittest

from daemon_bed import BERTH, Daemon
from machine import switch_off, switch_on

NOBODY = 65534
BUSY = "import sys\nprint('ready', flush=True)\nwhile True: pass"


def busy_process(test):
    """A process of nobody that uses a core."""
    process = subprocess.Popen(["/usr/bin/python3", "-c", BUSY], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", stdout=subprocess.PIPE)
    test.addCleanup(process.wait)
    test.addCleanup(process.kill)
    test.addCleanup(process.stdout.close)
    assert process.stdout.readline() == b"ready\n"
    return process.pid


def user_name():
    return subprocess.run(["id", "-un", str(NOBODY)], capture_output=True, text=True, check=True).stdout.strip()


@unittest.skipUnless(os.geteuid() == 0, "only root can start a process of another user")
class OtherUsers(unittest.TestCase):
    def test_the_process_of_another_user_has_all_its_numbers(self):
        # The memory on GPUs of AMD and Intel comes from fdinfo, on those of NVIDIA from the driver.
        for machine in ("lab-4x3090", "amd-2x7900xtx", "intel-arc-a770"):
            with self.subTest(machine):
                pid = busy_process(self)
                shell, variables = switch_on(BERTH, machine, "--attach", f"{pid}:0:3GiB")
                self.addCleanup(switch_off, shell)
                with subprocess.Popen([BERTH, "top", "--json"], env=variables | {"LC_ALL": "C.UTF-8"}, stdout=subprocess.PIPE, text=True) as top:
                    end = time.monotonic() + 60
                    for line in top.stdout:
                        (row,) = json.loads(line)["processes"] or [None]
                        if time.monotonic() > end or (row and (row["sm_percent"] or machine != "lab-4x3090") and (row["cpu_percent"] or 0) > 1):
                            break
                    top.kill()
                self.assertEqual((row["pid"], row["user"], row["uid"], row["memory_bytes"]), (pid, user_name(), NOBODY, 3 << 30))
                self.assertIn("while True", row["command"])
                self.assertGreater(row["cpu_percent"], 1)
                self.assertGreater(row["rss_bytes"], 1 << 20)
                self.assertEqual(row["state"], "R")


@unittest.skipUnless(os.geteuid() == 0, "only root can start a process of another user")
class UseByUser(Daemon):
    def setUp(self):
        self.MACHINE = ("lab-4x3090", "--attach", f"{busy_process(self)}:0:3GiB")
        super().setUp()

    def test_the_use_of_another_user_is_counted_for_that_user(self):
        time.sleep(8)  # frames of the sampler
        self.daemon.send_signal(signal.SIGTERM)  # it writes what it has collected
        self.daemon.wait(60)
        (row,) = [one for one in json.loads(self.berth("usage", "--by", "user", "--json").stdout)["usage"] if one["name"] == user_name()]
        self.assertGreater(row["held_seconds"], 3)
        self.assertGreater(row["memory_byte_seconds"], 3 * (3 << 30))


if __name__ == "__main__":
    unittest.main(verbosity=2)
