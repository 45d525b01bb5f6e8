#!/usr/bin/env python3
"""--checkpoint-signal: whatever ends a job, it gets that signal and time to save before SIGTERM.

usage: checkpoint_test.py BERTH
"""
import json
import os
import pathlib
import signal
import sys
import time
import unittest

from machine import Machine, edited_journal, wait_until

PATIENCE = 60.0

# Saves at SIGUSR1 and exits with 3. SIGTERM would kill it. Rank 1 needs more time than rank 0.
TRAINING = """
import os, pathlib, signal, sys, time
path = pathlib.Path(sys.argv[1] + os.environ.get("RANK", ""))
told = []
signal.signal(signal.SIGUSR1, lambda *_: told.append("USR1"))
time.sleep(2)  # a job that ends in its first half second has no report
path.with_suffix(".up").write_text(str(os.getpid()))
while not told:
    time.sleep(0.05)
time.sleep(1 + 3 * int(os.environ.get("RANK", 0)))
path.write_text(f"{told} try {os.environ.get('BERTH_TRY', 1)}")
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 3)
"""


class Checkpoint(Machine):
    def setUp(self):
        super().setUp()
        self.saved = self.folder / "checkpoint"
        (self.folder / "train.py").write_text(TRAINING)
        # The signal would kill this shell and its `sleep`.
        self.train = ["--", "sh", "-c", 'sleep 100 & s=$!; "$@"; code=$?; kill $s; exit $code', "sh", sys.executable,
                      str(self.folder / "train.py"), str(self.saved)]

    def queue(self, *words, gpus=1):
        done = self.run_berth("--json", "run", "--queue", "--gpus", str(gpus), *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["job"]["id"]

    def is_up(self, name="checkpoint"):
        self.assertTrue(wait_until((self.folder / (name + ".up")).exists, PATIENCE), name)

    def cancel(self, job):
        self.assertEqual(self.run_berth("cancel", str(job)).returncode, 0)

    def report(self, job):
        return json.loads(self.run_berth("--json", "report", str(job)).stdout)

    def sent(self, report):
        """What became of the signal, without the time."""
        found = report["checkpoint_signal"]
        self.assertLess(found["waited_seconds"] or 0, 50)
        return found["signal"], found["handled"], found["ended_by_itself"]

    def test_a_cancelled_job_saves_at_the_signal(self):
        job = self.queue("--checkpoint-signal", "USR1@50s", *self.train)
        self.is_up()
        shown = self.job(job)
        self.assertEqual((shown["signal"], shown["signal_before_seconds"], shown["signal_at_any_end"]), ("USR1", 50, True))
        self.cancel(job)
        ended = self.job(job, "ended")
        self.assertEqual((ended["state"], ended["outcome"]["exit_code"]), ("cancelled", 143))
        self.assertEqual(self.saved.read_text(), "['USR1'] try 1")
        self.assertTrue(wait_until(lambda: self.report(job)["report"] is not None, PATIENCE))
        report = self.report(job)["report"]
        self.assertEqual(self.sent(report), ("USR1", True, True))
        # It slept for two seconds before the first file. The time of files has steps of a few milliseconds.
        saving = self.saved.stat().st_mtime - self.saved.with_suffix(".up").stat().st_mtime
        self.assertGreater(report["wall_seconds"], 2 + saving - 0.05, "the elapsed time includes that of saving")
        self.assertIn("SIGUSR1 was sent to save a checkpoint; the command ended", self.run_berth("report", str(job)).stdout)

    def test_a_job_that_does_not_end_gets_sigterm_then(self):
        loop = ["--", sys.executable, "-c", "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: None); print('up', flush=True)\n"
                                            "while True: time.sleep(1)"]
        job = self.queue("--checkpoint-signal", "USR1@500ms", *loop)
        log = pathlib.Path(self.job(job)["log"])
        self.assertTrue(wait_until(lambda: log.exists() and log.read_text() == "up\n", PATIENCE))
        self.cancel(job)
        self.assertEqual(self.job(job, "ended")["outcome"]["signal"], signal.SIGTERM)

    def test_without_a_handler_it_gets_sigterm_at_once(self):
        job = self.queue("--checkpoint-signal", "USR1@50s", "--", "sleep", "100")
        self.assertTrue(wait_until(lambda: self.job(job)["state"] == "running", PATIENCE))
        self.cancel(job)
        ended = self.job(job, "ended")
        self.assertEqual(ended["outcome"]["signal"], signal.SIGTERM)
        self.assertEqual(pathlib.Path(ended["log"]).read_text(), "berth: SIGUSR1 was not sent, because no process of the job handles it\n")

    def test_ranks_without_a_handler_get_sigterm_at_once(self):
        job = self.queue("--checkpoint-signal", "USR1@50s", "--ranks", "2", "--", "sh", "-c", f"sleep 1; touch {self.folder}/$RANK; exec sleep 100", gpus=2)
        for rank in ("0", "1"):
            self.assertTrue(wait_until((self.folder / rank).exists, PATIENCE))
        self.cancel(job)
        self.job(job, "ended")
        self.assertEqual(self.sent(self.report(job)["report"]), ("USR1", False, None))

    def test_a_stopped_job_continues_to_save(self):
        job = self.queue("--checkpoint-signal", "USR1@50s", *self.train)
        self.is_up()
        self.assertTrue(wait_until(lambda: (self.folder / "checkpoint.up").read_text(), PATIENCE))
        os.kill(int((self.folder / "checkpoint.up").read_text()), signal.SIGSTOP)
        self.cancel(job)
        self.job(job, "ended")
        self.assertEqual(self.saved.read_text(), "['USR1'] try 1")

    def test_a_time_limit_is_kept(self):
        job = self.queue("--time-limit", "60s", "--checkpoint-signal", "USR1@52s", *self.train, "0")
        ended = self.job(job, "ended")
        self.assertEqual((ended["state"], self.saved.read_text()), ("done", "['USR1'] try 1"))

    def test_each_rank_saves_and_no_try_follows(self):
        # The exit code of a killed process: such a rank would be tried again.
        job = self.queue("--checkpoint-signal", "USR1@50s", "--ranks", "2", "--retries", "2", *self.train, "137", gpus=2)
        for rank in ("0", "1"):
            self.is_up("checkpoint" + rank)
        self.cancel(job)
        self.job(job, "ended")
        for rank in ("0", "1"):
            self.assertEqual((self.folder / ("checkpoint" + rank)).read_text(), "['USR1'] try 1")
        run = self.report(job)["report"]
        self.assertEqual((len(run["tries"]), self.sent(run)), (1, ("USR1", True, True)))

    def test_sigterm_to_berth_run_alone(self):
        for options in ([], ["--retries", "2"]):
            with self.subTest(options):
                (self.folder / "checkpoint.up").unlink(missing_ok=True)
                report = self.folder / "report.json"
                process = self.start("run", "--gpus", "1", "--report", str(report), "--checkpoint-signal", "USR1@50s", *options, *self.train)
                self.is_up()
                process.terminate()
                self.assertEqual(process.wait(PATIENCE), 3)
                self.assertEqual(self.saved.read_text(), "['USR1'] try 1")
                self.assertEqual(self.sent(json.loads(report.read_text())), ("USR1", True, True))

    def test_a_warning_during_the_preflight_starts_no_try(self):
        warned = self.folder / "warned"
        (self.folder / "torch.py").write_text(f"import os, time\nwhile not os.path.exists({str(warned)!r}): time.sleep(0.05)\n"
                                              "raise ImportError('none here')\n")
        done = self.run_berth("run", "--queue", "--cpu", "--time-limit", "100s", "--signal", "USR1@95s", "--ranks", "1", "--preflight", "--",
                              sys.executable, "-c", "print('the program started')", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        log = pathlib.Path(self.job(job)["log"])
        self.assertTrue(wait_until(lambda: log.exists() and "SIGUSR1 was not sent" in log.read_text(), PATIENCE))
        warned.touch()
        self.job(job, "ended")
        self.assertNotIn("the program started", log.read_text())
        self.assertEqual(self.report(job)["report"]["tries"], [])

    def test_signals_that_end_nothing_do_not_end_the_time_to_save(self):
        process = self.start("run", "--gpus", "1", "--checkpoint-signal", "USR1@50s", *self.train)
        self.is_up()
        process.terminate()
        for number in (signal.SIGWINCH, signal.SIGCONT):
            time.sleep(0.1)
            process.send_signal(number)
        self.assertEqual(process.wait(PATIENCE), 3)
        self.assertEqual(self.saved.read_text(), "['USR1'] try 1")

    def test_a_shutdown_of_the_machine(self):
        systemctl = self.folder / "systemctl"
        systemctl.write_text('#!/bin/sh\n[ "$1" = is-system-running ] && echo stopping\nexit 1\n')
        systemctl.chmod(0o755)
        self.variables["PATH"] = f"{self.folder}:{self.variables['PATH']}"
        job = self.queue("--requeue", "--checkpoint-signal", "USR1@50s", *self.train)
        self.is_up()
        for pid in self.brokers():
            os.kill(pid, signal.SIGTERM)
        self.assertTrue(wait_until(lambda: not self.brokers(), PATIENCE))
        self.assertEqual(self.saved.read_text(), "['USR1'] try 1")
        with edited_journal(self.variables["BERTH_STATE_DIR"]) as journal:
            clock = json.loads(journal.execute("SELECT value FROM value WHERE key = 'clock'").fetchone()[0])
            journal.execute("UPDATE value SET value = ? WHERE key = 'clock'", [json.dumps(clock | {"boot": "another"})])
        self.assertEqual(self.run_berth("jobs").returncode, 0)  # starts the next broker
        # The job did not end by itself, so it starts again after the shutdown.
        self.assertTrue(wait_until(lambda: self.job(job)["restarts"] == 1, PATIENCE))
        self.cancel(job)

    def test_signals_that_make_no_sense_are_refused(self):
        for words, error in ((["KILL"], "E1061"), (["USR1@2"], "E0103"), (["USR1@2d"], "E0104"), (["USR1@0s"], "E0104"),
                             (["USR1@2m", "--time-limit", "1m"], "E0946"), (["USR1", "--time-limit", "1h", "--signal", "USR1@60s"], "E0010")):
            done = self.run_berth("run", "--queue", "--checkpoint-signal", *words, "--", "true")
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(error, done.stderr)


if __name__ == "__main__":
    Machine.berth = sys.argv.pop(1)
    unittest.main()
