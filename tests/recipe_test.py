#!/usr/bin/env python3
"""`berth env --format pip|conda|dockerfile` for users, and for labs with a package mirror.

usage: recipe_test.py BERTH
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BERTH = sys.argv[1]
MACHINE = ["--driver", "550.54.14", "--gpu", "H100", "--python-version", "3.11"]


class Recipe(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": self.home.name,
                            "PIP_CONFIG_FILE": "/dev/null"}

    def tearDown(self):
        self.home.cleanup()

    def ask(self, *words, form="pip", framework="torch", **more):
        done = subprocess.run([BERTH, "env", "--format", form, "--framework", framework, *words],
                              env={**self.environment, **more}, capture_output=True, text=True, timeout=100)
        return done

    def recipe(self, *words, **more):
        done = self.ask(*words, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_shell_takes_what_stdout_holds(self):
        text = self.recipe(*MACHINE)
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(lines, ["python3 -m pip install 'torch==2.14.*' --index-url https://download.pytorch.org/whl/cu126"])
        self.assertEqual(subprocess.run(["sh", "-n"], input=text, text=True).returncode, 0)
        self.assertIn("550.54.14", text)

    def test_each_format_and_framework_says_what_it_is(self):
        for framework in ("torch", "tensorflow", "jax", "cupy", "onnxruntime"):
            machine = ["--driver", "580.95.05", "--gpu", "A100", "--python-version", "3.12"]
            document = json.loads(self.recipe("--json", *machine, framework=framework))
            self.assertEqual(document["framework"], framework)
            self.assertTrue(document["packages"][0].startswith(framework), document)
            conda = self.recipe(*machine, form="conda", framework=framework)
            self.assertIn("  - python=3.12\n", conda)
            docker = self.recipe(*machine, form="dockerfile", framework=framework)
            self.assertIn("\nFROM python:3.12.12-slim-bookworm\n", docker)
            self.assertIn("--gpus all", docker)
            for text in (conda, docker):
                self.assertIn(document["packages"][0], text)

    def test_a_mirror_stays_alone(self):
        mirror = {"PIP_INDEX_URL": "https://me:geheim@mirror.lab/simple"}
        for form in ("pip", "conda", "dockerfile"):
            text = self.recipe(*MACHINE, form=form, **mirror)
            for never in ("geheim", "pytorch.org", "pypi.org"):
                self.assertNotIn(never, text)
        old = ["--driver", "470.82.01", "--gpu", "RTX A6000", "--python-version", "3.11"]
        refused = self.ask(*old, **mirror)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("E0834", refused.stderr)
        self.assertNotIn("geheim", refused.stderr)
        named = self.recipe(*old, "--torch-index", "https://mirror.lab/torch/", **mirror)
        self.assertIn("--index-url https://mirror.lab/torch/cu118", named)

    def test_an_index_of_pytorchs_builds_is_no_mirror_of_pypi(self):
        index = {"PIP_INDEX_URL": "https://download.pytorch.org/whl/cu121"}
        machine = ["--driver", "580.95", "--gpu", "H100", "--python-version"]
        self.assertIn("install 'torch==2.5.*'\n", self.recipe(*machine, "3.11", **index))
        refused = self.ask(*machine, "3.13", **index)
        self.assertIn("E0834", refused.stderr)
        self.assertIn("--torch-index", refused.stderr)
        refused = self.ask(*machine, "3.11", framework="jax", **index)
        self.assertIn("does not contain JAX", refused.stderr)
        self.assertNotIn("--torch-index", refused.stderr)

    def test_an_index_of_uvs_is_spoken_of_where_pip_does_not_read_it(self):
        done = self.ask(*MACHINE, form="conda", UV_DEFAULT_INDEX="https://me:geheim@uv.lab/simple")
        self.assertIn("uv uses the index https://uv.lab/simple (UV_DEFAULT_INDEX)", done.stderr)
        self.assertNotIn("geheim", done.stderr)
        self.assertNotIn("uv.lab", done.stdout)
        self.assertNotIn("uv", self.ask(*MACHINE).stderr)

    def test_a_pip_conf_and_a_condarc_count(self):
        pip = pathlib.Path(self.home.name) / ".config/pip/pip.conf"
        pip.parent.mkdir(parents=True)
        pip.write_text("[global]\nindex-url = https://mirror.lab/simple\n")
        (pathlib.Path(self.home.name) / ".condarc").write_text("channels:\n  - lab\n")
        self.environment.pop("PIP_CONFIG_FILE")
        text = self.recipe(*MACHINE, form="conda")
        self.assertNotIn("pytorch.org", text)
        self.assertNotIn("\nchannels:", text)
        self.assertIn("lab", text)
        self.assertIn("ARG PIP_INDEX_URL=https://mirror.lab/simple\n", self.recipe(*MACHINE, form="dockerfile"))

    def test_what_stops_it_is_said_with_what_would_do(self):
        for words, framework, error, told in (
                (["--driver", "418.39", "--gpu", "V100", "--compute-capability", "7.0", "--python-version", "3.11"], "torch", "E0831", "450.80"),
                (["--driver", "580.95.05", "--gpu", "A100", "--python-version", "3.14"], "tensorflow", "E0832", "3.13"),
                (["--driver", "580.95.05", "--gpu", "B200", "--python-version", "3.12"], "tensorflow", "E0833", "--cpu"),
                (["--driver", "595.71.05", "--gpu", "Tesla V100", "--python-version", "3.12"], "torch", "E0831", "580"),
                (["--driver", "x"], "torch", "E0835", "--driver"),
                (["--gpu", "Voodoo"], "torch", "E0835", "--compute-capability X.Y"),
                (["--devices", "0"], "torch", "E0830", "--devices")):
            done = self.ask(*words, framework=framework)
            self.assertIn(error, done.stderr, words)
            self.assertIn(told, done.stderr, words)
            self.assertEqual(done.stdout, "")
            for line in done.stderr.splitlines():  # commands in the hint must name the same driver
                if "--python-version" in line and "berth env" in line and "--driver" in words:
                    self.assertIn(f"--driver {words[1]}", line)
            self.assertIn(done.returncode, (1, 2))

    def test_without_a_gpu_it_is_for_the_cpu_and_says_so(self):
        done = self.ask("--cpu", "--python-version", "3.12")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("https://download.pytorch.org/whl/cpu", done.stdout)
        self.assertIn("CPU", done.stdout)
        self.assertEqual(self.ask("--cpu", framework="cupy").returncode, 1)

    def test_an_intel_card_gets_the_build_that_the_doctor_names(self):
        done = subprocess.run([BERTH, "sim", "--machine", "intel-arc-a770", "--", BERTH, "env", "--format", "pip", "--framework", "torch",
                               "--python-version", "3.12"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("https://download.pytorch.org/whl/xpu", done.stdout)
        self.assertIn("XPU", done.stdout)

    def test_names_that_people_use_are_known(self):
        for name in ("RTX 4090", "RTX4090", "T4", "V100", "GT 1030", "GRID A100-20C", "CMP 30HX"):
            done = self.ask("--driver", "570.86", "--gpu", name, "--python-version", "3.12")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_name_of_two_cards_is_answered_with_both(self):
        done = self.ask("--gpu", "Titan X")
        self.assertIn("E0835", done.stderr)
        for card, capability in (("GeForce GTX TITAN X", "5.2"), ("TITAN X (Pascal)", "6.1")):
            self.assertIn(f"--gpu '{card}'", done.stderr)
            gpus = json.loads(self.recipe("--json", "--gpu", card, "--python-version", "3.12"))["gpus"]
            self.assertEqual([gpu["compute_capability"] for gpu in gpus], [capability])

    def test_a_workstations_number_is_answered_with_the_cards_of_every_generation(self):
        done = self.ask("--gpu", "RTX 4000")
        self.assertIn("E0835", done.stderr)
        for card in ("Quadro RTX 4000", "RTX A4000", "RTX 4000 Ada", "RTX PRO 4000"):
            self.assertIn(f"--gpu '{card}'", done.stderr)

    def test_a_board_with_nvidias_own_processor_gets_builds_for_that(self):
        machine = ["--driver", "580.95.05", "--python-version", "3.12"]
        self.assertIn("--index-url https://download.pytorch.org/whl/cu130", self.recipe("--gpu", "DGX Spark", *machine))
        self.assertIn("aarch64", self.ask("--gpu", "GB10", *machine, framework="tensorflow").stderr)  # there is no CUDA wheel for aarch64

    def test_several_gpus_in_one_name_are_several(self):
        machine = ["--driver", "580.95", "--python-version", "3.12"]
        for names in ("RTX 5090,GTX 1080 Ti", "RTX 5090 and GTX 1080 Ti", "RTX 5090 ; GTX 1080 Ti"):
            done = self.ask("--gpu", names, *machine)  # no build has kernels for both
            self.assertIn("E0833", done.stderr, done.stdout)
        gpus = json.loads(self.recipe("--json", "--gpu", "RTX 3090, V100", *machine))["gpus"]
        self.assertEqual([gpu["compute_capability"] for gpu in gpus], ["8.6", "7.0"])

    def test_a_gpu_without_a_compute_capability_is_sent_to_its_own_machine(self):
        for name, told in (("MI300X", "AMD"), ("Arc A770", "Intel"), ("Orin", "JetPack")):
            done = self.ask("--gpu", name)
            self.assertIn("E0835", done.stderr)
            self.assertIn(told, done.stderr)
            self.assertNotIn("nvidia-smi", done.stderr)

    def test_options_of_recipes_go_with_recipes_alone(self):
        done = subprocess.run([BERTH, "env", "--gpu", "H100"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("E0830", done.stderr)
        done = subprocess.run([BERTH, "env", "--format", "pip"], env=self.environment, capture_output=True, text=True)
        self.assertIn("--framework", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
