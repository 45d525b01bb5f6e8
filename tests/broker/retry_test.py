#!/usr/bin/env python3
"""--retries of a queued job: a try that needs another GPU goes back to the queue, and the next start continues with its tries.

usage: retry_test.py BERTH
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from machine import Machine, wait_until

PATIENCE = 60.0

# Prints its try, its GPU and its batch scale, waits for the file `go` if there is a second argument "wait", and fails as the words say.
PROGRAM = """
import os, pathlib, sys, time
number = int(os.environ["BERTH_TRY"])
folder = pathlib.Path(sys.argv[1])
print(number, os.environ["CUDA_VISIBLE_DEVICES"], os.environ.get("BERTH_BATCH_SCALE"), flush=True)
folder.joinpath(f"started.{number}").touch()
what = (sys.argv[2:] + 9 * ["ok"])[number - 1]
while what.startswith("wait") and not folder.joinpath("go").exists(): time.sleep(0.02)
if what.endswith("ecc"): raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
if what.endswith("memory"): raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
if what == "bug": sys.exit(3)
"""

# A program without a lease that holds 20 GiB of GPU 0 until the file `give` exists.
NEIGHBOUR = """
import ctypes, os, pathlib, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
at = ctypes.c_ulonglong()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(at), 0) == 0 and cuda.cuCtxSetCurrent(at) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(20 << 30)) == 0
folder = pathlib.Path(sys.argv[1])
folder.joinpath("taken").touch()
while not folder.joinpath("give").exists(): time.sleep(0.02)
"""


def stat(pid):
    """The name, state and parent of a process."""
    name, rest = pathlib.Path(f"/proc/{pid}/stat").read_text().split("(", 1)[1].rsplit(")", 1)
    state, parent = rest.split()[:2]
    return name, state, int(parent)


class WithProgram(Machine):
    def setUp(self):
        super().setUp()
        (self.folder / "program.py").write_text(PROGRAM)

    def queue(self, *words):
        done = self.run_berth("--json", "run", "--queue", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["job"]["id"]

    def train(self, *what, options=(), backoff="10ms..1s"):
        return self.queue("--gpus", "1", "--retries", "3", "--backoff", backoff, *options, "--", sys.executable,
                          str(self.folder / "program.py"), str(self.folder), *what)

    def ends(self, number, state):
        self.assertTrue(wait_until(lambda: self.job(number)["state"] == state, PATIENCE), (self.job(number), self.run_berth("logs", str(number)).stdout))

    def waits_again(self, number):
        """The job after its first try, which has left its GPU."""
        self.assertTrue(wait_until(lambda: self.job(number)["retries"] == 1, PATIENCE), self.run_berth("logs", str(number)).stdout)
        return self.job(number)

    def lines(self, number):
        return [line.split() for line in self.run_berth("logs", str(number)).stdout.splitlines() if line[0].isdigit()]

    def tries(self, number):
        report = json.loads(self.run_berth("report", "--json", str(number)).stdout)["report"]
        return [(one["number"], one["class"], one["change"]) for one in report["tries"]]


class Retry(WithProgram):
    machine = "lab-4x3090"

    def test_each_try_after_a_device_fault_is_on_another_gpu_and_the_report_lists_all(self):
        job = self.train("ecc", "ecc")
        self.ends(job, "done")
        lines = self.lines(job)
        self.assertEqual([line[0] for line in lines], ["1", "2", "3"])
        self.assertEqual(len({line[1] for line in lines}), 3, lines)
        self.assertEqual(self.tries(job), [(1, "device fault", None), (2, "device fault", "other device"), (3, "ok", "other device")])
        row = self.job(job)
        self.assertEqual((row["retries"], len(row["avoids"]), row["preemptions"], row["restarts"]), (2, 2, 0, 0))
        self.assertIn("goes back to the queue", self.run_berth("logs", str(job)).stdout)
        self.assertIn("went back to the queue 2 times", self.run_berth("why", str(job)).stdout)

    def test_the_tries_are_counted_across_all_starts(self):
        job = self.train("ecc", "ecc", "bug")
        self.ends(job, "failed")
        self.assertEqual(self.job(job)["outcome"]["exit_code"], 3)
        self.assertEqual([one[1] for one in self.tries(job)], ["device fault", "device fault", "user error"])
        # Two tries at most, and the last one also fails.
        done = self.queue("--gpus", "1", "--retries", "1", "--backoff", "10ms", "--", sys.executable, str(self.folder / "program.py"),
                          str(self.folder), "ecc", "ecc")
        self.ends(done, "failed")
        self.assertEqual([line[0] for line in self.lines(done)], ["1", "2"])
        self.assertEqual(self.job(done)["retries"], 1)

    def test_it_waits_for_another_gpu_while_others_use_its_old_one(self):
        others = self.queue("--gpus", "3", "--", "sleep", "600")
        job = self.train("ecc")
        row = self.waits_again(job)
        self.assertEqual((row["state"], row["last_outcome"]["class"], row["devices"]), ("waiting", "failed", []))
        self.assertEqual([one[1] for one in self.tries(job)], ["device fault"])
        self.assertIn("the job now avoids GPU", self.run_berth("why", str(job)).stdout)
        self.assertRegex(self.run_berth("report", str(job)).stdout, r"last start +exit code 1; it has been waiting again since")
        self.assertEqual(self.run_berth("run", "--gpus", "1", "--", "true").returncode, 0)  # the GPU on which it failed
        self.assertEqual(self.job(job)["state"], "waiting")
        self.run_berth("cancel", str(others))
        self.ends(job, "done")
        self.assertNotEqual(*[line[1] for line in self.lines(job)])

    def test_a_cancel_while_it_waits_is_final(self):
        others = self.queue("--gpus", "3", "--", "sleep", "600")
        job = self.train("ecc")
        self.waits_again(job)
        self.assertEqual(self.run_berth("cancel", str(job)).returncode, 0)
        self.assertEqual(self.job(job)["state"], "cancelled")
        self.run_berth("cancel", str(others))
        self.ends(others, "cancelled")
        self.assertEqual(len(self.lines(job)), 1)

    def test_the_backoff_is_honoured_and_a_release_ends_it(self):
        job = self.train("ecc", backoff="10m")
        row = self.waits_again(job)
        self.assertGreater(row["pause_seconds"], 440)
        self.assertIn("the pause before its next try is not over", self.run_berth("why", str(job)).stdout)
        self.assertEqual(self.run_berth("hold", str(job)).returncode, 0)
        self.assertEqual(self.run_berth("release", str(job)).returncode, 0)
        self.ends(job, "done")
        self.assertEqual(self.tries(job)[1], (2, "ok", "other device"))

    def test_a_broker_that_is_killed_while_it_waits_loses_nothing(self):
        others = self.queue("--gpus", "3", "--", "sleep", "600")
        job = self.train("ecc", "ecc")
        before = self.waits_again(job)
        self.kill_brokers()
        self.assertEqual(self.run_berth("jobs").returncode, 0)  # starts the next one
        after = self.job(job)
        self.assertEqual([after[key] for key in ("state", "retries", "avoids")], ["waiting", 1, before["avoids"]])
        self.run_berth("cancel", str(others))
        self.ends(job, "done")
        self.assertEqual([one[1] for one in self.tries(job)], ["device fault", "device fault", "ok"])

    def test_a_broker_that_is_killed_during_the_try_loses_nothing(self):
        job = self.train("wait ecc")
        self.assertTrue(wait_until((self.folder / "started.1").exists, PATIENCE))
        self.kill_brokers()
        self.assertEqual(self.run_berth("jobs").returncode, 0)
        (self.folder / "go").touch()
        self.ends(job, "done")
        self.assertNotEqual(*[line[1] for line in self.lines(job)])
        self.assertEqual([one[1] for one in self.tries(job)], ["device fault", "ok"])

    def test_without_a_broker_the_try_stays_on_its_gpu(self):
        job = self.train("wait ecc")
        self.assertTrue(wait_until((self.folder / "started.1").exists, PATIENCE))
        self.kill_brokers()
        (self.folder / "go").touch()
        self.assertTrue(wait_until((self.folder / "started.2").exists, PATIENCE))
        self.ends_after_restart(job)
        self.assertEqual(len({line[1] for line in self.lines(job)}), 1)
        self.assertEqual(self.tries(job), [(1, "device fault", None), (2, "ok", None)])
        self.assertIn("stays on its GPUs", self.run_berth("logs", str(job)).stdout)

    def ends_after_restart(self, job):
        self.assertEqual(self.run_berth("jobs").returncode, 0)
        self.ends(job, "done")

    def test_on_end_runs_once_after_the_last_try(self):
        job = self.train("ecc", options=["--on-end", "echo 9 end $BERTH_EXIT_CODE"])
        self.ends(job, "done")
        self.assertTrue(wait_until(lambda: ["9", "end", "0"] in self.lines(job), PATIENCE), self.lines(job))
        self.assertEqual([line[0] for line in self.lines(job)], ["1", "2", "9"])

    def test_a_job_on_a_named_gpu_stays_there(self):
        job = self.queue("--devices", "1", "--retries", "1", "--backoff", "10ms", "--", sys.executable, str(self.folder / "program.py"),
                         str(self.folder), "ecc")
        self.ends(job, "done")
        self.assertEqual((self.job(job)["retries"], [line[1] for line in self.lines(job)]), (0, ["1", "1"]))

    def test_a_rerun_forgets_the_devices_to_avoid(self):
        job = self.train("ecc")
        self.ends(job, "done")
        self.assertEqual(len(self.job(job)["avoids"]), 1)
        again = json.loads(self.run_berth("--json", "rerun", str(job)).stdout)["job"]["id"]
        self.assertEqual(self.job(again)["avoids"], [])
        self.ends(again, "done")

    def test_out_of_memory_on_equal_gpus_needs_no_other_lease(self):
        job = self.train("memory")
        self.ends(job, "done")
        self.assertEqual((self.job(job)["retries"], [line[2] for line in self.lines(job)]), (0, ["None", "0.5"]))


class KilledAtTheSwitch(WithProgram):
    """The broker is killed after it has accepted the next try, and before the job's keeper says that the job has ended: the keeper is
    stopped meanwhile."""
    machine = "lab-4x3090"

    def keeper_and_front(self):
        """The keeper of the queued job, and the `berth run` below it."""
        words = str(self.folder / "program.py").encode()
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if words not in (entry / "cmdline").read_bytes():
                    continue
                pid, parent = int(entry.name), stat(entry.name)[2]
                if stat(parent)[0] == "job-keeper":
                    return parent, pid
            except (OSError, ValueError, IndexError):
                pass
        raise AssertionError("there is no keeper")

    def switch(self, new_broker_comes_first):
        job = self.train("wait ecc")
        self.assertTrue(wait_until((self.folder / "started.1").exists, PATIENCE))
        keeper, front = self.keeper_and_front()
        os.kill(keeper, signal.SIGSTOP)
        try:
            (self.folder / "go").touch()
            self.assertTrue(wait_until(lambda: stat(front)[1] == "Z", PATIENCE), stat(front))  # it has asked for the next try, and ended
            self.assertEqual(self.job(job)["state"], "running")
            self.kill_brokers()
            if new_broker_comes_first:
                self.assertEqual(self.run_berth("jobs").returncode, 0)
                self.assertEqual(self.job(job)["state"], "running")
        finally:
            os.kill(keeper, signal.SIGCONT)
        if not new_broker_comes_first:
            self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{keeper}") or stat(keeper)[1] == "Z", PATIENCE))
        self.assertEqual(self.run_berth("jobs").returncode, 0)
        self.ends(job, "done")
        self.assertEqual([line[0] for line in self.lines(job)], ["1", "2"])
        self.assertEqual(self.tries(job), [(1, "device fault", None), (2, "ok", "other device")])
        self.assertEqual(self.job(job)["retries"], 1)

    def test_the_next_broker_comes_before_the_end(self):
        self.switch(True)

    def test_the_next_broker_comes_after_the_end(self):
        self.switch(False)


class OneGpu(WithProgram):
    machine = "workstation-4090"

    def test_memory_that_others_hold_is_waited_for_in_the_queue(self):
        # The pause is shorter than the time between two looks of the broker at the devices, so that the last look is from before.
        job = self.train("wait memory", backoff="1s..1s")
        self.assertTrue(wait_until((self.folder / "started.1").exists, PATIENCE))
        neighbour = subprocess.Popen([sys.executable, "-c", NEIGHBOUR, str(self.folder)], env=self.variables)
        self.addCleanup(neighbour.wait)
        self.addCleanup(neighbour.kill)
        self.assertTrue(wait_until((self.folder / "taken").exists, PATIENCE))
        (self.folder / "go").touch()
        row = self.waits_again(job)
        self.assertEqual((row["state"], row["avoids"], row["devices"]), ("waiting", [], []))
        self.assertFalse(wait_until((self.folder / "started.2").exists, 12))
        (self.folder / "give").touch()
        self.ends(job, "done")
        self.assertEqual(self.tries(job), [(1, "out of memory", None), (2, "ok", "waited for memory")])
        self.assertEqual([line[2] for line in self.lines(job)], ["None", "None"])


class UnequalGpus(WithProgram):
    machine = "mixed-5"

    def test_out_of_memory_takes_a_free_gpu_with_more_room(self):
        """GPU 4 has the most memory, so the first try is elsewhere only while another job has it."""
        big = self.queue("--devices", "4", "--", "sleep", "600")
        job = self.train("wait memory")
        self.assertTrue(wait_until((self.folder / "started.1").exists, PATIENCE))
        self.run_berth("cancel", str(big))
        self.ends(big, "cancelled")
        (self.folder / "go").touch()
        self.ends(job, "done")
        self.assertEqual(self.tries(job), [(1, "out of memory", None), (2, "ok", "other device")])
        devices = {str(one["index"]): one["memory_total_bytes"] for one in json.loads(self.run_berth("ls", "--json").stdout)["devices"]}
        (_, first, _), (_, second, scale) = self.lines(job)
        self.assertGreater(devices[second], devices[first])
        self.assertEqual(scale, "None")


if __name__ == "__main__":
    Machine.berth = sys.argv.pop(1)
    unittest.main()
