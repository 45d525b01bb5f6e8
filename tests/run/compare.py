#!/usr/bin/env python3
"""`berth compare` as a user calls it: settings on this machine and on simulated ones, failures, signals, and what stays behind."""
import json
import os
import signal
import subprocess
import time
import unittest

from support import BERTH, HERE, PATIENCE, PYTHON, Terminal, environment, holding, wait_until

# Uses a simulated GPU for as long as it runs, if there is one.
USES_A_GPU = """
import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
for done in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
             cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 30))):
    if done:
        time.sleep(3.0)  # on the CPU
        sys.exit()
time.sleep(1.5)
"""


def compare(*words, prefix=(), **keywords):
    keywords.setdefault("env", environment())
    return subprocess.run([*prefix, BERTH, "compare", *words], text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=2 * PATIENCE,
                          **keywords)


def compared(*words, **keywords):
    done = compare("--json", *words, **keywords)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise AssertionError(done) from None


SIMULATED = (BERTH, "sim", "--machine", "workstation-4090", "--")


class Settings(unittest.TestCase):
    def test_the_fastest_setting_wins(self):
        found = compared("--cpu", "--set", "SLEEP=0.05", "--set", "SLEEP=0.5", "--runs", "3", "--warmup", "0", "--", "sh", "-c", "sleep ${SLEEP:-0.9}")
        self.assertEqual([one["variables"] for one in found["settings"]], [{}, {"SLEEP": "0.05"}, {"SLEEP": "0.5"}])
        self.assertEqual(found["winner"], 1)
        self.assertEqual([len(one["runs"]) for one in found["settings"]], [3, 3, 3])
        for one, least in zip(found["settings"], (0.9, 0.05, 0.5)):
            self.assertGreaterEqual(one["wall_seconds"]["least"], least)
        self.assertGreater(found["settings"][0]["ratio"], 1.2)
        self.assertIn("SLEEP=0.05 berth run --cpu -- sh -c ", found["settings"][1]["command"])

    def test_rounds_interleave_and_the_first_one_warms_up(self):
        log = os.path.join(environment()["BERTH_RUNTIME_DIR"], "order")
        found = compared("--cpu", "--set", "WHO=b", "--runs", "2", "--", "sh", "-c", f"echo ${{WHO:-a}} >> {log}")
        with open(log) as file:
            self.assertEqual(file.read().split(), ["a", "b"] * 3)
        self.assertEqual([len(one["runs"]) for one in found["settings"]], [2, 2])

    def test_threads_are_cores_and_variables(self):
        found = compared("--threads", "1", "--runs", "1", "--warmup", "0", "--", PYTHON, "-c",
                         "import os; assert os.environ['OMP_NUM_THREADS'] == '1' and len(os.sched_getaffinity(0)) == 1")
        self.assertTrue(found["settings"][0]["in_race"], found)
        self.assertEqual(found["settings"][0]["runs"][0]["threads"], 1)

    def test_without_a_gpu_threads_are_compared(self):
        found = compared("--runs", "1", "--warmup", "0", "--", "true", env=environment(CUDA_VISIBLE_DEVICES=""))
        self.assertTrue(found["no_gpu"])
        self.assertTrue(all(one["gpus"] == 0 and one["threads"] for one in found["settings"]), found)
        self.assertEqual(found["settings"][-1]["threads"], len(os.sched_getaffinity(0)))
        text = compare("--runs", "1", "--warmup", "0", "--", "true", env=environment(CUDA_VISIBLE_DEVICES="")).stdout
        self.assertIn("No GPU was compared: ", text)


class OnSimulatedMachines(unittest.TestCase):
    def test_the_gpu_is_worth_it(self):
        found = compared("--runs", "2", "--warmup", "0", "--", PYTHON, "-c", USES_A_GPU, prefix=SIMULATED)
        cpu, gpu = found["settings"]
        self.assertEqual((cpu["gpus"], gpu["gpus"], found["winner"], found["gpu"]), (0, 1, 1, "faster"), found)
        self.assertGreaterEqual(gpu["device_memory_bytes"]["median"], 1 << 30)
        self.assertGreater(gpu["energy_millijoules"]["median"], 0)
        self.assertIsNone(cpu["device_memory_bytes"])
        self.assertIn("RTX 4090", gpu["runs"][0]["devices"][0])
        self.assertTrue(any("The GPU is worth it" in one for one in found["verdict"]))

    def test_a_gpu_that_is_not_used_is_not_worth_it(self):
        found = compared("--runs", "1", "--warmup", "0", "--", "sleep", "2", prefix=SIMULATED)
        self.assertEqual((found["gpu"], found["winner"]), ("unused", 0), found)

    def test_more_gpus_than_there_are(self):
        found = compared("--cpu", "--gpus", "1,64", "--runs", "1", "--warmup", "0", "--", "true", prefix=SIMULATED)
        cpu, one, many = found["settings"]
        self.assertTrue(cpu["in_race"] and one["in_race"] and not many["in_race"])
        self.assertIn("E0411", many["why_not"])


class Failures(unittest.TestCase):
    def test_a_setting_that_fails_is_out_of_the_race_and_runs_once(self):
        log = os.path.join(environment()["BERTH_RUNTIME_DIR"], "failed")
        done = compare("--cpu", "--set", "FAIL=1", "--runs", "2", "--", "sh", "-c",
                       f'[ "$FAIL" ] || exit 0; echo x >> {log}; echo "no such\tlayer \x1b[31m" >&2; exit 3')
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("FAIL=1 is out of the race: exit code 3", done.stdout)
        self.assertIn("no such", done.stdout)
        self.assertNotIn("\x1b", done.stdout)
        with open(log) as file:
            self.assertEqual(file.read(), "x\n")

    def test_no_setting_finishes(self):
        done = compare("--cpu", "--", "false")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("No setting finished", done.stdout)
        self.assertNotIn("berth run", done.stdout)

    def test_a_command_that_is_not_there(self):
        found = compared("--cpu", "--", "no-such-command")
        self.assertEqual((found["winner"], found["settings"][0]["exit_code"]), (None, 127))

    def test_bad_options(self):
        for words in (["--gpus", "0"], ["--gpus", "x"], ["--threads", "1,"], ["--runs", "0"], ["--warmup", "-1"], ["--set", "=1"], ["--set", "A"],
                      ["--set", "A B=1"]):
            done = compare(*words, "--", "true")
            self.assertEqual(done.returncode, 2, done)
            self.assertIn("hint: ", done.stderr)
        self.assertEqual(compare("--cpu").returncode, 2)

    def test_a_gigabyte_of_output_is_not_kept(self):
        done = subprocess.Popen([BERTH, "compare", "--cpu", "--runs", "1", "--warmup", "0", "--", "sh", "-c", "head -c 1G /dev/zero"],
                                stdout=subprocess.PIPE, env=environment(), text=True)
        with done.stdout:
            done.stdout.read()
        _, status, used = os.wait4(done.pid, 0)
        done.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(done.returncode, 0)
        self.assertLess(used.ru_maxrss, 200 * 1024)

    def test_standard_input_is_empty(self):
        self.assertEqual(compare("--cpu", "--runs", "1", "--", "sh", "-c", "! read line").returncode, 0)


class Signals(unittest.TestCase):
    def begin(self, marker):
        job = subprocess.Popen([BERTH, "compare", "--cpu", "--", PYTHON, "-c", "import time; time.sleep(600)", marker], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=environment(), start_new_session=True)
        self.addCleanup(job.kill)
        wait_until(lambda: holding(marker), "the program runs")
        return job

    def test_a_signal_ends_the_run_and_the_comparison(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            job = self.begin(f"marker-{os.getpid()}-{number}")
            job.send_signal(number)
            self.assertEqual(job.wait(PATIENCE), -number)
            wait_until(lambda: not holding(f"marker-{os.getpid()}-{number}"), "nothing is left")

    def test_nothing_is_left_if_it_is_killed(self):
        job = self.begin(f"killed-{os.getpid()}")
        job.kill()
        job.wait(PATIENCE)
        wait_until(lambda: not holding(f"killed-{os.getpid()}"), "nothing is left")

    def test_ctrl_c(self):
        marker = f"typed-{os.getpid()}"
        screen = Terminal(BERTH, "compare", "--cpu", "--", PYTHON, "-c", "import time; time.sleep(600)", marker)
        wait_until(lambda: holding(marker), "the program runs")
        screen.send("\x03")
        wait_until(lambda: not holding(marker), "nothing is left")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(screen.pid, 0)[1]), -signal.SIGINT)


if __name__ == "__main__":
    unittest.main()
