#!/usr/bin/env python3
"""The guard as an OpenCL layer, on the platforms of this machine (PoCL): from `berth run` to the report.

usage: opencl_test.py BERTH OPENCL_RANDOM"""
import ctypes
import json
import os
import subprocess
import sys
import unittest

from support import FOLDER, SOAK, WithFolder, environment, program_paths

BERTH, RANDOM = program_paths(2)
PROGRAM = os.path.join(FOLDER, "opencl_program.py")
QUOTA = 64 << 20


def call(*command, **variables):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=3000 if SOAK else 150,
                          env={**environment("BERTH_"), **variables})


class OpenCl(WithFolder):
    @classmethod
    def setUpClass(cls):
        try:
            ctypes.CDLL("libOpenCL.so.1")
        except OSError:
            raise unittest.SkipTest("no libOpenCL.so.1 here")
        seen = json.loads(call(BERTH, "ls", "--json", "--opencl").stdout)["devices"]
        cls.devices = [device for device in seen if device["kind"] == "opencl"]
        if not cls.devices:
            raise unittest.SkipTest("no device that only OpenCL lists")

    def run_job(self, *program, options=(), report="report.json", **variables):
        return call(BERTH, "run", "--devices", str(self.devices[0]["index"]), "--memory", "64MiB", *options, "--report",
                    report if report == "-" else os.path.join(self.folder, report), "--", *program, BERTH_RUNTIME_DIR=self.folder, **variables)

    def script(self, text, **keywords):
        return self.run_job(sys.executable, "-c", f"import sys; sys.path.insert(0, {FOLDER!r})\nimport opencl_program as cl\n" + text,
                            **keywords)

    def isolation(self):
        return self.report()["isolation"]

    def test_a_kernel_gives_the_same_results_and_its_work_is_counted(self):
        done = self.run_job(sys.executable, PROGRAM, "square", "1000")
        self.assertEqual(done.stdout, call(sys.executable, PROGRAM, "square", "1000").stdout, done.stderr)
        isolation = self.isolation()
        self.assertEqual((isolation["by"], isolation["why_not"], isolation["programs"]), ("guard", None, 1))
        device = isolation["devices"][0]
        self.assertEqual((device["memory_limit_bytes"], device["memory_peak_bytes"]), (QUOTA, 8000))
        self.assertEqual([device[key] for key in ("allocations", "frees", "refusals", "launches", "copies", "copied_to_bytes",
                                                  "copied_from_bytes")], [2, 2, 0, 1, 2, 4000, 4000])

    def test_device_time_is_measured_while_commands_run_and_not_in_between(self):
        done = self.script("""
import time
cl.begin()
for _ in range(20):
    cl.square(100000)
time.sleep(2)
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = self.report()
        seconds = report["isolation"]["devices"][0]["device_seconds"]
        self.assertGreater(seconds, 0)
        self.assertLess(seconds, report["wall_seconds"] - 1.9)

    def test_each_kind_of_memory_gives_the_quota_and_not_a_byte_more(self):
        self.assertEqual(self.script("cl.begin()\nprint(*cl.totals())").stdout, f"{QUOTA} {QUOTA}\n")
        for kind in ("buffer", "buffer_with_properties", "image", "image_2d", "shared"):
            least = 16384 if "image" in kind else 1
            done = self.script(f"""
cl.begin()
give = cl.free_shared if {kind!r} == "shared" else cl.release
for turn in range(2):
    result, handle = cl.{kind}({QUOTA})
    print(result, cl.buffer(1)[0], cl.{kind}({QUOTA} + {least})[0])
    give(handle)
""")
            self.assertEqual(done.stdout, "0 -4 -4\n" * 2, kind + done.stderr)
            self.assertEqual(len([line for line in done.stderr.splitlines() if "by the job's quota" in line]), 1, done.stderr)

    def test_a_buffer_is_charged_until_its_last_reference_is_gone(self):
        done = self.script(f"""
cl.begin()
whole = cl.buffer({QUOTA})[1]
part = cl.sub_buffer(whole, 4096)[1]
cl.check(cl.cl.clRetainMemObject(whole))
for one in (whole, whole, part):
    print(cl.buffer(1)[0], end=" ")
    cl.release(one)
print(cl.buffer({QUOTA})[0])
""")
        self.assertEqual(done.stdout, "-4 -4 -4 0\n", done.stderr)

    def test_an_image_on_a_buffer_costs_nothing(self):
        done = self.script(f"""
cl.begin()
whole = cl.buffer({QUOTA})[1]
result, image = cl.image({QUOTA}, parent=whole)
print(result in (0, -10, -59), cl.buffer(1)[0])
""")
        self.assertEqual(done.stdout, "True -4\n", done.stderr)

    def test_processes_share_the_quota_and_a_killed_one_gives_back(self):
        done = self.script(f"""
import os, subprocess
first = subprocess.Popen([sys.executable, {PROGRAM!r}, "hold", "{QUOTA // 2}"], stdout=subprocess.PIPE, text=True)
held = first.stdout.readline().strip()
cl.begin()
before = cl.buffer({QUOTA // 2} + 1)[0]
first.kill()
first.wait()
print(held, before, cl.buffer({QUOTA})[0])
""")
        self.assertEqual(done.stdout, "0 -4 0\n", done.stderr)

    def test_a_child_that_forks_without_exec_counts_for_itself(self):
        done = self.script(f"""
import os
if os.fork() == 0:
    cl.begin()
    os._exit(-cl.buffer({QUOTA} + 1)[0])
status = os.waitstatus_to_exitcode(os.wait()[1])
cl.begin()
print(status, cl.buffer({QUOTA})[0])
""")
        self.assertEqual(done.stdout, "4 0\n", done.stderr)
        self.assertEqual(self.isolation()["programs"], 2)

    def test_one_line_of_the_report_says_what_was_enforced(self):
        text = "cl.begin()\ncl.buffer({0})\ncl.buffer(1)\ncl.buffer({0})".format(QUOTA)
        done = self.script(text, report="-")
        self.assertIn("limited by the guard: 64.0 MiB; peak 64.0 MiB; 2 requests refused", " ".join(done.stderr.split()))

    def test_a_program_without_opencl_is_told_apart(self):
        done = self.run_job("true", report="-")
        self.assertIn("no guarded program has used OpenCL", " ".join(done.stderr.split()))

    def test_absurd_arguments_get_the_platforms_answers(self):
        text = """
import ctypes
cl.begin()
c, error = cl.cl, ctypes.c_int()
def image(**fields):
    return c.clCreateImage(cl.context, cl.FLAGS(1), cl.RGBA_FLOAT, ctypes.byref(cl.Image(**fields)), None, ctypes.byref(error)), error.value
for size in (0, 1 << 63, (1 << 64) - 1):
    print(c.clCreateBuffer(None, cl.FLAGS(1), cl.SIZE(size), None, ctypes.byref(error)), error.value)
    print(c.clCreateBuffer(cl.context, cl.FLAGS(1), cl.SIZE(size), None, None))
    print(c.clSVMAlloc(None, cl.FLAGS(1), cl.SIZE(size), 0))
print(c.clCreateImage(cl.context, cl.FLAGS(1), None, None, None, ctypes.byref(error)), error.value)
print(c.clCreateImage(cl.context, cl.FLAGS(1), cl.RGBA_FLOAT, None, None, ctypes.byref(error)), error.value)
print(image(type=0x999, width=3, height=3), image(type=0x10F1, width=0, height=3))
c.clSVMFree(None, None), c.clSVMFree(cl.context, None)
print(c.clEnqueueSVMFree(None, 1, None, None, None, 0, None, None), c.clEnqueueSVMFree(cl.queue, 0, None, None, None, 0, None, None),
      c.clReleaseMemObject(None), c.clEnqueueNDRangeKernel(None, None, 1, None, None, None, 0, None, None),
      c.clEnqueueReadBuffer(cl.queue, None, 1, cl.SIZE(0), cl.SIZE(4), None, 0, None, None), c.clGetDeviceInfo(None, 0x101F, cl.SIZE(8), None, None),
      c.clGetDeviceInfo(cl.device, 0x101F, cl.SIZE(4), ctypes.byref(error), None))
"""
        held = self.script(text)
        plain = call(sys.executable, "-c", f"import sys; sys.path.insert(0, {FOLDER!r})\nimport opencl_program as cl\n" + text)
        self.assertEqual((held.returncode, held.stdout), (0, plain.stdout), held.stderr)
        self.assertEqual(len(plain.stdout.splitlines()), 13)

    def test_spoiled_counters_do_not_crash_the_job(self):
        done = self.script("""
import os, random
cl.begin()
random.seed(3)
path = os.environ["BERTH_GUARD"] + "/usage"
cl.buffer(1 << 20)
with open(path, "r+b") as usage:
    usage.write(random.randbytes(os.path.getsize(path)))
for size in (512, 1 << 20, 1 << 30):
    cl.buffer(size)
print("alive")
""")
        self.assertEqual((done.returncode, done.stdout), (0, "alive\n"), done.stderr)

    def test_without_the_guard_the_same_job_gets_all(self):
        done = self.script(f"cl.begin()\nprint(cl.buffer({QUOTA} * 2)[0])", options=("--isolation", "none"))
        self.assertEqual(done.stdout, "0\n", done.stderr)
        self.assertIn("--isolation none", self.isolation()["why_not"])

    def test_other_layers_of_the_user_stay(self):
        done = self.run_job("sh", "-c", "echo $OPENCL_LAYERS", OPENCL_LAYERS="/nowhere/layer.so")
        self.assertRegex(done.stdout, r"^/\S+/libberth-opencl-[0-9a-f]+\.so:/nowhere/layer\.so\n$")

    def test_more_than_the_device_has_is_refused(self):
        done = call(BERTH, "run", "--no-wait", "--devices", str(self.devices[0]["index"]), "--memory", "9000GiB", "--", "true",
                    BERTH_RUNTIME_DIR=self.folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"E04\d\d")

    def test_what_is_counted_is_what_lives_after_random_requests(self):
        for seed in ("1", "2", "3"):
            done = self.run_job(RANDOM, "1000000" if SOAK else "20000", seed)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            refused, left = map(int, done.stdout.split())
            self.assertGreater(refused, 1000)
            self.assertEqual(left, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
