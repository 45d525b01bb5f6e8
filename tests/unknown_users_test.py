#!/usr/bin/env python3
"""A GPU with an unreadable process list is busy for `berth run`, and "not known" on every screen.

usage: unknown_users_test.py BERTH LIBRARY…"""
import json
import os
import subprocess
import sys
import unittest

BERTH, *LIBRARIES = sys.argv[1:]
del sys.argv[1:]


def run(library, *words):
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "BERTH_OPENCL_LIBRARY": "", "BERTH_NVML_LIBRARY": library}
    return subprocess.run([BERTH, *words], capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, timeout=60)


class UnknownUsers(unittest.TestCase):
    def test_no_screen_calls_it_free(self):
        for library in LIBRARIES:
            for words in ([], ["ls"], ["ps"]):
                with self.subTest(library=library, words=words):
                    said = run(library, *words).stdout
                    self.assertIn("not known", said)
                    self.assertNotIn("free  ", said)
                    self.assertNotIn("no process", said)
            for device in json.loads(run(library, "--json").stdout)["devices"][:2]:
                self.assertEqual((device["state"], device["users"]), ("not_known", None))
            for device in json.loads(run(library, "ls", "--json").stdout)["devices"][:2]:
                self.assertIsNone(device["process_count"])
                self.assertIn(device["processes_unknown"], ("not supported", "no permission", "failed"))

    def test_neither_the_live_view_nor_the_metrics_say_that_nobody_uses_it(self):
        for library in LIBRARIES:
            with self.subTest(library=library):
                top = run(library, "top", "--once").stdout
                self.assertIn("users not known", top)
                self.assertNotIn("no process is on a device", top)
                metrics = run(library, "exporter", "--once").stdout
                known = [line for line in metrics.splitlines() if line.startswith("berth_device_processes_known{")]
                self.assertEqual([line[-2:] for line in known[:2]], [" 0", " 0"], known)

    def test_no_job_gets_it_unasked(self):
        for library in LIBRARIES:
            for words in ([], ["--gpus", "1"]):
                with self.subTest(library=library, words=words):
                    done = run(library, "run", *words, "--no-wait", "--", "true")
                    self.assertEqual(done.returncode, 6, done.stderr)
                    self.assertIn("its users are not known", done.stderr)
                    self.assertNotIn(": free", done.stderr)
            named = run(library, "run", "--devices", "1", "--json", "--", "true")
            self.assertEqual(named.returncode, 0, named.stderr)
            self.assertIn("its users are not known", " ".join(json.loads(named.stderr)["reasons"]))


if __name__ == "__main__":
    unittest.main()
