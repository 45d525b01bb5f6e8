#!/usr/bin/env python3
"""The journal is lost, emptied or damaged: no job ends because of it, no output is deleted, and no number is used twice.

usage: lost_journal_test.py BERTH
"""
import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import unittest

import machine_of_all
from machine import Machine, edited_journal, wait_until


class Jobs:
    """Commands for jobs, and helpers of the tests below."""

    def waits_for(self, name, code):
        """A command that exits with this code as soon as the file exists."""
        return ["sh", "-c", f"echo up; while [ ! -e {self.folder}/{name} ]; do sleep 0.05; done; echo ends; exit {code}"]


class OwnBroker(Jobs, Machine):
    def setUp(self):
        super().setUp()
        self.state = pathlib.Path(self.variables["BERTH_STATE_DIR"])

    def queue(self, *words):
        done = self.run_berth("run", "--queue", "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["job"]["id"]

    def output(self, job):
        return (self.state / "jobs" / f"{job}.log").read_text()

    def serve(self):
        """Starts a broker as a child process, so that the test can read its output."""
        broker = self.start("serve")
        self.assertTrue(broker.stdout.readline().startswith("serving "))
        return broker

    def begin(self):
        """Creates jobs that have ended, run and wait, then ends the broker. Returns their numbers."""
        good = self.queue("--name", "good", "--cpu", "--", "sh", "-c", "echo well")
        bad = self.queue("--cpu", "--", "sh", "-c", "exit 7")
        for job in (good, bad):
            self.run_berth("wait", str(job))
        runs = self.queue("--name", "long", "--gpus", "4", "--", *self.waits_for("now", 5))
        self.assertTrue(wait_until(lambda: (self.state / "jobs" / f"{runs}.log").exists() and self.output(runs) == "up\n"))
        self.kill_brokers()
        return good, bad, runs

    def lose(self, how, files="journal.db*"):
        for file in self.state.glob(files):
            if how == "removed":
                file.unlink()
            elif how == "moved":
                file.rename(file.with_name(file.name + ".damaged"))
            else:
                os.truncate(file, 0)

    def test_jobs_are_known_again_from_their_files(self):
        for how in ("removed", "moved", "emptied"):
            with self.subTest(how):
                (self.folder / "now").unlink(missing_ok=True)
                good, bad, runs = self.begin()
                self.lose(how)
                jobs = {one["id"]: one for one in json.loads(self.run_berth("jobs", "--json", "--all").stdout)["jobs"]}
                self.assertEqual([jobs[one]["state"] for one in (good, bad, runs)], ["done", "failed", "running"], jobs)
                self.assertEqual((jobs[good]["name"], jobs[bad]["outcome"]["exit_code"]), ("good", 7))
                self.assertEqual(len(jobs[runs]["devices"]), 4)
                self.assertEqual(self.output(good), "well\n")
                # The job still has its devices, and its number is not used again.
                busy = self.run_berth("run", "--gpus", "1", "--no-wait", "--", "true")
                self.assertEqual(busy.returncode, 6, busy.stderr)
                self.assertGreater(self.queue("--cpu", "--", "true"), runs)
                (self.folder / "now").touch()
                self.assertEqual(self.run_berth("wait", str(runs)).returncode, 5)
                self.assertEqual(self.output(runs), "up\nends\n")
                self.assertEqual(self.run_berth("wait", str(good)).returncode, 0)

    def test_the_wal_is_read_where_the_journal_alone_is_lost(self):
        """This is the state after the hint of E0907: mv journal.db journal.db.damaged."""
        for how in ("removed", "moved", "emptied"):
            with self.subTest(how):
                (self.folder / "now").unlink(missing_ok=True)
                held = self.queue("--hold", "--", "true")
                waits = self.queue("--after", str(held), "--", "true")
                good, bad, runs = self.begin()
                self.lose(how, "journal.db")
                said = self.run_berth("jobs", "--json", "--all")
                jobs = {one["id"]: one["state"] for one in json.loads(said.stdout)["jobs"]}
                states = [jobs.get(one) for one in (held, waits, good, bad, runs)]
                self.assertEqual(states, ["held", "waiting", "done", "failed", "running"], said.stdout)
                self.assertRegex(self.run_berth("jobs").stderr, "the journal was damaged: .*E0945")
                (self.folder / "now").touch()
                self.assertEqual(self.run_berth("wait", str(runs)).returncode, 5)
                self.run_berth("cancel", "--mine")

    def test_waiting_jobs_come_back_from_the_copy_and_are_held(self):
        (self.folder / "now").touch()
        self.queue("--gpus", "4", "--", "sleep", "1000")
        waits, held, gone = (self.queue(*words, "--gpus", "1", "--", "touch", str(self.folder / "ran")) for words in ((), ("--hold",), ("--hold",)))
        # The broker copies its journal when the day changes. The test makes the same copy itself.
        self.kill_brokers()
        (self.state / "copies").mkdir(exist_ok=True)
        for old in (self.state / "copies").iterdir():
            old.unlink()
        with contextlib.closing(sqlite3.connect(self.state / "journal.db")) as journal:
            journal.execute("VACUUM INTO ?", [str(self.state / "copies" / "journal-2026-01-01.db")])
        self.run_berth("cancel", str(gone))
        self.kill_brokers()
        self.lose("removed")
        said = self.run_berth("jobs")
        self.assertRegex(said.stderr, "the journal was missing: 4 jobs were restored from its last copy .E0945")
        self.assertIn(f"these jobs are held, because their last change may be lost: {waits}", said.stderr)
        jobs = {one["id"]: one["state"] for one in json.loads(self.run_berth("jobs", "--json").stdout)["jobs"]}
        # The copy does not know that the last one was cancelled, so it must not start by itself.
        self.assertEqual([jobs[one] for one in (1, waits, held, gone)], ["running", "held", "held", "held"])
        self.run_berth("cancel", "1", str(held), str(gone))
        self.assertFalse((self.folder / "ran").exists())
        self.run_berth("release", str(waits))
        self.assertEqual(self.run_berth("wait", str(waits)).returncode, 0)
        self.assertTrue((self.folder / "ran").exists())

    def test_what_nobody_knows_is_moved_and_named(self):
        good, bad, runs = self.begin()
        for copy in self.state.glob("copies/*"):
            copy.unlink()
        (self.folder / "now").touch()
        self.assertTrue(wait_until(lambda: "exit_code" in (self.state / "jobs" / f"{runs}.status").read_text()))
        # An older version wrote status files without the job's details.
        for job in (good, bad):
            file = self.state / "jobs" / f"{job}.status"
            os.truncate(file, 256)
        self.lose("removed")
        broker = self.serve()
        said = broker.stderr.readline() + broker.stderr.readline()
        [folder] = self.state.glob("unknown-*")
        self.assertIn(str(folder), said)
        self.assertIn(f"{good}-{bad}", said)
        self.assertEqual((folder / f"{good}.log").read_text(), "well\n")
        self.assertFalse((self.state / "jobs" / f"{good}.log").exists())
        self.assertEqual(self.job(runs)["outcome"]["exit_code"], 5)
        # The next broker also knows which numbers were used.
        self.run_berth("wait", str(runs))
        self.assertGreater(self.queue("--cpu", "--", "true"), runs)

    def test_a_damaged_journal_is_repaired_and_what_is_lost_is_named(self):
        waiting = [self.queue("--hold", "--name", f"held-{number}", "--", "true") for number in range(12)]
        good, bad, runs = self.begin()
        wal = self.state / "journal.db-wal"
        bytes_ = bytearray(wal.read_bytes())
        at = bytes_.rindex(b'"name":"held-5"')
        bytes_[at + 9] ^= 1
        wal.write_bytes(bytes_)
        said = self.run_berth("jobs", "--all")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertRegex(said.stderr, "the journal was damaged: .*E0945")
        [folder] = self.state.glob("damaged-*")
        self.assertIn(str(folder), said.stderr)
        self.assertEqual((folder / "journal.db-wal").read_bytes(), bytes_)
        jobs = {one["id"]: one for one in json.loads(self.run_berth("jobs", "--json", "--all").stdout)["jobs"]}
        lost = waiting[5]
        self.assertEqual(set(jobs) | {lost}, {*waiting, good, bad, runs})
        if lost not in jobs:
            self.assertIn(f"the records of these jobs are not readable: {lost}", said.stderr)
        self.assertEqual([jobs[one]["state"] for one in (good, bad, runs)], ["done", "failed", "running"])
        self.assertTrue(all(jobs[one]["state"] == "held" for one in waiting if one != lost))
        (self.folder / "now").touch()
        self.assertEqual(self.run_berth("wait", str(runs)).returncode, 5)
        # Repaired once: the next broker has nothing to repair.
        self.kill_brokers()
        self.assertEqual(self.run_berth("jobs").returncode, 0)
        self.assertEqual(len(list(self.state.glob("damaged-*"))), 1)

    def test_a_record_that_is_no_job_refuses_nothing_and_is_named(self):
        """The record's checksum is correct, so a newer Berth may have written it."""
        held = [self.queue("--hold", "--", "true") for _ in range(3)]
        self.kill_brokers()
        with edited_journal(self.state) as journal:
            journal.execute("UPDATE job SET record = '{\"id\":[]}' WHERE id = ?", [held[2]])
        for _ in range(2):
            said = self.run_berth("jobs")
            self.assertRegex(said.stderr, f"the records of these jobs are not readable: {held[2]} .E0945")
            self.assertEqual(said.stderr.count("not readable"), 1)
            jobs = json.loads(self.run_berth("jobs", "--json").stdout)["jobs"]
            self.assertEqual([one["id"] for one in jobs], held[:2])
            self.kill_brokers()
        self.assertGreater(self.queue("--hold", "--", "true"), held[2])

    def test_what_is_forgotten_in_order_is_deleted_also_by_the_next_broker(self):
        good, bad, runs = self.begin()
        (self.folder / "now").touch()
        self.run_berth("wait", str(runs))
        self.kill_brokers()
        # A broker that died after it forgot two jobs, and before it deleted their files.
        with edited_journal(self.state) as journal:
            journal.execute(f"DELETE FROM job WHERE id IN ({good}, {bad})")
            journal.execute("INSERT OR REPLACE INTO value VALUES ('forgotten', ?, 1, 0)", [f"[{good},{bad}]"])
        jobs = json.loads(self.run_berth("jobs", "--json", "--all").stdout)["jobs"]
        self.assertEqual([one["id"] for one in jobs], [runs])
        self.assertFalse((self.state / "jobs" / f"{good}.log").exists())
        self.assertFalse(list(self.state.glob("unknown-*")))


@unittest.skipIf(os.geteuid() != 0, "only root serves all users")
class SystemBroker(Jobs, machine_of_all.MachineOfAll):
    def test_jobs_of_users_go_on_without_the_journal(self):
        alice = self.person("alice")
        self.folder = alice.home
        queued = json.loads(alice("run", "--queue", "--json", "--gpus", "1", "--", *self.waits_for("now", 5)).stdout)["job"]["id"]
        shell = alice.start("run", "--gpus", "1", "--", *self.waits_for("now", 3))
        self.assertEqual(shell.stdout.readline(), "up\n")
        log = pathlib.Path("/var/lib/berth/jobs", f"{queued}.log")
        self.assertTrue(wait_until(lambda: log.exists() and log.read_text() == "up\n"))
        self.stop()
        for file in pathlib.Path("/var/lib/berth").glob("journal.db*"):
            file.unlink()
        self.serve()
        self.assertIsNone(shell.poll())
        jobs = {one["id"]: one for one in json.loads(alice("jobs", "--json").stdout)["jobs"]}
        self.assertEqual(jobs[queued]["state"], "running")
        self.assertGreater(json.loads(alice("run", "--queue", "--json", "--cpu", "--", "true").stdout)["job"]["id"], queued + 1)
        subprocess.run(["touch", alice.home / "now"], check=True)
        self.assertEqual((shell.wait(30), shell.stdout.read()), (3, "ends\n"))
        self.assertEqual(alice("wait", str(queued)).returncode, 5)
        self.assertEqual(log.read_text(), "up\nends\n")


if __name__ == "__main__":
    Machine.berth = machine_of_all.MachineOfAll.berth = os.path.abspath(sys.argv[1])
    if os.geteuid() == 0:
        machine_of_all.enter()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
