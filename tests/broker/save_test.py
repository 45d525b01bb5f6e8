#!/usr/bin/env python3
"""A job that must end gets time to save: after a cancel, at its time limit, and after the signal it asked for.

usage: save_test.py BERTH
"""
import json
import pathlib
import sys
import time
import unittest

from machine import Machine, wait_until

LIMIT = "8s"  # an interpreter may take seconds to start on a busy machine

# A training loop. When it gets a signal, it saves for two seconds, and it counts the signals.
TRAINING = """
import pathlib, signal, sys, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append("TERM"))
signal.signal(signal.SIGUSR1, lambda *_: told.append("USR1"))
pathlib.Path(sys.argv[1] + ".up").touch()
while not told:
    time.sleep(0.05)
first = told[0]
end = time.monotonic() + 2
while time.monotonic() < end:
    time.sleep(0.05)
pathlib.Path(sys.argv[1]).write_text(first + " " + str(len(told)))
"""


class Save(Machine):
    def setUp(self):
        super().setUp()
        self.saved = self.folder / "checkpoint"
        (self.folder / "train.py").write_text(TRAINING)
        self.train = ["--", sys.executable, str(self.folder / "train.py"), str(self.saved)]

    def queue(self, *words):
        done = self.run_berth("--json", "run", "--queue", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["job"]["id"]

    def is_up(self):
        self.assertTrue(wait_until(pathlib.Path(str(self.saved) + ".up").exists))

    def test_a_queued_loop_survives_its_limit_with_its_checkpoint(self):
        job = self.job(self.queue("--gpus", "1", "--time-limit", LIMIT, *self.train), "ended")
        self.assertEqual(self.saved.read_text(), "TERM 1")
        self.assertEqual((job["state"], job["grace_seconds"]), ("failed", 10))
        self.assertIn("time limit", job["why"])

    def test_so_does_one_in_a_shell_script(self):
        command = ["--", "sh", "-c", '"$@"; true', "sh", *self.train[1:]]
        job = self.queue("--gpus", "1", *command)
        self.is_up()
        self.assertEqual(self.run_berth("cancel", str(job)).returncode, 0)
        self.job(job, "ended")
        self.assertEqual(self.saved.read_text(), "TERM 1")

    def test_a_job_in_a_terminal_has_the_same_time_and_is_told_once(self):
        process = self.start("run", "--gpus", "1", "--time-limit", LIMIT, *self.train)
        process.wait(60)
        self.assertEqual(self.saved.read_text(), "TERM 1")

    def test_a_cancelled_job_may_save(self):
        job = self.queue("--gpus", "1", *self.train)
        self.is_up()
        self.assertEqual(self.run_berth("cancel", str(job)).returncode, 0)
        self.job(job, "ended")
        self.assertEqual(self.saved.read_text(), "TERM 1")

    def test_a_cancelled_lease_may_save(self):
        process = self.start("lease", "--gpus", "1", *self.train)
        self.is_up()
        self.assertEqual(self.run_berth("cancel", "1").returncode, 0)
        process.wait(60)
        self.assertEqual(self.saved.read_text(), "TERM 1")

    def test_what_does_not_end_is_killed_when_its_time_is_over(self):
        trap = ["--", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"]
        job = self.queue("--gpus", "1", "--grace", "500ms", *trap)
        log = pathlib.Path(self.job(job)["log"])
        self.assertTrue(wait_until(lambda: log.exists() and log.read_text() == "up\n"))
        begun = time.monotonic()
        self.run_berth("cancel", str(job))
        self.assertEqual(self.job(job, "ended")["outcome"]["signal"], 9)
        self.assertGreater(time.monotonic() - begun, 0.5)

    def test_the_signal_comes_before_the_limit_to_who_handles_it(self):
        # This signal would kill the shell and `sleep`.
        command = ["--", "sh", "-c", 'sleep 100 & s=$!; "$@"; kill $s; echo "shell lives"', "sh", *self.train[1:]]
        for how in ("run", "queue"):
            with self.subTest(how):
                self.saved.unlink(missing_ok=True)
                words = ["--gpus", "1", "--time-limit", "60s", "--signal", "USR1@52s", *command]
                if how == "queue":
                    job = self.job(self.queue(*words), "ended")
                    self.assertEqual((job["state"], job["signal"], job["signal_before_seconds"]), ("done", "USR1", 52))
                    said = pathlib.Path(job["log"]).read_text()
                else:
                    said = self.start("run", *words).communicate(timeout=60)[0]
                self.assertEqual(self.saved.read_text(), "USR1 1")
                self.assertEqual(said, "shell lives\n")

    def test_a_signal_that_nobody_handles_ends_nothing(self):
        job = self.job(self.queue("--gpus", "1", "--time-limit", "60s", "--signal", "USR1@59s", "--", "sh", "-c", "sleep 3; echo good"), "ended")
        self.assertEqual(job["state"], "done")
        self.assertEqual(pathlib.Path(job["log"]).read_text(), "berth: SIGUSR1 was not sent, because no process of the job handles it\ngood\n")

    def test_signals_that_make_no_sense_are_refused(self):
        for words, error in ((["--signal", "USR1@60s"], "E0013"), (["--time-limit", "1h", "--signal", "KILL@60s"], "E0946"),
                             (["--time-limit", "1h", "--signal", "USR1"], "E0946"), (["--time-limit", "1h", "--signal", "USR1@2"], "E0103"),
                             (["--time-limit", "1m", "--signal", "USR1@2m"], "E0946"), (["--grace", "2d"], "E0104")):
            done = self.run_berth("run", "--queue", *words, "--", "true")
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(error, done.stderr)


if __name__ == "__main__":
    Machine.berth = sys.argv.pop(1)
    unittest.main()
