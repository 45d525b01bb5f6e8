#!/usr/bin/env python3
"""A broker that is not running: clients wait for it, find it beside its journal, or start the next one if work is left. Jobs keep their
devices in the meantime.

usage: absence_test.py BERTH
"""
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

import machine_of_all
from machine import Machine, wait_until

SOCKET = pathlib.Path("/run/berth/berth.sock")
PRIVATE = os.environ.get(machine_of_all.MARK) == "ours"


class OwnBroker(Machine):
    def queue(self, *words, **more):
        done = self.run_berth("run", "--queue", *words, **more)
        self.assertEqual((done.returncode, done.stdout.strip().isdigit()), (0, True), done.stderr)
        return int(done.stdout.split()[-1])

    def states(self, **more):
        done = self.run_berth("jobs", "--json", **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [one["state"] for one in json.loads(done.stdout)["jobs"]]

    def test_jobs_of_a_killed_broker_are_shown_and_go_on(self):
        for _ in range(2):
            self.queue("--gpus", "4", "--", "sleep", "0.5")
        held = self.queue("--gpus", "4", "--", "true")
        self.run_berth("hold", str(held))
        self.kill_brokers()
        # Devices whose jobs are not known must not be shown as free without a notice.
        for words in ([], ["ls"], ["ps"]):
            self.assertIn("it is not known which jobs use which devices: no broker answers; berth jobs waits for an answer", " ".join(self.run_berth(*words).stdout.split()))
        self.assertEqual(self.states(), ["running", "waiting", "held"])
        self.assertTrue(wait_until(lambda: self.states() == ["done", "done", "held"]))
        # A broker is started also if only ended jobs are left, because users ask about those too.
        self.run_berth("cancel", str(held))
        for broker in self.brokers():
            os.kill(broker, signal.SIGTERM)
        self.assertTrue(wait_until(lambda: not self.brokers()))
        self.assertNotIn("not known", self.run_berth("ls").stdout)
        self.assertEqual(self.states(), ["done", "done", "cancelled"])

    def test_a_broker_that_was_told_to_end_with_work_left_is_followed(self):
        self.queue("--gpus", "4", "--", "sleep", "1000")
        for broker in self.brokers():
            os.kill(broker, signal.SIGTERM)
        self.assertTrue(wait_until(lambda: not self.brokers()))
        self.assertEqual(self.states(), ["running"])
        self.run_berth("cancel", "1")

    def test_it_is_found_where_its_journal_is(self):
        """The runtime folder ends with a session: systemd removes it when the user logs out."""
        self.queue("--gpus", "4", "--", "sleep", "1000")
        shutil.rmtree(self.variables["BERTH_RUNTIME_DIR"])
        self.assertEqual(self.states(), ["running"])
        begun = time.monotonic()
        refused = self.run_berth("run", "--no-wait", "--gpus", "1", "--", "true")
        self.assertEqual(refused.returncode, 6, refused.stderr)
        later = self.queue("--gpus", "1", "--", "true")
        self.assertLess(time.monotonic() - begun, 10)
        self.assertEqual(len(self.brokers()), 1)
        self.run_berth("cancel", "1")
        self.assertEqual(self.run_berth("wait", str(later)).returncode, 0)

    @unittest.skipUnless(PRIVATE, "without BERTH_RUNTIME_DIR the real machine's broker is found")
    def test_whatever_session_asks_it_is_one_broker(self):
        """A cron job, a login session, and a terminal that outlived its login session all find the same broker."""
        for name in ("BERTH_RUNTIME_DIR", "BERTH_STATE_DIR"):
            self.variables.pop(name)
        session = self.folder / "session"
        session.mkdir(0o700)
        self.variables |= {"HOME": str(self.folder), "TMPDIR": str(self.folder)}
        self.variables.pop("XDG_RUNTIME_DIR", None)
        gone = {"XDG_RUNTIME_DIR": str(self.folder / "no/such")}
        self.assertEqual([self.queue("--gpus", "1", "--", "sleep", "1000", **more) for more in (gone, {"XDG_RUNTIME_DIR": str(session)}, {})],
                         [1, 2, 3])
        self.assertEqual(self.states(**gone), ["running"] * 3)
        self.assertEqual(len(self.brokers()), 1)
        self.run_berth("cancel", "1", "2", "3")

    def test_journal_and_socket_may_share_a_folder(self):
        one = str(self.folder / "one")
        os.mkdir(one, 0o700)
        both = {"BERTH_STATE_DIR": one, "BERTH_RUNTIME_DIR": one}
        begun = time.monotonic()
        self.assertEqual(self.queue("--cpu", "--", "sleep", "1000", **both), 1)
        self.assertEqual(self.states(**both), ["running"])
        self.assertLess(time.monotonic() - begun, 15)
        self.run_berth("cancel", "1", **both)

    def test_a_journal_may_lie_deep(self):
        deep = {"BERTH_STATE_DIR": f"{self.folder}/{'d' * 120}"}
        shutil.rmtree(self.variables["BERTH_RUNTIME_DIR"], ignore_errors=True)
        self.assertEqual(self.queue("--cpu", "--", "sleep", "1000", **deep), 1)
        shutil.rmtree(self.variables["BERTH_RUNTIME_DIR"])
        self.assertEqual(self.states(**deep), ["running"])
        self.kill_brokers()
        self.assertEqual(self.states(**deep), ["running"])
        self.run_berth("cancel", "1", **deep)

    def test_who_waits_follows_one_killed_broker_after_the_other(self):
        self.queue("--gpus", "4", "--", "sleep", "1000")
        waiter = self.start("run", "--gpus", "4", "--", "true")
        self.assertIn("waiting:", waiter.stderr.readline())
        for pause in (1.2, 1.2, 1.2, 0.3, 0.3, 0.3, 0.3):
            self.assertTrue(wait_until(self.brokers))
            time.sleep(pause)
            self.kill_brokers()
        self.assertTrue(wait_until(self.brokers))
        self.assertEqual(self.states(), ["running", "waiting"])
        self.run_berth("cancel", "1")
        self.assertEqual(waiter.wait(30), 0)
        self.assertNotIn("no lease", waiter.stderr.read())

    def test_who_asked_a_broker_that_dies_before_it_answers_asks_the_next(self):
        self.queue("--gpus", "1", "--", "true")
        for broker in self.brokers():
            os.kill(broker, signal.SIGSTOP)
        asks = self.start("run", "--gpus", "1", "--", "sh", "-c", "echo $BERTH_JOB")
        time.sleep(1)
        self.kill_brokers()
        said, error = asks.communicate(timeout=30)
        self.assertEqual((asks.returncode, said), (0, "2\n"), error)
        self.assertNotIn("no lease", error)


@unittest.skipUnless(PRIVATE, "only root serves all users, among mounts of its own")
class BrokerOfAll(machine_of_all.MachineOfAll):
    def setUp(self):
        super().setUp()
        # All users share one simulated machine, including the lock files of its devices.
        subprocess.run(["chmod", "-R", "a+rX", self.variables["BERTH_SIM_DIR"]], check=True)
        self.locks = pathlib.Path(self.variables["BERTH_SIM_DIR"], "locks")
        self.locks.mkdir(exist_ok=True)
        self.locks.chmod(0o1777)
        self.lin, self.zhao = self.on_this_machine("lin"), self.on_this_machine("zhao")

    def on_this_machine(self, name):
        one = self.person(name)
        one.variables = {**self.of_the_system, "HOME": str(one.home), "TMPDIR": str(one.home)}
        one.variables.pop("XDG_RUNTIME_DIR", None)
        return one

    def has_own(self, one):
        return (one.home / ".local/state/berth").exists()

    def stays_away(self):
        """Makes the socket look as if the broker had exited half a minute ago."""
        os.utime(SOCKET, (time.time() - 30,) * 2)

    def test_who_comes_while_it_restarts_waits_for_it(self):
        long = self.lin("run", "--queue", "--gpus", "4", "--", "sleep", "1000").stdout.split()[-1]
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.stop(number)
            wait, jobs = self.lin.start("wait", long), self.lin.start("jobs", "--json")
            runs, queued = self.zhao.start("run", "--gpus", "1", "--", "true"), self.zhao.start("run", "--queue", "--cpu", "--", "true")
            refused = self.zhao.start("run", "--no-wait", "--gpus", "1", "--", "true")
            time.sleep(2)
            self.assertEqual([one.poll() for one in (wait, jobs, runs, queued, refused)], [None] * 5)
            self.serve()
            self.assertIn("running", [one["state"] for one in json.loads(jobs.communicate(timeout=30)[0])["jobs"]])
            self.assertEqual(refused.wait(30), 6)
            self.assertEqual(queued.wait(30), 0)
            said = queued.stderr.read()
            self.assertIn("note: the broker for all users does not answer; waiting up to ", said)
            self.assertTrue(wait_until(lambda: self.zhao("jobs", "--json").stdout.count('"waiting"') == 1), self.zhao("jobs", "--json").stdout)
            self.assertEqual([one.poll() for one in (wait, runs)], [None] * 2)
            runs.kill()
            wait.kill()
        self.assertEqual((self.has_own(self.lin), self.has_own(self.zhao)), (False, False))

    def test_where_it_stays_away_its_jobs_keep_their_devices(self):
        self.lin("run", "--queue", "--devices", "0,2", "--", "sleep", "1000")
        shell = self.lin.start("run", "--devices", "3", "--", "sh", "-c", "echo up; exec sleep 1000")
        self.assertEqual(shell.stdout.readline(), "up\n")
        self.stop(signal.SIGKILL)
        self.stays_away()
        for words, code in ((["jobs"], 4), (["wait", "1"], 125)):
            done = self.lin(*words)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn("error: the broker for all users does not answer at /run/berth/berth.sock (E0929)", done.stderr)
            self.assertIn("hint: systemctl status berth", done.stderr)
        begun = time.monotonic()
        one = self.zhao("run", "--gpus", "1", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        self.assertEqual((one.returncode, one.stdout), (0, "1\n"), one.stderr)
        self.assertIn("using a broker of your own", one.stderr)
        two = self.zhao("run", "--no-wait", "--gpus", "2", "--", "true")
        self.assertEqual(two.returncode, 6, two.stderr)
        self.assertLess(time.monotonic() - begun, 15)
        # When the system broker is back, only it grants devices.
        self.zhao("run", "--queue", "--gpus", "4", "--", "true")
        self.serve()
        self.assertEqual([one["state"] for one in json.loads(self.lin("jobs", "--json").stdout)["jobs"]], ["running"] * 2)
        self.lin("cancel", "1", "2")
        self.assertTrue(wait_until(lambda: shell.poll() is not None))
        own = {"BERTH_RUNTIME_DIR": str(self.zhao.home / f"berth-{self.zhao.uid}")}
        time.sleep(2.5)
        self.assertEqual(json.loads(self.zhao("jobs", "--json", **own).stdout)["jobs"][-1]["state"], "waiting")
        why = self.zhao("why", "3", **own).stdout
        self.assertIn("job 3 waits: the broker for all users is running, so your own broker starts nothing", why)
        self.assertIn("the broker for all users manages the device", why)
        # If asked about that job, the system broker says which broker has it.
        show = f"BERTH_RUNTIME_DIR={own['BERTH_RUNTIME_DIR']} berth jobs"
        self.assertIn(f"note: your own broker also has jobs, but starts none while the broker for all users runs: {show}\n", self.zhao("jobs").stderr)
        self.assertIn(f"hint: {show}\n", self.zhao("why", "3").stderr)
        self.assertEqual(self.lin("jobs").stderr, "")

    def test_what_users_brokers_gave_away_before_it_came_stays_theirs(self):
        self.stop()
        self.stays_away()
        theirs = self.zhao.start("run", "--devices", "0,1,2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 1000")
        self.assertEqual(theirs.stdout.readline(), "0,1,2\n")
        self.serve()
        done = self.lin("run", "--gpus", "1", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        self.assertEqual(done.stdout, "3\n", done.stderr)
        refused = self.lin("run", "--gpus", "2", "--no-wait", "--", "true")
        self.assertEqual(refused.returncode, 6, refused.stderr)
        theirs.kill()
        self.assertTrue(wait_until(lambda: self.lin("run", "--gpus", "4", "--no-wait", "--", "true").returncode == 0))
        # The system broker ignores locks that are taken after it started.
        with open(next(self.locks.iterdir())) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.assertEqual(self.lin("run", "--gpus", "4", "--no-wait", "--", "true").returncode, 0)

    def test_nobody_takes_devices_from_it_by_their_locks(self):
        self.assertEqual(self.lin("run", "--gpus", "4", "--", "true").returncode, 0)
        with contextlib.ExitStack() as files:
            paths = [*self.locks.iterdir()]
            for path in paths:
                fcntl.flock(files.enter_context(open(path)), fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.assertEqual(len(paths), 4)
            done = self.lin("run", "--no-wait", "--gpus", "4", "--", "true")
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    Machine.berth = machine_of_all.MachineOfAll.berth = os.path.abspath(sys.argv[1])
    if os.geteuid() == 0:
        machine_of_all.enter()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
