#!/usr/bin/env python3
"""Root's broker makes MIG partitions for jobs and removes them, also if it is killed between any two steps.

usage: mig_test.py BERTH
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from machine import edited_journal, switch_off, switch_on, wait_until

BERTH = os.path.abspath(sys.argv.pop(1))
STEPS = ("nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance", "nvmlComputeInstanceDestroy",
         "nvmlGpuInstanceDestroy")
# Makes a partition with the simulated driver, as an administrator does with nvidia-smi: admin.py GPU PROFILE_ID START SIZE
ADMIN = """
import ctypes, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")
gpu, profile, start, size = map(int, sys.argv[1:])
device, instance, compute = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
nvml.nvmlInit_v2()
nvml.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(device))
assert nvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile, (ctypes.c_uint * 2)(start, size), ctypes.byref(instance)) == 0
if len(sys.argv) == 5:
    assert nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0, ctypes.byref(compute)) == 0
"""
# Prints the partition of the job, waits for the file of its first word, and fails if the partition is gone then.
JOB = """
echo $CUDA_VISIBLE_DEVICES
while ! test -e "$0"; do sleep 0.02; done
{berth} ls --json | grep -q "$CUDA_VISIBLE_DEVICES"
"""


class Mig(unittest.TestCase):
    settings = "[mig]\nmanage = true\n"
    options = ()

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        holder = tempfile.TemporaryDirectory(prefix="berth-mig-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.shell, self.variables = switch_on(BERTH, "h100-mig", *self.options)
        self.addCleanup(switch_off, self.shell)
        self.variables["LANG"] = "C"
        self.config = self.folder / "berth.toml"
        self.config.write_text(self.settings)
        self.go = self.folder / "go"
        self.log = open(self.folder / "log", "a")
        self.addCleanup(self.log.close)
        self.broker = None
        self.addCleanup(self.stop)

    def start(self, **more):
        self.broker = subprocess.Popen([BERTH, "serve", "--system", "--config", self.config], stdout=subprocess.PIPE,
                                       stderr=self.log, text=True, env={**self.variables, **more})
        self.assertIn("serving", self.broker.stdout.readline(), (self.folder / "log").read_text())

    def stop(self):
        if self.broker is not None:
            self.broker.kill()
            self.broker.wait()
            self.broker.stdout.close()
            self.broker = None

    def berth(self, *words, **more):
        return subprocess.run([BERTH, *words], env={**self.variables, **more}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60)

    def admin(self, *words):
        done = subprocess.run([sys.executable, "-c", ADMIN, *map(str, words)], env=self.variables, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def partitions(self):
        """The partitions of each GPU."""
        devices = json.loads(self.berth("ls", "--json").stdout)["devices"]
        return [[(part["name"], part["uuid"]) for part in one["partitions"]] for one in devices if one["kind"] == "gpu"]

    def job(self, *options, memory="10GiB"):
        """Starts a job that ends when the file `go` is there."""
        job = subprocess.Popen([BERTH, "run", "--isolation", "mig", "--memory", memory, *options, "--", "sh", "-c",
                                JOB.replace("{berth}", BERTH), self.go], env=self.variables, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        return job

    def end(self, *jobs):
        self.go.touch()
        for job in jobs:
            _, said = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 0, said)
        self.go.unlink()


class Jobs(Mig):
    def test_a_job_gets_a_partition_that_is_made_for_it_and_removed(self):
        self.start()
        self.assertEqual(self.partitions(), [[], []])
        report = self.folder / "report.json"
        job = self.job("--report", report)
        uuid = job.stdout.readline().strip()
        self.assertRegex(uuid, "^MIG-[0-9a-f-]{36}$")
        # 1g.10gb has 9.75 GiB. Of the profiles with 19.6 GiB, 1g.20gb takes the fewest compute slices.
        self.assertEqual(self.partitions(), [[("MIG 1g.20gb", uuid)], []])
        self.end(job)
        self.assertEqual(self.partitions(), [[], []])
        said = json.loads(report.read_text())
        self.assertEqual(said["isolation"]["by"], "mig")
        self.assertIn("the MIG partition was made for this job, and is removed when the job ends", said["reasons"])
        self.assertEqual(said["devices"][0]["uuid"], uuid)

    def test_so_does_a_queued_job(self):
        self.start()
        self.go.touch()
        queued = self.berth("run", "--queue", "--isolation", "mig", "--memory", "5GiB", "--", "sh", "-c", JOB.replace("{berth}", BERTH), self.go)
        self.assertEqual(queued.returncode, 0, queued.stderr)
        number = queued.stdout.split()[-1]
        self.assertEqual(self.berth("wait", number).returncode, 0, self.berth("logs", number).stdout)
        self.assertRegex(self.berth("logs", number).stdout, "^MIG-[0-9a-f-]{36}\n")
        self.assertTrue(wait_until(lambda: self.partitions() == [[], []]))
        report = json.loads(self.berth("report", number, "--json").stdout)
        self.assertEqual(report["report"]["isolation"]["by"], "mig")

    def test_a_gpu_that_a_job_uses_is_not_changed(self):
        self.start()
        first, second = self.job(), self.job(memory="30GiB")
        uuids = {job.stdout.readline().strip() for job in (first, second)}
        self.assertEqual(len(uuids), 2)
        self.assertEqual([len(one) for one in self.partitions()], [1, 1])
        refused = self.berth("run", "--isolation", "mig", "--memory", "5GiB", "--no-wait", "--", "true")
        self.assertIn("E0412", refused.stderr)
        third = self.job(memory="5GiB")
        self.end(first, second)
        self.go.touch()
        self.assertRegex(third.stdout.readline(), "^MIG-")
        self.assertEqual(third.wait(60), 0)
        self.assertEqual(self.partitions(), [[], []])

    def test_what_the_administrator_made_stays_and_is_used_first(self):
        self.admin(0, 19, 6, 1)
        self.start()
        before = self.partitions()
        self.assertEqual([name for name, _ in before[0]], ["MIG 1g.10gb"])
        small = self.job(memory="5GiB")
        self.assertEqual(small.stdout.readline().strip(), before[0][0][1])
        self.assertEqual(self.partitions(), before)
        large = self.job(memory="70GiB")
        self.assertNotEqual(large.stdout.readline().strip(), before[0][0][1])
        self.end(small, large)
        self.assertEqual(self.partitions(), before)

    def test_more_than_a_gpu_has_is_refused_and_says_how_much_there_is(self):
        self.start()
        refused = self.berth("run", "--isolation", "mig", "--memory", "80GiB", "--", "true")
        self.assertIn("E0420", refused.stderr)
        self.assertIn("79.2", refused.stderr)

    def test_a_job_cannot_grow_beyond_its_partition(self):
        self.start()
        job = self.job("--name", "grows")
        job.stdout.readline()
        number = str(json.loads(self.berth("jobs", "--json").stdout)["jobs"][0]["id"])
        self.assertEqual(self.berth("resize", number, "--memory", "15GiB").returncode, 0)
        refused = self.berth("resize", number, "--memory", "25GiB")
        self.assertIn("E0521", refused.stderr)
        self.assertIn("19.6", refused.stderr)
        self.end(job)

    def test_other_jobs_get_no_such_partition(self):
        self.start()
        job = self.job()
        uuid = job.stdout.readline().strip()
        other = self.berth("run", "--memory", "1GiB", "--no-wait", "--", "true")
        self.assertNotEqual(other.returncode, 0)
        named = self.berth("run", "--devices", uuid, "--memory", "1GiB", "--no-wait", "--", "true")
        self.assertIn("E0419", named.stderr)
        self.end(job)


class Settings(Mig):
    def test_without_the_setting_nothing_is_made(self):
        self.config.write_text("")
        self.start()
        refused = self.berth("run", "--isolation", "mig", "--memory", "10GiB", "--", "true")
        self.assertNotEqual(refused.returncode, 0)
        self.assertEqual(self.partitions(), [[], []])

    def test_a_users_broker_cannot(self):
        refused = self.berth("serve", "--config", self.config)
        self.assertIn("E1063", refused.stderr)
        self.assertIn("sudo berth serve --system", refused.stderr)


class BesideJobs(Mig):
    settings = "[mig]\nmanage = true\nbeside_jobs = true\n"

    def test_jobs_share_a_gpu_if_the_administrator_allows_it(self):
        self.start()
        jobs = [self.job(memory="35GiB") for _ in range(4)]
        uuids = {job.stdout.readline().strip() for job in jobs}
        self.assertEqual(len(uuids), 4)
        self.assertEqual([len(one) for one in self.partitions()], [2, 2])
        self.end(*jobs)
        self.assertEqual(self.partitions(), [[], []])


class Refusing(Mig):
    options = ("--fault", "mig=make")

    def test_a_driver_that_refuses_leaves_the_job_waiting_and_says_so(self):
        self.start()
        job = self.job()
        self.assertTrue(wait_until(lambda: "E1064" in self.berth("jobs").stdout + self.berth("jobs").stderr), self.berth("jobs").stderr)
        self.assertEqual(self.partitions(), [[], []])
        job.send_signal(signal.SIGINT)


class Kills(Mig):
    """The broker is killed before and after each call that changes something. The jobs are queued: a client that waits would start a
    broker of its own on a simulated machine."""

    def queue(self):
        """Queues a job. It starts after another has ended, so that no client is there to see the broker die."""
        first = self.folder / "first"
        before = self.berth("run", "--queue", "--cpu", "--", "sh", "-c", 'while ! test -e "$0"; do sleep 0.02; done', first).stdout.strip()
        job = self.berth("run", "--queue", "--after", before, "--isolation", "mig", "--memory", "10GiB", "--", "sh", "-c",
                         JOB.replace("{berth}", BERTH).replace("VISIBLE_DEVICES\n", f"VISIBLE_DEVICES >{self.folder}/uuid\n", 1), self.go)
        self.assertEqual(job.returncode, 0, job.stderr)
        first.touch()
        return job.stdout.split()[-1]

    def uuid(self):
        """The partition of the job, once it runs."""
        file = self.folder / "uuid"
        self.assertTrue(wait_until(lambda: file.exists() and file.read_text().endswith("\n")),
                        (self.folder / "log").read_text() + self.berth("jobs", "--all").stdout)
        return file.read_text().strip()

    def all_partitions(self):
        return [uuid for gpu in self.partitions() for _, uuid in gpu]

    def wait_for_kill(self):
        self.assertEqual(self.broker.wait(60), -signal.SIGKILL, "the broker was killed in this step")
        self.broker.stdout.close()
        self.broker = None

    def finish(self, job, left=()):
        self.go.touch()
        done = self.berth("wait", job)
        self.assertEqual(done.returncode, 0, self.berth("logs", job).stdout + done.stderr)
        self.assertTrue(wait_until(lambda: self.all_partitions() == list(left)), (self.partitions(), left))
        for file in (self.go, self.folder / "uuid", self.folder / "first"):
            file.unlink()

    def killed_at(self, step, when):
        self.start(BERTH_SIM_KILL=f"{step}:{when}")
        job = self.queue()
        if "Destroy" in step:
            uuid = self.uuid()
            self.assertEqual(self.all_partitions(), [uuid])
            self.go.touch()
        self.wait_for_kill()
        self.start()
        if "Destroy" not in step:
            uuid = self.uuid()
            self.assertEqual(self.all_partitions(), [uuid], "one partition, and the job has it")
        self.finish(job)
        self.stop()

    def test_each_step(self):
        for step in STEPS:
            for when in ("before", "after"):
                with self.subTest(step=step, when=when):
                    self.killed_at(step, when)

    def test_a_running_job_keeps_its_partition(self):
        self.start()
        job = self.queue()
        uuid = self.uuid()
        self.stop()
        self.start()
        self.assertEqual(self.all_partitions(), [uuid])
        self.finish(job)

    def test_its_record_is_made_again_if_the_journal_lost_it(self):
        self.start()
        job = self.queue()
        self.uuid()
        self.stop()
        with edited_journal(self.variables["BERTH_STATE_DIR"]) as journal:
            self.assertEqual(journal.execute("DELETE FROM value WHERE key = 'mig'").rowcount, 1)
        self.start()
        self.finish(job)

    def test_a_job_that_ends_without_a_broker_leaves_no_partition(self):
        self.start()
        job = self.queue()
        uuid = self.uuid()
        self.stop()
        self.go.touch()
        status = pathlib.Path(self.variables["BERTH_STATE_DIR"], "jobs", f"{job}.status")
        self.assertTrue(wait_until(lambda: len(status.read_text().split("\n")) > 2 or not self.keeper_lives(status)))
        self.assertEqual(self.all_partitions(), [uuid])
        self.start()
        self.finish(job)

    @staticmethod
    def keeper_lives(status):
        return os.path.exists(f"/proc/{status.read_text().split()[0]}")

    def test_what_someone_made_at_the_same_place_meanwhile_stays(self):
        self.start(BERTH_SIM_KILL=f"{STEPS[0]}:before")
        job = self.queue()
        self.wait_for_kill()
        # Where the killed broker wanted its own: the last place of 1g.20gb, which leaves the others most.
        self.admin(0, 15, 6, 2)
        theirs = self.all_partitions()
        self.assertEqual(len(theirs), 1)
        self.start()
        self.assertEqual(self.uuid(), theirs[0], "a free partition of the administrator is used first")
        self.finish(job, left=theirs)


if __name__ == "__main__":
    unittest.main(verbosity=2)
