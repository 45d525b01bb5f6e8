#!/usr/bin/env python3
"""A process of a job that SIGKILL does not end, because it waits in the kernel: nobody gets the job's GPU until it is gone.

usage: aside_test.py BERTH

A process that a cgroup v1 freezer holds looks the same: state D, and SIGKILL waits.
"""
import json
import os
import pathlib
import sys
import tempfile
import unittest

from machine import Machine, wait_until

FREEZER = pathlib.Path("/sys/fs/cgroup/freezer")
PATIENCE = 60.0


@unittest.skipUnless(os.geteuid() == 0 and os.access(FREEZER / "cgroup.procs", os.W_OK), "needs root and a cgroup v1 freezer")
class Aside(Machine):
    machine = "workstation-4090"

    def setUp(self):
        super().setUp()
        self.freezer = pathlib.Path(tempfile.mkdtemp(prefix="berth-test-", dir=FREEZER))
        self.addCleanup(self.freezer.rmdir)
        self.addCleanup(self.thaw)

    def freeze(self, pid):
        (self.freezer / "cgroup.procs").write_text(str(pid))
        (self.freezer / "freezer.state").write_text("FROZEN")
        self.assertTrue(wait_until(lambda: "FROZEN" in (self.freezer / "freezer.state").read_text()))

    def thaw(self):
        (self.freezer / "freezer.state").write_text("THAWED")
        self.assertTrue(wait_until(lambda: not (self.freezer / "cgroup.procs").read_text()))

    def queue(self, *words):
        done = self.run_berth("--json", "run", "--queue", "--gpus", "1", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["job"]["id"]

    def program(self):
        """Words of a command that writes its pid, and a function that waits for that."""
        path = self.folder / "pid"
        words = ("--", sys.executable, "-c", f"import os, pathlib, time; pathlib.Path({str(path)!r}).write_text(str(os.getpid()) + ' '); time.sleep(600)")

        def pid():
            self.assertTrue(wait_until(lambda: path.exists() and path.read_text().endswith(" "), PATIENCE))
            return int(path.read_text())
        return words, pid

    def is_set_aside(self, job, pid):
        aside, = self.call("GET", "/v1/jobs")["aside"]
        self.assertEqual((aside["job"], aside["pids"]), (job, [pid]))
        self.assertIn(f"set aside: GPU 0, because process {pid} of job {job} cannot be killed", self.run_berth("jobs").stdout)
        self.assertIn(f"set aside: GPU 0, because process {pid} of job {job} cannot be killed", " ".join(self.run_berth("ls").stdout.split()))
        self.assertIn("set aside", self.run_berth().stdout)
        doctor = json.loads(self.run_berth("--json", "doctor", "--only", "RT18").stdout)["findings"]
        self.assertEqual([one["fix"][0]["command"] for one in doctor], [f"sudo cat /proc/{pid}/stack"])
        self.assertIn(f"process {pid} of the ended job {job} waits in the kernel", doctor[0]["evidence"][0])
        self.assertIn("NVIDIA GeForce RTX 4090", doctor[0]["title"])
        other = self.queue("--", "true")
        self.assertFalse(wait_until(lambda: self.job(other)["state"] != "waiting", 2.5))
        self.assertIn(f"set aside: process {pid} of job {job}, which has ended, cannot be killed", self.run_berth("why", str(other)).stdout)
        return other

    def test_the_gpu_of_a_queued_job_is_set_aside_until_the_process_is_gone(self):
        words, pid = self.program()
        job = self.queue("--grace", "100ms", *words)
        self.freeze(pid())
        self.run_berth("cancel", str(job))
        self.assertTrue(wait_until(lambda: self.job(job)["state"] == "cancelled", PATIENCE), self.job(job))
        other = self.is_set_aside(job, pid())
        self.kill_brokers()
        self.run_berth("jobs")  # starts the next one
        self.assertEqual(self.job(other)["state"], "waiting")
        self.assertEqual(len(self.call("GET", "/v1/jobs")["aside"]), 1)
        self.thaw()
        self.assertTrue(wait_until(lambda: self.job(other)["state"] == "done", PATIENCE), self.job(other))
        self.assertEqual(self.call("GET", "/v1/jobs")["aside"], [])

    def test_that_of_a_job_in_the_foreground_too(self):
        words, pid = self.program()
        front = self.start("run", "--gpus", "1", "--grace", "100ms", *words)
        self.freeze(pid())
        job = self.call("GET", "/v1/jobs")["jobs"][0]["id"]
        self.run_berth("cancel", str(job))
        front.wait(60)
        other = self.is_set_aside(job, pid())
        self.thaw()
        self.assertTrue(wait_until(lambda: self.job(other)["state"] == "done", PATIENCE), self.job(other))

    def test_that_of_a_job_whose_front_is_killed_too(self):
        words, pid = self.program()
        front = self.start("run", "--gpus", "1", *words)
        self.freeze(pid())
        job = self.call("GET", "/v1/jobs")["jobs"][0]["id"]
        front.kill()
        front.wait(60)
        self.assertTrue(wait_until(lambda: self.job(job)["state"] == "lost", PATIENCE), self.job(job))
        other = self.is_set_aside(job, pid())
        self.thaw()
        self.assertTrue(wait_until(lambda: self.job(other)["state"] == "done", PATIENCE), self.job(other))


if __name__ == "__main__":
    Machine.berth = sys.argv.pop(1)
    unittest.main()
