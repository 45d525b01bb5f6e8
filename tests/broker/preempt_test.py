#!/usr/bin/env python3
"""--preemptible: a job that uses what is free, ends if another job needs its GPU, and waits again.

usage: preempt_test.py BERTH
"""
import json
import pathlib
import sys
import time
import unittest

from machine import Machine, wait_until

PATIENCE = 60.0

# Waits to be told to end at its first start; ends at once at its second.
TRAINING = """
import os, pathlib, signal, sys, time
told = []
signal.signal(signal.SIGUSR1, lambda *_: told.append(1))
if len(sys.argv) > 2: signal.signal(signal.SIGTERM, signal.SIG_IGN)
path = pathlib.Path(sys.argv[1])
path.with_suffix("." + os.environ["BERTH_RESTARTS"]).write_text("")
print("start", os.environ["BERTH_RESTARTS"], flush=True)
while not told and os.environ["BERTH_RESTARTS"] == "0":
    time.sleep(0.05)
print("saved" if told else "done", flush=True)
"""


class Preempt(Machine):
    machine = "workstation-4090"

    def setUp(self):
        super().setUp()
        (self.folder / "train.py").write_text(TRAINING)

    def queue(self, *words):
        done = self.run_berth("--json", "run", "--queue", "--gpus", "1", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["job"]["id"]

    def train(self, *options, name="train", more=()):
        job = self.queue("--preemptible", *options, "--", sys.executable, str(self.folder / "train.py"), str(self.folder / name), *more)
        self.assertTrue(wait_until((self.folder / f"{name}.0").exists, PATIENCE))
        return job

    def ends(self, number, state):
        self.assertTrue(wait_until(lambda: self.job(number)["state"] == state, PATIENCE), self.job(number))

    def test_it_saves_ends_for_another_job_and_runs_again_after_it(self):
        spare = self.train("--checkpoint-signal", "USR1@40s")
        other = self.queue("--", "sleep", "1")
        self.ends(other, "done")
        self.ends(spare, "done")
        row = self.job(spare)
        self.assertEqual((row["preemptible"], row["preemptions"], row["restarts"]), (True, 1, 0))
        self.assertEqual(self.run_berth("logs", str(spare)).stdout, "start 0\nsaved\nstart 1\ndone\n")
        self.assertIn("preempted 1 time by another job", self.run_berth("why", str(spare)).stdout)

    def test_a_job_in_a_terminal_also_gets_the_gpu(self):
        spare = self.train("--checkpoint-signal", "USR1@40s")
        self.assertEqual(self.run_berth("run", "--gpus", "1", "--", "true").returncode, 0)
        self.ends(spare, "done")

    def test_another_preemptible_job_waits(self):
        first = self.train()
        second = self.queue("--preemptible", "--", "true")
        self.assertFalse(wait_until(lambda: self.job(second)["state"] != "waiting", 1.5))
        self.assertEqual(self.job(first)["preemptions"], 0)
        self.run_berth("cancel", str(first))
        self.ends(second, "done")

    def test_the_report_says_why_it_ended(self):
        spare = self.train("--checkpoint-signal", "USR1@40s", "--retries", "2")
        other = self.queue("--", "sleep", "600")
        self.ends(spare, "waiting")
        kept = pathlib.Path(self.variables["BERTH_STATE_DIR"], "jobs", f"{spare}.report").read_text()
        tries = json.loads(kept)["report"]["tries"]
        self.assertEqual([one["class"] for one in tries], ["preempted"])
        self.assertEqual(self.last_start(spare)["tries"], tries)
        self.run_berth("cancel", str(other))
        self.ends(spare, "done")
        shown = json.loads(self.run_berth("report", "--json", str(spare)).stdout)
        self.assertEqual((shown["waits_again"], shown["job"]["last_outcome"]), (False, None))

    def last_start(self, number):
        """The report of the last start of a job that waits again; the text must say so."""
        shown = json.loads(self.run_berth("report", "--json", str(number)).stdout)
        self.assertEqual((shown["waits_again"], shown["job"]["state"], shown["job"]["outcome"]), (True, "waiting", None))
        self.assertEqual((shown["job"]["last_outcome"]["class"], shown["report"]["outcome"]["class"]), ("preempted", "preempted"))
        text = self.run_berth("report", str(number)).stdout
        self.assertRegex(text, r"last start +preempted by another job; it has been waiting again since \d\d:\d\d")
        self.assertRegex(text, r"\n\nreport of its last start:\nGPU 0 ")
        return shown["report"]

    def test_the_report_of_the_last_start_is_shown_while_it_waits(self):
        spare = self.train("--checkpoint-signal", "USR1@40s")
        time.sleep(1)  # the keeper of a queued job starts sampling after half a second
        other = self.queue("--", "sleep", "600")
        self.ends(spare, "waiting")
        self.assertEqual(self.last_start(spare)["command"][0], sys.executable)
        self.kill_brokers()
        self.assertEqual(self.run_berth("jobs").returncode, 0)  # starts the next one
        self.last_start(spare)
        self.run_berth("cancel", str(other))
        self.ends(spare, "done")

    def test_a_cancel_meanwhile_is_final(self):
        spare = self.train("--grace", "3s", more=["stubborn"])
        other = self.queue("--", "sleep", "1")
        self.assertTrue(wait_until(lambda: self.job(spare)["told_to_end"] == "waiting", PATIENCE))
        self.assertEqual(self.run_berth("cancel", str(spare)).returncode, 0)
        self.ends(other, "done")
        self.assertEqual((self.job(spare)["state"], self.job(spare)["preemptions"]), ("cancelled", 0))

    def test_a_broker_that_is_killed_meanwhile_loses_nothing(self):
        spare = self.train("--grace", "3s", more=["stubborn"])
        other = self.queue("--", "sleep", "1")
        self.assertTrue(wait_until(lambda: self.job(spare)["told_to_end"] == "waiting", PATIENCE))
        self.kill_brokers()
        self.assertEqual(self.run_berth("jobs").returncode, 0)  # starts the next one
        self.ends(other, "done")
        self.ends(spare, "done")
        self.assertEqual(self.job(spare)["preemptions"], 1)

    def test_it_needs_the_queue(self):
        done = self.run_berth("run", "--preemptible", "--", "true")
        self.assertEqual((done.returncode, "--preemptible needs --queue" in done.stderr), (2, True), done.stderr)


if __name__ == "__main__":
    Machine.berth = sys.argv.pop(1)
    unittest.main()
