#!/usr/bin/env python3
"""`berth bench` on simulated NVIDIA GPUs: the calls of CUDA's driver, and of a replacement of cuBLAS that computes on the CPU.

usage: bench_cuda_test.py BERTH FAKE_CUBLAS
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BERTH = CUBLAS = ""


class OnSimulatedGpus(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def bench(self, *words, machine="lab-4x3090", **variables):
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "BERTH_CUBLAS_LIBRARY": CUBLAS, **variables}
        return subprocess.run([BERTH, "sim", "--machine", machine, "--", BERTH, "bench", *words], capture_output=True, text=True, timeout=110,
                              env=environment)

    def results(self, *words, code=0, **variables):
        done = self.bench(*words, "--json", **variables)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return {(row["device"], row["case"]): row for row in json.loads(done.stdout)["results"]}

    def test_products_in_every_precision_go_through_cublas(self):
        calls = self.folder / "calls"
        rows = self.results("gemm", "--device", "0", "--size", "256", FAKE_CUBLAS_CALLS=str(calls))
        self.assertEqual([case for _, case in rows], ["gemm.fp32", "gemm.tf32", "gemm.fp16", "gemm.bf16", "gemm.fp64"])
        for row in rows.values():
            self.assertIsNone(row["error"])
            self.assertTrue(row["right"], row)
            self.assertEqual((row["backend"], row["library"], row["size"]), ("cuda", os.path.realpath(CUBLAS), 256))
            self.assertGreater(row["naive_seconds"], 0)
            self.assertGreaterEqual(row["runs"], 5)
        # Data type and type of computation, as in cuBLAS's header.
        self.assertEqual({tuple(line.split()[:2]) for line in calls.read_text().splitlines()},
                         {("0", "68"), ("0", "77"), ("2", "68"), ("14", "68"), ("1", "70")})
        self.assertAlmostEqual(rows[0, "gemm.fp32"]["peak_per_second"] / 1e12, 35.6, 1)

    def test_a_wrong_product_is_said(self):
        rows = self.results("gemm", "--device", "0", "--size", "256", "--precision", "fp16", code=1, FAKE_CUBLAS="wrong")
        self.assertFalse(rows[0, "gemm.fp16"]["right"])
        self.assertIn("wrong", self.bench("gemm.fp32", "--device", "0", "--size", "256", FAKE_CUBLAS="wrong").stdout)

    def test_cublas_comes_from_the_active_environment(self):
        place = self.folder / "lib/python3.11/site-packages/nvidia/cublas/lib"
        place.mkdir(parents=True)
        shutil.copy(CUBLAS, place / "libcublas.so.12")
        python = self.folder / "bin/python"
        for words, variables in (((), {"VIRTUAL_ENV": str(self.folder)}), (("--python", str(python)), {})):
            rows = self.results("gemm.fp32", "--device", "0", "--size", "256", *words, BERTH_CUBLAS_LIBRARY="", **variables)
            self.assertEqual(rows[0, "gemm.fp32"]["library"], str(place / "libcublas.so.12"))
        row = self.results("gemm.fp32", "--device", "0", code=1, BERTH_CUBLAS_LIBRARY="libc.so.6")[0, "gemm.fp32"]
        self.assertEqual((row["error"]["id"], row["median_seconds"]), ("E1072", None))
        self.assertIn("BERTH_CUBLAS_LIBRARY", row["error"]["message"])
        row = self.results("gemm.fp32", "--device", "0", code=1, BERTH_CUBLAS_LIBRARY="", HOME=str(self.folder / "none"))[0, "gemm.fp32"]
        self.assertEqual((row["error"]["id"], row["error"]["hint"]), ("E1072", "pip install nvidia-cublas-cu12"))

    def test_copies_between_gpus_against_the_rate_of_their_link(self):
        rows = self.results("peer", "--device", "0,1,2")
        self.assertEqual(sorted(rows), [(a, f"peer.to.{b}") for a in range(3) for b in range(3) if a != b])
        for (device, case), row in rows.items():
            self.assertTrue(row["right"], row)
            self.assertEqual((row["peer"], row["library"]), (int(case[-1]), "peer access"))
            self.assertGreater(row["bytes_per_second"], 1e9)
            self.assertIsNone(row["flop_per_second"])
        pcie = 16 * 128 / 130 * 16 / 8 * 1e9
        self.assertEqual({row["peak_per_second"] for row in rows.values()}, {pcie})
        text = self.bench("peer", "--device", "0,1").stdout
        self.assertRegex(text, r"(?m)^ *0  peer\.to\.1 +[\d.]+ GB/s .*\d+ % +right .*peer access")

    def test_gpus_with_nvlink_have_its_rate_as_the_limit(self):
        rows = self.results("peer", "--device", "0,1", machine="dgx-h100-8")
        self.assertEqual(rows[0, "peer.to.1"]["peak_per_second"], 450e9)

    def test_one_gpu_has_no_peer(self):
        for words, machine in ((("peer",), "workstation-4090"), (("peer",), "none"), (("peer", "--device", "1"), "lab-4x3090")):
            done = self.bench(*words, machine=machine)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn("E1073", done.stderr)
            self.assertIn("hint: ", done.stderr)

    def test_memory_copies_and_launches_of_a_gpu(self):
        rows = self.results("--device", "0", machine="workstation-4090")
        wanted = ["memory.copy", "copy.to.pageable", "copy.to.pinned", "copy.from.pageable", "copy.from.pinned", "launch"]
        self.assertEqual([case for _, case in rows if not case.startswith("gemm")], wanted)
        for case in wanted:
            row = rows[0, case]
            self.assertIsNone(row["error"])
            self.assertIn(row["right"], (True, None) if case == "launch" else (True,))
            self.assertGreater(row["clock_max_mhz"], 0)
            self.assertIsInstance(row["throttle_reasons"], list)
        self.assertEqual(rows[0, "memory.copy"]["peak_per_second"], 1008e9)
        self.assertLess(rows[0, "launch"]["naive_seconds"], rows[0, "launch"]["median_seconds"])

    def test_what_slowed_a_gpu_is_noted(self):
        done = subprocess.run([BERTH, "sim", "--machine", "workstation-4090", "--fault", "throttle:0", "--", BERTH, "bench", "memory", "--device", "0"],
                              capture_output=True, text=True, timeout=110, env={**os.environ, "LC_ALL": "C.UTF-8"})
        self.assertRegex(done.stdout, r"device 0, memory\.copy: slowed by .*, its clock was \d+ MHz", done.stderr)

    def test_cpu_and_gpu_beside_each_other(self):
        text = self.bench("gemm.fp32", "--size", "512", machine="workstation-4090").stdout
        if "(E1052)" in text:
            self.skipTest("no BLAS is installed")
        self.assertRegex(text, r"gemm\.fp32: device 0 is [\d.]+ times as fast as the CPU")

    def test_a_gpu_that_cuda_does_not_offer(self):
        row = self.results("launch", "--device", "0", code=1, CUDA_VISIBLE_DEVICES="1")[0, "launch"]
        self.assertEqual(row["error"]["id"], "E1071")


if __name__ == "__main__":
    CUBLAS = os.path.abspath(sys.argv.pop())
    BERTH = os.path.abspath(sys.argv.pop())
    unittest.main()
