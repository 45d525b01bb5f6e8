#!/usr/bin/env python3
"""The guard from `berth run` to the report, on a simulated CUDA driver. A job gets exactly its memory. The report says what was
enforced."""
import functools
import glob
import json
import os
import subprocess
import sys
import unittest

import support
from support import FOLDER, GIB, PROGRAM, WithFolder, program_paths

BERTH, = program_paths(1)
simulated = functools.partial(support.simulated, BERTH)


class Guard(WithFolder):
    def run_job(self, *program, options=("--memory", "2GiB")):
        return simulated(BERTH, "run", *options, "--report", os.path.join(self.folder, "report.json"), "--", sys.executable,
                         PROGRAM, *program)

    def test_a_job_gets_its_memory_and_not_a_byte_more(self):
        done = self.run_job("quota", str(2 * GIB))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"0 2 0 {2 * GIB} 2\n0\n")
        self.assertEqual(len([line for line in done.stderr.splitlines() if "by the job's quota" in line]), 1)
        isolation = self.report()["isolation"]
        self.assertEqual((isolation["by"], isolation["why_not"], isolation["programs"]), ("guard", None, 1))
        device = isolation["devices"][0]
        self.assertEqual((device["memory_limit_bytes"], device["memory_peak_bytes"]), (2 * GIB, 2 * GIB))
        self.assertEqual((device["allocations"], device["frees"], device["refusals"]), (2, 1, 2))

    def test_memory_of_graphs_is_an_event_when_the_driver_takes_and_returns_it(self):
        script = f"""
import ctypes, sys
sys.path.insert(0, {FOLDER!r})
import program
program.begin()
cuda, check = program.cuda, program.check
stream, graph, whole, address = (ctypes.c_void_p() for _ in range(4))
check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
check(cuda.cuStreamBeginCapture_v2(stream, 0))
check(cuda.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t({3 << 20}), stream))
check(cuda.cuMemFreeAsync(address, stream))
check(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
check(cuda.cuGraphInstantiateWithFlags(ctypes.byref(whole), graph, ctypes.c_ulonglong(0)))
for _ in range(3):
    check(cuda.cuGraphLaunch(whole, stream))
check(cuda.cuCtxSynchronize())
check(cuda.cuDeviceGraphMemTrim(0))
"""
        done = self.run_script(script)
        self.assertEqual(done.returncode, 0, done.stderr)
        device, = self.report()["isolation"]["devices"]
        self.assertEqual((device["allocations"], device["frees"], device["memory_peak_bytes"]), (1, 1, 4 << 20))

    def test_each_function_gives_the_quota_and_not_a_byte_more(self):
        size = 64 << 20
        done = simulated(BERTH, "run", "--memory", "64MiB", "--", sys.executable, os.path.join(os.path.dirname(PROGRAM), "over.py"), str(size))
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split("|") for line in done.stdout.splitlines()]
        self.assertEqual(len(lines), 26 + 3)
        self.assertEqual([line for line in lines[:26] if line[1:] != ["0", "0", "2", str(size)]], [])
        # Memory of the host is not charged.
        self.assertEqual([line for line in lines[26:] if line[1:] != ["0", str(size)]], [])

    def test_copies_and_fills_are_counted_by_direction_and_size(self):
        script = f"""
import ctypes, sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
import program
from program import allocate, begin, check, cuda
class Box(ctypes.Structure):
    _fields_ = [(f"{{side}}{{name}}", kind) for side in ("src", "dst") for name, kind in (
        ("X", ctypes.c_size_t), ("Y", ctypes.c_size_t), ("Type", ctypes.c_uint), ("Host", ctypes.c_void_p), ("Device", ctypes.c_uint64),
        ("Array", ctypes.c_void_p), ("Pitch", ctypes.c_size_t))] + [("width", ctypes.c_size_t), ("height", ctypes.c_size_t)]
begin()
n, host, a, b = ctypes.c_size_t, ctypes.create_string_buffer(b"x" * 5000), allocate(5000)[1], allocate(5000)[1]
check(cuda.cuMemcpyHtoD_v2(a, host, n(1000)))
check(cuda.cuMemcpyDtoDAsync_v2(b, a, n(300), None))
check(cuda.cuMemcpyPeer(b, None, a, None, n(20)))
check(cuda.cuMemcpy_ptds(b, a, n(7)))
check(cuda.cuMemcpy2D_v2(ctypes.byref(Box(srcType=1, srcHost=ctypes.addressof(host), dstType=2, dstDevice=a.value, width=100, height=3))))
check(cuda.cuMemcpyDtoH_v2(host, b, n(40)))
check(cuda.cuMemsetD32_v2(a, 7, n(10)))
check(cuda.cuMemsetD2D16Async(a, n(100), 7, n(4), n(3), None))
print(cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(0), host, n(9)), host.raw[:1])
"""
        done = simulated(BERTH, "run", "--memory", "2GiB", "--report", os.path.join(self.folder, "report.json"), "--", sys.executable, "-c",
                         script)
        self.assertEqual(done.stdout, "1 b'x'\n", done.stderr)
        device = self.report()["isolation"]["devices"][0]
        self.assertEqual([device[key] for key in ("copies", "copied_to_bytes", "copied_from_bytes", "copied_on_bytes", "copied_other_bytes",
                                                  "fills", "filled_bytes")], [6, 1300, 40, 320, 7, 2, 64])

    def test_processes_of_a_job_share_its_memory_and_a_killed_one_gives_back(self):
        script = f"""
import os, signal, subprocess, sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
first = subprocess.Popen([sys.executable, {PROGRAM!r}, "hold", str({GIB})], stdout=subprocess.PIPE, text=True)
first.stdout.readline()
import program
program.begin()
before = program.allocate({GIB} + 512)[0], program.info()[0]
first.kill()
os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
print(*before, program.allocate(2 * {GIB})[0])
"""
        done = self.run_script(script)
        self.assertEqual(done.stdout.split(), ["2", str(GIB), "0"], done.stderr)

    def test_memory_of_another_process_is_charged_to_it_alone(self):
        # If the import of the exporter's 1 GiB were charged, there would be no room for the importer's own 1 GiB.
        script = f"""
import ctypes, os, subprocess, sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
import program
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]
program.begin()
if len(sys.argv) > 1:
    handle, address = Handle.from_buffer_copy(bytes.fromhex(sys.argv[1])), ctypes.c_uint64()
    opened = program.cuda.cuIpcOpenMemHandle_v2(ctypes.byref(address), handle, 1)
    print(opened, program.info()[0], program.allocate({GIB})[0], program.allocate(1)[0], program.cuda.cuIpcCloseMemHandle(address),
          program.info()[0])
    sys.exit()
address, handle = program.allocate({GIB})[1], Handle()
program.check(program.cuda.cuIpcGetMemHandle(ctypes.byref(handle), address))
subprocess.run([sys.executable, "-c", os.environ["SCRIPT"], bytes(handle).hex()], check=True)
print(program.info()[0])
"""
        done = simulated("env", f"SCRIPT={script}", BERTH, "run", "--memory", "2GiB", "--", sys.executable, "-c", script)
        self.assertEqual(done.stdout.split(), ["0", str(GIB), "0", "2", "0", "0", str(GIB)], done.stderr)

    def test_memory_of_a_killed_process_is_free_as_soon_as_it_was_waited_for(self):
        script = f"""
import subprocess, sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
import program
program.begin()
for turn in range(5):
    other = subprocess.Popen([sys.executable, {PROGRAM!r}, "hold", str({GIB})], stdout=subprocess.PIPE, text=True)
    other.stdout.readline()
    held = program.info()[0]
    other.kill()
    other.wait()
    print(program.info()[0] - held)
"""
        done = self.run_script(script)
        self.assertEqual(done.stdout.split(), 5 * [str(GIB)], done.stderr)

    def test_one_line_says_who_ran_out_and_why(self):
        script = f"""
import subprocess, sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
first = subprocess.Popen([sys.executable, {PROGRAM!r}, "hold", str({GIB})], stdout=subprocess.PIPE, text=True)
first.stdout.readline()
import os, program
program.begin()
program.allocate({GIB} // 2)
print(first.pid, os.getpid(), program.allocate({GIB})[0])
first.kill()
"""
        done = self.run_script(script)
        holder, asker, result = done.stdout.split()
        self.assertEqual(result, "2")
        said = [line for line in done.stderr.splitlines() if "out of memory" in line]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertRegex(said[0], rf"by the job's quota: python\S* \(pid {asker}\) asked for 1.00 GiB, 1.50 GiB of 2.00 GiB in use: "
                                  rf"512 MiB by this process, 1.00 GiB by others of the job, most by python\S* \(pid {holder}\)")

    def test_a_full_device_is_told_from_a_full_quota(self):
        # A process without the guard stands for another job.
        script = f"""
import os, subprocess, sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
env = {{key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "BERTH_GUARD")}}
first = subprocess.Popen([sys.executable, {PROGRAM!r}, "hold", str({GIB} * 15)], stdout=subprocess.PIPE, text=True, env=env)
first.stdout.readline()
import program
program.begin()
print(program.allocate({GIB} * 16)[0])
first.kill()
"""
        done = simulated(BERTH, "run", "--memory", "20GiB", "--", sys.executable, "-c", script)
        self.assertEqual(done.stdout, "2\n", done.stderr)
        self.assertRegex(done.stderr, r"berth: out of memory by a neighbour, not by the job's quota: python\S* \(pid \d+\) asked for "
                                      r"16.00 GiB, \S+ GiB of the device's \S+ GiB are free; the job has 0 bytes of its 20.00 GiB, "
                                      r"others hold 15.\d\d GiB")

    def test_addresses_that_ran_out_are_told_from_full_memory(self):
        # The simulated driver has 256 MiB of 32-bit addresses.
        script = f"""
import ctypes, sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
import program
program.begin()
low = ctypes.c_uint32()
print([program.cuda.cuMemAlloc(ctypes.byref(low), 64 << 20) for _ in range(5)][-1])
"""
        done = self.run_script(script)
        self.assertEqual(done.stdout, "2\n", done.stderr)
        self.assertIn("out of memory by the driver, not by the job's quota", done.stderr)
        self.assertIn("addresses ran out", done.stderr)

    def test_a_child_that_forks_without_exec_counts_for_itself(self):
        script = f"""
import os, sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
import program
if os.fork() == 0:
    program.begin()
    os._exit(program.allocate(2 * {GIB} + 1)[0])
status = os.waitstatus_to_exitcode(os.wait()[1])
program.begin()
print(status, program.allocate(2 * {GIB})[0])
"""
        done = self.run_script(script)
        self.assertEqual(done.stdout.split(), ["2", "0"], done.stderr)

    def test_nothing_else_of_the_process_is_changed(self):
        script = f"""
import os, signal, sys, threading
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
os.umask(0o027)
import program
program.begin()
program.allocate(512)
mask = os.umask(0)
print(oct(mask), sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), [str(signal.getsignal(s)) for s in range(1, 32)],
      threading.active_count(), len(os.listdir("/proc/self/task")), os.environ.get("LANG"), len(os.listdir("/proc/self/fd")))
"""
        held, plain = self.run_script(script), simulated(sys.executable, "-c", script)
        self.assertEqual(held.stdout, plain.stdout)
        self.assertIn("0o27", held.stdout)
        self.assertEqual(held.stderr, plain.stderr)

    def test_a_running_job_is_resized(self):
        # After each resize by the test, the job prints how much it can get. With its third line it frees what it holds.
        script = f"""
import os, sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
import program
program.begin()
held = program.allocate({GIB})[1]
print(os.environ["BERTH_JOB"], program.allocate(2 * {GIB})[0], flush=True)
sys.stdin.readline()
result, more = program.allocate(2 * {GIB})
print(result, program.info()[1], flush=True)
program.check(program.cuda.cuMemFree_v2(more))
sys.stdin.readline()
print(program.allocate(512)[0], flush=True)
program.check(program.cuda.cuMemFree_v2(held))
sys.stdin.readline()
print(program.allocate({GIB} // 2)[0], program.allocate(512)[0], flush=True)
"""
        outer = f"""
import subprocess, sys
job = subprocess.Popen([{BERTH!r}, "run", "--memory", "2GiB", "--share", "30%", "--report", "-", "--", sys.executable, "-c", {script!r}],
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
def go():
    job.stdin.write("\\n"); job.stdin.flush()
    return job.stdout.readline().strip()
def resize(*options):
    done = subprocess.run([{BERTH!r}, "resize", number, *options], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).splitlines()[0]
number, refused = job.stdout.readline().split()
print(refused)
print(*resize("--memory", "100GiB"))
print(*resize("--memory", "3GiB", "--share", "50%"))
print(go())
waits = subprocess.Popen([{BERTH!r}, "resize", number, "--memory", "512MiB"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
print(waits.stderr.readline().strip())
print(waits.poll(), go())
print(waits.communicate(timeout=30)[0].strip())
print(go())
said = " ".join(job.stderr.read().split())
print(job.wait(), said[said.index("limited by"):].split(";")[0], "lowered" in said)
print(*resize("--memory", "1GiB"))
"""
        done = simulated(sys.executable, "-c", outer)
        self.assertEqual(done.stdout.splitlines(), [
            "2",
            "6 error: job 1 cannot have 100 GiB: its device has 23.6 GiB, and the job can have 23.1 GiB of it (E0521)",
            "0 job 1 now has 3.00 GiB, 50 % of the time",
            f"0 {3 * GIB}",
            "note: job 1 gets no new memory; waiting until it frees 512 MiB",
            "None 2",
            "job 1 now has 512 MiB",
            "0 2",
            "0 limited by the guard: 512 MiB, 50 % of the time when other jobs use the device True",
            "2 error: job 1 has ended (E0903)"], done.stderr)

    def test_a_job_whose_berth_run_is_stopped_gets_no_new_limits(self):
        outer = f"""
import os, signal, subprocess
job = subprocess.Popen([{BERTH!r}, "run", "--memory", "2GiB", "--", "sh", "-c", "echo $BERTH_JOB; exec sleep 60"], stdout=subprocess.PIPE, text=True)
number = job.stdout.readline().strip()
os.kill(job.pid, signal.SIGSTOP)
stopped = subprocess.run([{BERTH!r}, "resize", number, "--memory", "3GiB"], capture_output=True, text=True)
os.kill(job.pid, signal.SIGCONT)
print(stopped.returncode, stopped.stderr.splitlines()[0])
print(subprocess.run([{BERTH!r}, "resize", number, "--memory", "3GiB"]).returncode)
subprocess.run([{BERTH!r}, "cancel", number], stdout=subprocess.DEVNULL)
job.wait()
"""
        done = simulated(sys.executable, "-c", outer)
        self.assertRegex(done.stdout, r"^[1-9]\d* error: the job did not get the new limits.*E0955.*\n(job 1 now has 3.00 GiB\n)?0\n")

    def test_wishes_of_a_job_do_not_delay_its_berth_run_while_the_broker_is_stopped(self):
        # The job writes the file of `berth resize` itself. `berth run` takes each, and must not wait for the stopped broker in between.
        wishes = f"""
import os, signal, struct, time
folder, broker = os.environ["BERTH_GUARD"], int(input())
def wish():
    begun = time.monotonic()
    with open(folder + "/new", "wb") as file:
        file.write(struct.pack("<QIIQQ", 0x544e415754545242, 2, 0, {GIB}, time.monotonic_ns()))
    os.rename(folder + "/new", folder + "/wanted")
    while os.path.exists(folder + "/wanted"):
        time.sleep(0.01)
    return time.monotonic() - begun
time.sleep(1)  # `berth run` has calls of its own after the job's start
os.kill(broker, signal.SIGSTOP)
slowest = max(wish() for _ in range(20))
os.kill(broker, signal.SIGCONT)
print(slowest)
"""
        outer = f"""
import os, pathlib, subprocess, sys, time
job = subprocess.Popen([{BERTH!r}, "run", "--memory", "2GiB", "--", sys.executable, "-c", {wishes!r}],
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def brokers():
    mine = os.environ["BERTH_RUNTIME_DIR"].encode()
    for one in pathlib.Path("/proc").iterdir():
        try:
            if one.name.isdigit() and b"serve" in (one / "cmdline").read_bytes().split(b"\\0") and mine in (one / "environ").read_bytes():
                yield one.name
        except OSError:
            pass
while len(found := list(brokers())) != 1:  # a broker that starts has a child for a moment
    time.sleep(0.05)
print(job.communicate(found[0] + "\\n")[0])
"""
        done = simulated(sys.executable, "-c", outer)
        self.assertLess(float(done.stdout), 4, done.stderr)

    def test_memory_of_a_context_is_free_after_its_last_detach(self):
        script = f"""
import ctypes, sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
import program
program.begin()
cuda, first = program.cuda, ctypes.c_void_p()
program.check(cuda.cuCtxCreate_v2(ctypes.byref(first), 0, 0))
program.check(program.allocate({GIB})[0])
program.check(cuda.cuCtxAttach(ctypes.byref(ctypes.c_void_p()), 0))
program.check(cuda.cuCtxDetach(first))
print(program.allocate({GIB} + 512)[0])
program.check(cuda.cuCtxDetach(first))
program.check(cuda.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0))
print(program.allocate({GIB} + 512)[0])
"""
        done = simulated(BERTH, "run", "--memory", "2GiB", "--", sys.executable, "-c", script)
        self.assertEqual(done.stdout.split(), ["2", "0"], done.stderr)

    def test_a_job_cannot_edit_its_limits(self):
        script = f"""
import ctypes, mmap, os, re, struct, sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
import program
program.begin()
program.allocate(512)
path = os.environ["BERTH_GUARD"] + "/limits"
before = open(path, "rb").read()
def fails(action):
    try:
        action()
    except OSError:
        return True
    return False
def writes(how):
    file = os.open(how, os.O_RDWR)
    try:
        os.pwrite(file, b"x" * 200, 0)
    finally:
        os.close(file)
def maps():
    file = os.open(path, os.O_RDWR)
    try:
        mmap.mmap(file, len(before), mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(file)
print(os.path.islink(path), fails(lambda: writes(path)), fails(lambda: writes(os.readlink(path))), fails(maps),
      fails(lambda: os.truncate(path, 0)))
# What the guard has mapped, and a mapping of a descriptor that was opened to read.
libc = ctypes.CDLL(None, use_errno=True)
own = [int(line.split("-")[0], 16) for line in open("/proc/self/maps") if "berth-limits" in line]
print(len(own), libc.mprotect(ctypes.c_void_p(own[0]), ctypes.c_size_t(4096), 3))
file = os.open(path, os.O_RDONLY)
os.chmod(path, 0o700) if os.geteuid() == 0 else None
print(fails(lambda: writes(f"/proc/self/fd/{{file}}")))
# A request of the job itself gives no more than the broker has granted.
with open(os.environ["BERTH_GUARD"] + "/wanted.x", "wb") as wanted:
    wanted.write(struct.pack("<QIIQQ", 0x544e415754545242, 2, 1000, 1 << 60, 7))
os.rename(wanted.name, os.environ["BERTH_GUARD"] + "/wanted")
import time
for _ in range(400):
    if not os.path.exists(os.environ["BERTH_GUARD"] + "/wanted"):
        break
    time.sleep(0.05)
time.sleep(0.2)
after = open(path, "rb").read()
print(after[64:] == before[64:], program.allocate(2 * {GIB})[0], program.info()[1])
"""
        done = self.run_script(script)
        self.assertEqual(done.stdout.splitlines(), ["True True True True True", "1 -1", "True", f"True 2 {2 * GIB}"], done.stderr)

    def test_a_program_that_cannot_read_its_limits_is_reported(self):
        """As in a namespace of its own, where the path leads nowhere."""
        script = ("import os, subprocess, sys; path = os.environ['BERTH_GUARD'] + '/limits'; os.rename(path, path + 2 * 'x')\n"
                  f"subprocess.run([sys.executable, {PROGRAM!r}, 'quota', '1024'])\nos.rename(path + 2 * 'x', path)")
        done = simulated(BERTH, "run", "--memory", "2GiB", "--report", os.path.join(self.folder, "report.json"), "--", sys.executable, "-c", script)
        self.assertIn("limits not enforced", done.stderr)
        self.assertEqual(self.report()["isolation"]["why_not"], "1 process could not read its limits: a namespace may hide them")

    def test_a_job_that_replaces_its_limits_is_reported(self):
        script = "import os; path = os.environ['BERTH_GUARD'] + '/limits'; os.unlink(path); open(path, 'w').close()"
        done = simulated(BERTH, "run", "--memory", "2GiB", "--report", os.path.join(self.folder, "report.json"), "--", sys.executable, "-c",
                         script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.report()["isolation"]["why_not"], "the job changed the file with its limits")

    def test_a_job_that_replaces_its_counters_by_a_pipe_ends_and_is_reported(self):
        script = "import os; path = os.environ['BERTH_GUARD'] + '/usage'; os.unlink(path); os.mkfifo(path)"
        done = simulated(BERTH, "run", "--memory", "2GiB", "--report", os.path.join(self.folder, "report.json"), "--", sys.executable, "-c",
                         script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.report()["isolation"]["why_not"], "the counters of the guard cannot be read")

    def test_contexts_are_charged_and_a_quota_below_their_cost_is_refused(self):
        script = f"""
import sys, time
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
import program
program.begin()
end = time.monotonic() + 60
while program.info()[0] == {GIB} and time.monotonic() < end:
    time.sleep(0.05)
free, total = program.info()
print(total - free, total, program.allocate(free + 1)[0], program.allocate(free)[0])
"""
        context = 300 << 20
        one = [BERTH, "run", "--memory", "1GiB", "--report", os.path.join(self.folder, "report.json"), "--", sys.executable, "-c", script]
        # A second job on the same machine, so in the same simulation.
        outer = (f"import subprocess; {one!r}; subprocess.run({one!r}); "
                 f"print(subprocess.run([{BERTH!r}, 'run', '--memory', '200MiB', '--', 'true'], stderr=subprocess.PIPE, text=True).stderr); "
                 f"print(subprocess.run([{BERTH!r}, 'guard', 'check'], stdout=subprocess.DEVNULL).returncode)")
        done = simulated("env", f"BERTH_SIM_CUDA_CONTEXT={context}", f"BERTH_STATE_DIR={self.folder}/state", sys.executable, "-c", outer)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], f"{context} {GIB} 2 0", done.stdout + done.stderr)
        self.assertIn("by contexts and modules", done.stderr)
        self.assertIn("CUDA itself needs 300 MiB of GPU 0 for each process, so a quota of 200 MiB would leave no memory for the program (E0956)", lines[1])
        self.assertEqual(self.report()["isolation"]["devices"][0]["hidden_peak_bytes"], context)
        # The self-test's 256 MiB are less than that, and it is about allocations alone.
        self.assertEqual(lines[-1], "0", done.stderr)

    def test_memory_of_a_child_without_the_guard_is_no_cost_of_a_context(self):
        script = f"""
import os, subprocess, sys, time
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
env = {{key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "BERTH_GUARD")}}
other = subprocess.Popen([sys.executable, {PROGRAM!r}, "hold", str({GIB})], stdout=subprocess.PIPE, text=True, env=env)
other.stdout.readline()
import program
program.begin()
end = time.monotonic() + 60
while program.info()[0] > {GIB} and time.monotonic() < end:
    time.sleep(0.05)
print(program.info()[0] <= {GIB}, flush=True)
other.kill()
other.wait()
"""
        done = simulated("env", f"BERTH_SIM_CUDA_CONTEXT={300 << 20}", f"BERTH_STATE_DIR={self.folder}/state", BERTH, "run", "--memory", "2GiB",
                         "--", sys.executable, "-c", script)
        self.assertEqual(done.stdout, "True\n", done.stderr)
        kept = glob.glob(os.path.join(self.folder, "state", "context-memory", "*"))
        self.assertEqual([name for name in kept if int(open(name).read()) > 300 << 20], [])

    def test_the_self_test_says_what_holds(self):
        done = simulated(BERTH, "guard", "check", "--json")
        found = json.loads(done.stdout)
        self.assertEqual((done.returncode, found["holds"], found["unknown_functions"]), (0, True, []), done.stderr)
        checks = {check["id"]: check["holds"] for check in found["checks"]}
        self.assertEqual(set(checks.values()), {True})
        for name in ("path linked", "path dlsym", "path cuGetProcAddress", "path cuGetProcAddress_v2", "path cuGetProcAddress_v2 per thread",
                     "total", "within", "over", "freed", "cuMemCreate", "cuMemAllocAsync", "cuMipmappedArrayCreate"):
            self.assertIn(name, checks)
        plain = simulated(BERTH, "guard", "check")
        self.assertIn("the guard enforces a memory quota with this driver", plain.stdout)
        self.assertNotIn("out of memory", plain.stderr)

    def test_the_self_test_without_a_driver_names_the_next_command(self):
        done = simulated(BERTH, "guard", "check", machine="none")
        self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
        self.assertIn("E0957", done.stderr)
        self.assertIn("berth doctor", done.stderr)
        self.assertEqual(simulated(BERTH, "guard", "tomorrow").returncode, 2)

    def test_null_pointers_and_absurd_numbers_get_the_drivers_answers(self):
        folder = os.path.dirname(PROGRAM)
        command = [sys.executable, os.path.join(folder, "absurd.py"), os.path.join(folder, "..", "..", "preload", "cuda", "hooks.inc")]
        plain, held = simulated(*command), simulated(BERTH, "run", "--memory", "2GiB", "--", *command)
        self.assertEqual((plain.returncode, held.returncode), (0, 0), held.stderr)
        before, after = ([line.split() for line in done.stdout.splitlines()] for done in (plain, held))
        self.assertGreater(len(after), 1000)
        self.assertEqual([line[:3] for line in before], [line[:3] for line in after])
        for one, other in zip(before, after):
            # A request above the quota is refused before the driver sees it, so only these answers differ.
            if int(one[1]) < 2 * GIB - 1 or other[3] != "2":
                self.assertEqual(one, other)

    def test_a_job_that_spoils_its_own_counters_does_not_crash(self):
        script = f"""
import os, random, sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
import program
program.begin()
program.allocate({GIB})
random.seed(int(sys.argv[1]))
path = os.environ["BERTH_GUARD"] + "/usage"
with open(path, "r+b") as usage:
    usage.write(random.randbytes(os.path.getsize(path)))
for size in (512, {GIB}, 2 * {GIB}):
    program.allocate(size)
    program.info()
pid = os.fork()
if pid == 0:
    program.cuda.cuInit(0)
    os._exit(0)
print("alive", os.waitpid(pid, 0)[1])
if sys.argv[1] == "4":
    os._exit(os.truncate(path, 100) or 0)
"""
        for seed in ("1", "2", "3", "4"):
            done = simulated(BERTH, "run", "--memory", "2GiB", "--report", os.path.join(self.folder, "report.json"), "--",
                             sys.executable, "-c", script, seed)
            self.assertEqual((done.returncode, done.stdout), (0, "alive 0\n"), done.stderr)
        self.assertIn("cannot be read", self.report()["isolation"]["why_not"])

    def run_script(self, script):
        return simulated(BERTH, "run", "--memory", "2GiB", "--report", f"{self.folder}/report.json", "--", sys.executable, "-c", script)

    def test_without_the_guard_the_same_job_gets_all(self):
        done = self.run_job("quota", str(2 * GIB), options=("--memory", "2GiB", "--isolation", "none"))
        self.assertTrue(done.stdout.startswith("0 0 "), done.stdout + done.stderr)
        isolation = self.report()["isolation"]
        self.assertIsNone(isolation["by"])
        self.assertIn("--isolation none", isolation["why_not"])

    def test_a_program_without_cuda_is_told_apart(self):
        done = simulated(BERTH, "run", "--memory", "2GiB", "--report", "-", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no program used CUDA", done.stderr)

    def test_one_line_of_the_report_says_what_was_enforced(self):
        done = simulated(BERTH, "run", "--memory", "2GiB", "--share", "30%", "--report", "-", "--", sys.executable, PROGRAM,
                         "quota", str(2 * GIB))
        self.assertNotIn("never used the GPU", done.stderr)
        self.assertIn("limited by the guard: 2.00 GiB, 30 % of the time when other jobs use the device; peak 2.00 GiB; 2 requests refused",
                      " ".join(done.stderr.split()))

    def test_what_a_program_holds_shows_in_nvml_and_is_back_when_it_is_killed(self):
        script = f"""
import json, os, signal, subprocess, sys, time
def used():
    seen = json.loads(subprocess.run([{BERTH!r}, "ls", "--json"], capture_output=True, text=True).stdout)
    return seen["devices"][0]["memory_used_bytes"]
before = used()
holder = subprocess.Popen([sys.executable, {PROGRAM!r}, "hold", str({GIB})], stdout=subprocess.PIPE, text=True)
holder.stdout.readline()
during = used()
listed = json.loads(subprocess.run([{BERTH!r}, "ps", "--json"], capture_output=True, text=True).stdout)
mine = [p for p in listed["processes"] if p["pid"] == holder.pid]
holder.kill(); holder.wait()
time.sleep(0.1)
print(during - before, mine[0]["memory_bytes"] if mine else None, used() - before)
"""
        # The simulated processes change their memory, so the simulated time stands still (--at).
        done = simulated(sys.executable, "-c", script, at=10)
        self.assertEqual(done.stdout.split(), [str(GIB), str(GIB), "0"], done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
