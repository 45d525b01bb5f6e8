#!/usr/bin/env python3
"""berth/berth.hpp: compiled by each compiler, with and without exceptions. It runs on a simulated machine with one GPU, is compared with
the Python package, and is tried without libberth, with another libberth, and without a broker.

usage: cpp_test.py BERTH LIBRARY
"""
import contextlib
import functools
import inspect
import io
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/broker"), str(ROOT / "python")]
import berth  # noqa: E402
from berth import environment, oom, retrying  # noqa: E402
from machine import Machine  # noqa: E402

LIBRARY = ""
HEADERS = sorted((ROOT / "include/berth").glob("*.hpp"))
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wold-style-cast", "-Wnon-virtual-dtor", "-Werror"]
COMPILERS = [name for name in ("g++", "clang++-14") if shutil.which(name)]
PLAIN = ["-fno-exceptions", "-fno-rtti"]


def compiled(into, source, *flags, compiler="g++"):
    subprocess.run([compiler, "-std=c++17", *WARNINGS, f"-I{ROOT}/include", "-o", into, source, *flags, "-ldl"], check=True)
    return into


def said(output):
    """Parses lines of key=value. Returns {key: list of values}."""
    found = {}
    for line in output.splitlines():
        key, _, value = line.partition("=")
        found.setdefault(key, []).append(value)
    return found


@functools.lru_cache(maxsize=None)
def consumers():
    """Compiles the consumer with exceptions and without. Returns the folder."""
    holder = tempfile.TemporaryDirectory(prefix="berth-cpp-")
    unittest.addModuleCleanup(holder.cleanup)
    folder, source = pathlib.Path(holder.name), ROOT / "tests/library/consumer.cpp"
    compiled(folder / "consumer", source, compiler=COMPILERS[0])
    compiled(folder / "plain", source, *PLAIN, compiler=COMPILERS[-1])
    return folder


class Built(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.built = consumers()
        cls.program, cls.plain = cls.built / "consumer", cls.built / "plain"

    def use(self, *words, program=None, given=None, env=None):
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("BERTH_", "CUDA_", "LC_", "LANG"))}
        return subprocess.run([program or self.program, *words], input=given, capture_output=True, text=True, timeout=60,
                              env=clean if env is None else env)


class Headers(unittest.TestCase):
    def test_each_compiles_alone_without_a_warning(self):
        with tempfile.TemporaryDirectory() as folder:
            for header in HEADERS:
                source = pathlib.Path(folder, "one.cpp")
                source.write_text(f"#include <berth/{header.name}>\nint main() {{}}\n")
                for compiler in COMPILERS:
                    for flags in (["-std=c++17"], ["-std=c++20", *PLAIN]):
                        with self.subTest(header=header.name, compiler=compiler, flags=flags):
                            subprocess.run([compiler, *flags, *WARNINGS, f"-I{ROOT}/include", "-fsyntax-only", source], check=True)

    def test_two_files_of_a_program_may_include_it(self):
        with tempfile.TemporaryDirectory() as folder:
            one, two = pathlib.Path(folder, "one.cpp"), pathlib.Path(folder, "two.cpp")
            one.write_text("#include <berth/berth.hpp>\nlong other();\nint main() { return other() == berth::report().retries ? 0 : 1; }\n")
            two.write_text("#include <berth/berth.hpp>\nlong other() { return berth::report().retries; }\n")
            program = compiled(pathlib.Path(folder, "program"), one, two)
            self.assertEqual(subprocess.run([program], timeout=60).returncode, 0)

    def test_a_library_with_hidden_symbols_shares_the_state_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            one, two = pathlib.Path(folder, "one.cpp"), pathlib.Path(folder, "two.cpp")
            one.write_text("#include <berth/berth.hpp>\nvoid other();\nint main() {\n"
                           "  try { other(); } catch (const berth::Error&) { return berth::report().retries == 1 ? 0 : 1; }\n  return 2;\n}\n")
            two.write_text("#include <berth/berth.hpp>\n__attribute__((visibility(\"default\"))) void other();\nvoid other() {\n"
                           "  berth::RetryPolicy policy;\n  policy.tries = 2;\n  policy.most = std::chrono::seconds(0);\n"
                           "  static_cast<void>(berth::try_retry(policy, [] { return std::errc::not_enough_memory; }));\n"
                           "  throw berth::Error(berth::Kind::refused, \"E0412\", \"x\");\n}\n")
            for flags in ([], ["-fno-gnu-unique"]):
                library = compiled(pathlib.Path(folder, "libtwo.so"), two, "-shared", "-fPIC", "-fvisibility=hidden", *flags)
                program = compiled(pathlib.Path(folder, "program"), one, library, "-fvisibility=hidden", f"-Wl,-rpath,{folder}", *flags)
                self.assertEqual(subprocess.run([program], timeout=60, stderr=subprocess.DEVNULL).returncode, 0)

    def test_a_wrong_use_does_not_compile(self):
        with tempfile.TemporaryDirectory() as folder:
            for line, words in (("enum class mine { bad }; bool f() { return berth::is_out_of_memory(mine::bad); }", "convert yours to std::errc"),
                                ("bool f() { return berth::is_out_of_memory(2L); }", "deleted"),
                                ("bool f() { return berth::is_out_of_memory(true); }", "deleted"),
                                ("auto f() { return berth::try_retry({}, [] { return 1.0; }); }", "must return an error code")):
                source = pathlib.Path(folder, "wrong.cpp")
                source.write_text(f"#include <berth/berth.hpp>\n{line}\n")
                done = subprocess.run(["g++", "-std=c++17", f"-I{ROOT}/include", "-fsyntax-only", source], capture_output=True, text=True)
                self.assertNotEqual(done.returncode, 0, line)
                self.assertIn(words, done.stderr, line)


class LikePython(Built):
    rows = json.loads((ROOT / "python/tests/oom_texts.json").read_text())
    texts = [row["text"] for row in rows["oom"] + rows["not_oom"]]

    def verdict(self, text):
        problem = RuntimeError(text)
        return "context_lost" if oom.is_sticky(problem) else "out_of_memory" if oom.is_oom(problem) else "other"

    def test_the_verdicts_on_texts_are_the_same(self):
        words = [word for words in oom._WORDS.values() for word in words]
        fronts = ("", "RuntimeError: ", "returned ", "train.log: ", "it says ", "the ", "the last run: ", "line 12 of a: ", "错误：", "“日志”，", "显存", "a:12 ", "x\n")
        backs = ("", " again", " is a text", ".", "!\nmore", " at x.cu:3")
        texts = [front + text for text in self.texts for front in fronts]
        texts += [front + word + back for word in words for front in fronts for back in backs]
        texts += ["x" * 9000 + self.texts[0], "x" * 9000 + "\n" + self.texts[0] + "\n" + "y" * 9000, self.texts[0] + "y" * 99999, ""]
        texts += ["CUDA error: an illegal memory access was encountered", "Hardware Stack Error", "GPU is lost. Reboot"]
        given = "".join(text.replace("\0", "") + "\0" for text in texts)
        for program in (self.program, self.plain):
            found = self.use("verdicts", program=program, given=given).stdout.split()
            self.assertEqual(len(found), len(texts))
            wrong = [(text[:200], verdict, self.verdict(text)) for text, verdict in zip(texts, found) if verdict != self.verdict(text)]
            self.assertEqual(wrong, [])
        self.assertGreater(found.count("out_of_memory"), 1000)
        self.assertGreater(found.count("other"), 1000)

    def test_codes_and_exceptions(self):
        for program in (self.program, self.plain):
            self.assertEqual(self.use("codes", program=program).stdout, "good=1\n")

    def test_defaults_and_pauses_are_the_same(self):
        first, *pauses, spread = self.use("defaults").stdout.splitlines()
        defaults = {name: one.default for name, one in inspect.signature(berth.retry).parameters.items()}
        self.assertEqual([float(one) for one in first.split()], [float(defaults[name]) for name in ("tries", "first", "factor", "most", "jitter")])
        named = [defaults[name] for name in ("first", "factor", "most", "jitter")]
        expected = []
        for at in range(10):
            for value in (0.0, 0.25, 1.0):
                with mock.patch.object(random.Random, "random", lambda self, value=value: value):
                    expected.append(retrying._pause(at, *named))
        self.assertEqual([round(float(one), 9) for one in pauses], [round(one, 9) for one in expected])
        self.assertEqual(spread, "spread=1")

    def test_retries(self):
        done = self.use("retries")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [
            "alive=0", "alive=0", "made=3", "last=CUDA out of memory. Tried to allocate 2.00 GiB after 4", "passed after 1", "lost=E0566",
            "cause=CUDA error: device-side assert triggered", "nested=1", "code=700 after 2", "thrown=2 after 4", "int=-5", "policy=E0104"])
        self.assertIn("berth: memory ran out (std::bad_alloc); try 2 of 4 in 0.0 s\n", done.stderr)

    def test_the_words_on_stderr_are_the_same(self):
        chinese = {**os.environ, "LC_ALL": "zh_CN.UTF-8"}
        calls = []

        def model():
            calls.append(1)
            if len(calls) == 1:
                raise MemoryError("std::bad_alloc")

        spoken = io.StringIO()
        with mock.patch.dict(os.environ, chinese), contextlib.redirect_stderr(spoken):
            berth.retry(first=0.0, tries=4)(model)()
        line = spoken.getvalue().replace("model", "")
        mine = self.use("retries", env=chinese).stderr.splitlines()[0]
        self.assertEqual(mine.replace(" ", ""), line.strip().replace(" 中", "").replace(" ", ""))

    def test_hide_sets_the_same(self):
        found = said(self.use("hide").stdout)
        self.assertEqual({name: found[name][0] for name in environment._HIDES}, environment._HIDES)
        before = said(subprocess.run(["env"], capture_output=True, text=True).stdout)
        self.assertEqual(set(found) - set(before) - set(environment._HIDES), set())


class Simulated(Built, Machine):
    def run_on(self, *words, program=None, **more):
        env = {**self.variables, "LC_ALL": "C.UTF-8", "BERTH_LIBRARY": LIBRARY, "BERTH_PROGRAM": self.berth, **more}
        return self.use(*words, program=program, env={key: value for key, value in env.items() if value is not None})


class OnAMachine(Simulated):
    machine = "workstation-4090"

    def settings(self):
        document = json.loads(self.run_berth("env", "--gpus", "1", "--json").stdout)
        return {one["name"]: one["value"] or "null" for one in document["settings"] if one["action"] != "keep"}

    def test_devices(self):
        machine = json.loads(self.run_berth("ls", "--json").stdout)
        text = {None: "null"}
        expected = ["|".join(str(text.get(value, value)) for value in (
            one["index"], one["kind"], one["vendor"], one["health"], one["name"], one["uuid"], one["compute_capability"],
            -1 if one["memory_total_bytes"] is None else one["memory_total_bytes"], len(one["users"]))) for one in machine["devices"]]
        for program in (self.program, self.plain):
            self.assertEqual(self.run_on("devices", program=program).stdout.splitlines(), expected)

    def test_a_lease_sets_what_berth_run_sets(self):
        for program in (self.program, self.plain):
            done = self.run_on("lease", "name", 'quo"te\\\n', program=program)
            found = said(done.stdout)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual({key[4:]: one[0] for key, one in found.items() if key.startswith("set:")}, self.settings())
            self.assertEqual((found["before"], found["within"], found["after"]), (["null"], ["0"], ["null"]))
            self.assertEqual((found["job_variable"], found["job_variable_after"]), (found["job"], ["null"]))
            job = self.job(int(found["job"][0]))
            self.assertEqual((job["state"], job["name"], job["command"]), ("done", 'quo"te\\\n', [program.name]))

    def test_no_gpu_is_the_cpu(self):
        found = said(self.run_on("lease", "gpus", "0").stdout)
        self.assertNotIn("device", found)
        self.assertEqual(found["within"], ["-1"])

    def test_a_part_of_a_device(self):
        found = said(self.run_on("lease", "memory", str(2 << 30), "share", "0.3").stdout)
        job = self.job(int(found["job"][0]))
        self.assertEqual((job["memory_bytes"], job["share_permille"]), (2 << 30, 300))

    def test_refused(self):
        self.run_berth("run", "--gpus", "1", "--", "true")  # starts the broker
        holder = self.start("lease", "--gpus", "1", "--", "sh", "-c", "echo has; cat")
        self.assertEqual(holder.stdout.readline(), "has\n")
        done = self.run_on("lease", "wait", "0")
        self.assertEqual((done.returncode, said(done.stdout)["id"]), (1, ["E0412"]))
        self.assertIn("GPU 0: job", done.stderr)
        self.assertIn("hint: ", done.stderr)
        waits = subprocess.Popen([self.plain, "lease"], env={**self.variables, "LC_ALL": "C.UTF-8", "BERTH_LIBRARY": LIBRARY, "BERTH_PROGRAM": self.berth},
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with waits:
            self.assertIn("berth: waiting: ", waits.stderr.readline())
            holder.communicate("")
            out = waits.communicate(timeout=60)[0]
        self.assertEqual((waits.returncode, said(out)["within"]), (0, ["0"]))

    def test_wrong_requests(self):
        for words, expected in ((["gpus", "9"], "E0411"), (["gpus", "-1"], "E0104"), (["cpus", "0"], "E0104"), (["memory", "8"], "E0101"),
                                (["share", "30"], "E0102"), (["gpus", "0", "memory", str(1 << 30)], "E0010"), (["wait", "-1"], "E0104"),
                                (["device", "no such"], "E0415")):
            done = self.run_on("lease", *words)
            self.assertEqual((done.returncode, said(done.stdout).get("id")), (1, [expected]), (words, done.stderr))

    def test_a_lease_in_a_lease(self):
        done = self.run_on("nested")
        found = said(done.stdout)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({key: one[0] for key, one in found.items()}, {
            "same": "1", "other_device": "E0421", "outer_ended": "0", "thread": "E0573", "forked": "0", "all_ended": "null"})
        self.assertTrue(all(job["state"] in ("done", "failed") for job in self.call("GET", "/v1/jobs?all")["jobs"]))

    def test_in_a_job_the_lease_is_the_jobs(self):
        done = subprocess.run([self.berth, "run", "--gpus", "1", "--", self.program, "lease"], capture_output=True, text=True, timeout=60,
                              env={**self.variables, "BERTH_LIBRARY": LIBRARY, "BERTH_PROGRAM": self.berth})
        found = said(done.stdout)
        self.assertEqual((done.returncode, found["job"], found["after"]), (0, ["1"], ["0"]), done.stderr)

    def test_exceptions(self):
        done = self.run_on("throwing")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((said(done.stdout)["id"], said(done.stdout)["is_kind"]), (["E0411"], ["1"]))
        jobs = self.call("GET", "/v1/jobs?all")["jobs"]
        self.assertEqual([job["state"] for job in jobs], ["failed"])  # an exception passed through the lease

    def test_memory_of_the_simulated_driver_runs_out(self):
        for program in (self.program, self.plain):
            done = self.run_on("cuda", program=program)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = said(done.stdout)
            self.assertEqual((found["not_yet"], found["late"]), (["hidden"], ["E0572"]))
            self.assertEqual((found["code"], found["released"], found["out_of_memory"], found["retries"]), (["0"], ["2"], ["2"], ["2"]))
            self.assertIn("berth: memory ran out in cuda (cudaError_enum 2); try 3 of 4 in 0.0 s\n", done.stderr)
            (gpu,) = found["gpu"]
            self.assertGreaterEqual(int(gpu.removeprefix("0:")), 16 << 30)
            self.assertRegex(found["text"][0], r"^berth  done in .* GPU 0 16\d{3}\.\d MiB   out of memory 2 times, 2 retries after ")

    def test_without_a_broker(self):
        done = self.run_on("lease", BERTH_RUNTIME_DIR="/proc/none")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(said(done.stdout)["id"][0], r"^E\d{4}$")
        self.assertEqual(said(done.stdout)["kind"], ["5"], done.stderr)

    def test_without_the_program(self):
        done = self.run_on("devices", BERTH_PROGRAM="/nowhere/berth")
        self.assertEqual((done.returncode, said(done.stdout)["id"]), (1, ["E0550"]))


    def test_a_driver_that_has_read_all_devices_may_go_on_with_all(self):
        self.assertEqual(said(self.run_on("late").stdout), {"lease": ["granted"]})


class OnFourGpus(Simulated):
    machine = "lab-4x3090"

    def test_a_driver_that_has_read_all_devices_would_not_see_which_one_is_leased(self):
        self.assertEqual(said(self.run_on("late").stdout), {"lease": ["E0572"], "cpu": ["granted"]})

    def test_the_devices_that_are_named(self):
        found = said(self.run_on("lease", "device", "3", "device", "1").stdout)
        self.assertEqual((len(found["device"]), sorted(found["within"][0].split(","))), (2, ["1", "3"]))


class WithoutAGpu(Simulated):
    machine = "none"

    def test_the_lease_is_on_the_cpu(self):
        found = said(self.run_on("lease").stdout)
        self.assertEqual((found.get("device"), found["within"], found["after"]), (None, ["-1"], ["null"]))
        done = self.run_on("lease", "gpus", "1")
        self.assertEqual((done.returncode, said(done.stdout)["id"], said(done.stdout)["kind"]), (1, ["E0411"], ["3"]), done.stderr)


class WithoutTheLibrary(Built):
    def library_of(self, code):
        source, library = self.built / "fake.c", self.built / "libfake.so"
        source.write_text(code)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        return str(library)

    def refused(self, words, **more):
        for program in (self.program, self.plain):
            for what in ("devices", "lease"):
                done = self.use(what, program=program, env={"PATH": os.environ["PATH"], **more})
                self.assertEqual((done.returncode, said(done.stdout)["id"], said(done.stdout)["kind"]), (1, ["E0550"], ["5"]), done.stderr)
                self.assertIn(words, done.stderr)
                self.assertIn("hint: ", done.stderr)
                self.assertEqual("this program was built with" in done.stderr, "is older" in words or "speaks version" in words)

    def test_no_library(self):
        self.refused("libberth cannot be loaded: libberth.so.1: ", LD_LIBRARY_PATH=str(self.built))
        self.refused("unset BERTH_LIBRARY", BERTH_LIBRARY="/nowhere/libberth.so.1")

    def test_another_library(self):
        self.refused("this is another library", BERTH_LIBRARY=self.library_of("int other(void) { return 1; }"))

    def test_another_interface(self):
        self.refused("libberth speaks version 99 of its interface, this program 1",
                     BERTH_LIBRARY=self.library_of("int berth_abi(void) { return 99; } const char* berth_version(void) { return \"9\"; }"))

    def test_an_older_library(self):
        old = ("use_program", "last_error", "free", "document", "lease_ask", "lease_wait", "lease_why", "lease_end")
        code = "int berth_abi(void) { return 1; } const char* berth_version(void) { return \"0.0.9\"; }"
        code += "".join(f"int berth_{name}(void) {{ return 70; }}" for name in old)
        self.refused("libberth 0.0.9 is older than the header of this program; it lacks berth_parse", BERTH_LIBRARY=self.library_of(code))

    def test_what_needs_no_library_works(self):
        self.assertEqual(self.use("codes", env={}).stdout, "good=1\n")
        report = self.use("report", env={"BERTH_LIBRARY": "/nowhere"})
        self.assertIn("known=0\nlibberth cannot be loaded", report.stdout)
        self.assertIn("GPUs not known", report.stdout)

    def test_a_result_that_nobody_checked_aborts_and_says_why(self):
        done = self.use("unchecked", env={"BERTH_LIBRARY": "/nowhere"})
        self.assertEqual(done.returncode, -6)
        self.assertIn("E0550", done.stderr)

    def test_chinese(self):
        done = self.use("devices", env={"BERTH_LIBRARY": "/nowhere", "LC_ALL": "zh_CN.UTF-8"})
        self.assertIn("无法加载 libberth：", done.stderr)
        self.assertIn("\n提示：unset BERTH_LIBRARY", done.stderr)


if __name__ == "__main__":
    if not COMPILERS:
        print("skipped: no C++ compiler")
        sys.exit(77)
    LIBRARY = os.path.abspath(sys.argv.pop(2))
    Machine.berth = os.path.abspath(sys.argv.pop(1))
    unittest.main()
