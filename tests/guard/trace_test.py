#!/usr/bin/env python3
"""`berth trace` of jobs on a simulated CUDA driver: the file, its sums, and how it ends. And the same counters in `berth ps` and `ls`.

usage: trace_test.py BERTH"""
import functools
import json
import os
import subprocess
import sys
import unittest

import packets
import support
from support import FOLDER, MIB, PROGRAM, WithFolder, program_paths

BERTH, = program_paths(1)
simulated = functools.partial(support.simulated, BERTH)


class Trace(WithFolder):
    def traced(self, words, options="'--memory', '2GiB'", steps="", after="out, err = trace.communicate(timeout=60)"):
        """Runs a job that waits for a line, then allocates, launches 40 kernels, copies, and ends after the next line. Traces it meanwhile."""
        job = f"""
import ctypes, os, sys
sys.path.insert(0, {FOLDER!r})
import program
program.begin()
one = program.allocate({100 * MIB})[1]
print(os.environ["BERTH_JOB"], flush=True)
sys.stdin.readline()
two = program.allocate({200 * MIB})[1]
program.allocate({2048 * MIB})
host, kernel = ctypes.create_string_buffer(5000), program.kernel("k_1ms")
for _ in range(40):
    program.check(program.cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None))
program.check(program.cuda.cuMemcpyHtoD_v2(one, host, ctypes.c_size_t(3000)))
program.check(program.cuda.cuMemcpyDtoH_v2(host, one, ctypes.c_size_t(700)))
program.check(program.cuda.cuMemsetD32_v2(one, 7, ctypes.c_size_t(10)))
program.check(program.cuda.cuMemFree_v2(two))
print("done", flush=True)
sys.stdin.readline()
"""
        outer = f"""
import json, os, signal, subprocess, sys, time
os.chdir({self.folder!r})
job = subprocess.Popen([{BERTH!r}, "run", {options}, "--", sys.executable, "-c", {job!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
number = job.stdout.readline().strip()
trace = subprocess.Popen([{BERTH!r}, "trace", number, *{words!r}], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
def size():
    files = [name for name in os.listdir(".") if name.endswith((".json", ".pftrace"))]
    return os.path.getsize(files[0]) if files else 0
def go():
    job.stdin.write("\\n"); job.stdin.flush()
end = time.monotonic() + 60
while size() < 250 and trace.poll() is None and time.monotonic() < end:
    time.sleep(0.02)
{steps or 'go(); job.stdout.readline(); time.sleep(0.3); go(); job.wait()'}
{after}
job.stdin.close(); job.wait()
sys.stdout.write(out); sys.stderr.write(err)
sys.exit(trace.returncode)
"""
        return simulated(sys.executable, "-c", outer)

    def events(self, name):
        with open(os.path.join(self.folder, name)) as file:
            return json.load(file)

    def test_the_sums_are_what_the_job_did_meanwhile(self):
        done = self.traced(["--json", "--every", "20ms", "--out", "a.json"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads(done.stdout)
        self.assertTrue(found["job_ended"])
        device, = found["devices"]
        self.assertEqual((device["index"], device["memory_limit_bytes"], device["device_seconds"]), (0, 2048 * MIB, None))
        # The first 100 MiB were there before.
        self.assertEqual([device[key] for key in ("allocations", "frees", "refusals", "launches", "copies", "copied_to_bytes",
                                                  "copied_from_bytes", "fills", "filled_bytes")], [1, 1, 1, 40, 2, 3000, 700, 1, 40])
        process, = found["processes"]
        self.assertEqual((process["name"][:6], process["launches"]), ("python", 40))
        self.assertGreaterEqual(device["memory_peak_bytes"], 100 * MIB)

    def test_the_file_has_a_track_of_each_counter_below_its_process(self):
        done = self.traced(["--every", "20ms"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        name, = [name for name in os.listdir(self.folder) if name.startswith("berth-trace-")]
        self.assertTrue(name.endswith(".pftrace"), name)
        counters = packets.counters(os.path.join(self.folder, name))
        owners = {owner for owner, _ in counters}
        self.assertEqual(len(owners), 2, owners)
        self.assertIn("job 1", owners)
        process, = owners - {"job 1"}
        self.assertEqual(counters[process, "GPU 0 memory"][0][1], 100 * MIB)
        self.assertEqual([value for _, value in counters["job 1", "GPU 0 memory limit"]], [2048 * MIB])
        self.assertGreater(max(value for _, value in counters[process, "GPU 0 kernels and graphs"]), 0)
        for values in counters.values():
            self.assertEqual(values, sorted(values, key=lambda one: one[0]))
            self.assertEqual([one for one, more in zip(values, values[1:]) if one[1] == more[1]], [])
        self.assertIn(f"written to {name}: open it in https://ui.perfetto.dev", done.stdout)

    def test_a_name_with_json_gives_a_json_trace_of_counters(self):
        done = self.traced(["--every", "20ms", "--out", "a.json"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        name = "a.json"
        events = self.events(name)
        self.assertEqual({event["ph"] for event in events}, {"M", "C"})
        times = [event["ts"] for event in events if event["ph"] == "C"]
        self.assertEqual(times, sorted(times))
        pids = {event["pid"] for event in events}
        self.assertEqual(len(pids), 2)
        memory = [event["args"]["bytes"] for event in events if event["name"] == "GPU 0 memory" and event["pid"] != 0]
        self.assertEqual(memory[0], 100 * MIB)
        self.assertTrue(any(event["args"].get("per second", 0) > 0 for event in events if event["name"] == "GPU 0 kernels and graphs"))
        lines = done.stdout.splitlines()
        self.assertLessEqual(len(lines), 10)
        self.assertRegex(lines[-1], rf"^written to {name}: open it in https://ui.perfetto.dev$")
        self.assertIn("40 kernels and graphs", done.stdout)
        self.assertIn("device time not measured: the job has no share", done.stdout)

    def test_device_time_is_traced_for_a_job_with_a_share(self):
        done = self.traced(["--json", "--every", "20ms", "--out", "a.json"], options="'--memory', '2GiB', '--share', '50%'")
        device, = json.loads(done.stdout)["devices"]
        self.assertGreater(device["device_seconds"], 0.01)
        self.assertTrue(any(event["name"] == "GPU 0 device time" for event in self.events("a.json")))

    def test_it_ends_after_the_time_that_was_given(self):
        done = self.traced(["--json", "--for", "200ms", "--out", "a.json"], steps="pass")
        found = json.loads(done.stdout)
        self.assertFalse(found["job_ended"])
        self.assertGreaterEqual(found["seconds"], 0.2)
        self.events("a.json")

    def test_ctrl_c_ends_the_trace_and_keeps_the_file(self):
        done = self.traced(["--json", "--out", "a.json"], steps="trace.send_signal(signal.SIGINT)")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(json.loads(done.stdout)["job_ended"])
        self.events("a.json")

    def test_ps_and_ls_say_what_the_guard_counted_for_each_process_and_job(self):
        script = f"""
import json, subprocess, sys
jobs = []
for size in ({1024 * MIB}, {512 * MIB}):
    jobs.append(subprocess.Popen([{BERTH!r}, "run", "--memory", "2GiB", "--share", "40%", "--", sys.executable, {PROGRAM!r}, "hold", str(size)],
                                 stdout=subprocess.PIPE, text=True))
    jobs[-1].stdout.readline()
read = lambda verb: json.loads(subprocess.run([{BERTH!r}, verb, "--json"], capture_output=True, text=True).stdout)
ps, ls = read("ps"), read("ls")
for process in ps["processes"]:
    if process["job"] or process["guard_memory_bytes"] is not None:
        print(process["job"], process["memory_bytes"], process["guard_memory_bytes"], process["guard_device_seconds"])
for lease in ls["devices"][0]["leases"]:
    print("lease", lease["job"], lease["guard_memory_bytes"], lease["guard_device_seconds"])
for job in jobs:
    job.terminate()
"""
        done = simulated(sys.executable, "-c", script, at=10)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"1 {1024 * MIB} {1024 * MIB} 0", f"2 {512 * MIB} {512 * MIB} 0", f"lease 1 {1024 * MIB} 0",
                                                            f"lease 2 {512 * MIB} 0"], done.stderr)

    def test_a_job_that_has_ended_can_still_be_traced(self):
        job = f"""
import ctypes, sys, time
sys.path.insert(0, {FOLDER!r})
import program
program.begin()
address = program.allocate({100 * MIB})[1]
kernel = program.kernel("k_1ms")
for _ in range(40):
    program.check(program.cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None))
time.sleep(1)
program.check(program.cuda.cuMemFree_v2(address))
"""
        run = f"{BERTH} run --memory 1GiB --report {self.folder}/report.json -- {sys.executable} {self.folder}/job.py"
        with open(f"{self.folder}/job.py", "w") as file:
            file.write(job)
        done = simulated("env", f"BERTH_STATE_DIR={self.folder}/state", "sh", "-c",
                         f"{run} && {BERTH} trace 1 --json --out {self.folder}/trace.json && {BERTH} trace 1 --out {self.folder}/again.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = json.loads(done.stdout.splitlines()[0])
        counted, = self.report()["isolation"]["devices"]
        device, = seen["devices"]
        self.assertTrue(seen["job_ended"])
        for key in ("launches", "allocations", "frees", "refusals", "copies"):
            self.assertEqual(device[key], counted[key], key)
        self.assertEqual((device["launches"], device["index"]), (40, counted["index"]))
        with open(f"{self.folder}/trace.json") as file:
            self.assertGreater(len(json.load(file)), 3)
        self.assertIn("40 kernels and graphs", done.stdout)

    def test_errors_name_the_next_step(self):
        for words, error in ((["--every", "1ms"], "E1121"), (["--out", "/nowhere/a.json"], "E1122")):
            done = self.traced(words, steps="pass")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(error, done.stderr)
        done = self.traced([], options="'--gpus', '1'", steps="pass")
        self.assertIn("E0522", done.stderr)
        done = simulated("sh", "-c", f"{BERTH} run --gpus 1 -- true; {BERTH} trace 1")
        self.assertIn("E1123", done.stderr)
        self.assertIn("berth report 1", done.stderr)
        done = simulated(BERTH, "trace")
        self.assertEqual(done.returncode, 2, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
