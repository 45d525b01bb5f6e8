#!/usr/bin/env python3
"""OpenCL jobs take turns on a device of this machine (PoCL): shares, caps, user events. The measure is the device time that was
charged, so that a busy machine makes no difference.

usage: opencl_turns_test.py BERTH"""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

from support import FOLDER, WithFolder, environment, program_paths

BERTH, = program_paths(1)
WORK = os.path.join(FOLDER, "opencl_work.py")


class OpenClTurns(WithFolder):
    @classmethod
    def setUpClass(cls):
        try:
            ctypes.CDLL("libOpenCL.so.1")
        except OSError:
            raise unittest.SkipTest("no libOpenCL.so.1 here")
        seen = subprocess.run([BERTH, "ls", "--json", "--opencl"], capture_output=True, text=True, env=environment("BERTH_")).stdout
        cls.devices = [device for device in json.loads(seen)["devices"] if device["kind"] == "opencl"]
        if not cls.devices:
            raise unittest.SkipTest("no device that only OpenCL lists")

    def start(self, name, options, *program):
        """Returns when the program runs."""
        mark = os.path.join(self.folder, f"started-{name}")
        job = subprocess.Popen(
            [BERTH, "run", "--devices", str(self.devices[0]["index"]), "--memory", "64MiB", *options, "--report",
             os.path.join(self.folder, name), "--", "sh", "-c", 'touch "$0"; exec "$@"', mark, sys.executable, *program],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**environment("BERTH_"), "BERTH_RUNTIME_DIR": self.folder})
        while job.poll() is None and not os.path.exists(mark):
            time.sleep(0.01)
        if not os.path.exists(mark):
            self.fail(job.communicate()[1])
        return job

    def end(self, job):
        out, error = job.communicate(timeout=150)
        self.assertEqual(job.returncode, 0, error)
        return out, error

    def script(self, name, options, text):
        head = f"import sys; sys.path.insert(0, {FOLDER!r})\nimport ctypes, threading, time\nfrom opencl_work import *\n"
        return self.start(name, options, "-c", head + text)

    def device(self, name):
        return self.report(name)["isolation"]["devices"][0]

    def seconds_of(self, one, other, seconds=3):
        """The device seconds of two jobs that work at the same time."""
        with tempfile.TemporaryDirectory() as meeting:
            jobs = [self.start(name, options, WORK, meeting, "2", str(seconds)) for name, options in (("a", one), ("b", other))]
            walls = [float(self.end(job)[0].split()[1]) for job in jobs]
        a, b = self.device("a")["device_seconds"], self.device("b")["device_seconds"]
        # The turns are exclusive, so together they had the device once at most.
        self.assertTrue(0.1 < a + b < max(walls) + 0.5, (a, b, walls))
        return a, b

    def test_two_jobs_get_their_shares(self):
        for small, large in ((30, 60), (10, 90)):
            a, b = self.seconds_of(("--share", f"{small}%"), ("--share", f"{large}%"))
            self.assertAlmostEqual(a / (a + b), small / (small + large), delta=0.1, msg=(a, b))
            self.assertEqual(self.device("a")["share_permille"], 10 * small)
            self.assertEqual((self.report("a")["isolation"]["by"], self.report("a")["isolation"]["not_counted"]), ("guard", None))

    def test_a_job_alone_gets_no_more_than_its_cap(self):
        out = self.end(self.start("alone", ("--cap", "20%"), WORK, self.folder, "1", "3"))[0]
        seconds, wall = self.device("alone")["device_seconds"], float(out.split()[1])
        # A busy machine makes it less, never more. At most 10 ms, and what was in flight, is in advance.
        self.assertTrue(0.05 < seconds < 0.22 * wall + 0.05, (seconds, wall))
        self.assertEqual(self.device("alone")["cap_permille"], 200)

    def test_a_latency_job_goes_before_a_best_effort_job(self):
        a, b = self.seconds_of(("--latency",), ("--best-effort", "--slice", "50ms"))
        self.assertEqual((self.device("a")["turns"], self.device("b")["turns"]), ("latency", "best_effort"))
        self.assertGreater(a, 2 * b)

    def test_results_are_the_same_with_and_without_turns(self):
        text = """
work = Work(300)
for i in range(400):
    cl.check(work.launch())
print(work.result())
"""
        jobs = [self.script(name, options, text) for name, options in
                (("a", ("--share", "20%")), ("b", ("--share", "70%")), ("c", ("--isolation", "none")))]
        results = {self.end(job)[0] for job in jobs}
        self.assertEqual(len(results), 1, results)
        self.assertRegex(results.pop(), r"^\d+\n$")
        self.assertEqual([self.device("a")[key] for key in ("launches", "copies")], [400, 2])

    def test_every_kind_of_command_takes_a_turn_and_does_the_same(self):
        program = os.path.join(FOLDER, "opencl_commands.py")
        lines, plain = (self.end(self.start(name, options, program))[0].splitlines() for name, options in
                        (("a", ("--share", "30%")), ("b", ("--isolation", "none"))))
        commands = [line for line in lines if ":" in line]
        self.assertGreaterEqual(len(commands), 11, lines)
        for line in commands:
            self.assertRegex(line, r": 0 1$")
        self.assertEqual([line.replace(": 0 1", ": 0 0") for line in lines], plain)

    def test_a_map_behind_a_user_event_does_not_block_its_program(self):
        text = """
work = Work(300)
cl.cl.clEnqueueMapBuffer.restype = cl.POINTER
error = cl.INT()
gate = cl.POINTER(cl.cl.clCreateUserEvent(cl.context, ctypes.byref(error)))
where = cl.POINTER(cl.cl.clEnqueueMapBuffer(cl.queue, work.buffer, 0, cl.FLAGS(1), cl.SIZE(0), cl.SIZE(16), 1, ctypes.byref(gate), None,
                                            ctypes.byref(error)))
cl.check(error.value)
cl.check(cl.cl.clSetUserEventStatus(gate, 0))
cl.check(cl.cl.clFinish(cl.queue))
print(list((cl.UINT * 4).from_address(where.value)))
"""
        self.assertEqual(self.end(self.script("a", ("--share", "30%"), text))[0], "[0, 1, 2, 3]\n")

    def test_a_user_event_that_is_set_later_blocks_neither_its_job_nor_others(self):
        text = """
work = Work(300)
error = cl.INT()
for turn in range(3):
    gate = cl.POINTER(cl.cl.clCreateUserEvent(cl.context, ctypes.byref(error)))
    for i in range(100):
        cl.check(work.launch(gate if i == 0 else None))
    time.sleep(0.2)
    if turn == 2:
        threading.Timer(0.2, cl.cl.clSetUserEventStatus, (gate, 0)).start()
    else:
        cl.check(cl.cl.clSetUserEventStatus(gate, 0))
    cl.check(cl.cl.clFinish(cl.queue))
print(work.result())
"""
        jobs = [self.script(name, options, text) for name, options in
                (("a", ("--share", "30%")), ("b", ("--share", "60%")), ("c", ("--isolation", "none")))]
        self.assertEqual(len({self.end(job)[0] for job in jobs}), 1)
        self.assertGreater(self.device("a")["device_seconds"], 0)

    def test_a_command_that_waits_for_another_reason_is_not_waited_for(self):
        # The first queue is in order and its head waits for the second queue, which gets its work later.
        text = """
work = Work(300)
first, error = cl.queue, cl.INT()
gate = cl.POINTER(cl.cl.clCreateUserEvent(cl.context, ctypes.byref(error)))
marker = cl.POINTER()
cl.check(cl.cl.clEnqueueMarkerWithWaitList(first, 1, ctypes.byref(gate), ctypes.byref(marker)))
for i in range(40):
    cl.check(work.launch(marker))
cl.check(cl.cl.clSetUserEventStatus(gate, 0))
print(work.result())
"""
        job = self.script("a", ("--share", "30%"), text)
        out = self.end(job)[0]
        self.assertEqual(out, self.end(self.script("b", ("--isolation", "none"), text))[0])

    def test_a_failed_user_event_ends_its_commands(self):
        text = """
work = Work(300)
error = cl.INT()
gate = cl.POINTER(cl.cl.clCreateUserEvent(cl.context, ctypes.byref(error)))
cl.check(work.launch(gate))
cl.check(cl.cl.clSetUserEventStatus(gate, -5))
cl.cl.clFinish(cl.queue)
cl.begin()
print(cl.buffer(100)[0])
"""
        self.assertEqual(self.end(self.script("a", ("--share", "30%"), text))[0], "0\n")

    def test_the_program_sees_its_queues_as_it_made_them(self):
        text = """
cl.cl.clCreateCommandQueueWithProperties.restype = cl.POINTER
def show(queue):
    flags, words, size, error = ctypes.c_uint64(), (ctypes.c_uint64 * 16)(), cl.SIZE(), cl.INT()
    cl.check(cl.cl.clGetCommandQueueInfo(queue, 0x1093, cl.SIZE(8), ctypes.byref(flags), None))
    print(flags.value, cl.cl.clGetCommandQueueInfo(queue, 0x1093, cl.SIZE(4), ctypes.byref(flags), None), end=" ")
    result = cl.cl.clGetCommandQueueInfo(queue, 0x1098, cl.SIZE(128), words, ctypes.byref(size))
    print(result, size.value, list(words)[:size.value // 8], end=" ")
    event, time = cl.POINTER(), ctypes.c_uint64()
    data = (cl.INT * 4)()
    cl.check(cl.cl.clEnqueueWriteBuffer(queue, buffer, 1, cl.SIZE(0), cl.SIZE(16), data, 0, None, ctypes.byref(event)))
    print(cl.cl.clGetEventProfilingInfo(event, 0x1282, cl.SIZE(8), ctypes.byref(time), None), time.value > 0)
cl.begin()
buffer = cl.buffer(16)[1]
error = cl.INT()
for flags in (0, 1, 2, 3):
    show(cl.POINTER(cl.cl.clCreateCommandQueue(cl.context, cl.device, cl.FLAGS(flags), None)))
for words in (None, [0], [0x1093, 1, 0], [0x1093, 2, 0], [0x1093, 0, 0], [0x1094, 64, 0]):
    properties = None if words is None else (ctypes.c_uint64 * len(words))(*words)
    queue = cl.POINTER(cl.cl.clCreateCommandQueueWithProperties(cl.context, cl.device, properties, ctypes.byref(error)))
    print(error.value)
    if queue.value:
        show(queue)
"""
        with_share, plain = (self.end(self.script(name, options, text))[0] for name, options in
                             (("a", ("--share", "30%")), ("b", ("--isolation", "none"))))
        self.assertEqual(with_share, plain)
        self.assertGreater(len(plain.splitlines()), 10)

    def test_a_process_that_is_killed_in_its_turn_leaves_the_device_to_others(self):
        one = self.script("a", ("--share", "50%"), """
import os, signal
work = Work(20000)
for i in range(3):
    cl.check(work.launch())
os.kill(os.getpid(), signal.SIGKILL)
""")
        one.communicate(timeout=150)
        self.assertNotEqual(one.returncode, 0)
        out = self.end(self.start("b", ("--share", "50%"), WORK, self.folder, "1", "1"))[0]
        self.assertGreater(int(out.split()[0]), 0)

    def test_a_job_that_cannot_take_turns_says_so(self):
        done = self.script("a", ("--share", "30%"), """
import glob, os
for path in glob.glob(os.environ["BERTH_GUARD"] + "/turns-*"):
    os.unlink(path)
work = Work()
print(work.launch())
""")
        out, error = self.end(done)
        self.assertEqual(out, "0\n")
        self.assertIn("share of the device is not enforced", error)
        self.assertIn("take no turns", self.report("a")["isolation"]["not_counted"])

    def test_a_child_that_forks_takes_its_own_turns(self):
        done = self.script("a", ("--share", "30%"), """
import os
child = os.fork()
work = Work(300)
for i in range(100):
    cl.check(work.launch())
print(work.result(), flush=True)
if child == 0:
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
        first, second, status = self.end(done)[0].splitlines()
        self.assertEqual((first, status), (second, "0"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
