#!/usr/bin/env python3
"""After any process is killed, a job in a terminal or from the queue gives its device back soon after its last process ends, and leaves
no process behind. A cancelled job always ends.

usage: kills_test.py BERTH
"""
import contextlib
import datetime
import json
import os
import pathlib
import random
import signal
import sys
import time
import unittest

from machine import Machine, wait_until

SOAK = "BERTH_SOAK" in os.environ
SOON = 3.0
# A child process, an orphan in its own session, and an orphan in its own session without any variables.
TREE = """
trap '' TERM
sleep 1001 &
(setsid sh -c 'trap "" TERM; sleep 1002' &)
(setsid env -i sh -c 'trap "" TERM; sleep 1003; : {mark}' &)
echo up
sleep 1004
: {mark}
"""


def words_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def stat_of(pid):
    """The fields of /proc/PID/stat after the name: state, parent, group, session …"""
    with contextlib.suppress(OSError, IndexError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return []


def below(pid):
    """All descendants of a process, without zombies."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := stat_of(entry.name)) and stat[0] != "Z":
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    found, open_ = [], [pid]
    while open_:
        more = children.get(open_.pop(), [])
        found += more
        open_ += more
    return found


class Kills(Machine):
    def setUp(self):
        super().setUp()
        self.tree = self.folder / "tree.sh"
        self.tree.write_text(TREE.replace("{mark}", self.folder.name))
        self.command = ["--gpus", "4", "--grace", "300ms", "--", "sh", str(self.tree)]

    def alive(self, processes):
        """The processes that still exist. The start time shows whether a pid was reused."""
        return [pid for pid, began in processes.items() if (stat := stat_of(pid)) and stat[0] != "Z" and stat[19] == began]

    def job_of_queue(self):
        job = int(self.run_berth("run", "--queue", *self.command).stdout.split()[-1])
        log = pathlib.Path(self.variables["BERTH_STATE_DIR"], "jobs", f"{job}.log")
        self.assertTrue(wait_until(lambda: log.exists() and log.read_text() == "up\n"))
        keeper = int(log.with_suffix(".status").read_text().split()[0])
        return job, keeper, None

    def job_of_queue_with(self, *words):
        self.command = [*words, *self.command]
        return self.job_of_queue()

    def job_of_terminal(self):
        front = self.start("run", *self.command)
        self.assertEqual(front.stdout.readline(), "up\n")
        job = max(one["id"] for one in self.call("GET", "/v1/jobs")["jobs"])
        self.assertTrue(wait_until(lambda: self.keepers_of(front.pid)))
        return job, self.keepers_of(front.pid)[0], front

    def keepers_of(self, front):
        return [pid for pid in below(front) if words_of(pid).startswith("job-keeper")]

    def begin(self, start):
        """Starts a job and waits until all its processes exist. Returns its number, keeper, front, and the other processes by their
        command."""
        job, keeper, front = start()
        found = {}

        def complete():
            for pid in below(keeper):
                words = words_of(pid)
                for name, word in (("child", "sleep 1001"), ("lone", "sleep 1002"), ("bare", "sleep 1003"), ("last", "sleep 1004")):
                    if words.startswith(word):
                        found[name] = pid
                if words.startswith(f"sh {self.tree}") and stat_of(pid)[1] == str(keeper):
                    found["workload"] = pid
            return len(found) == 5

        self.assertTrue(wait_until(complete), found)
        everything = {pid: stat_of(pid)[19] for pid in [*below(keeper), keeper]}
        return job, keeper, front, found, everything

    def assert_over(self, job, everything):
        """All processes end soon, and another job gets the devices."""
        begun = time.monotonic()
        self.assertTrue(wait_until(lambda: not self.alive(everything), SOON), [words_of(pid) for pid in self.alive(everything)])
        done = self.run_berth("run", "--gpus", "4", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(time.monotonic() - begun, SOON)
        self.assertNotIn(self.job(job)["state"], ("running", "waiting"))
        self.assertTrue(wait_until(lambda: not [entry for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()
                                                and self.folder.name in words_of(entry.name)], SOON))

    def each_way(self):
        return [self.job_of_queue, self.job_of_terminal] * (20 if SOAK else 1)

    def test_the_command_is_killed(self):
        for start in self.each_way():
            job, _, front, found, everything = self.begin(start)
            os.kill(found["workload"], signal.SIGKILL)
            self.assert_over(job, everything)
            self.assertEqual(self.job(job)["outcome"], {"class": "signal", "exit_code": 137, "signal": 9})
            self.assertEqual(front.wait(10) if front else 137, 137)

    def test_its_keeper_is_killed(self):
        for start in self.each_way():
            job, keeper, front, _, everything = self.begin(start)
            os.kill(keeper, signal.SIGKILL)
            self.assert_over(job, everything)
            self.assertIn(self.job(job)["state"], ("lost", "failed"))
            self.assertEqual(front.wait(10) if front else 125, 125)

    def test_its_front_is_killed(self):
        for _ in range(20 if SOAK else 1):
            job, _, front, _, everything = self.begin(self.job_of_terminal)
            front.kill()
            self.assert_over(job, everything)
            self.assertEqual(self.job(job)["state"], "lost")

    def test_what_it_left_in_a_session_of_its_own_is_killed(self):
        """Only that session ends. The job continues until its command ends."""
        for start in self.each_way():
            job, _, _, found, everything = self.begin(start)
            for name in ("lone", "bare"):
                os.kill(found[name], signal.SIGKILL)
            self.assertTrue(wait_until(lambda: found["lone"] not in self.alive(everything)))
            time.sleep(0.1)
            self.assertEqual(self.job(job)["state"], "running")
            self.assertIn(found["last"], self.alive(everything))
            os.kill(found["workload"], signal.SIGKILL)
            self.assert_over(job, everything)

    def test_the_broker_and_then_the_keeper_are_killed(self):
        """After that, nothing else watches the job's processes."""
        for start in self.each_way():
            job, keeper, _, _, everything = self.begin(start)
            self.kill_brokers()
            self.assertTrue(wait_until(lambda: not self.brokers()))
            os.kill(keeper, signal.SIGKILL)
            self.assert_over(job, everything)

    def test_the_keeper_is_killed_under_the_next_broker(self):
        job, keeper, _, _, everything = self.begin(self.job_of_queue)
        self.kill_brokers()
        self.assertTrue(wait_until(lambda: not self.brokers()))
        self.run_berth("jobs", "--all")  # starts the next broker
        os.kill(keeper, signal.SIGKILL)
        self.assert_over(job, everything)
        self.assertEqual(self.job(job)["state"], "lost")

    def test_what_starts_keepers_is_killed(self):
        job, keeper, _, _, everything = self.begin(self.job_of_queue)
        fork_server = int(stat_of(keeper)[1])
        self.assertEqual(words_of(fork_server).strip(), "job-fork-server")
        os.kill(fork_server, signal.SIGKILL)
        time.sleep(0.2)
        self.assertEqual(self.job(job)["state"], "running")
        next_ = int(self.run_berth("run", "--queue", "--cpu", "--", "sh", "-c", "ulimit -n; exit 3").stdout.split()[-1])
        self.assertEqual(self.job(next_, "ended")["outcome"]["exit_code"], 3)
        self.call("POST", f"/v1/jobs/{job}/cancel", {})
        self.assert_over(job, everything)

    def helpers(self):
        """The pids of the fork server and of the standby process that would replace it."""
        mark = f"BERTH_SIM_DIR={self.variables['BERTH_SIM_DIR']}".encode()
        found = {"job-fork-server": [], "job-fork-standby": []}
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and words_of(entry.name).strip() in found and mark in (entry / "environ").read_bytes():
                    found[words_of(entry.name).strip()].append(int(entry.name))
        return found

    def test_what_would_start_it_anew_is_killed_too(self):
        """After any of them was killed, a queued job still starts, and both exist again."""
        self.run_berth("run", "--queue", "--cpu", "--", "true")
        for names in (["job-fork-server"], ["job-fork-standby"], ["job-fork-server"], ["job-fork-server", "job-fork-standby"]) * (20 if SOAK else 2):
            for name in names:
                for pid in self.helpers()[name]:
                    os.kill(pid, signal.SIGKILL)
            job = int(self.run_berth("run", "--queue", "--cpu", "--", "sh", "-c", "exit 3").stdout.split()[-1])
            self.assertEqual(self.job(job, "ended")["outcome"]["exit_code"], 3, names)
        self.assertEqual([len(pids) for pids in self.helpers().values()], [1, 1])
        self.kill_brokers()
        self.assertTrue(wait_until(lambda: not any(self.helpers().values())))

    def test_a_job_that_is_cancelled_ends_though_it_will_not(self):
        for start in self.each_way():
            job, _, front, _, everything = self.begin(start)
            done = self.run_berth("cancel", str(job))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(wait_until(lambda: not self.alive(everything), 5))
            self.assert_over(job, everything)
            ended = self.job(job)
            self.assertEqual((ended["state"], ended["outcome"]["signal"]), ("cancelled", 9))
            self.assertEqual(front.wait(10) if front else 143, 143)

    def test_a_cancel_that_was_answered_outlives_the_broker(self):
        """The next broker kills a job that ignores SIGTERM. A job that ended while no broker ran counts as cancelled, too."""
        chance = random.Random(5)
        for round_ in range(100 if SOAK else 2):
            for start in (self.job_of_queue, self.job_of_terminal):
                job, keeper, front, _, everything = self.begin(start)
                if round_ % 2:  # the job ends only after the next broker has started
                    for pid in [front.pid] if front else [keeper]:
                        os.kill(pid, signal.SIGSTOP)
                self.assertEqual(self.call("POST", f"/v1/jobs/{job}/cancel", {})["job"]["state"], "running")
                time.sleep(chance.random() * 0.1)
                self.kill_brokers()
                self.assertTrue(wait_until(lambda: not self.brokers()))
                if round_ % 3 == 0:
                    time.sleep(chance.random() * 0.5)
                # If the job has ended in the meantime, its front may already have started a broker.
                next_ = self.start("serve")
                self.assertTrue(next_.stdout.readline().startswith("serving ") or self.brokers())
                if round_ % 2:
                    for pid in [front.pid] if front else [keeper]:
                        os.kill(pid, signal.SIGCONT)
                self.assertTrue(wait_until(lambda: not self.alive(everything), 15), [words_of(pid) for pid in self.alive(everything)])
                self.assert_over(job, everything)
                self.assertEqual(self.job(job)["state"], "cancelled")

    def test_a_short_time_limit_is_kept_to_a_fraction_of_a_second(self):
        jobs = []
        for _ in range(5):
            done = self.run_berth("run", "--queue", "--json", "--cpu", "--time-limit", "1s", "--", "sleep", "30")
            self.assertEqual(done.returncode, 0, done.stderr)
            jobs.append(json.loads(done.stdout)["job"]["id"])
            time.sleep(0.2)
        took = []
        for job in jobs:
            ended = self.job(job, "ended")
            self.assertIn("time limit of 1.0 s", ended["why"])
            begun, over = (datetime.datetime.fromisoformat(ended[key].replace("Z", "+00:00")) for key in ("started", "ended"))
            took.append((over - begun).total_seconds())
        self.assertGreaterEqual(sum(1.0 <= one < 1.5 for one in took), 4, took)

    def test_a_time_limit_that_was_over_outlives_the_broker(self):
        job, keeper, _ = self.job_of_queue_with("--time-limit", "1s")
        os.kill(keeper, signal.SIGSTOP)
        time.sleep(2.5)
        self.assertEqual(self.job(job)["state"], "running")
        self.kill_brokers()
        self.assertTrue(self.start("serve").stdout.readline().startswith("serving "))
        os.kill(keeper, signal.SIGCONT)
        ended = self.job(job, "ended")
        self.assertEqual(ended["state"], "failed")
        self.assertIn("time limit of 1.0 s", ended["why"])

    def test_a_job_that_obeys_has_time_to_end_and_has_failed_all_the_same(self):
        script = "trap 'echo bye; sleep 0.1; exit 4' TERM; echo up; while :; do sleep 0.05; done"
        front = self.start("run", "--gpus", "1", "--", "sh", "-c", script)
        self.assertEqual(front.stdout.readline(), "up\n")
        self.call("POST", "/v1/jobs/1/cancel?wait=ended", {})
        self.assertEqual((front.wait(10), front.stdout.read()), (143, "bye\n"))
        ended = self.job(1)
        self.assertEqual((ended["state"], ended["outcome"]["class"], ended["outcome"]["exit_code"]), ("cancelled", "cancelled", 143))

    def test_a_time_limit_ends_what_will_not_in_a_terminal_too(self):
        for start in self.each_way():
            self.command = ["--time-limit", "1s", *self.command]
            job, _, front, _, everything = self.begin(start)
            self.assertTrue(wait_until(lambda: not self.alive(everything), 8))
            self.assert_over(job, everything)
            self.assertEqual(self.job(job)["state"], "failed")
            self.assertIn("time limit of 1.0 s", self.job(job)["why"])
            self.assertEqual(front.wait(10) if front else 143, 143)
            self.command = self.command[2:]

    def test_a_lease_of_a_program_of_ones_own_ends_too(self):
        """A process that took a lease over the API and ignores SIGTERM is killed."""
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"], {"PATH": os.environ["PATH"]})
        try:
            self.run_berth("run", "--cpu", "--cpus", "1", "--", "true")
            job = self.call("POST", "/v1/jobs", {"request": {"gpus": 4}, "owners": [{"pid": pid}]})["job"]["id"]
            self.call("POST", f"/v1/jobs/{job}/cancel", {})
            self.assertTrue(wait_until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, 20))
            pid = 0
            self.assertEqual(self.job(job, "ended")["state"], "cancelled")
        finally:
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


if __name__ == "__main__":
    Machine.berth = os.path.abspath(sys.argv.pop(1))
    unittest.main()
