#!/usr/bin/env python3
"""`berth setup` chooses: builds for drivers, GPUs and Pythons, several frameworks at once, indices, and files. Nothing is installed here.

usage: setup_test.py BERTH
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import setup_fakes

BERTH = os.path.abspath(sys.argv[1])
FRAMEWORKS = ("torch", "tensorflow", "jax", "cupy", "onnxruntime")


class Setup(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.work = pathlib.Path(self.home.name) / "a place"
        self.work.mkdir()
        programs = pathlib.Path(self.home.name) / "bin"
        setup_fakes.programs(programs, pathlib.Path(self.home.name) / "envs")
        self.environment = {"PATH": f"{programs}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "HOME": self.home.name,
                            "PIP_CONFIG_FILE": "/dev/null", "FAKE_LOG": "/dev/null"}

    def tearDown(self):
        self.assertEqual(list(self.work.iterdir()), [])
        self.home.cleanup()

    def setup(self, *words, **more):
        return subprocess.run([BERTH, "setup", *words], cwd=self.work, env={**self.environment, **more},
                              capture_output=True, text=True, timeout=110)

    def planned(self, *words, **more):
        done = self.setup(*words, "--dry-run", "--json", **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refused(self, *words, code=1, **more):
        done = self.setup(*words, "--dry-run", **more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_words_that_make_no_sense(self):
        for words in ([], ["numpy"], ["torch", "latest"], ["torch", "torch"], ["torch", "2.7", "2.8"], ["2.7", "torch"], ["torch", "2"],
                      ["torch", "2.7x"], ["torch", "--venv", ""], ["torch", "--cpu", "--gpu", "H100"], ["torch", "--cpu", "--driver", "550"],
                      ["torch", "--venv", "a", "--conda", "b"], ["torch", "--check", "--upgrade"], ["torch", "--format", "yaml"],
                      ["torch", "--conda", "a b"]):
            done = self.setup(*words)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertIn("hint: ", done.stderr)

    def test_a_driver_that_is_too_old_is_named_first(self):
        said = self.refused("torch", "--driver", "390.82", "--gpu", "A100")
        self.assertIn("E0831", said)
        self.assertIn("450.80.02", said)
        self.assertIn("berth setup torch --dry-run --cpu", said)

    def test_a_driver_of_this_machine_comes_with_the_distributions_command(self):
        for machine, code, error in ((("--machine", "driver-470"), 1, "E0831"),
                                     (("--machine", "lab-4x3090", "--fault", "no-driver"), 3, "E0844")):
            done = subprocess.run([BERTH, "sim", *machine, "--", BERTH, "setup", "jax"], cwd=self.work, env=self.environment,
                                  capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertIn(error, done.stderr)
            self.assertRegex(done.stderr.split("hint: ")[1].splitlines()[0], "driver|nvidia")

    def test_a_hint_names_a_python_that_can_be_had(self):
        tools = pathlib.Path(self.home.name) / "tools"
        tools.mkdir()
        words = ("torch", "--cpu", "--dry-run", "--python", str(tools / "python3.6"))
        (tools / "python3.12").symlink_to(sys.executable)
        (tools / "python3.6").write_text("#!/bin/sh\nexit 1\n")
        (tools / "python3.6").chmod(0o755)
        done = self.setup(*words, PATH=str(tools))
        self.assertIn("E0832", done.stderr)
        self.assertIn("hint: berth setup torch --dry-run --python 3.12 --cpu\n", done.stderr)
        (tools / "python3.12").unlink()
        done = self.setup(*words, PATH=str(tools))
        self.assertRegex(done.stderr, r"hint: berth setup torch --dry-run --python 3\.\d+ --cpu --uv   \(uv downloads this Python\)")

    def test_a_hint_repeats_the_rest_of_the_command(self):
        for words, hint in (
                (("jax", "onnxruntime", "9.9", "--cpu", "--venv", "my own"), r"berth setup jax onnxruntime \d\S+ --venv 'my own' --cpu"),
                (("jax", "--cpu", "--venv", "mine", "--python", "3.99"), "berth setup jax --venv mine --cpu --python python3"),
                (("jax", "--conda", "mine", "--index", "https://me:geheim@mirror.lab/simple"),
                 r"berth setup jax --index https://\S*mirror\.lab/simple --venv DIR"),
                (("jax", "--upgrade", "--cpu", "--venv", "gone"), "berth setup jax --cpu --venv DIR")):
            done = self.setup(*words, PATH="/usr/bin:/bin")
            self.assertRegex(done.stderr.split("hint: ")[1], f"^{hint}\n")
            self.assertNotIn("geheim", done.stderr)

    def test_a_version_of_pyenv_is_used_although_its_shim_would_fail(self):
        root = pathlib.Path(self.home.name) / "pyenv"
        (root / "shims").mkdir(parents=True)
        (root / "versions/3.12.1/bin").mkdir(parents=True)
        shim, program = root / "shims/python3.12", root / "versions/3.12.1/bin/python3.12"
        shim.write_text("#!/bin/sh\nexit 127\n")
        shim.chmod(0o755)
        program.symlink_to(sys.executable)
        options = {"PATH": f"{root}/shims", "PYENV_VERSION": "3.11.9"}
        done = self.setup("torch", "--cpu", "--dry-run", "--python", "3.12", **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{program} -m venv", done.stdout)
        done = self.setup("torch", "--cpu", "--dry-run", "--python", "python3.12", **options)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("E0846", done.stderr)
        self.assertIn("pyenv", done.stderr)

    def test_an_option_is_not_taken_for_a_value(self):
        for option in ("--conda", "--venv", "--index"):
            done = self.setup("torch", option, "--dry-run")
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(f"{option} needs a value before --dry-run", done.stderr)

    def test_a_release_is_what_was_asked_for_or_is_refused(self):
        machine = ("--driver", "580.65", "--gpu", "A100")
        release = self.planned("torch", *machine)["frameworks"][0]["release"]
        exact = self.setup("torch", release + ".7", "--dry-run", *machine)
        self.assertIn(f"torch=={release}.7", exact.stdout)
        self.assertIn("E0843", self.refused("torch", "0.3", *machine))

    def test_several_frameworks_share_one_cuda(self):
        for driver, names in (("580.95", FRAMEWORKS[:1] + FRAMEWORKS[2:]), ("550.54.14", FRAMEWORKS), ("580.95", ("torch", "tensorflow"))):
            document = self.planned(*names, "--driver", driver, "--gpu", "A100", "--uv", "--python", "3.12")
            self.assertEqual([one["framework"] for one in document["frameworks"]], list(names))
            majors = {one["cuda"].split(".")[0] for one in document["frameworks"]}
            self.assertEqual(len(majors), 1, document["frameworks"])
            # The last command names every requirement, so that pip keeps what earlier commands installed.
            for one in document["frameworks"]:
                for package in one["packages"]:
                    self.assertIn(package, document["commands"][-1])

    def test_a_pair_that_does_not_go_together_is_named(self):
        machine = ("--driver", "580.95", "--gpu", "A100", "--uv", "--python", "3.12")
        for words, why in ((("torch", "2.15", "tensorflow"), "major versions"), (("jax", "tensorflow", "2.19"), "cuDNN"),
                           (("cupy", "torch", "2.7", "tensorflow", "2.19"), "PyTorch 2.7")):
            said = self.refused(*words, *machine)
            self.assertIn("E0847", said)
            self.assertIn("TensorFlow 2.", said)
            self.assertIn(why, said)
            self.assertEqual(said.count("berth setup "), 2, said)

    def test_uv_and_conda_get_commands_of_their_own(self):
        uv = self.planned("torch", "--cpu", "--uv", "--python", "3.12")
        self.assertEqual(uv["installer"], "uv")
        self.assertRegex(uv["commands"][0], r"/uv venv --python 3\.12 ")
        self.assertRegex(uv["commands"][1], r"/uv pip install --python ")
        conda = self.planned("torch", "--cpu", "--conda", "train", "--python", "3.12")
        self.assertEqual(conda["environment"], f"{self.home.name}/envs/train")
        self.assertRegex(conda["commands"][0], r"/conda create --yes --prefix \S+/envs/train python=3\.12 pip$")

    def test_the_configured_index_is_used(self):
        mirror = "https://mirror.lab/simple"
        for words, more in ((("--index", mirror), {}), ((), {"PIP_INDEX_URL": mirror})):
            document = self.planned("torch", *words, "--driver", "580.95", "--gpu", "A100", **more)
            text = json.dumps(document)
            self.assertNotIn("pytorch.org", text)
            self.assertIn("mirror.lab", text)
        settings = pathlib.Path(self.home.name) / "pip.conf"
        settings.write_text(f"[global]\nindex-url = {mirror}\n")
        document = self.planned("jax", "--cpu", PIP_CONFIG_FILE=str(settings))
        self.assertIn(f"packages come from {mirror} ({settings})", document["reasons"])
        # pip reads its own configuration. uv does not read pip's, so Berth passes pip's index to it.
        self.assertNotIn("--index-url", document["commands"][1])
        uv = self.planned("jax", "--cpu", "--uv", PIP_CONFIG_FILE=str(settings))
        self.assertIn(f"--index-url {mirror}", uv["commands"][1])
        own = self.planned("jax", "--cpu", "--uv", PIP_CONFIG_FILE=str(settings), UV_DEFAULT_INDEX="https://uv.lab/simple")
        self.assertNotIn("--index-url", own["commands"][1])
        self.assertIn("https://uv.lab/simple", json.dumps(own["reasons"]))
        # With --index, PyPI is the only source, because PyTorch's own index may be unreachable.
        for words in (("--cpu",), ("--driver", "550.54", "--gpu", "H100")):
            document = self.planned("torch", *words, "--index", "https://pypi.org/simple")
            self.assertNotIn("pytorch.org", json.dumps(document))
            self.assertIn("--index-url https://pypi.org/simple", document["commands"][1])
        # A mirror of PyTorch's own index.
        document = self.planned("torch", "--cpu", "--torch-index", "https://lab/whl/")
        self.assertIn("--index-url https://lab/whl/cpu", document["commands"][1])

    def test_a_password_in_an_address_is_not_shown(self):
        address = "https://me:geheim@mirror.lab/simple"
        for words, more in ((("--index", address), {}), ((), {"PIP_INDEX_URL": address}), (("--uv",), {"PIP_INDEX_URL": address})):
            for form in ((), ("--json",), ("--format", "dockerfile"), ("--format", "devcontainer"), ("--format", "pyproject")):
                done = self.setup("torch", "--cpu", "--dry-run", *words, *form, **more)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotIn("geheim", done.stdout + done.stderr)

    def test_files_instead_of_an_environment(self):
        machine = ("--driver", "550.54.14", "--gpu", "H100", "--python", "3.12")
        chosen = {one["framework"]: one for one in self.planned("torch", "jax", *machine, "--uv")["frameworks"]}
        files = {}
        for form in ("dockerfile", "devcontainer", "environment.yml", "pyproject"):
            done = self.setup("torch", "jax", "--format", form, *machine)
            self.assertEqual(done.returncode, 0, done.stderr)
            files[form] = done.stdout
            for one in chosen.values():
                for package in one["packages"]:
                    self.assertIn(package, done.stdout, form)
            self.assertIn("https://download.pytorch.org/whl/cu126", done.stdout)
            document = json.loads(self.setup("torch", "jax", "--format", form, *machine, "--json").stdout)
            self.assertEqual((document["format"], document["text"]), (form, done.stdout))
        self.assertRegex(files["dockerfile"], r"\nFROM python:3\.12\S+\n")
        container = json.loads("\n".join(line for line in files["devcontainer"].splitlines() if not line.startswith("//")))
        self.assertEqual(container["runArgs"], ["--gpus", "all"])
        self.assertEqual(container["postCreateCommand"].count("pip install"), 2)
        self.assertIn("  - python=3.12\n", files["environment.yml"])
        try:
            import tomllib
        except ImportError:
            return
        project = tomllib.loads(files["pyproject"])
        self.assertEqual(project["project"]["requires-python"], ">=3.12,<3.13")
        self.assertEqual(project["project"]["dependencies"], [package for one in chosen.values() for package in one["packages"]])
        self.assertEqual(project["tool"]["uv"]["sources"]["torch"]["index"], project["tool"]["uv"]["index"][0]["name"])

    def test_files_for_the_cpu_ask_for_no_gpu(self):
        for form in ("dockerfile", "devcontainer"):
            text = self.setup("onnxruntime", "--cpu", "--format", form, "--python", "3.12").stdout
            self.assertIn("onnxruntime==", text)
            self.assertNotRegex(text, "gpu|cuda|NVIDIA")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
