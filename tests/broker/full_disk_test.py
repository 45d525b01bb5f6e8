#!/usr/bin/env python3
"""A user's broker with a full or read-only disk: it reports that, and everything it confirmed is still there afterwards.

usage: full_disk_test.py BERTH
"""
import json
import os
import subprocess
import sys
import unittest

import machine_of_all
from machine import Machine, wait_until


class FullDisk(Machine):
    def setUp(self):
        super().setUp()
        self.state = self.folder / "state"
        self.state.mkdir()
        self.mount("size=4m,mode=700")
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.state], check=True)
        self.variables |= {"BERTH_STATE_DIR": str(self.state), "LC_ALL": "C.UTF-8"}

    def mount(self, options):
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "berth", self.state], check=True)

    def queue(self, *words, **more):
        done = self.run_berth("run", "--queue", *words, **more)
        self.assertEqual((done.returncode, done.stdout.strip().isdigit()), (0, True), done.stderr)
        return int(done.stdout.split()[-1])

    def waits_for(self, name, code):
        """A command that exits with this code as soon as the file exists."""
        return ["sh", "-c", f"while [ ! -e {self.folder}/{name} ]; do sleep 0.02; done; exit {code}"]

    def fill(self, left=0):
        """Fills the disk, except for this many bytes."""
        filler = self.state / "filler"
        with open(filler, "ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
            size = file.tell()
        os.truncate(filler, max(0, size - left))

    def refused(self, *words, identifier, hint, **more):
        done = self.run_berth(*words, **more)
        self.assertNotEqual(done.returncode, 0, (words, done.stdout))
        self.assertIn(identifier, done.stderr)
        self.assertIn(f"hint: {hint}", done.stderr)

    def test_what_was_confirmed_is_there_when_there_is_room_again(self):
        ends_meanwhile = self.queue("--gpus", "2", "--", *self.waits_for("now", 5))
        ends_later = self.queue("--gpus", "2", "--", *self.waits_for("later", 6))
        confirmed, refusals, big = [], set(), "x" * 20_000
        while not refusals:
            done = self.run_berth("run", "--queue", "--gpus", "4", "--", "true", BIG=big)
            if done.returncode == 0:
                confirmed.append(int(done.stdout.split()[-1]))
                continue
            self.assertIn("No space left on device", done.stderr + "No space left on device" * ("full" in done.stderr))
            self.assertIn("hint: df -h ", done.stderr)
            refusals.add(done.returncode)
        self.assertGreater(len(confirmed), 20)
        self.fill()
        # `hold` and `release` create no file; they fail only when the journal's last page is full.
        for number in range(2000):
            done = self.run_berth("hold" if number % 2 == 0 else "release", str(confirmed[0]))
            if done.returncode != 0:
                break
        self.assertRegex(done.stderr, r"error: the journal \S+journal.db cannot be written: .*full.*\(E0908\)\n\nhint: df -h ")
        # The broker still answers questions, but reports nothing that it could not write.
        known = {one["id"]: one["state"] for one in self.call("GET", "/v1/jobs")["jobs"]}
        self.assertEqual(set(known), {ends_meanwhile, ends_later, *confirmed})
        self.refused("cancel", str(ends_later), identifier="E0908", hint="df -h ")
        # Commands that only show the state report the problem, too.
        for words in (["jobs"], ["why", str(confirmed[-1])], []):
            done = self.run_berth(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(" ".join((done.stdout + done.stderr).split()), r"journal.db cannot be written: .*: no job is accepted or started until this is fixed")
        self.assertIn("nothing starts until the broker can write its journal", self.run_berth("why", str(confirmed[-1])).stdout)
        self.assertEqual(self.call("GET", f"/v1/jobs/{confirmed[-1]}/why")["obstruction"], "journal")
        # A job in a terminal runs without a lease, but never on a device that another job has.
        job = self.run_berth("run", "--gpus", "1", "--no-wait", "--", "sh", "-c", "exit 3")
        self.assertEqual(job.returncode, 6, job.stderr)
        self.assertEqual(self.run_berth("run", "--cpu", "--", "sh", "-c", "exit 3").returncode, 3)
        (self.folder / "now").touch()
        ends_on = {one["index"] for one in json.loads(self.run_berth("ls", "--json").stdout)["devices"]
                   for lease in one["leases"] or [] if lease["job"] == ends_later}
        self.assertEqual(len(ends_on), 2)
        job = self.run_berth("run", "--gpus", "1", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        self.assertIn("no lease: ", job.stderr)
        self.assertNotIn(int(job.stdout), ends_on)
        # Running jobs continue, and their end is recorded.
        status = self.state / "jobs" / f"{ends_meanwhile}.status"
        self.assertTrue(wait_until(lambda: "exit_code" in status.read_text()))
        [broker] = self.brokers()
        subprocess.run(["mount", "-o", "remount,size=64m", self.state], check=True)
        self.assertTrue(wait_until(lambda: self.run_berth("run", "--queue", "--cpu", "--", "true").returncode == 0))
        # For a moment, the process that the broker forks to start a job looks like a second broker.
        self.assertTrue(wait_until(lambda: self.brokers() == [broker]))
        self.assertEqual(self.run_berth("wait", str(ends_meanwhile)).returncode, 5)
        known = {one["id"]: one["state"] for one in self.call("GET", "/v1/jobs")["jobs"]}
        for number in confirmed:
            self.assertIn(known[number], ("waiting", "held"))
        self.assertEqual(known[ends_later], "running")
        (self.folder / "later").touch()
        self.assertEqual(self.run_berth("wait", str(ends_later)).returncode, 6)
        for number in confirmed:
            self.run_berth("release", str(number))
        for number in confirmed:
            self.assertEqual((self.run_berth("wait", str(number)).returncode, self.job(number)["why"]), (0, None))

    def test_a_state_folder_that_cannot_be_written_is_said(self):
        first = self.queue("--gpus", "1", "--", *self.waits_for("now", 5))
        self.kill_brokers()
        self.assertTrue(wait_until(lambda: not self.brokers()))
        before = (self.state / "journal.db").read_bytes()
        # The keeper has open files, as on a file system that the kernel has made read-only after an error.
        for empty in (False, True):
            if empty:
                subprocess.run(["umount", "--lazy", self.state], check=True)
                self.mount("size=1m,mode=700,ro")
            else:
                self.read_only(True)
            self.refused("serve", identifier="(E0907)", hint="ls -l")
            self.refused("run", "--queue", "--", "true", identifier="journal", hint="ls -l")
            job = self.run_berth("run", "--gpus", "1", "--", "sh", "-c", "exit 3")
            self.assertEqual(job.returncode, 3)
            self.assertIn("no lease: ", job.stderr)
            if not empty:
                self.assertEqual((self.state / "journal.db").read_bytes(), before)
                self.read_only(False)
                (self.folder / "now").touch()
                self.assertEqual(self.run_berth("wait", str(first)).returncode, 5)
                self.kill_brokers()

    def read_only(self, yes):
        """Makes the folder read-only by a bind mount, which works in spite of open files."""
        if yes:
            subprocess.run(["mount", "--bind", self.state, self.state], check=True)
            subprocess.run(["mount", "-o", "remount,ro,bind", self.state], check=True)
        else:
            subprocess.run(["umount", self.state], check=True)


if __name__ == "__main__":
    Machine.berth = os.path.abspath(sys.argv[1])
    machine_of_all.enter()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
