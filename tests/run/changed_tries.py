"""`berth run --retries` changes what the next try gets: other GPUs, memory that others have released, a smaller batch."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

from support import BERTH, PYTHON, end, environment, main

# Prints its try, its GPU and its scale, and does what the argument for its try says.
PROGRAM = """
import os, sys, time
number = int(os.environ["BERTH_TRY"])
print(number, os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("BERTH_BATCH_SCALE"), flush=True)
what = (sys.argv[1:] + 9 * ["ok"])[number - 1]
if what == "ecc": raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
if what == "memory": raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
if what == "lost":
    import json, subprocess
    while not any(one["health"] == "lost" for one in json.loads(subprocess.check_output([os.environ["BERTH"], "ls", "--json"]))["devices"]):
        time.sleep(0.1)
    sys.exit(1)
if what == "refused":
    import ctypes
    cuda = ctypes.CDLL("libcuda.so.1")
    at = ctypes.c_ulonglong()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(at), 0) == 0 and cuda.cuCtxSetCurrent(at) == 0
    sys.exit(1 if cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(8 << 30)) == 2 else 3)
if what == "neighbour":
    open(sys.argv[-1] + "/take", "w").close()
    while not os.path.exists(sys.argv[-1] + "/taken"): time.sleep(0.02)
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
"""

# A foreign program that takes 20 GiB when it is told to, and gives it back after a while.
NEIGHBOUR = """
import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
at = ctypes.c_ulonglong()
while not os.path.exists(sys.argv[1] + "/take"): time.sleep(0.02)
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(at), 0) == 0 and cuda.cuCtxSetCurrent(at) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(20 << 30)) == 0
open(sys.argv[1] + "/taken", "w").close()
time.sleep(float(sys.argv[2]))
"""


class Changes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if subprocess.run([BERTH, "sim", "--machine", "none", "--", BERTH, "--version"], capture_output=True, env=environment()).returncode != 0:
            raise unittest.SkipTest("no simulator in this build")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(folder.name, "report.json")

    def words(self, *what, options=()):
        return [BERTH, "run", "--retries", "3", "--backoff", "10ms..8s", "--report", self.file, *options, "--", PYTHON, "-c", PROGRAM, *what]

    def simulated(self, words, machine="lab-4x3090", sim=()):
        done = subprocess.run([BERTH, "sim", "--machine", machine, *sim, "--", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env=environment(BERTH_STATE_DIR=self.folder), timeout=100)
        with open(self.file) as file:
            self.report = json.load(file)
        self.tries = [(one["class"], one["change"], one["batch_scale"]) for one in self.report["tries"]]
        return done, [line.split() for line in done.stdout.splitlines()]

    def test_after_a_device_fault_it_runs_on_another_gpu(self):
        done, lines = self.simulated(self.words("ecc", "ecc"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.tries, [("device fault", None, 1), ("device fault", "other device", 1), ("ok", "other device", 1)])
        self.assertEqual([line[0] for line in lines], ["1", "2", "3"])
        self.assertEqual(len({line[1] for line in lines}), 3, lines)
        self.assertEqual([str(one["index"]) for one in self.report["devices"]], [line[1] for line in reversed(lines)])
        self.assertIn("the job gives up GPU", done.stderr)

    def test_the_only_gpu_and_a_named_one_are_kept(self):
        for machine, options in (("workstation-4090", ()), ("lab-4x3090", ("--devices", "1"))):
            done, lines = self.simulated(self.words("ecc", options=options), machine)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.tries, [("device fault", None, 1), ("ok", None, 1)])
            self.assertEqual(lines[0][1], lines[1][1])

    def test_a_gpu_that_was_lost_meanwhile_is_avoided_whatever_the_program_says(self):
        for seconds in (3, 20):  # the job must have its GPU before it is lost
            done, lines = self.simulated(self.words("lost", options=["--gpus", "3"]), sim=["--fault", f"lost:2@{seconds}"])
            if lines and "2" in lines[0][1].split(","):
                break
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.tries, [("device fault", None, 1), ("ok", "other device", 1)])
        self.assertEqual(self.report["tries"][0]["evidence"], "GPU 2: lost")
        self.assertEqual([one["index"] for one in self.report["devices"]], [0, 1, 3, 2])  # those of the last try first

    def test_out_of_memory_on_equal_gpus_asks_for_a_smaller_batch(self):
        done, lines = self.simulated(self.words("memory", "memory"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line[2] for line in lines], ["None", "0.5", "0.25"])
        self.assertEqual(self.tries[1:], [("out of memory", "smaller batch", 0.5), ("ok", "smaller batch", 0.25)])

    def test_memory_that_the_guard_refused_decides_without_any_output(self):
        done, lines = self.simulated(self.words("refused", options=["--memory", "2GiB"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.tries, [("out of memory", None, 1), ("ok", "smaller batch", 0.5)])
        self.assertEqual(self.report["tries"][0]["evidence"], "the guard refused memory, refusals: 1")

    def beside_a_neighbour(self, seconds, backoff):
        words = [word.replace("10ms..8s", backoff) for word in self.words("neighbour", "ok", self.folder)]
        script = f'{PYTHON} -c "$0" {self.folder} {seconds} & "$@"; code=$?; kill $!; wait; exit $code'
        return self.simulated(["sh", "-c", script, NEIGHBOUR, *words], "workstation-4090")

    def test_memory_that_another_program_holds_is_waited_for(self):
        done, lines = self.beside_a_neighbour(1.5, "10ms..30s")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.tries, [("out of memory", None, 1), ("ok", "waited for memory", 1)])
        self.assertIn("other programs hold 20.", done.stderr)
        self.assertGreater(self.report["tries"][1]["waited_seconds"], 0.3)

    def test_memory_that_stays_held_means_a_smaller_batch(self):
        done, lines = self.beside_a_neighbour(60, "10ms..600ms")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.tries, [("out of memory", None, 1), ("ok", "smaller batch", 0.5)])

    def test_a_signal_ends_the_waiting(self):
        words = [word.replace("10ms..8s", "60s") for word in self.words("memory")]
        job = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True)
        self.addCleanup(end, job)
        for line in job.stderr:
            if "the next one starts in" in line:
                break
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(timeout=30), 143)
        job.communicate()
        with open(self.file) as file:
            self.assertEqual(len(json.load(file)["tries"]), 1)

    def test_standard_input_and_output_remain_those_of_the_caller(self):
        code = ("import os, sys\nprint(sys.stdin.readline().strip(), flush=True)\n"
                "if os.environ['BERTH_TRY'] == '1': raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')\n")
        reading, writing = os.pipe()
        job = subprocess.Popen([BERTH, "run", "--retries", "1", "--backoff", "10ms", "--", PYTHON, "-c", code], stdin=reading, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment())
        os.close(reading)
        os.write(writing, b"one\n")
        self.assertEqual(job.stdout.readline(), "one\n")
        os.write(writing, b"two\n")
        self.assertEqual(job.stdout.readline(), "two\n")
        os.close(writing)
        self.assertEqual(job.wait(timeout=30), 0)
        job.communicate()


if __name__ == "__main__":
    main()
