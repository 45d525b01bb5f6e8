#!/usr/bin/env python3
"""The machine's clock is set while jobs run or wait, or while no broker is running: no job ends early or is forgotten, no limit or share
changes, and shown ages stay correct.

usage: clock_test.py BERTH LIBRARY      (shifted_clock: the clock is as far ahead as a file says)
"""
import datetime
import json
import os
import signal
import sys
import time
import unittest

from machine import Machine, edited_journal, wait_until

SOAK = "BERTH_SOAK" in os.environ
CLOCK = ""
HOUR, DAY = 3600, 86400
JUMPS = (DAY, -DAY, HOUR, -30 * 365 * DAY, 0)  # seconds from the right time


class Clock(Machine):
    def setUp(self):
        super().setUp()
        self.ahead = self.folder / "ahead"
        self.set(0)
        self.variables |= {"LD_PRELOAD": CLOCK, "BERTH_TEST_CLOCK": str(self.ahead), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def set(self, seconds):
        draft = self.folder / "ahead.new"
        draft.write_text(str(seconds))
        draft.rename(self.ahead)
        self.is_ahead = seconds

    def age(self, text):
        """The age of a timestamp in a document, in seconds, by the shifted clock."""
        return time.time() + self.is_ahead - datetime.datetime.fromisoformat(text).timestamp()

    def queue(self, *words):
        done = self.run_berth("run", "--queue", *words)
        self.assertEqual((done.returncode, done.stdout.strip().isdigit()), (0, True), done.stderr)
        return int(done.stdout.split()[-1])

    def kill(self):
        self.kill_brokers()
        self.assertTrue(wait_until(lambda: not self.brokers()))

    def served(self, path="/v1/jobs"):
        """Reads from the running broker; starts one if there is none."""
        if not self.brokers():
            self.assertTrue(self.start("serve").stdout.readline().startswith("serving "))
        return self.call("GET", path)

    def assert_as_before(self, most_seconds):
        """Checks that the states are those of self.expected, and that no timestamp is older than `most_seconds`."""
        listed = self.run_berth("jobs", "--json")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        jobs = {one["id"]: one for one in json.loads(listed.stdout)["jobs"]}
        self.assertEqual({id: one["state"] for id, one in jobs.items()}, self.expected, self.is_ahead)
        for one in jobs.values():
            ages = [self.age(one[key]) for key in ("submitted", "started", "ended") if one[key]]
            for earlier, later in zip(ages, ages[1:]):
                self.assertGreater(earlier, later - 0.02, one)  # each age is read a moment after the one before, and the clock was set
            self.assertGreater(ages[-1], -2, one)
            self.assertLess(ages[0], most_seconds + 2, one)
        shown = self.run_berth("jobs", "--all").stdout + self.run_berth("why", "1").stdout
        self.assertNotRegex(shown, r"(^|[ (])-\d|\d ?d\b|\d ?h\b", "no age is negative, or of hours")

    def test_nothing_changes_but_what_time_it_is(self):
        begun = time.monotonic()
        limited = self.queue("--gpus", "4", "--time-limit", "10m", "--", "sleep", "1000")
        waiting = self.queue("--gpus", "1", "--", "true")
        ended = self.queue("--cpu", "--", "sh", "-c", "exit 3")
        turns = self.queue("--gpus", "1", "--or-cpu-after", "30m", "--", "true")
        self.job(ended, "ended")
        shell = self.start("run", "--cpu", "--cpus", "1", "--", "sh", "-c", "echo up; read line")
        self.assertEqual(shell.stdout.readline(), "up\n")
        self.expected = {limited: "running", waiting: "waiting", ended: "failed", turns: "waiting", turns + 1: "running"}
        self.assert_as_before(time.monotonic() - begun)
        for broker in ("stays", "is killed"):
            for seconds in JUMPS:
                if broker == "is killed":
                    self.kill()
                self.set(seconds)
                self.served()
                self.assert_as_before(time.monotonic() - begun)
                why = self.call("GET", f"/v1/jobs/{waiting}/why")
                self.assertEqual(why["obstruction"], "busy")
                left = 600 - (time.monotonic() - begun)
                self.assertLess(abs(-self.age(why["fits_at"]) - left), 3, (why, seconds))
                self.assertLess(abs(-self.age(why["releases"][0]["at"]) - left), 600)
        shell.communicate("go\n", timeout=60)
        self.assertEqual(shell.returncode, 0)

    def test_a_time_limit_is_kept_whatever_the_clock_says(self):
        for seconds in (-DAY, DAY):
            for broker in ("stays", "is killed") if SOAK else ("is killed",):
                self.set(0)
                begun = time.monotonic()
                job = self.queue("--gpus", "1", "--time-limit", "3s", "--", "sleep", "1000")
                self.job(job, "started")
                if broker == "is killed":
                    self.kill()
                self.set(seconds)
                self.assertEqual(self.run_berth("wait", str(job)).returncode, 143)
                self.assertGreater(time.monotonic() - begun, 2.9)
                self.assertLess(time.monotonic() - begun, 7)
                self.assertIn("time limit of 3.0 s", self.job(job)["why"])

    def stop(self):
        for pid in self.brokers():
            os.kill(pid, signal.SIGTERM)
        self.assertTrue(wait_until(lambda: not self.brokers()))

    def journal(self, statement, *words):
        with edited_journal(self.variables["BERTH_STATE_DIR"]) as journal:
            return journal.execute(statement, words).fetchall()

    def test_what_ended_is_not_forgotten_because_the_clock_was_set(self):
        """Jobs that ended a moment ago or before the last boot stay listed for a week."""
        old, new = self.queue("--cpu", "--", "true"), self.queue("--cpu", "--", "true")
        last = self.queue("--cpu", "--", "true")
        for job in (old, new, last):
            self.job(job, "ended")
        self.stop()
        record = json.loads(self.journal("SELECT record FROM job WHERE id = ?", old)[0][0])
        for key in ("submitted", "started", "ended"):
            record[key] -= 6 * DAY * 1000
        self.journal("UPDATE job SET record = ? WHERE id = ?", json.dumps(record), old)
        known = {old, new, last}
        for seconds in (2 * DAY, 300 * DAY, -300 * DAY, 0) if SOAK else (300 * DAY, 0):
            self.kill()
            self.set(seconds)
            self.served()
            time.sleep(62 if SOAK else 1.5)  # old jobs are deleted soon after the start, and then once a minute
            self.assertEqual({one["id"] for one in self.served("/v1/jobs?all")["jobs"]}, known, seconds)
        # If the clock was not set, the old job is deleted.
        self.stop()
        record["ended"] -= 2 * DAY * 1000
        self.journal("UPDATE job SET record = ? WHERE id = ?", json.dumps(record), old)
        self.journal("DELETE FROM value WHERE key = 'clock'")
        self.served("/v1/jobs")
        self.assertTrue(wait_until(lambda: {one["id"] for one in self.call("GET", "/v1/jobs?all")["jobs"]} == known - {old}))

    def test_shares_do_not_fade_because_the_clock_was_set(self):
        """Past usage still counts half after one day."""
        self.job(self.queue("--cpu", "--", "true"), "ended")
        self.stop()
        user = str(os.getuid())
        self.journal("INSERT OR REPLACE INTO value VALUES ('shares', ?, 1, 0)",
                     json.dumps({"at": int(time.time() * 1000), "ahead": {user: 1000}}))
        for while_it_runs in (True, False):
            for seconds in (DAY, 10 * DAY, -DAY, 0):
                if while_it_runs:
                    self.served("/v1/jobs")
                self.set(seconds)
                self.served("/v1/jobs")
                self.stop()
                (said,), = self.journal("SELECT value FROM value WHERE key = 'shares'")
                self.assertLess(abs(json.loads(said)["ahead"][user] - 1000), 50, (while_it_runs, seconds))


if __name__ == "__main__":
    Machine.berth = os.path.abspath(sys.argv.pop(1))
    CLOCK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
