#!/usr/bin/env python3
"""Problems with the folders of a user's broker: the error messages, what stays unchanged, and that exactly one broker serves.

usage: folders_test.py BERTH LIBRARY      (fake_nfs: every folder that is called so is on NFS)
"""
import contextlib
import hashlib
import os
import pathlib
import random
import re
import shutil
import sqlite3
import sys
import unittest

from machine import Machine, wait_until

SOAK = "BERTH_SOAK" in os.environ
NFS = ""


class Folders(Machine):
    def setUp(self):
        super().setUp()
        self.runtime, self.state = self.folder / "runtime", self.folder / "state"
        self.variables |= {"BERTH_RUNTIME_DIR": str(self.runtime), "BERTH_STATE_DIR": str(self.state), "LC_ALL": "C.UTF-8"}

    def queue(self, *words):
        done = self.run_berth("run", "--queue", *words)
        self.assertEqual((done.returncode, done.stdout.strip().isdigit()), (0, True), done.stderr)
        return int(done.stdout.split()[-1])

    def end_brokers(self):
        self.kill_brokers()
        self.assertTrue(wait_until(lambda: not self.brokers()))

    def serve(self, **more):
        """Starts a broker. Returns its process and its first line of output."""
        broker = self.start("serve", **more)
        return broker, broker.stdout.readline()

    def refused(self, identifier, **more):
        """Starts a broker that must fail with this error. Returns what it printed."""
        broker = self.start("serve", **more)
        said = broker.communicate(timeout=30)[1]
        self.assertNotEqual(broker.returncode, 0, said)
        self.assertIn(f"({identifier})", said)
        self.assertIn("\nhint: ", said)
        return said

    def content(self):
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.state.iterdir() if path.is_file()}

    def test_a_network_file_system_is_refused(self):
        nfs = {"LD_PRELOAD": NFS, "BERTH_STATE_DIR": str(self.folder / "fake-nfs/state")}
        (self.folder / "fake-nfs").mkdir(0o700)
        said = self.refused("E0905", **nfs)
        self.assertIn("NFS", said)
        self.assertIn("hint: export XDG_STATE_HOME=", said)
        self.assertEqual(list((self.folder / "fake-nfs/state").iterdir()), [])
        queued = self.run_berth("run", "--queue", "--gpus", "1", "--", "true", **nfs)
        self.assertEqual(queued.returncode, 125)
        self.assertIn("NFS", queued.stderr)
        # A job in a terminal runs without a lease and says so.
        job = self.run_berth("run", "--gpus", "1", "--", "true", **nfs)
        self.assertEqual(job.returncode, 0)
        self.assertIn("no lease:", job.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root may serve all users")
    def test_the_broker_of_all_users_of_a_simulated_machine_is_that_machines(self):
        broker = self.start("serve", "--system")
        self.assertEqual(broker.stdout.readline(), f"serving at {self.runtime}/berth.sock\n")
        self.assertTrue((self.state / "journal.db").is_file())
        self.assertEqual(self.queue("--gpus", "1", "--", "true"), 1)

    def test_a_stale_socket_is_replaced(self):
        first = self.queue("--gpus", "1", "--", "true")
        self.end_brokers()
        self.assertTrue((self.runtime / "berth.sock").is_socket())
        self.assertEqual(self.run_berth("wait", str(first)).returncode, 0)
        self.end_brokers()
        # A socket on which no broker listens, and files that are no sockets.
        (self.runtime / "berth.sock").unlink()
        (self.runtime / "berth.sock").write_text("")
        self.assertEqual(self.run_berth("wait", str(first)).returncode, 0)
        self.end_brokers()
        (self.runtime / "berth.sock").unlink()
        (self.runtime / "berth.sock").symlink_to("/nowhere/at/all")
        self.assertEqual(self.run_berth("wait", str(first)).returncode, 0)
        self.assertEqual((self.runtime / "berth.sock").resolve(), self.state / "berth.sock")

    def test_a_link_in_place_of_the_socket_leads_nowhere(self):
        self.runtime.mkdir(0o700)
        precious = self.folder / "precious"
        precious.write_text("mine")
        (self.runtime / "berth.sock").symlink_to(precious)
        self.state.mkdir(0o700)
        (self.state / "berth.sock").symlink_to(precious)
        (self.state / "berth.sock.lock").symlink_to(precious)
        self.refused("E0910")
        self.assertEqual(precious.read_text(), "mine")
        (self.state / "berth.sock.lock").unlink()
        self.assertTrue(self.serve()[1].startswith("serving "))
        self.assertEqual(precious.read_text(), "mine")

    def test_of_brokers_that_start_at_once_exactly_one_serves(self):
        for _ in range(50 if SOAK else 8):
            brokers = [self.start("serve") for _ in range(6)]
            said = [one.stdout.readline() for one in brokers]
            serving = [one for one, line in zip(brokers, said) if line.startswith("serving ")]
            self.assertEqual(len(serving), 1, said)
            for one in brokers:
                if one not in serving:
                    error = one.communicate(timeout=30)[1]
                    self.assertRegex(error, r"error: another broker serves .* already: process \d+ \(E1089\)\n\nhint: kill ")
                    self.assertEqual(one.returncode, 4)
            self.assertEqual(self.call("GET", "/v1/jobs")["jobs"], [])
            serving[0].terminate()
            self.assertEqual(serving[0].wait(20), 0)

    def test_serve_waits_with_a_note_while_another_program_has_the_journal(self):
        self.state.mkdir(0o700)
        with contextlib.closing(sqlite3.connect(self.state / "journal.db")) as journal:
            journal.execute("PRAGMA locking_mode = EXCLUSIVE")
            journal.execute("BEGIN EXCLUSIVE")
            broker = self.start("serve")
            self.assertRegex(broker.stderr.readline(), r"^note: another broker has the journal in .*; waiting for it$")
        self.assertTrue(broker.stdout.readline().startswith("serving "))

    def test_of_clients_that_come_at_once_all_have_the_same_broker(self):
        for _ in range(10 if SOAK else 3):
            clients = [self.start("run", "--queue", "--cpu", "--", "true") for _ in range(10)]
            said = [one.communicate(timeout=60) for one in clients]
            self.assertEqual("".join(error for _, error in said), "")
            numbers = [int(out.split()[-1]) for out, _ in said]
            self.assertEqual(len(set(numbers)), 10)
            self.assertEqual(len(self.brokers()), 1)
            self.end_brokers()

    def damages(self, whole):
        chance = random.Random(3)
        yield b"this is no database, " * 300
        yield whole[:100] + bytes(4096)
        yield whole[:len(whole) // 2 + 100]
        records = [found.start() for found in re.finditer(rb'"name":"n', whole)]
        for number in range(60 if SOAK else 6):
            at = min(chance.choice(records) if number % 2 == 0 else chance.randrange(0, len(whole)), len(whole) - 512)
            yield whole[:at] + chance.randbytes(512) + whole[at + 512:]

    def test_a_damaged_journal_is_set_aside_as_it_is_and_the_broker_serves(self):
        names = [f"n{number}" for number in range(30)]
        self.queue("--gpus", "4", "--name", "runs", "--", "sleep", "1000")
        for name in names:
            self.queue("--gpus", "4", "--name", name, "--", "true")
        self.run_berth("cancel", "runs", *names)
        self.end_brokers()
        journal = self.state / "journal.db"
        nonsense = b"this is no database, " * 300
        # In the first round, the WAL of the last broker is still there.
        for part in (journal, self.state / "journal.db-wal"):
            part.write_bytes(nonsense)
        broker, line = self.serve()
        self.assertTrue(line.startswith("serving at "), line)
        kept = {path.name: path.read_bytes() for folder in self.state.glob("damaged-*") for path in folder.iterdir()}
        self.assertEqual(kept.get("journal.db"), nonsense)
        # Job 1 has files in jobs/, so its number is not used again. The other jobs never started.
        self.assertGreater(self.queue("--cpu", "--name", "next", "--", "true"), 1)
        broker.kill()
        broker.wait()
        for name in names:
            self.queue("--cpu", "--name", name, "--", "true")
        self.end_brokers()
        with sqlite3.connect(journal) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        whole = journal.read_bytes()
        for damage in self.damages(whole):
            for extra in self.state.glob("journal.db-*"):
                extra.unlink()
            journal.write_bytes(damage)
            broker, line = self.serve()
            self.assertTrue(line.startswith("serving at "), line)
            broker.kill()
            broker.wait()

    def test_a_journal_of_a_newer_berth_is_refused_and_left_as_it_is(self):
        self.state.mkdir(0o700)
        journal = self.state / "journal.db"
        with sqlite3.connect(journal) as database:
            database.execute("CREATE TABLE job2 (id INTEGER PRIMARY KEY, all_new TEXT)")
            database.execute("PRAGMA user_version = 99")
        database.close()
        before = self.content()
        said = self.refused("E0907")
        self.assertIn("was written by a newer Berth (format 99", said)
        self.assertEqual(self.content(), before)
        self.assertNotEqual(self.run_berth("run", "--queue", "--", "true").returncode, 0)
        self.assertEqual(self.content(), before)

    def test_a_state_folder_that_others_may_write_to_is_refused(self):
        self.state.mkdir(0o700)
        self.state.chmod(0o777)
        said = self.refused("E0907")
        self.assertIn("others can write to it", said)
        self.assertIn(f"hint: chmod go-w {self.state}", said)
        self.assertEqual(list(self.state.iterdir()), [])
        # A link that the user owns is accepted if it leads to the user's own folder.
        self.state.rename(self.folder / "elsewhere")
        (self.folder / "elsewhere").chmod(0o700)
        self.state.symlink_to(self.folder / "elsewhere")
        self.assertTrue(self.serve()[1].startswith("serving "))

    def test_what_is_no_folder_is_said(self):
        self.state.write_text("")
        self.assertIn("Not a directory", self.refused("E0907"))
        self.state.unlink()
        shutil.rmtree(self.runtime)
        self.runtime.write_text("")
        self.refused("E0514")
        self.runtime.unlink()
        self.runtime.mkdir(0o700)
        (self.runtime / "berth.sock").mkdir()
        self.refused("E0910")

    def test_files_of_jobs_that_nobody_knows_go(self):
        job = self.queue("--gpus", "1", "--", "echo", "kept")
        self.assertEqual(self.run_berth("wait", str(job)).returncode, 0)
        self.end_brokers()
        jobs = self.state / "jobs"
        for name in ("77.log", "77.status", "notes.txt", "0.log"):
            (jobs / name).write_text("left")
        self.assertEqual(self.run_berth("logs", str(job)).stdout, "kept\n")
        self.assertEqual(self.run_berth("run", "--queue", "--", "true").returncode, 0)  # starts a broker if none runs
        self.assertTrue(wait_until(lambda: not (jobs / "77.status").exists()))
        names = {path.name for path in jobs.iterdir()}
        self.assertEqual(names & {"77.log", "77.status", "notes.txt", "0.log", f"{job}.log"}, {"notes.txt", "0.log", f"{job}.log"})

    def test_a_broker_that_is_told_to_end_leaves_no_socket(self):
        broker, said = self.serve()
        self.assertTrue(said.startswith("serving "))
        broker.terminate()
        self.assertEqual(broker.wait(20), 0)
        self.assertFalse((self.runtime / "berth.sock").exists())


if __name__ == "__main__":
    Machine.berth = os.path.abspath(sys.argv.pop(1))
    NFS = os.path.abspath(sys.argv.pop(1))
    unittest.main()
