"""A hang is detected from outside and the odd rank is named. `berth stacks` shows where a process is, and does not stop it."""
import ast
import concurrent.futures
import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

from ranks import python_with_torch
from support import BERTH, HERE, environment, main, run, start

SLEEPS = """
import time
def idle():
    time.sleep(60)
print("ready", flush=True)
idle()
"""

HANGS = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
def step(i):
    if i == 3 and dist.get_rank() == 1:
        if sys.argv[1] == "sleeps":
            time.sleep(600)
        if sys.argv[1] == "sleeps once" and not os.path.exists(sys.argv[2]):
            open(sys.argv[2], "w").close()
            time.sleep(600)
    dist.all_reduce(total)
for i in range(5):
    step(i)
if sys.argv[1] == "healthy":
    time.sleep(14)
def evaluate():
    end = time.monotonic() + 24
    while time.monotonic() < end:
        torch.ones(100).sum()
if sys.argv[1] == "evaluates":
    if dist.get_rank() == 0:
        evaluate()
    dist.all_reduce(total)
"""


NEVER_CONNECTS = """
import os, time, torch.distributed as dist
def load():
    time.sleep(600)
if os.environ["RANK"] == "1":
    load()
dist.init_process_group("gloo")
"""


# Stands for PyTorch's recorder of NCCL, which needs a GPU: a thread that reads the pipe and writes a dump.
RECORDER = """
import os, pickle, select, threading, time
rank = int(os.environ["RANK"])
stem = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"]
assert stem == os.environ["TORCH_FR_DUMP_TEMP_FILE"] == os.environ["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"]
assert int(os.environ["TORCH_FR_BUFFER_SIZE"]) > 0 and os.environ["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "0"
os.mkfifo(f"{stem}{rank}.pipe")
pipe = os.open(f"{stem}{rank}.pipe", os.O_RDWR)
def serve():
    while os.read(pipe, 1):
        time.sleep(1)  # as long as PyTorch may take
        dump()
def dump():
    frames = [{"name": "step", "filename": "train.py", "line": 7}]
    entries = [{"frames": frames, "record_id": i, "profiling_name": "nccl:all_reduce", "collective_seq_id": i, "is_p2p": False,
                "process_group": ("0", "default_pg"), "state": "started" if i == 4 else "completed"} for i in range(1, 5 - rank * int(os.environ.get("BEHIND", "1")))]
    with open(f"{stem}{rank}", "wb") as file:
        file.write(pickle.dumps({"version": "2.10", "entries": entries, "pg_config": {}}, protocol=2))
threading.Thread(target=serve, daemon=True).start()
"""

# Ranks that wait for their GPU use a whole core.
SPINS = RECORDER + """
import time
def wait():
    while True:
        pass
if rank == 1 and "SLEEPS" in os.environ:
    time.sleep(600)
wait()
"""


def pythons():
    """The Pythons of this machine from 3.9 on, one of each version."""
    folders = [*os.get_exec_path(), *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin")))]
    found = {}
    for folder in folders:
        for minor in range(9, 20):
            program = os.path.join(folder, f"python3.{minor}")
            if minor not in found and os.path.exists(program) and subprocess.run([program, "-c", ""], capture_output=True).returncode == 0:
                found[minor] = program
    return list(found.values())


def stacks(*words):
    return subprocess.run([BERTH, "stacks", *words], env=environment(), capture_output=True, text=True, timeout=60)


class Stacks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.program = os.path.join(self.folder, "sleeps.py")
        with open(self.program, "w") as file:
            file.write(SLEEPS)

    def test_where_two_ranks_are(self):
        job = start("python3", self.program, options=["--ranks", "2"])
        for _ in range(2):
            job.stdout.readline()
        document = json.loads(stacks("--json", str(job.pid)).stdout)
        with_python = [one for one in document["processes"] if one["python"]]
        self.assertEqual(sorted(one["rank"] for one in with_python), [0, 1])
        for one in with_python:
            innermost = one["python"][-1]["frames"][0]
            self.assertEqual((innermost["file"], innermost["line"], innermost["function"]), (self.program, 4, "idle"))
        text = stacks(str(job.pid)).stdout
        self.assertIn(f"{self.program}:4  idle", text)
        self.assertIsNone(job.poll(), "nothing was ended")
        job.terminate()
        self.assertEqual(job.wait(timeout=60), 143)

    def test_who_has_not_registered_gets_no_signal(self):
        job = start("sh", "-c", "echo ready; sleep 60", options=["--ranks", "1"])
        job.stdout.readline()
        answer = stacks(str(job.pid))
        self.assertIn("no Python stack: this process does not provide one; Python started with berth run --retries 1 does\n", answer.stdout)
        time.sleep(0.2)
        self.assertIsNone(job.poll())
        job.terminate()
        job.wait(timeout=60)

    def test_a_program_that_took_the_handler_away_lives(self):
        words = "import signal, time; signal.signal(signal.SIGRTMIN + 7, signal.SIG_DFL); print('ready', flush=True); time.sleep(60)"
        job = start("python3", "-c", words, options=["--ranks", "1"])
        job.stdout.readline()
        self.assertEqual(stacks(str(job.pid)).returncode, 0)
        time.sleep(0.2)
        self.assertIsNone(job.poll())
        job.terminate()
        self.assertEqual(job.wait(timeout=60), 143)

    def test_a_sitecustomize_of_the_user_runs(self):
        with open(os.path.join(self.folder, "sitecustomize.py"), "w") as file:
            file.write("import builtins; builtins.seen = 'mine'\n")
        words = "import faulthandler, os, sys, builtins; print(builtins.seen, 'sitecustomize' in sys.modules, os.environ['PYTHONPATH'].endswith(sys.argv[1]))"
        done = run("python3", "-c", words, self.folder, options=["--ranks", "1"], env=environment(PYTHONPATH=self.folder))
        self.assertEqual(done.stdout, "[rank 0] mine True True\n", done.stderr)

    def test_the_module_runs_on_every_python(self):
        with open(os.path.join(HERE, "..", "..", "src", "run", "sitecustomize.py")) as file:
            ast.parse(file.read(), feature_version=(3, 9))
        words = "import time\ndef idle():\n    print('ready', flush=True)\n    time.sleep(60)\nidle()\n"
        for python in pythons():
            with self.subTest(python):
                job = start(python, "-W", "error", "-c", words, options=["--ranks", "1"])
                self.assertIn("ready", job.stdout.readline())
                process, = (one for one in json.loads(stacks("--json", str(job.pid)).stdout)["processes"] if one["python"])
                self.assertEqual(process["python"][-1]["frames"][0]["function"], "idle")
                job.terminate()
                self.assertEqual(job.wait(timeout=60), 143)

    def test_forked_children_answer_too(self):
        words = ("import os, time\ndef child():\n    time.sleep(60)\nif os.fork() == 0:\n    child()\n"
                 "time.sleep(0.3); print('ready', flush=True); time.sleep(60)\n")
        job = start("python3", "-c", words, options=["--ranks", "1"])
        job.stdout.readline()
        document = json.loads(stacks("--json", str(job.pid)).stdout)
        innermost = [one["python"][-1]["frames"][0]["function"] for one in document["processes"] if one["python"]]
        self.assertEqual(sorted(innermost), ["<module>", "child"])
        job.terminate()
        job.wait(timeout=60)

    def test_native_functions_are_those_of_gdb(self):
        if not shutil.which("gdb"):
            self.skipTest("no gdb here")
        program = subprocess.Popen(["python3", "-c", "import threading; print(flush=True); threading.Event().wait(60)"], stdout=subprocess.PIPE)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        program.stdout.readline()
        time.sleep(0.3)
        native = json.loads(stacks(str(program.pid), "--json").stdout)["processes"][0]["threads"][0]["native"]
        self.assertTrue(native[0]["exact"])
        ours = [one["function"] for one in native[1:] if one["function"]]
        said = subprocess.run(["gdb", "-p", str(program.pid), "-batch", "-ex", "bt"], capture_output=True, text=True, timeout=60).stdout
        theirs = re.findall(r"^#\d+ .*? in (\w+) \(", said, re.MULTILINE)
        if not theirs:
            self.skipTest("gdb may not attach here")
        self.assertGreaterEqual(len(set(ours) & set(theirs)), 2, (ours, theirs))

    def test_a_killed_look_leaves_no_process_stopped(self):
        program = subprocess.Popen(["sleep", "60"])
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        for turn in range(30):
            look = subprocess.Popen([BERTH, "stacks", str(program.pid)], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(turn / 3000)
            look.kill()
            look.wait()
            with open(f"/proc/{program.pid}/stat") as file:
                self.assertNotIn(file.read().rpartition(")")[2].split()[0], ("T", "t"), turn)

    def test_a_process_is_named_explicitly(self):
        program = subprocess.Popen(["sleep", "60"])
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.assertIn(f"process {program.pid} ", stacks("--pid", str(program.pid)).stdout)
        for words, wrong in ((("--pid", "4194000"), "E0532"), (("--pid", "train"), "E0104"), (("--pid", str(program.pid), "7"), "E0010")):
            answer = stacks(*words)
            self.assertNotEqual(answer.returncode, 0)
            self.assertIn(wrong, answer.stderr)

    def test_no_such_process(self):
        answer = stacks("4194000")
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn("E0532", answer.stderr)


# Ranks that wait for a collective for ever, without PyTorch: what counts is the path of the module. Rank 0 leaves.
LEAVES = """
import os
if os.environ["RANK"] == "0":
    raise SystemExit(0)
from torch.distributed import all_reduce
def step():
    all_reduce()
step()
"""
WAITS = """
import time
def all_reduce():
    print("waiting", flush=True)
    time.sleep(600)
"""


class Left(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "report.json")
        package = os.path.join(folder.name, "site-packages/torch/distributed")
        os.makedirs(package)
        for name, text in ((os.path.join(package, "__init__.py"), WAITS), (os.path.join(package, "../__init__.py"), ""),
                           (os.path.join(folder.name, "train.py"), LEAVES)):
            with open(name, "w") as file:
                file.write(text)
        self.words = ["python3", os.path.join(folder.name, "train.py")]
        self.variables = {"PYTHONPATH": os.path.join(folder.name, "site-packages")}

    def check(self, said, parts):
        self.assertIn("rank 0 exited with code 0 while the other ranks waited for it", said)
        self.assertNotIn("failed first", said)
        with open(self.file) as file:
            report = json.load(file)
        one, = report["tries"]
        self.assertEqual((one["left_early"], one["failed_first"], [rank["part"] for rank in report["ranks"]]), ([0], None, parts))
        return one["class"]

    def test_ranks_that_are_ended_because_of_the_hang_did_not_fail_first(self):
        done = run(*self.words, options=["--ranks", "3", "--cpu", "--hang-action", "kill", "--hang-timeout", "12s", "--report", self.file],
                   env=environment(**self.variables))
        self.assertEqual(done.returncode, 143, done.stderr)
        self.assertEqual(self.check(done.stderr, ["left early", "victim", "victim"]), "hang")
        self.assertIn("\nnote: no progress for 12.0 s: Berth ended all ranks (--hang-action kill)\n", done.stderr)

    def test_ranks_that_somebody_kills_meanwhile_did_not_fail_first(self):
        job = start(*self.words, options=["--ranks", "3", "--cpu", "--report", self.file], env=environment(**self.variables), stderr=subprocess.PIPE)
        said = ""
        for line in job.stderr:
            said += line
            if "the other ranks wait" in line:
                for one in self.waiting(job.pid):
                    with contextlib.suppress(ProcessLookupError):  # berth ends the others as soon as it sees the end of the first
                        os.kill(one, 9)
        job.stdout.close()
        job.stderr.close()
        self.assertEqual(job.wait(timeout=60), 137)
        self.assertEqual(self.check(said, ["left early", "victim", "victim"]), "killed")

    def waiting(self, job):
        return [one["pid"] for one in json.loads(stacks("--json", str(job)).stdout)["processes"] if one["rank"] is not None and one["python"]]


@unittest.skipUnless(python_with_torch(), "no PyTorch with torch.distributed")
class Hang(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = os.path.join(folder.name, "hangs.py")
        self.file = os.path.join(folder.name, "report.json")
        with open(self.program, "w") as file:
            file.write(HANGS)

    def report(self):
        with open(self.file) as file:
            return json.load(file)

    def test_a_rank_that_sleeps_is_named_and_ended(self):
        done = run(python_with_torch(), self.program, "sleeps",
                   options=["--ranks", "2", "--cpu", "--hang-action", "kill", "--hang-timeout", "12s", "--report", self.file])
        one, = self.report()["tries"]
        self.assertEqual(one["class"], "hang")
        hang, = one["hangs"]
        self.assertEqual(hang["odd_ranks"], [1])
        self.assertEqual(hang["ranks"][1]["where"], "hangs.py:8 in step")
        self.assertEqual(hang["ranks"][0]["where"], "hangs.py:12 in step")
        self.assertIn("all_reduce", hang["ranks"][0]["stack"])
        self.assertRegex(hang["ranks"][0]["native"], "libtorch.* .*(gloo|c10d)")
        self.assertNotIn("gloo::", hang["ranks"][1]["native"].split("\n")[0])
        self.assertLess(hang["after_seconds"], 30)
        self.assertIn("rank 1 is at hangs.py:8 in step", done.stderr)
        self.assertIn("no progress for 12.0 s: Berth ended all ranks (--hang-action kill); rank 1 hung", " ".join(done.stderr.split()))
        self.assertNotEqual(done.returncode, 0)

    def test_a_rank_that_never_connects_is_named_and_ended(self):
        with open(self.program, "w") as file:
            file.write(NEVER_CONNECTS)
        options = ["--ranks", "3", "--cpu", "--hang-action", "kill", "--hang-timeout", "12s", "--report", self.file]
        done = run(python_with_torch(), self.program, options=options)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1 has not connected and is at hangs.py:4 in load; the other ranks wait", done.stderr)
        one, = self.report()["tries"]
        hang, = one["hangs"]
        self.assertEqual((one["class"], hang["odd_ranks"], hang["connecting"]), ("hang", [1], True))
        self.assertLess(hang["after_seconds"], 30)

    def test_the_flight_recorder_is_asked_for_the_last_collectives(self):
        if subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", "true"], env=environment(), stdout=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no simulator in this build")
        with open(self.program, "w") as file:
            file.write(RECORDER + HANGS)
        logs = self.file + ".logs"
        done = subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", BERTH, "run", "--ranks", "2", "--hang-action", "kill", "--hang-timeout", "12s",
                               "--report", self.file, "--log-dir", logs, "--", python_with_torch(), self.program, "sleeps"],
                              env=environment(TORCH_NCCL_DUMP_ON_TIMEOUT="0"), capture_output=True, text=True, timeout=120)
        hang, = self.report()["tries"][0]["hangs"]
        self.assertEqual([one["collective"] for one in hang["ranks"]],
                         [{"name": "all_reduce", "group": "default_pg", "number": 4, "state": "started"},
                          {"name": "all_reduce", "group": "default_pg", "number": 3, "state": "completed"}])
        self.assertIn("last collectives: rank 0: all_reduce 4 (default_pg), started; rank 1: all_reduce 3 (default_pg), completed", done.stderr)
        self.assertEqual([name for name in sorted(os.listdir(logs)) if "flight" in name], ["flight-recorder-0", "flight-recorder-1"])

    def spin(self, **variables):
        if subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", "true"], env=environment(), stdout=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no simulator in this build")
        with open(self.program, "w") as file:
            file.write(SPINS)
        done = subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", BERTH, "run", "--ranks", "2", "--hang-action", "kill", "--hang-timeout", "14s",
                               "--report", self.file, "--", "python3", self.program],
                              env=environment(TORCH_NCCL_DUMP_ON_TIMEOUT="0", **variables), capture_output=True, text=True, timeout=120)
        one, = self.report()["tries"]
        self.assertEqual(one["class"], "hang", done.stderr)
        self.assertLess(one["hangs"][0]["after_seconds"], 40)
        return one["hangs"][0], done.stderr

    def test_ranks_that_spin_in_one_collective_hang(self):
        hang, told = self.spin(BEHIND="0")
        self.assertEqual(hang["odd_ranks"], [])
        self.assertRegex(told, "no rank has made progress for [0-9.]+ s: all wait for each other")
        self.assertIn("last collectives: ranks 0-1: all_reduce 4 (default_pg), started", told)
        self.assertRegex(hang["ranks"][0]["where"], r"hangs\.py:[0-9]+ in wait")

    def test_a_rank_that_sleeps_while_the_others_spin_is_named(self):
        hang, told = self.spin(SLEEPS="1")
        self.assertEqual(hang["odd_ranks"], [1])
        self.assertRegex(told, "rank 1 is at hangs.py:[0-9]+ in <module>; the other ranks wait")

    def test_a_hung_job_is_started_again(self):
        # The second try finds the file of the first, and does not sleep.
        mark = self.file + ".mark"
        options = ["--ranks", "2", "--cpu", "--retries", "2", "--backoff", "100ms", "--hang-timeout", "12s", "--report", self.file]
        done = run(python_with_torch(), self.program, "sleeps once", mark, options=[*options, "--hang-action", "retry"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([one["class"] for one in self.report()["tries"]], ["hang", "ok"])
        self.assertEqual(self.report()["tries"][0]["hangs"][0]["odd_ranks"], [1])

    def test_kill_does_not_start_a_hung_job_again(self):
        options = ["--ranks", "2", "--cpu", "--retries", "2", "--hang-action", "kill", "--hang-timeout", "11s", "--report", self.file]
        done = run(python_with_torch(), self.program, "sleeps", options=options)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual([one["class"] for one in self.report()["tries"]], ["hang"])

    def test_idle_ranks_that_wait_for_nobody_are_healthy(self):
        done = run(python_with_torch(), self.program, "healthy", options=["--ranks", "2", "--cpu", "--report", self.file])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.report()["tries"][0]["hangs"], [])

    def test_a_long_evaluation_on_one_rank_is_no_hang_and_ends_well(self):
        done = run(python_with_torch(), self.program, "evaluates",
                   options=["--ranks", "2", "--cpu", "--hang-action", "kill", "--hang-timeout", "11s", "--report", self.file])
        self.assertEqual(done.returncode, 0, done.stderr)
        slow, = self.report()["tries"][0]["hangs"]
        self.assertEqual((slow["slow"], slow["odd_ranks"]), (True, [0]))
        self.assertIn("in evaluate", slow["ranks"][0]["where"])


# The function in which the odd rank hangs; None if its stack cannot be read or it has ended.
SEEDS = {seed: seed for seed in (
    "sleeps", "waits_on_pipe", "waits_on_socket", "accepts", "opens_fifo", "locks_twice", "waits_for_event", "waits_on_queue", "joins_thread",
    "waits_for_child", "waits_on_file_lock", "waits_on_loader", "waits_on_pool", "spins", "spins_in_native_code", "gathers",
    "dead_locks", "swaps_collectives")}
SEEDS |= {"skips": "end", "stops_itself": None, "leaves": None, "leaves_before_the_start": None}
SAMPLE = ("dead_locks", "skips", "spins", "leaves")


@unittest.skipUnless(python_with_torch(), "no PyTorch with torch.distributed")
class Healthy(unittest.TestCase):
    """One rank works for long, and the others wait for it: no hang. BERTH_SOAK: for minutes."""

    def program(self, seed):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "report.json")
            done = run(python_with_torch(), os.path.join(HERE, "seeded_hangs.py"), seed, "1", timeout=600,
                       env=environment(HEALTHY_SECONDS="180" if "BERTH_SOAK" in os.environ else "18"),
                       options=["--ranks", "3", "--cpu", "--hang-action", "kill", "--hang-timeout", "11s", "--report", file])
            with open(file) as report:
                return done.returncode, [one for one in json.load(report)["tries"][0]["hangs"] if not one["slow"]]

    def test_a_rank_that_works_while_the_others_wait_is_no_hang(self):
        seeds = ["downloads", "compiles", "evaluates", "writes_checkpoint", "loads_in_workers"]
        if "BERTH_SOAK" not in os.environ:
            seeds = ["downloads", "loads_in_workers"]
        with concurrent.futures.ThreadPoolExecutor(len(seeds)) as pool:
            found = dict(zip(seeds, pool.map(self.program, seeds)))
        self.assertEqual(found, {seed: (0, []) for seed in seeds})


@unittest.skipUnless(python_with_torch(), "no PyTorch with torch.distributed")
class Seeded(unittest.TestCase):
    def named(self, seed, odd, folder):
        """What the report says about the odd rank. None if it names no rank or another one."""
        file = os.path.join(folder, f"{seed}.json")
        job = start(python_with_torch(), os.path.join(HERE, "seeded_hangs.py"), seed, str(odd), stderr=subprocess.PIPE,
                    options=["--ranks", "3", "--cpu", "--grace", "500ms", "--report", file])
        late = threading.Timer(90, job.terminate)
        late.start()
        said = []
        for line in job.stderr:
            said.append(line)
            if re.search("other ranks wait|other ranks have waited", line):
                job.terminate()
        late.cancel()
        job.wait(timeout=60)
        job.stdout.close()
        job.stderr.close()
        with open(file) as report:
            one, = json.load(report)["tries"]
        if one["left_early"] == [odd]:
            return {"where": None, "slow": False, "after": one["wall_seconds"]}
        if not one["hangs"] or one["hangs"][0]["odd_ranks"] != [odd]:
            return {"wrong": one, "said": said[-9:]}
        hang = one["hangs"][0]
        return {"where": hang["ranks"][odd]["where"], "slow": hang["slow"], "after": hang["after_seconds"]}

    def test_seeded_hangs_are_named(self):
        seeds = SEEDS if "BERTH_SOAK" in os.environ else {seed: SEEDS[seed] for seed in SAMPLE}
        wrong, late = {}, {}
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = dict(zip(seeds, pool.map(lambda one: self.named(one[1], one[0] % 3, folder), enumerate(seeds))))
        for seed, function in seeds.items():
            if "wrong" in found[seed] or (found[seed]["where"] or "").partition(" in ")[2] != (function or ""):
                wrong[seed] = found[seed]
            elif found[seed]["slow"] != seed.startswith("spins"):
                wrong[seed] = found[seed]
            elif found[seed]["after"] > 60:
                late[seed] = found[seed]["after"]
        for seed in seeds:
            seen = found[seed]
            print(f"{seed:36} {'WRONG' if seed in wrong else 'right':6} {seen.get('after', 0):6.1f} s  {seen.get('where') or '-'}")
        print(f"{len(seeds) - len(wrong)} of {len(seeds)} seeded hangs named right", flush=True)
        self.assertEqual((wrong, late), ({}, {}))


if __name__ == "__main__":
    main()
