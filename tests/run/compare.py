#!/usr/bin/env python3
"""`berth compare` as a user calls it: settings on this machine and on simulated ones, failures, signals, and that nothing is left behind.
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from support import BERTH, PATIENCE, PYTHON, Terminal, environment, holding, wait_until

# Uses a simulated GPU while it runs, if there is one.
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

    def test_the_last_line_can_be_pasted(self):
        done = compare("--cpu", "--set", "WORD=it's", "--runs", "1", "--warmup", "0", "--", "sh", "-c", '[ "$WORD" ] &&\nprintf "%s %s" "$WORD" "$1"', "x",
                       "a\nb")
        line = done.stdout.partition("\n\nWORD=")[2].rstrip()
        again = subprocess.run(["sh", "-c", "WORD=" + line.replace("berth run", f"'{BERTH}' run", 1)], capture_output=True, text=True, env=environment())
        self.assertEqual(again.stdout, "it's a\nb", done)

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


class Outputs(unittest.TestCase):
    def test_a_setting_with_another_result_cannot_win(self):
        found = compared("--cpu", "--set", "LOSS=0.50001", "--set", "LOSS=0.61000", "--runs", "2", "--warmup", "0", "--compare-output", "-", "--", "sh",
                         "-c", 'echo "loss ${LOSS:-0.50000}"; [ "$LOSS" ] || sleep 0.3')
        first, close, far = found["settings"]
        self.assertEqual([one["output"]["state"] for one in found["settings"]], ["same", "same", "differs"])
        self.assertEqual((far["in_race"], far["ratio"], found["winner"]), (False, None, 1), found)
        self.assertEqual(far["output"]["difference"]["found"], "0.61000")
        self.assertAlmostEqual(far["output"]["difference"]["largest_relative"], 0.11 / 0.61)
        self.assertIn("line 1 has '0.61000' instead of '0.50000'", far["why_not"])
        self.assertEqual(close["output"]["numbers_compared"], 1)

    def test_times_do_not_count_and_lines_are_chosen(self):
        program = 'echo took 0.$(date +%N) s; echo "on $OMP_NUM_THREADS threads"; echo "loss 0.5"'
        words = ("--threads", "1", "--cpu", "--runs", "2", "--warmup", "0", "--compare-output", "-")
        if len(os.sched_getaffinity(0)) > 1:
            found = compared(*words, "--", "sh", "-c", program)
            self.assertEqual([one["output"]["state"] for one in found["settings"]], ["same", "differs"], found)
            self.assertEqual(found["settings"][0]["output"]["numbers_varying"], 1, found)
        found = compared(*words, "--output-lines", "loss", "--", "sh", "-c", program)
        self.assertEqual([one["output"]["state"] for one in found["settings"]], ["same", "same"], found)
        found = compared(*words, "--", "sh", "-c", "head -c 8 /dev/urandom | od -A n -t a")
        self.assertEqual(found["settings"][0]["output"]["state"], "unstable", found)

    def test_a_file_that_the_program_writes(self):
        path = os.path.join(environment()["BERTH_RUNTIME_DIR"], "result.npy")
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
        program = f"""
import os, struct
if os.environ.get("SCALE") != "0":
    header = {header!r}.encode()
    scale = float(os.environ.get("SCALE", "1"))
    open({path!r}, "wb").write(b"\\x93NUMPY\\x01\\x00" + struct.pack("<H", len(header)) + header + struct.pack("<2f", scale, 2))
"""
        found = compared("--cpu", "--set", "SCALE=1.003", "--set", "SCALE=0", "--runs", "1", "--compare-output", path, "--tolerance", "tf32", "--", PYTHON,
                         "-c", program)
        self.assertEqual(found["settings"][1]["output"]["state"], "same", found)
        self.assertEqual(found["settings"][1]["output"]["numbers_compared"], 2)
        self.assertIn("did not write", found["settings"][2]["why_not"])
        found = compared("--cpu", "--set", "SCALE=1.003", "--runs", "1", "--compare-output", path, "--", PYTHON, "-c", program)
        self.assertEqual(found["settings"][1]["output"]["difference"]["line"], 0)

    def test_too_much_and_damaged(self):
        for program, wanted in (("head -c 5M /dev/zero", "E0544"), (r"printf '\223NUMPYxxxxxxxx'", "E0543")):
            done = compare("--cpu", "--runs", "1", "--warmup", "0", "--compare-output", "-", "--", "sh", "-c", program)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(wanted, done.stderr)


TORCH = "/usr/lib/python3/dist-packages/torch"


class Presets(unittest.TestCase):
    def test_variables(self):
        found = compared("--cpu", "--preset", "no-tf32", "--runs", "1", "--warmup", "0", "--", "sh", "-c", '[ "$NVIDIA_TF32_OVERRIDE" ] || exit 3')
        plain, preset = found["settings"]
        self.assertEqual((plain["exit_code"], preset["preset"], preset["in_race"]), (3, "no-tf32", True), found)
        self.assertIn("NVIDIA_TF32_OVERRIDE=0 berth run --cpu -- ", preset["command"])

    @unittest.skipUnless(os.path.isdir(TORCH), "Debian's python3-torch is not installed")
    def test_a_statement_runs_after_import_torch_and_other_modules_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "sitecustomize.py"), "w") as file:
                file.write("import builtins\nbuiltins.CHAINED = True\n")
            program = "import os, torch\nassert CHAINED and torch.backends.cudnn.benchmark == (os.environ.get('BERTH_AFTER_TORCH') is not None)"
            own = os.path.join(folder, "temporary")  # where no other test writes
            os.mkdir(own)
            found = compared("--cpu", "--preset", "cudnn-benchmark", "--runs", "1", "--warmup", "0", "--", "/usr/bin/python3", "-c", program,
                             env=environment(PYTHONPATH=folder, TMPDIR=own))
            left = os.listdir(own)
        self.assertTrue(all(one["in_race"] for one in found["settings"]), found)
        self.assertEqual(found["settings"][1]["statement"], "torch.backends.cudnn.benchmark = True")
        self.assertEqual(left, [])

    @unittest.skipUnless(os.path.isdir(TORCH), "Debian's python3-torch is not installed")
    def test_a_profile_has_the_slowest_operators_side_by_side(self):
        program = ("import os, torch\na = torch.ones(300, 300)\nassert len(os.environ['SIZE']) > 0\n"
                   "for i in range(int(os.environ['SIZE'])): a = a @ a / 300\nprint(a.sum())")
        words = ["--cpu", "--set", "SIZE=4", "--runs", "1", "--warmup", "0", "--profile"]
        found = compared(*words, "--", "/usr/bin/python3", "-c", program, env=environment(SIZE="40"))
        for one, size in zip(found["settings"], (40, 4)):
            rows = {row["name"]: row for row in one["operators"]}
            self.assertEqual((rows["aten::mm"]["calls"], len(one["runs"])), (size, 1), found)
            self.assertGreater(rows["aten::mm"]["cpu_seconds"], 0)
        done = compare(*words, "--", "/usr/bin/python3", "-c", program, env=environment(SIZE="40"))
        self.assertRegex(done.stdout, r"operator +CPU +CPU, SIZE=4\n")
        self.assertRegex(done.stdout, r"aten::mm +[\d.]+ m?s +[\d.]+ m?s\n")

    def test_a_profile_without_torch_says_so(self):
        done = compare("--cpu", "--set", "X=1", "--runs", "1", "--warmup", "0", "--profile", "--", PYTHON, "-c", "pass")
        self.assertIn("No operator was recorded", done.stdout)
        self.assertEqual(done.returncode, 0)

    def test_without_torch_it_has_no_effect(self):
        found = compared("--cpu", "--preset", "cudnn-benchmark", "--runs", "1", "--warmup", "0", "--", PYTHON, "-c", "pass")
        self.assertEqual([one["in_race"] for one in found["settings"]], [True, False], found)
        self.assertIn("did not import torch", found["settings"][1]["why_not"])

    def test_a_name_that_is_not_there(self):
        done = compare("--preset", "tf33", "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean tf32?", done.stderr)


class Picture(unittest.TestCase):
    def test_it_is_xml_with_a_bar_for_each_setting(self):
        path = os.path.join(environment()["BERTH_RUNTIME_DIR"], "times.svg")
        done = compare("--cpu", "--set", "A=<&>", "--set", "FAIL=1", "--runs", "2", "--warmup", "0", "--svg", path, "--", "sh", "-c",
                       "# <b>\n[ ! \"$FAIL\" ]")
        self.assertEqual(done.returncode, 0, done)
        root = xml.etree.ElementTree.parse(path).getroot()
        space = "{http://www.w3.org/2000/svg}"
        texts = [one.text for one in root.iter(space + "text")]
        self.assertIn("CPU, A=<&>", texts)
        self.assertIn("exit code 1", texts)
        self.assertEqual(len(list(root.iter(space + "rect"))), 1 + 2)  # the background and two bars
        self.assertEqual(len(list(root.iter(space + "path"))), 2)

    def test_a_name_in_png_makes_a_png(self):
        path = os.path.join(environment()["BERTH_RUNTIME_DIR"], "times.png")
        done = compare("--cpu", "--runs", "1", "--warmup", "0", "--svg", path, "--", "true", env=environment(PATH="/nonexistent"))
        self.assertEqual(done.returncode, 125, done)
        self.assertIn("sudo apt install librsvg2-bin", done.stderr)
        self.assertFalse(os.path.exists(path))
        if not shutil.which("rsvg-convert"):
            self.skipTest("no rsvg-convert")
        done = compare("--cpu", "--runs", "1", "--warmup", "0", "--svg", path, "--", "true")
        self.assertEqual(done.returncode, 0, done)
        with open(path, "rb") as file:
            head = file.read(24)
        self.assertEqual(head[:8], b"\x89PNG\r\n\x1a\n")
        self.assertGreater(int.from_bytes(head[16:20], "big"), 600)  # its width

    def test_a_file_that_cannot_be_written_is_reported_before_the_first_run(self):
        done = compare("--cpu", "--svg", "/no/such/folder/x.svg", "--", "sleep", "100")
        self.assertEqual(done.returncode, 125, done)
        self.assertIn("E0547", done.stderr)


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

    def test_it_waits_for_a_busy_gpu_and_says_so(self):
        script = '"$0" run --gpus 1 --report none -- sleep 5 & while ! "$0" jobs | grep -q running; do sleep 0.1; done; exec "$0" compare "$@"'
        done = subprocess.run([BERTH, "sim", "--machine", "workstation-4090", "--", "sh", "-c", script, BERTH, "--gpus", "1", "--runs", "1", "--warmup", "0",
                               "--", "sleep", "0.1"], text=True, capture_output=True, stdin=subprocess.DEVNULL, env=environment(), timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("note: waiting: ", done.stderr)
        self.assertRegex(done.stdout, r"1 GPU +\d+ ms")  # waiting is not part of the time

    def test_more_gpus_than_there_are(self):
        found = compared("--cpu", "--gpus", "1,64", "--runs", "1", "--warmup", "0", "--", "true", prefix=SIMULATED)
        cpu, one, many = found["settings"]
        self.assertTrue(cpu["in_race"] and one["in_race"] and not many["in_race"])
        self.assertIn("E0411", many["why_not"])

    def test_why_a_setting_is_impossible_is_one_sentence(self):
        cores = len(os.sched_getaffinity(0)) + 1
        done = compare("--threads", f"1,{cores}", "--runs", "1", "--warmup", "0", "--", "true")
        self.assertIn(f" dropped from the comparison: {cores} cores were requested, ", " ".join(done.stdout.split()))
        self.assertNotIn("\n ", done.stdout)
        self.assertRegex(" ".join(done.stdout.split()), r" can be used; [^:]* \(E0417\) hint: ")


class Failures(unittest.TestCase):
    def test_a_setting_that_fails_is_out_of_the_race_and_runs_once(self):
        log = os.path.join(environment()["BERTH_RUNTIME_DIR"], "failed")
        done = compare("--cpu", "--set", "FAIL=1", "--runs", "2", "--", "sh", "-c",
                       f'[ "$FAIL" ] || exit 0; echo x >> {log}; echo "no such\tlayer \x1b[31m" >&2; exit 3')
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("FAIL=1 was dropped from the comparison: exit code 3", done.stdout)
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
