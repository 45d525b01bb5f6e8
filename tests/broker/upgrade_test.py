#!/usr/bin/env python3
"""A broker is replaced by another version while jobs run: they continue, the next broker knows them and their results, and clients that
wait for jobs or read their output notice nothing.

usage: upgrade_test.py BERTH
"""
import json
import os
import pathlib
import shutil
import signal
import sys
import time
import unittest

import machine_of_all
from machine import Machine, wait_until


def until(path, code):
    """A command that exits with this code as soon as the file exists."""
    return ["sh", "-c", f"echo up; while [ ! -e {path} ]; do sleep 0.02; done; echo ends; exit {code}"]


class OwnBroker(Machine):
    def setUp(self):
        super().setUp()
        self.original = self.berth
        self.berth = str(self.folder / "berth")
        self.install()

    def install(self):
        """Replaces the program by rename, as a package manager does."""
        shutil.copy(self.original, self.folder / "berth.new")
        os.replace(self.folder / "berth.new", self.berth)

    def queue(self, *words):
        done = self.run_berth("run", "--queue", *words)
        self.assertEqual((done.returncode, done.stdout.strip().isdigit()), (0, True), done.stderr)
        return int(done.stdout.split()[-1])

    def test_jobs_go_on_under_a_new_program(self):
        broker = self.start("serve")
        self.assertTrue(broker.stdout.readline().startswith("serving "))
        gone, meanwhile, later = (self.folder / name for name in ("gone", "meanwhile", "later"))
        short = self.queue("--gpus", "1", "--", *until(meanwhile, 5))
        long = self.queue("--gpus", "2", "--", *until(later, 6))
        shell = self.start("run", "--gpus", "1", "--", *until(gone, 3))
        self.assertEqual(shell.stdout.readline(), "up\n")
        waiting = self.queue("--gpus", "4", "--", "sh", "-c", "exit 7")
        reader = self.start("logs", "-f", str(long))
        self.assertEqual(reader.stdout.readline(), "up\n")
        broker.send_signal(signal.SIGTERM)
        self.assertEqual(broker.wait(20), 0)
        self.install()
        meanwhile.touch()
        gone.touch()
        time.sleep(0.2)
        next_ = self.start("serve")
        # The reader's old program may have started a broker already, whose place this one takes.
        said = next_.stdout.readline() or next_.stderr.read()
        self.assertTrue(said.startswith("serving "), said)
        self.assertEqual(self.job(short, "ended")["outcome"]["exit_code"], 5)
        self.assertEqual((shell.wait(30), shell.stdout.read()), (3, "ends\n"))
        self.assertEqual([self.job(one)["state"] for one in (long, waiting)], ["running", "waiting"])
        self.assertIsNone(reader.poll())
        later.touch()
        self.assertEqual(self.job(long, "ended")["outcome"]["exit_code"], 6)
        self.assertEqual((reader.wait(30), reader.stdout.read()), (0, "ends\n"))
        self.assertEqual(self.job(waiting, "ended")["outcome"]["exit_code"], 7)


    def test_serve_takes_the_place_of_the_broker_that_run_started(self):
        gone, later = self.folder / "gone", self.folder / "later"
        shell = self.start("run", "--gpus", "1", "--", *until(gone, 3))
        self.assertEqual(shell.stdout.readline(), "up\n")
        before, = self.brokers()
        long = self.queue("--gpus", "2", "--", *until(later, 6))
        waiting = self.queue("--gpus", "4", "--", "sh", "-c", "exit 7")
        reader, waiter = self.start("logs", "-f", str(long)), self.start("wait", str(long))
        self.assertEqual(reader.stdout.readline(), "up\n")
        serves = self.start("serve")
        self.assertTrue(serves.stdout.readline().startswith("serving "))
        self.assertRegex(serves.stderr.readline(), rf"^note: this broker replaced the one .* \(process {before}\); the jobs of that broker continue$")
        self.assertTrue(wait_until(lambda: before not in self.brokers()))
        self.assertEqual([self.job(one)["state"] for one in (1, long, waiting)], ["running", "running", "waiting"])
        gone.touch()
        self.assertEqual((shell.wait(30), shell.stdout.read()), (3, "ends\n"))
        self.assertEqual(self.job(1, "ended")["outcome"]["exit_code"], 3)
        self.assertEqual([one.poll() for one in (reader, waiter)], [None, None])
        later.touch()
        self.assertEqual((waiter.wait(30), reader.wait(30), reader.stdout.read()), (6, 0, "ends\n"))
        self.assertEqual(self.job(waiting, "ended")["outcome"]["exit_code"], 7)

    def test_a_broker_started_by_hand_stays_and_is_named(self):
        first = self.start("serve")
        self.assertTrue(first.stdout.readline().startswith("serving "))
        second = self.run_berth("serve")
        self.assertEqual(second.returncode, 4)
        self.assertRegex(second.stderr, rf"another broker serves .* already: process {first.pid} \(E1089\)\n\nhint: kill {first.pid} ")
        self.assertIsNone(first.poll())


@unittest.skipIf(os.geteuid() != 0, "only root serves all users")
class SystemBroker(machine_of_all.MachineOfAll):
    def test_who_waits_does_so_until_it_is_back(self):
        alice = self.person("alice")
        gone, later = alice.home / "gone", alice.home / "later"
        long = alice("run", "--queue", "--gpus", "2", "--", *until(later, 6)).stdout.split()[-1]
        shell = alice.start("run", "--gpus", "2", "--", *until(gone, 3))
        self.assertEqual(shell.stdout.readline(), "up\n")
        reader, waiter = alice.start("logs", "-f", long), alice.start("wait", long)
        self.assertEqual(reader.stdout.readline(), "up\n")
        in_line = alice.start("run", "--gpus", "4", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        self.assertIn("waiting:", in_line.stderr.readline())
        self.stop()
        gone.touch()
        time.sleep(2)
        self.assertEqual([one.poll() for one in (reader, waiter, in_line)], [None] * 3)
        self.serve()
        self.assertEqual(shell.wait(30), 3, shell.stderr.read())
        jobs = {one["id"]: one for one in json.loads(alice("jobs", "--all", "--json").stdout)["jobs"]}
        self.assertEqual([one["state"] for one in jobs.values()], ["running", "failed", "waiting"], jobs)
        self.assertEqual(jobs[2]["outcome"]["exit_code"], 3)
        later.touch()
        self.assertEqual((waiter.wait(30), reader.wait(30), in_line.wait(30)), (6, 0, 0))
        self.assertEqual((reader.stdout.read(), in_line.stdout.read()), ("ends\n", "0,1,2,3\n"))
        # No user started their own broker.
        self.assertFalse(wait_until(lambda: (pathlib.Path(alice.home) / ".local/state/berth").exists(), 0.1))


if __name__ == "__main__":
    Machine.berth = machine_of_all.MachineOfAll.berth = os.path.abspath(sys.argv[1])
    if os.geteuid() == 0:
        machine_of_all.enter()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
