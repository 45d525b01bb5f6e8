#!/usr/bin/env python3
"""The isolation methods on simulated machines: the driver's limits of root's broker, MIG partitions, MPS, and the guard.

usage: isolation_test.py BERTH DAEMON_PROBE"""
import contextlib
import functools
import json
import os
import pathlib
import pwd
import re
import signal
import subprocess
import sys
import unittest

import support
from support import FOLDER, GIB, PROGRAM, WithFolder, program_paths

sys.path.insert(0, os.path.join(FOLDER, "..", "broker"))
from machine import switch_off, switch_on, unified, wait_until  # noqa: E402

BERTH, PROBE = program_paths(2)
simulated = functools.partial(support.simulated, BERTH)
NOBODY = pwd.getpwnam("nobody").pw_uid
NO_PERMISSION, INVALID_ARGUMENT, NOT_FOUND, OPERATING_SYSTEM = 4, 2, 6, 17

# Calls the simulated NVML: `limits.py get GROUP`, or `limits.py set GROUP SOFT HARD`. Prints the result, and what get answers.
LIMITS = """
import ctypes, os, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")
class Limits(ctypes.Structure):
    _fields_ = [("group", ctypes.c_char_p), ("soft", ctypes.c_ulonglong), ("hard", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]
nvml.nvmlInit_v2()
device = ctypes.c_void_p()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
limits = Limits(sys.argv[2].encode(), *map(int, sys.argv[3:]))
os.seteuid(int(os.environ.get("AS_USER", 0)))
call = nvml.nvmlDeviceSetMemoryLimits_v1 if sys.argv[1] == "set" else nvml.nvmlDeviceGetMemoryLimits_v1
print(call(device, ctypes.byref(limits)), limits.hard, limits.used)
"""
# Allocates beside the guard: a program that cleared LD_PRELOAD.
BESIDE = ("env", "-u", "LD_PRELOAD", sys.executable, PROGRAM)


class WithDriver(WithFolder):
    """A machine with a driver that can limit control groups, and root's broker on it."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or unified() is None:
            self.skipTest("needs root and cgroup v2")
        source = pathlib.Path(FOLDER, "..", "..", "simulator", "machines", "workstation-4090.toml").read_text()
        self.machine = pathlib.Path(self.folder, "machine.toml")
        self.machine.write_text(source.replace('"580.95.05"', '"615.30.01"').replace('"13.0"', '"13.5"'))
        self.shell, self.variables = switch_on(BERTH, str(self.machine))
        self.addCleanup(switch_off, self.shell)
        os.chmod(self.folder, 0o755)
        os.mkdir(f"{self.folder}/run", 0o755)
        self.variables["BERTH_RUNTIME_DIR"] = f"{self.folder}/run"
        point, own = unified()
        self.groups = (own if own.name.endswith(".service") else point) / f"berth-ladder-{os.getpid()}"
        self.addCleanup(self.remove_groups)
        self.start()
        self.addCleanup(lambda: self.stop(signal.SIGKILL))

    def start(self):
        self.broker = subprocess.Popen([PROBE, f"{self.folder}/run/berth.sock", f"{self.folder}/state", "all", self.groups.name],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self.variables)
        self.assertEqual(self.broker.stdout.readline(), "ready\n")

    def stop(self, how):
        self.broker.send_signal(how)
        self.broker.wait()
        self.broker.stdout.close()

    def remove_groups(self):
        for group in [*self.groups.glob("job-*"), *self.groups.glob("*/"), self.groups]:
            if group.is_dir():
                (group / "cgroup.kill").write_text("1")
                self.assertTrue(wait_until(lambda one=group: self.is_removed(one)), group)

    @staticmethod
    def is_removed(group):
        with contextlib.suppress(OSError):
            group.rmdir()
        return not group.exists()

    def on_machine(self, *command, start=False, **more):
        call = subprocess.Popen if start else functools.partial(subprocess.run, timeout=100)
        return call(command, env={**self.variables, **more}, stdin=subprocess.PIPE if start else subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True, cwd="/")

    def run_job(self, *options, program=(sys.executable, PROGRAM, "quota", str(2 * GIB)), report="report.json"):
        return self.on_machine(BERTH, "run", "--memory", "2GiB", *options, "--report",
                               report if report == "-" else f"{self.folder}/{report}", "--", *program)

    def nvml(self, *words, user=0):
        done = self.on_machine(sys.executable, "-c", LIMITS, *map(str, words), AS_USER=str(user))
        self.assertEqual(done.returncode, 0, done.stderr)
        return [int(word) for word in done.stdout.split()]


class Driver(WithDriver):
    def test_auto_takes_the_drivers_limit_and_it_also_holds_without_the_guard(self):
        done = self.run_job()
        self.assertEqual(done.stdout.split()[:2], ["0", "2"], done.stderr)
        isolation = self.report()["isolation"]
        self.assertEqual((isolation["by"], isolation["why_not"], isolation["programs"]), ("driver", None, 1))
        self.assertIn("limits memory, but does not separate jobs", isolation["not_protected"])
        done = self.run_job("--isolation", "driver", program=(*BESIDE, "quota", str(2 * GIB)))
        self.assertEqual(done.stdout.split()[:2], ["0", "2"], done.stderr)
        isolation = self.report()["isolation"]
        self.assertEqual((isolation["by"], isolation["programs"]), ("driver", 0))
        done = self.run_job(report="-")
        self.assertIn("limited by the driver and the guard: 2.00 GiB; peak 2.00 GiB", done.stderr)

    def test_with_another_method_the_driver_limits_nothing(self):
        for method in ("guard", "none"):
            done = self.run_job("--isolation", method, program=(*BESIDE, "quota", str(2 * GIB)))
            self.assertEqual(done.stdout.split()[:2], ["0", "0"], done.stderr)
            self.assertIsNone(self.report()["isolation"]["by"])

    def test_the_same_holds_for_a_queued_job(self):
        for method, refused in (("guard", "0"), ("none", "0"), ("driver", "2")):
            words = ("--memory", "2GiB", "--isolation", method, "--", *BESIDE, "quota", str(2 * GIB))
            queued = self.on_machine(BERTH, "run", "--queue", *words)
            self.assertEqual(queued.returncode, 0, queued.stderr)
            job = queued.stdout.strip()
            self.on_machine(BERTH, "wait", job)
            self.assertEqual(self.on_machine(BERTH, "logs", job).stdout.split()[:2], ["0", refused], method)
            self.assertEqual(json.loads(self.on_machine(BERTH, "jobs", job, "--json").stdout)["jobs"][0]["command"][0], "env")

    def held(self):
        """A job that holds 1 GiB, and its control group."""
        job = self.on_machine(BERTH, "run", "--memory", "2GiB", "--isolation", "driver", "--", sys.executable, PROGRAM, "hold", str(GIB),
                              start=True)
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        self.assertEqual(job.stdout.readline(), "holding\n")
        group, = self.groups.glob("job-*")
        return job, group

    def test_resize_changes_it(self):
        _, group = self.held()
        self.assertEqual(self.nvml("get", group, 0, 0), [0, 2 * GIB, GIB])
        number = group.name.removeprefix("job-")
        for size in (3, 1):
            done = self.on_machine(BERTH, "resize", number, "--memory", f"{size}GiB")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.nvml("get", group, 0, 0), [0, size * GIB, GIB])

    def test_it_stays_when_the_broker_is_killed_and_ends_with_the_job(self):
        job, group = self.held()
        self.stop(signal.SIGKILL)
        self.assertEqual(self.nvml("get", group, 0, 0), [0, 2 * GIB, GIB])
        job.kill()
        self.assertTrue(wait_until(lambda: not (group / "cgroup.procs").read_text()))
        self.start()
        self.assertTrue(wait_until(lambda: not group.exists()), "the next broker removes what the dead one left")
        self.assertEqual(self.nvml("get", group, 0, 0)[0], OPERATING_SYSTEM)

    def test_the_simulated_driver_gives_nvidias_errors(self):
        group = self.groups / "probe-of-a-test"
        group.mkdir()
        self.assertEqual(self.nvml("get", group, 0, 0)[0], NOT_FOUND)
        self.assertEqual(self.nvml("set", group, 0, GIB, user=NOBODY)[0], NO_PERMISSION)
        self.assertEqual(self.nvml("set", group, 2 * GIB, GIB)[0], INVALID_ARGUMENT)
        self.assertEqual(self.nvml("set", group, 0, 1 << 50)[0], INVALID_ARGUMENT)
        self.assertEqual(self.nvml("set", group / "nowhere", 0, GIB)[0], OPERATING_SYSTEM)
        self.assertEqual(self.nvml("set", group, 0, GIB)[0], 0)
        self.assertEqual(self.nvml("get", group, 0, 0, user=NOBODY), [0, GIB, 0])
        self.assertEqual(self.nvml("set", group, 0, 2**64 - 1)[0], 0)
        self.assertEqual(self.nvml("get", group, 0, 0)[0], NOT_FOUND)


class Others(WithFolder):
    def run_job(self, *words, machine="workstation-4090", variables=()):
        done = simulated("env", *variables, BERTH, "run", *words[:-1], "--report", f"{self.folder}/report.json", "--", "sh", "-c", words[-1],
                         machine=machine)
        return done

    def test_a_method_that_is_not_there_is_refused_with_what_is_missing(self):
        for method, error, words in (("driver", "E1067", "615 is the first"), ("mig", "E1068", "--isolation guard"), ("mps", "E1069", "nvidia-cuda-mps-control -d")):
            done = self.run_job("--memory", "2GiB", "--isolation", method, "echo started", variables=[f"CUDA_MPS_PIPE_DIRECTORY={self.folder}"])
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stdout, "")
            self.assertIn(error, done.stderr)
            self.assertIn(words, done.stderr)
        done = self.run_job("--memory", "2GiB", "--isolation", "cage", "echo started")
        self.assertIn("auto, driver, mig, mps, guard, none", done.stderr)

    def start_mps(self):
        for name, text in (("control", ""), ("nvidia-cuda-mps-control.pid", f"{os.getpid()}\n")):
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(text)
        return [f"CUDA_MPS_PIPE_DIRECTORY={self.folder}"]

    def test_mps_gets_memory_and_share(self):
        show = 'echo "$CUDA_MPS_PINNED_DEVICE_MEM_LIMIT $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"'
        mps = self.start_mps()
        done = self.run_job("--memory", "2GiB", "--share", "30%", "--isolation", "mps", show, variables=mps)
        self.assertRegex(done.stdout, r"^GPU-[0-9a-f-]{36}=2048M 30\n$", done.stderr)
        isolation = self.report()["isolation"]
        self.assertEqual((isolation["by"], isolation["threads_percent"]), ("mps", 30))
        self.assertIn("MPS server", isolation["not_protected"])
        # By default the guard's turns give the share: MPS's is also kept if the device is idle.
        done = self.run_job("--memory", "2GiB", "--share", "30%", show, variables=mps)
        self.assertRegex(done.stdout, r"^GPU-[0-9a-f-]{36}=2048M \n$", done.stderr)
        self.assertEqual(self.report()["isolation"]["by"], "mps")
        # The user's own limit is kept.
        done = self.run_job("--memory", "2GiB", show, variables=[*mps, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G"])
        self.assertEqual(done.stdout, "0=1G \n", done.stderr)
        self.assertIsNone(self.report()["isolation"]["by"])

    def test_a_mig_partition_is_the_method(self):
        done = self.run_job("--memory", "2GiB", "true", machine="dgx-a100-mig")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.report()["isolation"]["by"], "mig")
        done = self.run_job("--devices", "4", "--isolation", "mig", "true", machine="dgx-a100-mig")
        self.assertIn("E1068", done.stderr)
        hint = re.search(r"--isolation mig --devices (\d:\d)", done.stderr)
        self.assertTrue(hint, done.stderr)
        done = self.run_job("--devices", hint[1], "--isolation", "mig", "true", machine="dgx-a100-mig")
        self.assertEqual(done.returncode, 0, done.stderr)
        isolation = self.report()["isolation"]
        self.assertEqual((isolation["by"], isolation["devices"][0]["memory_limit_bytes"]), ("mig", None))

    def test_a_job_that_asks_for_a_mig_partition_gets_one_although_a_whole_gpu_is_free(self):
        show = "echo $CUDA_VISIBLE_DEVICES"
        done = self.run_job(show, machine="dgx-a100-mig")
        self.assertNotIn("MIG-", done.stdout, done.stderr)
        for options in ((), ("--gpus", "1"), ("--memory", "2GiB")):
            done = self.run_job(*options, "--isolation", "mig", show, machine="dgx-a100-mig")
            self.assertRegex(done.stdout, "^MIG-", done.stderr)
            self.assertEqual(self.report()["isolation"]["by"], "mig")

    def test_the_text_names_the_method(self):
        done = simulated("env", *self.start_mps(), BERTH, "run", "--memory", "2GiB", "--isolation", "mps", "--report", "-", "--", "true")
        self.assertTrue(re.search(r"limited by MPS: 2\.00 GiB; the limit is for each process", done.stderr), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
