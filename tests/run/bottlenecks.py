"""What limited a program: small programs, each limited by one known thing, are named right. Other programs on this machine may add
`shared_cores`; the states of threads do not depend on them."""
import json
import os
import shlex
import subprocess
import tempfile
import textwrap
import time
import unittest

from support import BERTH, HERE, PATIENCE, PYTHON, environment, main

CUDA = f"""
import sys, time
sys.path.insert(0, {os.path.join(HERE, "../guard")!r})
import program as p
p.begin()
"""

PROGRAMS = {
    "one_thread": """
        import time
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            sum(range(1000))
    """,
    "cores": """
        import hashlib, threading, time
        end, block = time.monotonic() + SECONDS, bytes(1 << 20)
        def work():
            while time.monotonic() < end:
                hashlib.sha256(block)
        threads = [threading.Thread(target=work) for _ in range(CORES - 1)]
        for one in threads: one.start()
        work()
    """,
    "too_many_threads": """
        import hashlib, threading, time
        end, block = time.monotonic() + SECONDS, bytes(1 << 20)
        def work():
            while time.monotonic() < end:
                hashlib.sha256(block)
        threads = [threading.Thread(target=work) for _ in range(4 * CORES + 4)]
        for one in threads: one.start()
        work()
    """,
    "waiting": """
        import time
        time.sleep(SECONDS)
    """,
    "waiting for a peer": """
        import socket
        a, b = socket.socketpair()
        a.settimeout(SECONDS)
        try: a.recv(1)
        except TimeoutError: pass
    """,
    "input": """
        import multiprocessing, time
        end = time.monotonic() + SECONDS
        def load(queue):
            while True:
                stop = time.process_time() + 0.05
                while time.process_time() < stop: pass
                queue.put(1)
        if __name__ == "__main__":
            queue = multiprocessing.Queue(2)
            worker = multiprocessing.Process(target=load, args=(queue,), daemon=True)
            worker.start()
            while time.monotonic() < end:
                queue.get()
                time.sleep(0.001)
    """,
}


def program(name, seconds=3.0):
    cores = len(os.sched_getaffinity(0))
    return f"SECONDS, CORES = {seconds}, {cores}\n" + textwrap.dedent(PROGRAMS[name])


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "report.json")
        self.folder = folder.name

    def report(self, *command, options=(), before=()):
        done = subprocess.run([*before, BERTH, "run", *options, "--report", self.file, "--", *command], capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, env=environment(), timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.file) as file:
            return json.load(file)

    def kinds(self, *command, **keywords):
        report = self.report(*command, **keywords)
        for one in report["bottlenecks"]:
            self.assertTrue(one["sentence"] and one["change"], one)
        found = [one["kind"] for one in report["bottlenecks"] if one["kind"] not in ("shared_cores", "cpu_quota")]
        return found or [report["bottlenecks_unknown"]]

    def first(self, kind, found):
        """Checks the first cause that found() names. On a busy machine other programs can hide it, so it gets five tries."""
        for _ in range(5):
            kinds = found()
            if kinds[0] == kind:
                return
        self.assertEqual(kinds[0], kind)

    def script(self, name):
        path = os.path.join(self.folder, "train.py")
        with open(path, "w") as file:
            file.write(program(name))
        return path


class OnTheCpu(Programs):
    def test_a_loop_in_one_thread(self):
        wanted = "one_thread" if len(os.sched_getaffinity(0)) > 1 else "cores"
        path = self.script("one_thread")
        self.first(wanted, lambda: self.kinds(PYTHON, path))
        self.first(wanted, lambda: self.kinds(PYTHON, path, options=["--retries", "1"]))

    def test_all_cores(self):
        # While other programs use the cores too, the report says only that. So this waits until it had them for itself.
        end = time.monotonic() + PATIENCE
        kind = None
        while kind is None and time.monotonic() < end:
            report = self.report(PYTHON, self.script("cores"))
            found = [one["kind"] for one in report["bottlenecks"]]
            kind = None if found == ["shared_cores"] else (found or [""])[-1]
        if kind is None:
            self.skipTest("other programs use the cores all the time")
        self.assertEqual(kind, "cores")

    def test_more_threads_than_cores(self):
        self.first("too_many_threads", lambda: self.kinds(PYTHON, self.script("too_many_threads")))

    def test_sleep_and_a_peer_that_sends_nothing(self):
        self.first("waiting", lambda: self.kinds(PYTHON, self.script("waiting")))
        self.first("waiting", lambda: self.kinds(PYTHON, self.script("waiting for a peer")))

    def test_workers_that_load_too_slowly(self):
        path = self.script("input")
        self.first("input", lambda: self.kinds(PYTHON, path))
        self.first("input", lambda: self.kinds("sh", "-c", f"{PYTHON} {path}; true"))

    def test_a_rank_for_which_others_wait(self):
        path = os.path.join(self.folder, "ranks.py")
        with open(path, "w") as file:
            file.write("import os, time\n"
                       "end = time.monotonic() + 4\n"
                       "while os.environ['RANK'] == '1' and time.monotonic() < end: pass\n"
                       "time.sleep(max(0, end - time.monotonic()))\n")
        report = self.report(PYTHON, path, options=["--ranks", "3", "--cpu"])
        self.assertEqual(report["bottlenecks"][0]["kind"], "other_ranks", report["bottlenecks"])
        self.assertIn("rank 1 ran", report["bottlenecks"][0]["sentence"])

    def test_a_short_program_is_not_judged(self):
        report = self.report("true")
        self.assertEqual((report["bottlenecks"], report["bottlenecks_unknown"]), ([], "the job ran for less than 2 s"))

    def test_the_text_has_one_finding_and_one_change(self):
        done = subprocess.run([BERTH, "run", "--report", "-", "--", "sleep", "2.5"], capture_output=True, text=True,
                              env=environment(), timeout=100)
        self.assertRegex(done.stderr, r"(?m)^ +limit the job was idle for \d+ % of the time")
        self.assertRegex(done.stderr, r"(?m)^ +try   if the job is started with berth run --retries 1, ")
        self.assertLessEqual(len(done.stderr.splitlines()), 25)
        failed = subprocess.run([BERTH, "run", "--report", "-", "--", "sh", "-c", "sleep 2.5; exit 3"], capture_output=True,
                                text=True, env=environment(), timeout=100)
        self.assertNotIn("limit", failed.stderr)


class OnASimulatedGpu(Programs):
    @classmethod
    def setUpClass(cls):
        if subprocess.run([BERTH, "sim", "--machine", "none", "--", BERTH, "--version"], capture_output=True, env=environment()).returncode != 0:
            raise unittest.SkipTest("no simulator in this build")

    def gpu(self, code, *options, sim=(), neighbour=()):
        """`neighbour`: options of another job that runs the same program beside it."""
        path = os.path.join(self.folder, "gpu.py")
        with open(path, "w") as file:
            file.write(CUDA + textwrap.dedent(code))
        before = [BERTH, "sim", "--machine", "workstation-4090", *sim, "--"]
        if neighbour:
            beside = f"{shlex.join([BERTH, 'run', *neighbour, '--', PYTHON, path])} >/dev/null 2>&1 & \"$@\"; code=$?; kill $!; wait; exit $code"
            before += ["sh", "-c", beside, "sh"]
        return self.kinds(PYTHON, path, options=options, before=before)

    def test_a_gpu_that_is_never_used(self):
        self.first("device_unused", lambda: self.kinds(PYTHON, self.script("one_thread"), options=["--gpus", "1"],
                                                       before=[BERTH, "sim", "--machine", "workstation-4090", "--"]))

    def test_short_kernels(self):
        self.first("launches", lambda: self.gpu("""
            k, end = p.kernel("k_1us"), time.monotonic() + 3
            while time.monotonic() < end:
                p.cuda.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, None, None, None)
                sum(range(200))  # a fast CPU starts kernels of 1 µs faster than the GPU runs them
            p.cuda.cuCtxSynchronize()
        """, "--memory", "2GiB"))

    def test_small_copies(self):
        self.first("transfers", lambda: self.gpu("""
            import ctypes
            k, end, host = p.kernel("k_1us"), time.monotonic() + 3, ctypes.create_string_buffer(64)
            there = p.allocate(64)[1]
            while time.monotonic() < end:
                p.cuda.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, None, None, None)
                for _ in range(100): p.cuda.cuMemcpyHtoDAsync_v2(there, host, ctypes.c_size_t(64), None)
        """, "--memory", "2GiB"))

    def test_a_share_that_is_used_up(self):
        code = 'p.work(p.kernel("k_2ms"), 4)'
        self.first("share", lambda: self.gpu(code, "--memory", "2GiB", "--share", "30%", neighbour=("--memory", "2GiB", "--share", "70%")))
        self.first("device_compute", lambda: self.gpu(code, "--memory", "2GiB", "--share", "30%"))  # alone, the share limits nothing

    def test_code_on_the_cpu_between_kernels(self):
        self.first("host_code", lambda: self.gpu("""
            k, end = p.kernel("k_100us"), time.monotonic() + 3
            while time.monotonic() < end:
                p.cuda.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, None, None, None)
                for _ in range(20): sum(range(10000))
        """, "--memory", "2GiB"))

    def test_heat(self):
        self.first("throttled", lambda: self.gpu("""
            k, end = p.kernel("k_100us"), time.monotonic() + 3
            while time.monotonic() < end:
                p.cuda.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, None, None, None)
                sum(range(10000))
        """, "--memory", "2GiB", sim=["--fault", "throttle:0"]))


main()
