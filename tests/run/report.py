"""The variables that `berth run` sets, and its report; on this machine and on simulated ones."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../doctor"))
import machine_file  # noqa: E402
from support import BERTH, HERE, PATIENCE, PYTHON, environment, main, run, wait_until

KEYS = ["schema", "command", "name", "job", "engine", "container", "started_at", "devices", "outcome", "wall_seconds", "cpu_seconds", "cores_used",
        "peak_rss_bytes", "peak_memory_method", "cpus", "threads", "threading", "cost", "reasons", "environment", "gpus_here", "access", "isolation", "gpu_use", "gpu_use_method", "gpus_touched", "looks",
        "libraries", "suggestions", "left_behind", "memory_growth", "bottlenecks", "bottlenecks_unknown", "checkpoint_signal",
        "preflight", "tries", "ranks", "notes"]
WAITS = (1.5, 5, 15, 40)  # on a busy machine, the samples of a short job may miss its peak; they are at most 2 % of a core
SHOW = "import os, json; print(json.dumps(dict(os.environ)))"


def longer_until(attempt, good):
    """What attempt(seconds) returns, with the seconds that a job sleeps growing until it is good: on a busy machine, looks come late."""
    for seconds in WAITS:
        result = attempt(seconds)
        if good(result):
            break
    return result


def has_simulator():
    return simulated("none", [BERTH, "--version"]).returncode == 0


def simulated(machine, command, *options, **keywords):
    keywords.setdefault("timeout", PATIENCE)
    keywords.setdefault("env", environment())
    return subprocess.run([BERTH, "sim", "--machine", machine, *options, "--", *command], capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, **keywords)


class WithFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(folder.name, "report.json")

    def read(self):
        with open(self.file) as file:
            return json.load(file)


class Report(WithFile):
    def test_every_key_is_there(self):
        done = run("sh", "-c", "sleep 0.3; exit 3", options=["--report", self.file, "--name", "my job"])
        self.assertEqual((done.returncode, done.stderr), (3, ""))
        report = self.read()
        self.assertEqual(list(report), KEYS)
        self.assertEqual(report["schema"], 1)
        self.assertEqual(report["command"], ["sh", "-c", "sleep 0.3; exit 3"])
        self.assertEqual(report["name"], "my job")
        self.assertEqual(report["outcome"], {"class": "failed", "exit_code": 3, "signal": None})
        self.assertGreater(report["wall_seconds"], 0.29)
        self.assertGreater(report["peak_rss_bytes"], 100_000)
        self.assertGreaterEqual(report["looks"], 1)
        self.assertRegex(report["started_at"], r"^20\d\d-\d\d-\d\dT.*Z$")

    def test_a_signal(self):
        run("sh", "-c", "kill -9 $$", options=["--report", self.file])
        self.assertEqual(self.read()["outcome"], {"class": "signal", "exit_code": 137, "signal": 9})

    def test_processor_time_counts_all_processes(self):
        burn = "import time; e = time.process_time() + 0.3\nwhile time.process_time() < e: pass"
        run("sh", "-c", f"{PYTHON} -c '{burn}' & {PYTHON} -c '{burn}'; wait", options=["--report", self.file])
        self.assertGreaterEqual(self.read()["cpu_seconds"], 0.6)

    def test_memory_counts_all_processes(self):
        def peak(seconds):
            eat = f"import time; x = b'1' * 60_000_000; time.sleep({seconds})"
            run("sh", "-c", f'{PYTHON} -c "{eat}" & {PYTHON} -c "{eat}"; wait', options=["--report", self.file])
            return self.read()["peak_rss_bytes"]

        self.assertGreaterEqual(longer_until(peak, lambda peak: peak >= 120_000_000), 120_000_000)

    def test_memory_that_forked_children_share_counts_once(self):
        def job(seconds):
            fork = ("import os, time\nx = bytearray(os.urandom(1)) * 100_000_000\n"
                    f"for i in range(8):\n    if os.fork() == 0:\n        y = b'1' * 5_000_000; time.sleep({seconds}); os._exit(0)\n"
                    "for i in range(8): os.wait()")
            run(PYTHON, "-c", fork, options=["--report", self.file])
            return self.read()

        # On a busy machine a sample may come while the children are being forked; a longer run has later samples.
        report = longer_until(job, lambda got: got["peak_memory_method"] == "pss" and 100_000_000 <= got["peak_rss_bytes"] < 400_000_000)
        self.assertEqual(report["peak_memory_method"], "pss")
        self.assertGreaterEqual(report["peak_rss_bytes"], 100_000_000)
        self.assertLess(report["peak_rss_bytes"], 400_000_000)  # it would be 900 MB if shared pages were counted for each process

    def test_what_the_command_left_behind_is_named_and_the_queue_is_advised(self):
        done = run("sh", "-c", "setsid sleep 1000 & setsid sleep 1001 & exit 0", options=["--report", self.file])
        self.assertEqual(done.returncode, 0)
        self.assertEqual(sorted(one["command"] for one in self.read()["left_behind"]), ["sleep 1000", "sleep 1001"])
        self.assertIn("note: the command left 2 processes running, which were ended: sleep 100", done.stderr)
        self.assertIn("berth run --queue -- COMMAND", done.stderr)
        quiet = longer_until(lambda _: run("sh", "-c", "(sleep 0.01) & exit 0", options=["--report", self.file]), lambda done: not done.stderr)
        self.assertEqual((quiet.returncode, quiet.stderr, self.read()["left_behind"]), (0, "", []))

    def test_commands_that_do_not_start(self):
        done = run("no-such-command-here", options=["--report", self.file])
        self.assertEqual(done.returncode, 127)
        self.assertEqual(self.read()["outcome"], {"class": "not_found", "exit_code": 127, "signal": None})
        self.assertEqual(run(self.folder, options=["--report", self.file]).returncode, 126)
        self.assertEqual(self.read()["outcome"]["class"], "not_executable")

    def test_why_nothing_was_started(self):
        for options, code, identifier in ((["--gpus", "9"], 125, "E0411"), (["--share", "30%"], 2, "E0013"), (["--memory", "8"], 2, "E0101")):
            for before in ("", "a longer report of before" * 100):
                with open(self.file, "w") as file:
                    file.write(before)
                done = run("true", options=["--report", self.file, *options])
                said = self.read()["error"]
                self.assertEqual((done.returncode, said["id"], said["exit_code"]), (code, identifier, code))
                self.assertIn(said["message"].split("\n")[0], done.stderr)
        os.remove(self.file)
        run("true", options=["--report", self.file, "--gpus", "9", "--dry-run"])
        self.assertFalse(os.path.exists(self.file))

    def test_a_longer_report_of_before_is_replaced(self):
        with open(self.file, "w") as file:
            file.write("x" * 100_000)
        run("true", options=["--report", self.file])
        self.read()

    def test_a_report_that_cannot_be_written_is_said_before_the_start(self):
        mark = os.path.join(self.folder, "ran")
        done = run("touch", mark, options=["--report", "/no/such/folder/report"])
        self.assertEqual(done.returncode, 125)
        self.assertIn("E0515", done.stderr)
        self.assertFalse(os.path.exists(mark))

    def test_a_full_disk_does_not_change_the_exit_code(self):
        done = run("sh", "-c", "exit 4", options=["--report", "/dev/full"])
        self.assertEqual(done.returncode, 4)
        self.assertIn("E0515", done.stderr)

    def test_stderr_stays_clean_where_it_is_no_terminal(self):
        self.assertEqual(run("true").stderr, "")
        self.assertEqual(run("true", options=["--report", "none"]).stderr, "")

    def test_text_where_asked(self):
        done = run("sleep", "0.2", options=["--report", "-"])
        self.assertTrue(done.stderr.startswith("berth  done in "), done.stderr)
        self.assertIn("CPU, ", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_chinese(self):
        done = run("sh", "-c", "exit 3", options=["--report", "-", "--lang", "zh"], env=environment(LANG="C.UTF-8"))
        self.assertIn("退出码 3", done.stderr)

    def test_a_report_for_programs_is_english_unless_asked(self):
        chinese = environment(LANG="zh_CN.UTF-8")
        run("true", options=["--report", self.file], env=chinese)
        self.assertTrue(self.read()["gpu_use_method"].isascii())
        run("true", options=["--report", self.file, "--lang", "zh"], env=chinese)
        self.assertFalse(self.read()["gpu_use_method"].isascii())

    def test_json_on_stderr(self):
        done = run("echo", "data", options=["--json"])
        self.assertEqual(done.stdout, "data\n")
        self.assertEqual(list(json.loads(done.stderr)), KEYS)

    def test_numpy_is_named(self):
        if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode != 0:
            self.skipTest("this Python has no numpy")

        def libraries(seconds):
            run(PYTHON, "-c", f"import numpy, time; time.sleep({seconds})", options=["--report", self.file])
            return " ".join(self.read()["libraries"])

        self.assertIn("numpy", longer_until(libraries, lambda text: "numpy" in text))
        threading = self.read()["threading"]
        self.assertGreaterEqual(threading["most_threads"], 1)
        self.assertGreaterEqual(threading["most_threads_of_all_processes"], threading["most_threads"])
        maps = "import numpy; print(open('/proc/self/maps').read())"
        if "blas" in subprocess.run([PYTHON, "-c", maps], capture_output=True, text=True).stdout:
            self.assertEqual(len(threading["blas"]), 1, threading)  # Debian's NumPy has the system's


class Environment(WithFile):
    def variables(self, *options, **changes):
        done = run(PYTHON, "-c", SHOW, options=["--report", self.file, *options], env=environment(**changes))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_only_what_the_report_says_is_set(self):
        before = environment()
        got = self.variables()
        report = self.read()
        said = report["environment"]
        expected = {**before, **said["set"]}
        if report["job"] is not None:  # this user's broker happens to run
            expected["BERTH_JOB"] = str(report["job"])
        for name in said["unset"]:
            expected.pop(name, None)
        for name in ("_", "LC_CTYPE"):  # Python and the shell set these
            expected.pop(name, None)
            got.pop(name, None)
        # BERTH_SET lists these variables, for jobs that this job queues.
        self.assertEqual(dict(one.split("=", 1) for one in got.pop("BERTH_SET").split(";")), said["set"])
        self.assertEqual(got, expected)
        self.assertIn("OMP_NUM_THREADS", said["set"])

    def test_what_the_user_set_is_kept_unless_asked(self):
        self.assertEqual(self.variables(OMP_NUM_THREADS="7")["OMP_NUM_THREADS"], "7")
        self.assertEqual(self.read()["environment"]["kept"], {"OMP_NUM_THREADS": "7"})
        self.assertNotEqual(self.variables("--override", OMP_NUM_THREADS="7777")["OMP_NUM_THREADS"], "7777")

    def test_cpu_hides_every_gpu(self):
        for option in (["--cpu"], ["--gpus", "none"], ["--gpus", "0"]):
            self.assertEqual(self.variables(*option)["CUDA_VISIBLE_DEVICES"], "-1")

    def test_dry_run_does_nothing(self):
        mark = os.path.join(self.folder, "ran")
        done = run("touch", mark, options=["--dry-run", "--report", self.file])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("OMP_NUM_THREADS=", done.stdout)
        self.assertIn("touch", done.stdout)
        self.assertEqual(os.listdir(self.folder), [])
        plan = json.loads(run("touch", mark, options=["--dry-run", "--json"]).stdout)
        self.assertEqual(plan["command"], ["touch", mark])
        self.assertIn("OMP_NUM_THREADS", [one["name"] for one in plan["settings"]])
        self.assertEqual(os.listdir(self.folder), [])


OPEN_A_NODE = """
import os, sys, time
folder = f"{os.environ['BERTH_ROOT']}/proc/{os.getpid()}/fdinfo"
os.makedirs(folder)
with open(folder + "/5", "w") as file:
    file.write("drm-driver: %s\\ndrm-client-id: 1\\ndrm-pdev: %s\\n%s: 2048 KiB\\n" % tuple(sys.argv[1:4]))
time.sleep(float(sys.argv[4]))
"""


class OnRecordedMachines(WithFile):
    def job(self, machine, driver, address, region):
        root = os.path.join(self.folder, machine)
        shutil.copytree(machine_file.unpacked(machine), root, symlinks=True)

        def once(seconds):
            done = run(PYTHON, "-c", OPEN_A_NODE, driver, address, region, str(seconds),
                       options=["--report", self.file, "--devices", address], env=environment(BERTH_ROOT=root))
            self.assertEqual(done.returncode, 0, done.stderr)
            return self.read()

        report = longer_until(once, lambda report: report["gpu_use"] == "seen")
        self.assertEqual(report["gpu_use"], "seen")
        self.assertEqual(report["devices"][0]["memory_peak_bytes"], 2 << 20)
        return report

    def test_an_amd_gpu_is_sampled_while_the_job_runs(self):
        report = self.job("amd-7900xtx", "amdgpu", "0000:03:00.0", "drm-resident-vram")
        device = report["devices"][0]
        self.assertEqual((device["utilization_mean_percent"], device["utilization_peak_percent"]), (37, 37))
        self.assertGreater(device["energy_millijoules"], 187_000 * (report["wall_seconds"] - 0.001))  # 187 W; times are rounded to milliseconds
        self.assertEqual(device["absent"], {})

    def test_an_intel_gpu_is_sampled_and_what_it_cannot_tell_has_a_reason(self):
        device = self.job("intel-arc", "i915", "0000:03:00.0", "drm-resident-local0")["devices"][0]
        self.assertEqual([device[key] for key in device["absent"]], [None] * 3)
        self.assertEqual(device["absent"], {"utilization_mean_percent": "not supported",
                                            "utilization_peak_percent": "not supported",
                                            "energy_millijoules": "failed"})  # the recorded energy counter never changes


    def test_a_job_that_is_over_at_once_has_no_readings(self):
        run("true", options=["--report", self.file], env=environment(BERTH_ROOT=machine_file.unpacked("amd-7900xtx")))
        self.assertEqual(set(self.read()["devices"][0]["absent"].values()), {"too short"})
        self.assertEqual(len(self.read()["devices"][0]["absent"]), 4)


USE_CUDA = """
import ctypes, os, time
os.environ.pop("CUDA_VISIBLE_DEVICES")
cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 1) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
time.sleep(%s)
"""
USE_OPENCL = """
import ctypes, sys, time
cl, count, platform, device, problem = ctypes.CDLL("libOpenCL.so.1"), ctypes.c_uint(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
cl.clCreateContext.restype = ctypes.c_void_p
if cl.clGetPlatformIDs(1, ctypes.byref(platform), ctypes.byref(count)) or cl.clGetDeviceIDs(platform, ctypes.c_ulong(2), 1, ctypes.byref(device), None):
    sys.exit(77)
assert cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(problem)) and problem.value == 0
time.sleep(1)
"""
# A /dev of its own with files in place of NVIDIA's nodes.
WITH_NODES = """
mount -t tmpfs none "$0" && for node in null zero full random urandom tty; do : > "$0/$node" && mount --bind /dev/$node "$0/$node"; done &&
mkdir "$0/shm" && : > "$0/nvidia0" && : > "$0/nvidia1" && : > "$0/kfd" && mount --rbind "$0" /dev && exec "$@"
"""


class NoGpuIsTouched(WithFile):
    """A job without a GPU, on a machine that has GPUs."""

    @classmethod
    def setUpClass(cls):
        if not has_simulator():
            raise unittest.SkipTest("no simulator in this build")

    def job(self, *command, before=()):
        done = subprocess.run([*before, BERTH, "sim", "--machine", "lab-4x3090", "--", BERTH, "run", "--gpus", "none", "--report", "-", "--", *command],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment(), timeout=PATIENCE)
        return done.returncode, " ".join(done.stderr.split())  # lines are wrapped

    def with_nodes(self, program):
        dev = os.path.join(self.folder, "dev")
        os.mkdir(dev)
        private = ["unshare", "--mount", "sh", "-c", WITH_NODES, dev]
        if subprocess.run([*private, "true"], capture_output=True).returncode != 0:
            self.skipTest("needs root, to mount files in place of device nodes")
        return self.job(PYTHON, "-c", program, before=private)

    def test_by_an_ordinary_program(self):
        code, said = self.job(PYTHON, "-c", "import time; time.sleep(0.5)")
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"no GPU touched \(checked \d+ times, with gaps of up to \d+ ms\)")

    def test_by_opencl_on_the_processor(self):
        code, said = self.job(PYTHON, "-c", USE_OPENCL)
        if code == 77 or "cannot open shared object" in said:
            self.skipTest("no OpenCL for the processor here")
        self.assertEqual(code, 0, said)
        self.assertIn("no GPU touched (checked", said)

    def test_a_program_that_unsets_the_variable_is_named_with_its_gpu(self):
        code, said = longer_until(lambda seconds: self.job(PYTHON, "-c", USE_CUDA % (seconds + 1)), lambda done: "no GPU touched" not in done[1])
        self.assertEqual(code, 0, said)
        self.assertIn("the job used GPUs that its variables hide: GPU 1 (", said)

    def test_a_program_that_only_looks_at_a_node_is_not_blamed(self):
        code, said = self.with_nodes("import os, time; [(os.stat('/dev/nvidia0'), time.sleep(0.1)) for i in range(5)]")
        self.assertEqual(code, 0, said)
        self.assertIn("no GPU touched (checked", said)

    def test_a_program_that_opens_nodes_is_named_with_them(self):
        code, said = self.with_nodes("import time; a = open('/dev/nvidia0'); b = open('/dev/kfd'); time.sleep(3)")
        self.assertEqual(code, 0, said)
        self.assertIn("the job used GPUs that its variables hide: /dev/nvidia0, /dev/kfd", said)
        os.rmdir(os.path.join(self.folder, "dev"))
        code, said = self.with_nodes("import time; a = open('/dev/nvidia1'); time.sleep(3)")
        self.assertIn("the job opened /dev/nvidia1, as monitoring tools and GPU checks do, but ran no visible work there (checked", said)


LEAK = """
import time
kept = []
end = time.monotonic() + 150
while time.monotonic() < end:
    kept.append(bytearray(b"1" * (1 << 20)))
    time.sleep(1)
"""


@unittest.skipUnless("BERTH_SOAK" in os.environ, "takes 150 seconds: memory is judged after 2 minutes (BERTH_SOAK)")
class Growth(WithFile):
    def test_a_queued_job_whose_memory_grows_is_told_so(self):
        env = environment(BERTH_RUNTIME_DIR=os.path.join(self.folder, "run"), BERTH_STATE_DIR=os.path.join(self.folder, "state"))
        os.mkdir(env["BERTH_RUNTIME_DIR"], 0o700)
        queued = run(PYTHON, "-c", LEAK, options=["--queue", "--cpu"], env=env)
        self.assertEqual(queued.returncode, 0, queued.stderr)
        subprocess.run([BERTH, "wait", queued.stdout.strip()], env=env, capture_output=True, timeout=300)
        report = json.loads(subprocess.run([BERTH, "report", queued.stdout.strip(), "--json"], env=env, capture_output=True, timeout=60).stdout)
        growth, = report["report"]["memory_growth"]
        self.assertIsNone(growth["device"])
        self.assertAlmostEqual(growth["bytes_per_minute"] / (60 << 20), 1, delta=0.1)


class OnSimulatedMachines(WithFile):
    @classmethod
    def setUpClass(cls):
        if not has_simulator():
            raise unittest.SkipTest("no simulator in this build")

    def job(self, machine, *command, options=(), sim=()):
        done = simulated(machine, [BERTH, "run", *options, "--report", self.file, "--", *command], *sim)
        return done

    def test_a_free_gpu_is_given_and_its_use_told(self):
        done = self.job("lab-4x3090", PYTHON, "-c", "import os, time; print(os.environ['CUDA_VISIBLE_DEVICES'], "
                        "os.environ['CUDA_DEVICE_ORDER']); time.sleep(2)", options=["--devices", "2"])
        self.assertEqual((done.returncode, done.stdout), (0, "2 PCI_BUS_ID\n"), done.stderr)
        report = self.read()
        device = report["devices"][0]
        self.assertEqual(device["index"], 2)
        self.assertIn("3090", device["name"])
        self.assertIsNotNone(device["utilization_mean_percent"])
        self.assertGreater(device["energy_millijoules"], 0)
        self.assertIsNone(device["memory_peak_bytes"])
        self.assertEqual(device["absent"], {"memory_peak_bytes": "not seen"})
        self.assertEqual(report["gpu_use"], "not_seen")
        self.assertIn(f"checked {report['looks']} times, with gaps of up to ", report["gpu_use_method"])

    def test_the_cost_is_told_where_prices_are_set(self):
        config = os.path.join(self.folder, "config")
        os.makedirs(os.path.join(config, "berth"))

        def job(prices):
            with open(os.path.join(config, "berth", "prices.toml"), "w") as file:
                file.write(prices)
            done = simulated("lab-4x3090", [BERTH, "run", "--report", self.file, "--", "sleep", "1"], env=environment(XDG_CONFIG_HOME=config))
            self.assertEqual(done.returncode, 0, done.stderr)
            return self.read()

        report = job('gpu_hour = 3600\ncurrency = "EUR"\n')
        self.assertAlmostEqual(report["cost"].pop("amount"), report["wall_seconds"], delta=0.01)
        self.assertEqual(report["cost"], {"currency": "EUR", "gpu_hour_price": 3600, "power_price": None})
        report = job("gpu_hour = 0\nkwh = 3600\n")
        self.assertAlmostEqual(report["cost"]["amount"], report["devices"][0]["energy_millijoules"] / 1e6, delta=1e-6)
        report = job("gpu_hours = 1\n")
        self.assertIsNone(report["cost"])
        self.assertIn("gpu_hours", " ".join(report["notes"]))

    def test_a_job_in_the_drivers_list_is_seen_with_its_memory(self):
        # Processes of a simulated GPU exist from the start, so the job replaces one of them.
        sleeper = subprocess.Popen(["sleep", "60"])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        done = self.job("lab-4x3090", PYTHON, os.path.join(HERE, "take_place.py"), str(sleeper.pid),
                        options=["--devices", "1"], sim=["--attach", f"{sleeper.pid}:1:4GiB"])
        self.assertEqual(done.returncode, 0, done.stderr)
        report = self.read()
        self.assertEqual(report["gpu_use"], "seen", report)
        self.assertGreater(report["devices"][0]["memory_peak_bytes"], 3 << 30)

    def test_a_job_that_is_over_at_once_has_no_readings(self):
        self.job("lab-4x3090", "true", options=["--devices", "2"])
        device = self.read()["devices"][0]
        self.assertEqual(set(device["absent"].values()), {"too short"})
        self.assertEqual([device[key] for key in device["absent"]], [None] * 4)

    def test_why_it_ran_on_the_cpu_beside_gpus(self):
        for value, part in (("9", "allows no GPU"), ("-1", "hides every GPU")):
            chosen = environment(CUDA_VISIBLE_DEVICES=value)
            done = simulated("lab-4x3090", [BERTH, "run", "--report", "-", "--", "true"], env=chosen)
            self.assertRegex(done.stderr, rf"why   on the CPU: CUDA_VISIBLE_DEVICES={value} was already set and {part}")
            simulated("lab-4x3090", [BERTH, "run", "--report", self.file, "--", "true"], env=chosen)
            self.assertIn(f"CUDA_VISIBLE_DEVICES={value} was already set", self.read()["reasons"][0])
            simulated("lab-4x3090", [BERTH, "run", "--report", self.file, "--", "true"],
                      env=environment(CUDA_VISIBLE_DEVICES=value, LANG="zh_CN.UTF-8"))
            self.assertIn("was already set", self.read()["reasons"][0])

    def test_numpy_on_a_gpu_gets_advice(self):
        if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode != 0:
            self.skipTest("this Python has no numpy")
        done = longer_until(lambda seconds: simulated("lab-4x3090", [BERTH, "run", "--gpus", "1", "--report", "-", "--", PYTHON, "-c",
                                                                     f"import numpy, time; time.sleep({seconds})"]),
                            lambda done: "never used the GPU" in done.stderr)
        self.assertIn("this program never used the GPU", done.stderr)
        self.assertIn("CuPy", done.stderr)
        self.assertIn("berth run --cpu", done.stderr)

    def test_on_the_cpu_by_request_nothing_is_blamed(self):
        done = self.job("lab-4x3090", "sleep", "0.5", options=["--cpu"])
        self.assertEqual(done.returncode, 0)
        report = self.read()
        self.assertEqual((report["devices"], report["gpus_here"], report["suggestions"]), ([], True, []))

    def test_without_a_gpu_asking_for_one_is_125_and_not_asking_is_fine(self):
        done = self.job("none", "true", options=["--gpus", "1"])
        self.assertEqual(done.returncode, 125)
        self.assertIn("E0411", done.stderr)
        self.assertEqual(self.job("none", "sh", "-c", "exit 5").returncode, 5)
        self.assertFalse(self.read()["gpus_here"])

    def test_all_busy(self):
        for option in ("--no-wait", "--dry-run"):
            done = self.job("dgx-h100-8", "true", options=["--gpus", "1", option], sim=["--processes", "20"])
            self.assertEqual(done.returncode, 6, option)
            self.assertIn("E0412", done.stderr)

    def test_it_waits_and_says_so_and_ctrl_c_ends_the_waiting(self):
        command = [BERTH, "sim", "--machine", "dgx-h100-8", "--processes", "20", "--", BERTH, "run", "--gpus", "1",
                   "--", "echo", "ran"]
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment(), start_new_session=True)
        said = waiting.stderr.readline()
        self.assertIn("waiting", said)
        os.killpg(waiting.pid, signal.SIGINT)
        out, _ = waiting.communicate(timeout=60)
        self.assertEqual(out, "")
        self.assertNotEqual(waiting.returncode, 0)

    def test_usage_is_2(self):
        for options in (["--gpus", "many"], ["--memory", "8"], ["--cpu", "--gpus", "2"], ["--devices", "99"]):
            done = self.job("lab-4x3090", "true", options=options)
            self.assertIn(done.returncode, (2, 125), options)
            self.assertIn("error", done.stderr)
        self.assertEqual(self.job("lab-4x3090", "true", options=["--memory", "8"]).returncode, 2)


main()
