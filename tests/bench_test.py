#!/usr/bin/env python3
"""`berth bench` as a user calls it, on the CPU of this machine and on its OpenCL devices.

usage: bench_test.py BERTH
"""
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

BERTH = ""
PYTHON = os.environ.get("BERTH_BENCH_PYTHON", "/usr/bin/python3")  # `./dev test --frameworks` names one with ONNX Runtime
HAS_TORCH = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode == 0
HAS_ONNX_RUNTIME = subprocess.run([PYTHON, "-c", "import onnxruntime"], capture_output=True).returncode == 0


def bench(*words, **variables):
    environment = {**os.environ, "LC_ALL": "C.UTF-8", **variables}
    return subprocess.run([BERTH, "bench", *words], capture_output=True, text=True, timeout=110, env=environment)


def measures(pid):
    """Whether the child is running a case: then it has several threads."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_product_on_the_cpu(self):
        done = bench("gemm", "--cpu", "--precision", "fp32", "--json")
        row, = json.loads(done.stdout)["results"]
        if row["error"]:
            self.assertEqual((row["error"]["id"], done.returncode, row["median_seconds"]), ("E1052", 1, None))
            self.skipTest(row["error"]["message"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((row["case"], row["backend"], row["precision"], row["right"]), ("gemm.fp32", "cpu", "fp32", True))
        self.assertAlmostEqual(row["flop_per_second"] * row["median_seconds"] / (2 * row["size"] ** 3), 1)
        self.assertLessEqual(row["least_seconds"], row["median_seconds"])
        self.assertGreaterEqual(row["runs"], 5)
        for unknown in ("peak_per_second", "share_of_peak_percent", "naive_seconds", "bytes_per_second", "change_percent", "slower"):
            self.assertIsNone(row[unknown], unknown)

    @unittest.skipUnless(HAS_TORCH, "needs PyTorch")
    def test_training_and_inference_in_pytorch(self):
        picture = self.folder / "train.svg"
        done = bench("train", "--cpu", "--model", "gpt2-tiny", "--batch", "2", "--seconds", "1", "--python", PYTHON, "--svg", str(picture), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        rows = {row["precision"]: row for row in found["results"]}
        self.assertEqual((found["params"], found["batch"], list(rows)), (172288, 2, ["fp32", "tf32", "amp"]))
        self.assertEqual(rows["fp32"]["speedup"], 1)
        self.assertGreater(rows["fp32"]["memory_bytes"], 0)
        self.assertIn("NVIDIA", rows["tf32"]["reason"])
        self.assertIsNone(rows["tf32"]["median_seconds"])
        self.assertAlmostEqual(rows["amp"]["items_per_second"] * rows["amp"]["median_seconds"], 2)
        self.assertIn(found["proposal"], ("fp32", "amp"))
        xml.etree.ElementTree.parse(picture)
        done = bench("infer", "--cpu", "--model", "gpt2-tiny", "--batch", "2", "--seconds", "1", "--python", PYTHON)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^int8 .* [\d.]+ % +PyTorch (dynamic quantization|\S+, torchao)$")
        self.assertRegex(done.stdout, r"(?m)^Proposal: ")

    @unittest.skipUnless(HAS_TORCH and HAS_ONNX_RUNTIME, "needs PyTorch and ONNX Runtime")
    def test_inference_in_onnx_runtime(self):
        done = bench("infer", "--cpu", "--model", "gpt2-tiny", "--batch", "2", "--seconds", "1", "--precision", "fp32,bf16", "--python", PYTHON,
                     "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        rows = {(row["runtime"], row["precision"]): row for row in found["results"]}
        row, unmeasured = rows["onnxruntime", "fp32"], rows["onnxruntime", "bf16"]
        self.assertTrue(row["engine"].startswith("ONNX Runtime "), row)
        self.assertLess(row["drift"], 1e-4)
        self.assertGreater(row["memory_bytes"], 4 * 172288)
        self.assertAlmostEqual(row["speedup"] * row["median_seconds"], rows["pytorch", "fp32"]["median_seconds"])
        self.assertIsNone(unmeasured["median_seconds"])
        self.assertIn("ONNX Runtime has no bf16", unmeasured["reason"])
        self.assertIn(found["proposal_runtime"], ("pytorch", "onnxruntime"))

    def test_kept_results_are_a_check_of_health(self):
        state = {"BERTH_STATE_DIR": str(self.folder)}
        bench("memory", "--cpu", "--keep", **state)
        baseline, latest = (self.folder / "bench" / name for name in ("baseline.json", "latest.json"))
        self.assertEqual(baseline.read_text(), latest.read_text())
        bench("memory", "--cpu", "--keep", **state)
        self.assertNotEqual(baseline.read_text(), latest.read_text())

        def health(*words):
            environment = {**os.environ, "LC_ALL": "C.UTF-8", **state}
            # The simulator has a state folder of its own.
            command = ["env", f"BERTH_STATE_DIR={self.folder}", BERTH, "health", "--json", *words]
            done = subprocess.run([BERTH, "sim", "--machine", "workstation-4090", "--", *command], capture_output=True, text=True, timeout=60,
                                  env=environment)
            return done, json.loads(done.stdout)["devices"][0] if done.stdout else None

        done, card = health()
        self.assertEqual((card["checks"][-1]["check"], card["checks"][-1]["verdict"]), ("speed", "not checked"))
        rows = [{"uuid": card["uuid"], "name": card["name"], "case": "gemm.fp32", "median_seconds": seconds, "spread_percent": 1, "size": 8,
                 "flop_per_second": 1e9 / seconds} for seconds in (1.0, 1.2)]
        baseline.write_text(json.dumps({"schema": 1, "results": rows[:1]}))
        latest.write_text(json.dumps({"schema": 1, "results": rows[1:]}))
        done, card = health()
        self.assertEqual((done.returncode, card["checks"][-1]["verdict"]), (1, "failed"))
        self.assertIn("17 % slower than in the baseline", card["checks"][-1]["detail"])
        own = self.folder / "own.json"
        own.write_text(json.dumps({"schema": 1, "results": rows[1:]}))
        self.assertEqual(health("--against", str(own))[1]["checks"][-1]["verdict"], "ok")
        baseline.write_text("{")
        self.assertEqual(health()[1]["checks"][-1]["verdict"], "not checked")
        self.assertIn("E1057", health("--against", str(baseline))[0].stderr)

    def test_what_a_framework_benchmark_refuses(self):
        for words, problem in ((("train", "--precision", "int8"), "E1048"), (("gemm", "--precision", "amp"), "E1048"),
                               (("train", "--against", "x"), "E0010"), (("gemm", "--model", "gpt2"), "E0010"), (("train", "--batch", "0"), "E0104"),
                               (("train", "--model", "nosuch"), "E0003")):
            done = bench(*words)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(problem, done.stderr)
        python = self.folder / "python"
        python.write_text("#!/bin/sh\nexec /usr/bin/python3 -I -S \"$@\"\n")
        python.chmod(0o755)
        for path in (str(python), "/nonexistent/python"):
            done = bench("train", "--cpu", "--python", path)
            self.assertIn("E1049", done.stderr)
            self.assertEqual(done.returncode, 1)

    def test_the_table_for_people(self):
        done = bench("memory", "--cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^ *\d+  memory\.triad +[\d.]+ [GT]B/s +[\d.]+ % +right")
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 120)
        self.assertEqual(done.stderr, "")
        chinese = bench("memory", "--cpu", LC_ALL="zh_CN.UTF-8")
        self.assertRegex(chinese.stdout, "项目.*结果.*波动")

    def test_the_bar_chart_is_xml(self):
        picture = self.folder / "bench.svg"
        self.assertEqual(bench("memory", "--cpu", "--svg", str(picture)).returncode, 0)
        words = [one.text for one in xml.etree.ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("0: memory.triad", words)
        self.assertEqual(len([one for one in words if one.endswith("B/s")]), 2, words)  # the title of the group, and the figure
        self.assertIn("(E0547)", bench("memory", "--cpu", "--svg", "/nonexistent/x.svg").stderr)

    def test_without_a_blas_the_other_cases_run(self):
        done = bench("--cpu", "--json", BERTH_BLAS_LIBRARY="libc.so.6")
        rows = {row["case"]: row for row in json.loads(done.stdout)["results"]}
        self.assertEqual(done.returncode, 1)
        self.assertEqual({row["error"]["id"] for case, row in rows.items() if case.startswith("gemm")}, {"E1052"})
        self.assertTrue(rows["memory.triad"]["right"])
        people = bench("gemm", "--cpu", BERTH_BLAS_LIBRARY="libc.so.6")
        self.assertIn("failed", people.stdout)
        self.assertIn("(E1052)", people.stdout)

    def test_products_of_onednn(self):
        for library in ("libdnnl.so.3", "libdnnl.so.2"):
            try:
                ctypes.CDLL(library)
                break
            except OSError:
                continue
        else:
            self.skipTest("oneDNN is not installed")
        done = bench("gemm", "--cpu", "--size", "300", "--json", BERTH_BLAS_LIBRARY=library)
        self.assertEqual(done.returncode, 0, done.stderr)
        row, = json.loads(done.stdout)["results"]  # oneDNN has no matrix product in fp64
        self.assertEqual((row["case"], row["right"]), ("gemm.fp32", True))
        self.assertIn("libdnnl", row["library"])
        done = bench("gemm", "--cpu", "--size", "300", "--precision", "fp64", "--json", BERTH_BLAS_LIBRARY=library)
        self.assertEqual((done.returncode, json.loads(done.stdout)["results"][0]["error"]["id"]), (1, "E1055"))

    def test_a_device_that_became_slower_is_exit_code_1(self):
        file = self.folder / "old.json"
        self.assertEqual(bench("memory", "--cpu", "--save", str(file)).returncode, 0)
        document = json.loads(file.read_text())
        self.assertEqual(os.listdir(self.folder), ["old.json"])
        row, = document["results"]
        for factor, code in ((100, 1), (0.01, 0)):
            changed = {**row, "bytes_per_second": row["bytes_per_second"] * factor, "median_seconds": row["median_seconds"] / factor}
            file.write_text(json.dumps({**document, "results": [changed]}))
            done = bench("memory", "--cpu", "--against", str(file), "--json")
            now, = json.loads(done.stdout)["results"]
            self.assertEqual((done.returncode, now["slower"]), (code, bool(code)), done.stderr)
            self.assertEqual(now["size"], row["size"])
            self.assertEqual(now["change_percent"] < 0, bool(code))

    def test_files_that_are_no_results(self):
        row = {"uuid": 7, "name": [], "case": "memory.triad", "median_seconds": "x"}
        for content in ("", "[]", "{", '{"schema":1}', '{"schema":2,"results":[]}', '{"schema":1,"results":{}}', "\0" * 100):
            file = self.folder / "bad.json"
            file.write_text(content)
            done = bench("memory", "--cpu", "--against", str(file))
            self.assertEqual((done.returncode, done.stdout), (2, ""), content)
            self.assertIn("E1057", done.stderr)
        device = json.loads(bench("memory", "--cpu", "--json").stdout)["results"][0]["name"]
        for rows in ([row], [None, 3, []], [{"name": device, "case": "memory.triad", "median_seconds": 1, "size": 1e300}],
                     [{"name": device, "case": "memory.triad", "median_seconds": -1, "bytes_per_second": -5}]):
            file.write_text(json.dumps({"schema": 1, "results": rows}))
            done = bench("memory", "--cpu", "--against", str(file), "--json")
            self.assertIn(done.returncode, (0, 1), done.stderr)
            self.assertTrue(json.loads(done.stdout)["results"][0]["right"])
        # If a size in the file does not fit, only its case fails.
        file.write_text(json.dumps({"schema": 1, "results": [{"name": device, "case": "memory.triad", "median_seconds": 1, "size": 1 << 40}]}))
        done = bench("memory", "--cpu", "--against", str(file), "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["results"][0]["error"]["id"]), (1, "E1054"))
        self.assertEqual(bench("--against", str(self.folder / "none.json")).returncode, 1)

    def test_wrong_usage(self):
        for words, code, error in ((["dance"], 2, "E1056"), (["gemm", "copy"], 2, "E1056"), (["--seconds", "0"], 2, "E0104"), (["--seconds", "1s"], 2, "E0104"),
                                   (["--precision", "fp8"], 2, "E1048"), (["--cpu", "--device", "0"], 2, "E0010"), (["--device", "99"], 1, "E0413"),
                                   (["copy", "--cpu"], 1, "E1059"), (["launch", "--precision", "fp32", "--cpu"], 1, "E1059"),
                                   (["--save", "/nonexistent/x.json"], 2, "E1058")):
            done = bench(*words)
            self.assertEqual((done.returncode, done.stdout), (code, ""), (words, done.stderr))
            self.assertIn(error, done.stderr, words)
            self.assertIn("hint: ", done.stderr, words)

    def test_opencl_devices_beside_the_cpu(self):
        done = bench("launch", "--opencl", "--json")
        document = json.loads(done.stdout) if done.stdout else {"results": []}
        rows = [row for row in document["results"] if row["backend"] == "opencl"]
        if not rows:
            self.skipTest("no OpenCL device is here")
        for row in rows:
            self.assertIsNone(row["error"])
            self.assertLess(row["naive_seconds"], row["median_seconds"])
            self.assertIsNone(row["flop_per_second"])

    def test_a_size_that_the_kernel_of_opencl_cannot_compute_is_said(self):
        done = bench("gemm.fp32", "--opencl", "--size", "100", "--json")
        rows = [row for row in json.loads(done.stdout or '{"results":[]}')["results"] if row["backend"] == "opencl" and row["library"] != "CLBlast"]
        if not rows:
            self.skipTest("no OpenCL device is here, or CLBlast computes on it")
        self.assertEqual([row["error"]["id"] for row in rows], ["E1088"] * len(rows))

    def test_ctrl_c_ends_the_child_and_leaves_nothing(self):
        for words in (["memory", "--cpu"], ["memory", "--opencl"]):
            running = subprocess.Popen([BERTH, "bench", *words, "--seconds", "100", "--save", str(self.folder / "x.json")], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(self.folder)})
            children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children")
            until = time.monotonic() + 60
            while time.monotonic() < until and not (found := [one for one in children.read_text().split() if measures(one)]):
                time.sleep(0.1)
            running.send_signal(signal.SIGINT)
            self.assertEqual(running.wait(30), -signal.SIGINT)
            running.communicate()
            until = time.monotonic() + 20  # the kernel reports the parent's end before the child's on a busy machine
            while os.path.exists(f"/proc/{found[0]}") and time.monotonic() < until:
                time.sleep(0.1)
            self.assertFalse(os.path.exists(f"/proc/{found[0]}"))
            self.assertEqual(os.listdir(self.folder), [])

    def test_a_partitioned_gpu_is_not_measured_and_said_so(self):
        done = subprocess.run([BERTH, "sim", "--machine", "h100-mig", "--", BERTH, "bench", "launch", "--device", "0", "--json"],
                              capture_output=True, text=True, timeout=110, env={**os.environ, "LC_ALL": "C.UTF-8"})
        document = json.loads(done.stdout)
        self.assertEqual(document["results"], [])
        self.assertIn("H100", document["skipped"][0]["name"])
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    BERTH = os.path.abspath(sys.argv.pop(1))
    unittest.main()
