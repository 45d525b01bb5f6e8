#!/usr/bin/env python3
"""`berth run` and `berth lease` on a simulated machine: the broker starts by itself, no device is leased twice, and dead processes give
their devices back.

usage: leases_test.py BERTH
"""
import json
import os
import signal
import sys
import unittest

from machine import Machine

SHOW = "echo $CUDA_VISIBLE_DEVICES job $BERTH_JOB"


class Leases(Machine):
    def test_the_first_job_starts_a_broker_and_the_second_uses_it(self):
        self.assertEqual(self.brokers(), [])
        first = self.run_berth("run", "--gpus", "1", "--", "sh", "-c", SHOW)
        self.assertEqual((first.returncode, first.stdout, first.stderr), (0, "0 job 1\n", ""))
        brokers = self.brokers()
        self.assertEqual(len(brokers), 1)
        second = self.run_berth("run", "--json", "--", "sh", "-c", SHOW)
        self.assertEqual((second.stdout, json.loads(second.stderr)["job"]), ("0 job 2\n", 2))
        self.assertEqual(self.brokers(), brokers)

    def test_what_needs_no_lease_starts_no_broker(self):
        for words in (("--cpu",), ("--gpus", "none"), ("--dry-run", "--gpus", "1")):
            self.assertEqual(self.run_berth("run", *words, "--", "true").returncode, 0)
        self.assertEqual(self.brokers(), [])
        self.assertEqual(self.run_berth("run", "--cpus", "1", "--", "sh", "-c", "echo job $BERTH_JOB").stdout, "job 1\n")

    def test_jobs_that_start_at_once_never_share_a_device(self):
        jobs = [self.start("run", "--gpus", "1", "--", "sh", "-c", SHOW + "; sleep 1; echo end") for _ in range(8)]
        told = [job.communicate(timeout=60)[0].split() for job in jobs]
        self.assertEqual([job.returncode for job in jobs], [0] * 8)
        self.assertEqual(sorted(one[0] for one in told), sorted("0123" * 2))
        self.assertEqual(len({one[2] for one in told}), 8)
        self.assertEqual(len(self.brokers()), 1)

    def test_who_waits_is_told_who_holds_and_starts_when_it_is_free(self):
        first = self.start("run", "--gpus", "4", "--", "sh", "-c", "echo started; sleep 3")
        first.stdout.readline()
        refused = self.run_berth("run", "--gpus", "1", "--no-wait", "--", "true")
        self.assertEqual(refused.returncode, 6)
        self.assertIn("GPU 0: job 1", refused.stderr)
        dry = self.run_berth("run", "--gpus", "1", "--dry-run", "--", "true")
        self.assertIn("GPU 0: job 1", dry.stderr)
        second = self.run_berth("run", "--gpus", "2", "--", "sh", "-c", SHOW)
        self.assertRegex(second.stdout, "^[0-3],[0-3] job 3\n$")
        self.assertIn("waiting: 0 of 4 GPUs are free", second.stderr)
        self.assertEqual(first.wait(20), 0)

    def test_env_chooses_what_no_job_holds(self):
        first = self.start("run", "--devices", "0", "--", "sh", "-c", "echo started; read line")
        first.stdout.readline()
        chosen = self.run_berth("env", "--gpus", "1", "--json")
        self.assertEqual([one["device"] for one in json.loads(chosen.stdout)["devices"]], [1])
        named = self.run_berth("env", "--devices", "0")
        self.assertEqual((named.returncode, named.stdout), (6, ""))
        self.assertIn("GPU 0: job 1", named.stderr)
        self.assertNotIn("berth run", named.stderr)
        first.communicate("\n", timeout=60)

    def test_env_and_a_dry_run_inside_a_job_show_the_jobs_devices(self):
        for words in (["env", "--json"], ["run", "--dry-run", "--json", "--", "true"]):
            shown = self.run_berth("run", "--devices", "2", "--", self.berth, *words)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertEqual([one["device"] for one in json.loads(shown.stdout)["devices"]], [2], words)

    def test_who_waits_is_told_what_does_not_wait(self):
        first = self.start("run", "--gpus", "4", "--", "sh", "-c", "echo started; sleep 3")
        first.stdout.readline()
        second = self.run_berth("run", "--gpus", "1", "--", "true")
        self.assertIn("hint: berth run --cpu", second.stderr)
        self.assertIn("hint: berth run --no-wait", second.stderr)
        self.assertEqual(first.wait(20), 0)

    def test_a_job_that_is_killed_gives_its_device_back(self):
        first = self.start("run", "--gpus", "4", "--", "sh", "-c", "(setsid sleep 1000 &); echo started; sleep 1000")
        first.stdout.readline()
        first.send_signal(signal.SIGKILL)
        self.assertEqual(self.run_berth("run", "--gpus", "4", "--", "true").returncode, 0)

    def test_the_exit_code_is_known_though_the_broker_was_killed(self):
        first = self.start("run", "--gpus", "1", "--json", "--", "sh", "-c", "echo started; read line; exit 3")
        self.assertEqual(first.stdout.readline(), "started\n")
        self.kill_brokers()
        # The next broker knows these leases.
        other = self.run_berth("run", "--gpus", "4", "--no-wait", "--", "true")
        self.assertEqual(other.returncode, 6, other.stderr)
        self.kill_brokers()
        said = first.communicate("go\n", timeout=60)[1]
        self.assertEqual(first.returncode, 3)
        report = json.loads(said)
        self.assertEqual(self.job(report["job"])["outcome"], {"class": "failed", "exit_code": 3, "signal": None})

    def test_inside_a_job_no_second_lease_is_taken(self):
        script = (f"{SHOW}; {self.berth} run --gpus 1 -- sh -c '{SHOW}'; {self.berth} run -- sh -c '{SHOW}';"
                  f"{self.berth} run --gpus 3 -- true; echo code $?")
        outer = self.run_berth("lease", "--gpus", "2", "--", "sh", "-c", script)
        first, *inner = outer.stdout.splitlines()
        self.assertRegex(first, "^[0-3],[0-3] job 1$")
        self.assertEqual(inner, [f"{first[0]} job 1", f"{first[0]} job 1", "code 125"])
        self.assertIn("E0421", outer.stderr)
        # BERTH_JOB with the number of an ended job is ignored.
        self.assertEqual(self.run_berth("run", "--gpus", "1", "--", "sh", "-c", SHOW, BERTH_JOB="1").stdout, "0 job 2\n")

    def test_a_lease_without_a_command_is_a_shell(self):
        shell = self.run_berth("lease", "--gpus", "1", SHELL="/bin/true")
        self.assertEqual((shell.returncode, shell.stdout, shell.stderr), (0, "", ""))

    def test_two_brokers_of_one_machine_never_give_one_device_twice(self):
        """The two brokers stand for two users who each run their own broker."""
        other = {name: str(self.folder / name) for name in ("BERTH_RUNTIME_DIR", "BERTH_STATE_DIR")}
        for name in other.values():
            os.mkdir(name, 0o700)
        hold = "echo $CUDA_VISIBLE_DEVICES; read line"
        mine = [self.start("run", "--gpus", "1", "--", "sh", "-c", hold, **(other if i % 2 else {})) for i in range(4)]
        self.assertEqual(sorted(one.stdout.readline() for one in mine), ["0\n", "1\n", "2\n", "3\n"])
        self.assertEqual(len(self.brokers()), 2)
        for more in (other, {}):
            refused = self.run_berth("run", "--gpus", "1", "--no-wait", "--", "true", **more)
            self.assertEqual(refused.returncode, 6, refused.stderr)
            self.assertIn("a job of another user's broker", refused.stderr)
        waiting = self.start("run", "--gpus", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", **other)
        for one in mine[:2]:  # one lease of each broker
            one.communicate("go\n", timeout=60)
        self.assertRegex(waiting.stdout.readline(), "^[0-3],[0-3]$")
        self.assertEqual(waiting.wait(60), 0)
        for one in mine[2:]:
            one.communicate("go\n", timeout=60)
        # A killed broker holds no locks any more.
        self.kill_brokers()
        self.assertEqual(self.run_berth("run", "--gpus", "4", "--", "true").returncode, 0)

    def test_where_nothing_can_be_written_the_job_runs_without_a_lease(self):
        blocked = self.folder / "file"
        blocked.touch()
        done = self.run_berth("run", "--gpus", "1", "--", "sh", "-c", SHOW, BERTH_STATE_DIR=f"{blocked}/state")
        self.assertEqual((done.returncode, done.stdout), (0, "0 job\n"))
        self.assertIn("no lease:", done.stderr)
        self.assertIn("E0907", done.stderr)
        queued = self.run_berth("run", "--queue", "--", "true", BERTH_STATE_DIR=f"{blocked}/state")
        self.assertEqual(queued.returncode, 125)
        self.assertRegex(queued.stderr, r"no broker could be started: .* \(E0907\) \(E0923\)")
        self.assertIn(f"hint: ls -ld {blocked}/state", queued.stderr)  # the hint of the cause, not "berth serve"


if __name__ == "__main__":
    Machine.berth = os.path.abspath(sys.argv.pop(1))
    unittest.main()
