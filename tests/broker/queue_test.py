#!/usr/bin/env python3
"""Queued jobs on a simulated machine: each runs once, with its submitter's settings, and its result is recorded, whatever happens to the
broker.

usage: queue_test.py BERTH
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

from machine import Machine, edited_journal, wait_until

SOAK = "BERTH_SOAK" in os.environ


class Queue(Machine):
    def queue(self, *words, **more):
        done = self.run_berth("run", "--queue", *words, **more)
        self.assertEqual((done.returncode, done.stdout.strip().isdigit()), (0, True), done.stderr)
        return int(done.stdout.split()[-1])

    def log(self, job):
        return pathlib.Path(self.job(job)["log"]).read_text()

    def ended(self, job):
        return self.job(job, "ended")

    def test_a_job_runs_as_its_submitter_would_have(self):
        script = "echo $CUDA_VISIBLE_DEVICES $BERTH_JOB $MINE; pwd; umask; readlink /proc/self/fd/0; echo err >&2; exit 7"
        os.umask(0o027)
        job = self.queue("--gpus", "1", "--name", "first", "--", "sh", "-c", script, cwd=self.folder, MINE="word")
        os.umask(0o022)
        ended = self.ended(job)
        self.assertEqual(ended["outcome"], {"class": "failed", "exit_code": 7, "signal": None})
        self.assertEqual((ended["state"], ended["name"], ended["queued"]), ("failed", "first", True))
        self.assertEqual(self.log(job), f"0 {job} word\n{self.folder}\n0027\n/dev/null\nerr\n")
        self.assertEqual(os.stat(ended["log"]).st_mode & 0o777, 0o600)

    def test_words_variables_and_folders_are_bytes(self):
        odd = os.fsencode(self.folder) + b"/gr\xfcn"
        os.mkdir(odd)
        variables = {os.fsencode(key): os.fsencode(word) for key, word in self.variables.items()}
        script = b"printf '%s|%s|%s' \"$1\" \"$ODD\" \"$PWD\""
        done = subprocess.run([self.berth, "run", "--queue", "--gpus", "1", "--name", b"n\xff", "--", "sh", "-c", script, "sh", b"\xfe\x80z"],
                              env=variables | {b"ODD": b"a\xffb"}, cwd=odd, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = self.ended(int(done.stdout.split()[-1]))
        self.assertEqual(pathlib.Path(job["log"]).read_bytes(), b"\xfe\x80z|a\xffb|" + odd)
        # In JSON, invalid UTF-8 is replaced.
        self.assertEqual((job["name"], job["command"][-1]), ("n\ufffd", "\ufffd\ufffdz"))

    def test_a_job_may_have_as_many_variables_as_a_process(self):
        many = {f"MANY_{i}": "x" * 100_000 for i in range(18)}
        done = self.run_berth("run", "--queue", "--cpu", "--", "sh", "-c", "echo ${#MANY_0} ${#MANY_17}", **many)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.run_berth("wait", done.stdout.split()[-1])
        self.assertEqual(self.run_berth("logs", done.stdout.split()[-1]).stdout, "100000 100000\n")
        done = self.run_berth("run", "--queue", "--cpu", "--", "true", **{key: "\x01" * 100_000 for key in many})
        self.assertEqual(done.returncode, 2)
        self.assertIn("E0919", done.stderr)

    def test_how_a_job_ends_is_told(self):
        killed = self.ended(self.queue("--", "sh", "-c", "kill -9 $$"))
        self.assertEqual(killed["outcome"], {"class": "signal", "exit_code": 137, "signal": 9})
        missing = self.ended(self.queue("--", "no-such-command"))
        self.assertEqual(missing["outcome"]["exit_code"], 127)
        self.assertIn("no-such-command", self.log(missing["id"]))
        denied = self.ended(self.queue("--", "/etc/passwd"))
        self.assertEqual(denied["outcome"]["exit_code"], 126)
        nowhere = self.folder / "gone"
        nowhere.mkdir()
        blocker = self.start("run", "--gpus", "4", "--", "sh", "-c", "echo started; read line")
        blocker.stdout.readline()
        lost = self.queue("--gpus", "1", "--", "true", cwd=nowhere)
        nowhere.rmdir()
        blocker.communicate("go\n")
        self.assertEqual(self.ended(lost)["outcome"]["exit_code"], 125)
        self.assertIn("cannot change to the folder", self.log(lost))

    def test_nothing_of_a_job_stays(self):
        mark = f"{self.folder}/stays"
        job = self.queue("--gpus", "1", "--", "sh", "-c", f"(setsid sh -c 'exec -a {mark} sleep 1000' &) ; (setsid sleep 1000 &); exit 0")
        self.assertEqual(self.ended(job)["state"], "done")
        tag = f"BERTH_JOB={job}".encode()

        def left():
            found = []
            for entry in pathlib.Path("/proc").iterdir():
                try:
                    if entry.name.isdigit() and tag in (entry / "environ").read_bytes().split(b"\0") and \
                            self.variables["BERTH_SIM_DIR"].encode() in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    pass
            return found

        self.assertTrue(wait_until(lambda: not left()), left())

    def test_jobs_wait_follow_and_are_ended(self):
        first = self.queue("--gpus", "4", "--time-limit", "1s", "--", "sh", "-c", "(setsid sleep 1000 &); sleep 1000")
        after = self.queue("--gpus", "1", "--after", str(first), "--", "true")
        other = self.queue("--gpus", "1", "--", "true")
        held = self.queue("--cpu", "--", "true")
        why = self.call("GET", f"/v1/jobs/{other}/why")
        self.assertEqual((why["obstruction"], why["releases"][0]["job"], why["releases"][0]["by_limit"]), ("busy", first, True))
        over = self.ended(first)
        self.assertEqual((over["state"], over["outcome"]["signal"]), ("failed", 15))
        self.assertIn("time limit of 1", over["why"])
        self.assertEqual(self.ended(after)["state"], "cancelled")
        self.assertEqual(self.ended(other)["state"], "done")
        self.assertEqual(self.ended(held)["state"], "done")
        running = self.queue("--gpus", "1", "--", "sleep", "1000")
        self.assertEqual(self.job(running, "started")["state"], "running")
        self.assertEqual(self.call("POST", f"/v1/jobs/{running}/cancel?wait=ended", {})["job"]["state"], "cancelled")

    def test_a_job_in_a_terminal_can_be_cancelled_too(self):
        mine = self.start("run", "--gpus", "1", "--json", "--", "sh", "-c", "echo started; sleep 1000")
        self.assertEqual(mine.stdout.readline(), "started\n")
        (job,) = [one["id"] for one in self.call("GET", "/v1/jobs")["jobs"]]
        self.call("POST", f"/v1/jobs/{job}/cancel", {})
        self.assertEqual(mine.wait(60), 143)

    def test_what_makes_no_sense_is_refused_at_once(self):
        for words, code, identifier in ((("--queue", "--dry-run", "--", "true"), 2, "E0010"), (("--queue",), 2, "E0516"),
                                        (("--queue", "--time-limit", "5", "--", "true"), 2, "E0103"),
                                        (("--queue", "--after", "77", "--", "true"), 125, "E0901"),
                                        (("--queue", "--gpus", "9", "--", "true"), 125, "E0411")):
            done = self.run_berth("run", *words)
            self.assertEqual((done.returncode, identifier in done.stderr), (code, True), (words, done.stderr))

    def test_a_killed_broker_loses_no_job_and_runs_none_twice(self):
        """Each job writes its number once. A job is confirmed if `berth run --queue` printed its number."""
        chance, confirmed, ran = random.Random(11), [], self.folder / "ran"
        for _ in range(500 if SOAK else 8):
            stop = threading.Event()

            def kill_soon():
                time.sleep(chance.random() * 0.15)
                self.kill_brokers()
                stop.set()

            killer = threading.Thread(target=kill_soon)
            killer.start()
            while not stop.is_set():
                code = chance.choice([0, 3])
                done = self.run_berth("run", "--queue", "--gpus", str(chance.choice([1, 1, 4])), "--", "sh", "-c",
                                      f"echo $BERTH_JOB >> {ran}; exit {code}")
                if done.returncode == 0:
                    confirmed.append((int(done.stdout.split()[-1]), code))
            killer.join()
        last = self.queue("--gpus", "4", "--", "true")
        for job, code in confirmed:
            outcome = self.ended(job)["outcome"]
            self.assertEqual((job, outcome and outcome["exit_code"]), (job, code))
        self.assertEqual(self.ended(last)["state"], "done")
        numbers = [int(line) for line in ran.read_text().split()]
        self.assertEqual(len(numbers), len(set(numbers)), "a job ran twice")
        self.assertEqual({job for job, _ in confirmed} - set(numbers), set(), "a job did not run")
        self.assertGreater(len(confirmed), 5)

    def test_jobs_outlive_the_broker_and_the_next_one_knows_how_they_ended(self):
        long = self.queue("--gpus", "1", "--", "sh", "-c", f"touch {self.folder}/up; while [ ! -e {self.folder}/go ]; do sleep 0.02; done; exit 5")
        short = self.queue("--gpus", "1", "--", "sh", "-c", f"while [ ! -e {self.folder}/now ]; do sleep 0.02; done; exit 6")
        self.assertTrue(wait_until((self.folder / "up").exists))
        # Wait until the job has really started: if it has not, the next broker would start it.
        self.assertTrue(wait_until(pathlib.Path(self.job(short)["log"]).exists))
        self.kill_brokers()
        (self.folder / "now").touch()  # ends while no broker runs
        self.assertTrue(wait_until(lambda: not self.brokers()))
        self.assertTrue(wait_until(lambda: json_exists(self.variables, short)))
        refused = self.run_berth("run", "--gpus", "4", "--no-wait", "--", "true")
        self.assertEqual(refused.returncode, 6, refused.stderr)
        self.assertEqual(self.ended(short)["outcome"]["exit_code"], 6)
        (self.folder / "go").touch()
        self.assertEqual(self.ended(long)["outcome"]["exit_code"], 5)

    def test_what_ran_when_the_machine_stopped_is_lost_and_not_run_twice(self):
        ran, go = self.folder / "ran", self.folder / "go"
        lost, known = (self.queue("--gpus", "1", "--", "sh", "-c", f"echo {name} >> {ran}; {then}")
                       for name, then in (("lost", "sleep 1000"), ("known", f"while [ ! -e {go} ]; do sleep 0.02; done; exit 3")))
        follows = self.queue("--after", str(lost), "--", "true")
        stopped = self.queue("--cpu", "--", "sh", "-c", f"echo stopped >> {ran}; sleep 1000")
        again, spent = (self.queue("--requeue", "--gpus", "1", "--", "sh", "-c", f"echo {name}-$BERTH_RESTARTS | tee -a {ran}; {then}")
                        for name, then in (("again", "[ $BERTH_RESTARTS = 1 ] || sleep 1000"), ("spent", "sleep 1000")))
        behind = self.queue("--after", str(again), "--", "true")
        self.assertTrue(wait_until(lambda: ran.exists() and len(ran.read_text().split()) == 5))
        status = {job: pathlib.Path(self.job(job)["log"]).with_suffix(".status") for job in (lost, known, again, spent, stopped)}
        self.kill_brokers()
        before = status[known].read_text()
        go.touch()
        self.assertTrue(wait_until(lambda: status[known].read_text() != before))
        # Simulates a power failure: the last writes are missing on the disk, no process runs, and the machine was rebooted.
        for job, how in ((lost, signal.SIGKILL), (again, signal.SIGTERM), (spent, signal.SIGKILL), (stopped, signal.SIGTERM)):
            os.kill(int(status[job].read_text().split()[0]), how)
        for job in (again, stopped):  # as after an orderly shutdown
            self.assertTrue(wait_until(lambda: "told_to_end" in status[job].read_text()))
        status[lost].unlink()
        with edited_journal(self.variables["BERTH_STATE_DIR"]) as journal:
            clock = json.loads(journal.execute("SELECT value FROM value WHERE key = 'clock'").fetchone()[0])
            journal.execute("UPDATE value SET value = ? WHERE key = 'clock'", [json.dumps(clock | {"boot": "another"})])
            journal.execute("UPDATE job SET record = json_set(record, '$.restarts', 5) WHERE id = ?", [spent])
        last = self.queue("--gpus", "4", "--", "true")
        self.assertEqual(self.ended(last)["state"], "done")
        self.assertEqual([self.job(job)["state"] for job in (lost, known, spent, stopped, follows)],
                         ["lost", "failed", "lost", "lost", "cancelled"])
        self.assertEqual([self.ended(job)["state"] for job in (again, behind)], ["done", "done"])
        self.assertEqual((self.job(again)["requeue"], self.job(again)["restarts"], self.job(lost)["requeue"]), (True, 1, False))
        self.assertIn("restarted 1 time, because the machine was restarted\n", self.run_berth("why", str(again)).stdout)
        self.assertIn("not restarted again after 5 times: ", self.run_berth("why", str(spent)).stdout)
        self.assertEqual(pathlib.Path(self.job(again)["log"]).read_text(), "again-0\nagain-1\n")
        self.assertEqual(self.job(known)["outcome"]["exit_code"], 3)
        self.assertEqual(sorted(ran.read_text().split()), ["again-0", "again-1", "known", "lost", "spent-0", "stopped"])

    def restart(self, *more):
        """Simulates a reboot in the journal. `more`: further SQL statements to run before the next broker starts."""
        self.assertTrue(wait_until(lambda: not self.brokers()))
        with edited_journal(self.variables["BERTH_STATE_DIR"]) as journal:
            clock = json.loads(journal.execute("SELECT value FROM value WHERE key = 'clock'").fetchone()[0])
            journal.execute("UPDATE value SET value = ? WHERE key = 'clock'", [json.dumps(clock | {"boot": "another"})])
            for statement in more:
                journal.execute(statement)

    def test_a_restart_of_the_machine_is_written_down_in_one_step_or_not_at_all(self):
        ran = self.folder / "ran"
        plain, again = (self.queue(*words, "--gpus", "2", "--", "sh", "-c", f"echo {name} >> {ran}; {then}") for name, words, then in
                        (("plain", (), "sleep 1000"), ("again", ("--requeue",), "[ $BERTH_RESTARTS = 1 ] || sleep 1000")))
        self.assertTrue(wait_until(lambda: ran.exists() and len(ran.read_text().split()) == 2))
        status = {job: pathlib.Path(self.job(job)["log"]).with_suffix(".status") for job in (plain, again)}
        self.kill_brokers()
        for one in status.values():
            os.kill(int(one.read_text().split()[0]), signal.SIGKILL)
        status[plain].unlink()  # it had not reached the disk
        # No job row can be written. This has the same effect as killing the broker before it writes.
        self.restart("CREATE TRIGGER full BEFORE INSERT ON job BEGIN SELECT RAISE(ABORT, 'full'); END")
        self.run_berth("jobs", "--json")
        self.assertEqual([self.job(job)["state"] for job in (plain, again)], ["running", "running"], "as it is written")
        time.sleep(1.5)
        self.kill_brokers()
        with edited_journal(self.variables["BERTH_STATE_DIR"]) as journal:
            journal.execute("DROP TRIGGER full")
        self.run_berth("jobs")
        self.assertEqual(self.ended(again)["state"], "done")
        self.assertEqual((self.job(plain)["state"], self.job(again)["restarts"]), ("lost", 1))
        self.assertEqual(sorted(ran.read_text().split()), ["again", "again", "plain"])

    def test_a_keeper_that_hears_of_the_end_of_the_machine_before_the_broker_does_has_not_ended_its_job(self):
        ran = self.folder / "ran"
        job = self.queue("--requeue", "--gpus", "1", "--", "sh", "-c", f"echo $BERTH_RESTARTS >> {ran}; [ $BERTH_RESTARTS = 1 ] || sleep 1000")
        self.assertTrue(wait_until(lambda: ran.exists() and ran.read_text()))
        (broker,) = self.brokers()
        os.kill(int(pathlib.Path(self.job(job)["log"]).with_suffix(".status").read_text().split()[0]), signal.SIGTERM)
        time.sleep(0.1)
        os.kill(broker, signal.SIGTERM)
        self.restart()
        self.run_berth("jobs")
        self.assertEqual(self.ended(job)["state"], "done")
        self.assertEqual(ran.read_text(), "0\n1\n")

    def test_a_keeper_that_somebody_told_to_end_has_ended_its_job(self):
        job = self.queue("--gpus", "1", "--", "sleep", "1000")
        self.assertTrue(wait_until(lambda: self.job(job)["pids"]))
        log = pathlib.Path(self.job(job)["log"])
        self.assertTrue(wait_until(log.exists))
        os.kill(int(log.with_suffix(".status").read_text().split()[0]), signal.SIGTERM)
        self.assertEqual((self.ended(job)["state"], self.job(job)["outcome"]["signal"]), ("failed", signal.SIGTERM))

    def test_a_killed_keeper_takes_its_job_along_and_the_device_is_free(self):
        job = self.queue("--gpus", "4", "--", "sh", "-c", "(setsid sleep 1000 &); sleep 1000")
        self.assertEqual(self.job(job, "started")["state"], "running")
        log = pathlib.Path(self.job(job)["log"])
        self.assertTrue(wait_until(log.exists))
        time.sleep(0.2)
        os.kill(int(log.with_suffix(".status").read_text().split()[0]), signal.SIGKILL)
        self.assertEqual(self.ended(job)["state"], "lost")


def json_exists(variables, job):
    try:
        return "exit_code" in pathlib.Path(variables["BERTH_STATE_DIR"], "jobs", f"{job}.status").read_text()
    except OSError:
        return False


if __name__ == "__main__":
    Machine.berth = os.path.abspath(sys.argv.pop(1))
    unittest.main()
