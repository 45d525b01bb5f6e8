#!/usr/bin/env python3
"""`berth env` in practice: evaluated by three shells, parsed by docker's and Python's rules, on recorded machines.

usage: env_test.py BERTH FAKE_NVML     (a library of 8 healthy GPUs, tests/fake_nvml)
"""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "doctor"))
import machine_file  # noqa: E402

BERTH, FAKE = sys.argv[1], sys.argv[2]
PLAIN = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
SHELLS = [shell for shell in ("sh", "bash", "dash") if shutil.which(shell)]
HOSTILE = "$(touch PWNED)`touch PWNED`';touch PWNED;'\"\n\x1b[31m|&#\\"


def machine(name):
    environment = {**PLAIN, "BERTH_ROOT": machine_file.unpacked(name)}
    if name == "two-nodes":
        environment["BERTH_NVML_LIBRARY"] = FAKE
    return environment


def env(environment, *words):
    return subprocess.run([BERTH, "env", *words], env=environment, capture_output=True, text=True)


def settings(environment, *words):
    answer = env(environment, "--json", *words)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def words_for(name):
    """A job without options would wait if all GPUs are busy or their users are unknown. A job that names a GPU does not."""
    return ["--devices", "0"] if name in ("two-nodes", "tpu-v4") else []


def applied(document, environment):
    """The environment of a job, according to the JSON."""
    result = dict(environment)
    for one in document["settings"]:
        if one["action"] == "unset":
            result.pop(one["name"], None)
        else:
            result[one["name"]] = one["value"]
    return result


ALL = ["amd-7900xtx", "amd-laptop-asleep", "intel-arc", "amd-mi300x", "tpu-v4", "grace-hopper", "two-nodes"]


class Env(unittest.TestCase):
    def test_its_hints_name_env_and_not_run(self):
        for machine_name, *words in (("amd-7900xtx", "--gpus", "4"), ("amd-7900xtx", "--memory", "4TiB"),
                                     ("amd-7900xtx", "--cpus", "8192"), ("cpuset-limited", "--gpus", "1")):
            answer = env(machine(machine_name), *words)
            self.assertRegex(answer.stderr, r"hint: berth env --\w+", words)
            self.assertNotIn("berth run", answer.stderr)
            self.assertNotIn("…", answer.stderr.partition("hint")[2])

    def test_every_shell_gets_what_json_says(self):
        for name in ALL:
            for user in ({}, {"CUDA_VISIBLE_DEVICES": "0"}, {"OMP_NUM_THREADS": "3"}, {"JAX_PLATFORMS": HOSTILE}):
                around = {**machine(name), **user}
                expected = applied(settings(around, *words_for(name)), around)
                for shell in SHELLS:
                    with self.subTest(machine=name, shell=shell, user=user), tempfile.TemporaryDirectory() as folder:
                        script = f'eval "$({shlex.join([BERTH, "env", *words_for(name)])} 2>/dev/null)" && exec env -0'
                        out = subprocess.run([shell, "-c", script], env=around, cwd=folder, capture_output=True, text=True)
                        self.assertEqual(out.returncode, 0, out.stderr)
                        found = dict(line.split("=", 1) for line in out.stdout.split("\0") if line)
                        for key in ("PWD", "OLDPWD", "_", "SHLVL"):
                            found.pop(key, None)
                        self.assertEqual(found, expected)
                        self.assertEqual(os.listdir(folder), [])

    def test_stdout_is_data_and_stderr_comments(self):
        for name in ALL:
            answer = env({**machine(name), "JAX_PLATFORMS": HOSTILE}, "--cpu")
            self.assertEqual(answer.returncode, 0)
            for line in answer.stdout.splitlines():
                self.assertRegex(line, r"^(export [A-Z_]+=\S+|unset [A-Z_]+)$")
            self.assertTrue(answer.stderr)
            for line in answer.stderr.splitlines():
                self.assertTrue(line.startswith("# "), line)
            self.assertNotIn("\x1b", answer.stderr)

    def test_cuda_gets_indices_and_cores_near_the_device(self):
        answer = settings(machine("two-nodes"), "--devices", "2")
        values = {one["name"]: one["value"] for one in answer["settings"]}
        self.assertEqual(values["CUDA_VISIBLE_DEVICES"], "2")
        self.assertEqual(values["CUDA_DEVICE_ORDER"], "PCI_BUS_ID")
        self.assertEqual([one["device"] for one in answer["devices"]], [2])

    def test_docker_gets_one_argument_with_its_quotes(self):
        words = shlex.split(env(machine("two-nodes"), "--devices", "0,1", "--format", "docker").stdout)
        self.assertEqual(words[:2], ["--gpus", '"device=0,1"'])
        words = shlex.split(env(machine("two-nodes"), "--devices", "0,1", "--format", "cdi").stdout)
        self.assertEqual(words[:4], ["--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1"])
        words = shlex.split(env(machine("amd-7900xtx"), "--format", "docker").stdout)
        self.assertEqual(words[:3], ["--device", "/dev/kfd", "--device"])
        self.assertRegex(words[3], r"^/dev/dri/renderD\d+$")
        words = shlex.split(env(machine("grace-hopper"), "--format", "docker").stdout)
        self.assertEqual(set(words[::2]), {"-e"})
        self.assertIn("NVIDIA_VISIBLE_DEVICES=void", words)

    def test_dotenv_lines_are_name_and_value(self):
        for name in ALL:
            around = machine(name)
            lines = env(around, "--format", "dotenv", *words_for(name)).stdout.splitlines()
            values = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
            expected = {one["name"]: one["value"] for one in settings(around, *words_for(name))["settings"] if one["action"] != "unset"}
            self.assertEqual(values, expected)

    def test_a_job_of_kubernetes_asks_for_what_the_user_asks(self):
        def job(*options):
            done = env(PLAIN, "--format", "k8s", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        self.assertIn("              berth.dev/gpu: 1\n", job())
        self.assertIn("              berth.dev/gpu: 2\n              cpu: 4\n", job("--gpus", "2", "--cpus", "4"))
        self.assertIn("berth.dev/gpu-share: 1", job("--memory", "2GiB"))
        self.assertNotIn("resources", job("--cpu"))
        for options in (("--gpus", "all"), ("--devices", "0"), ("--cpus", "0-1")):
            done = env(PLAIN, "--format", "k8s", *options)
            self.assertEqual((done.returncode, "E1038" in done.stderr), (2, True), options)

    def test_quiet_adds_one_variable(self):
        loud, quiet = (env(machine("grace-hopper"), *words).stdout.splitlines() for words in ([], ["--quiet"]))
        self.assertEqual(set(quiet) - set(loud), {"export TF_CPP_MIN_LOG_LEVEL=1"})

    def test_refusals_have_their_exit_codes(self):
        bare, full = machine("grace-hopper"), machine("two-nodes")
        for around, words, code, identifier in (
            (bare, ["--gpus", "1"], 3, "E0411"),
            (full, ["--gpus", "9"], 3, "E0411"),
            (full, ["--gpus", "many"], 2, "E0104"),
            (full, ["--memory", "8"], 2, "E0101"),
            (full, ["--memory", "900GiB"], 3, "E0420"),
            (full, ["--devices", "77"], 1, "E0413"),
            (full, ["--cpu", "--gpus", "2"], 2, "E0010"),
            (full, ["--format", "xml"], 2, "E0003"),
            ({**full, "CUDA_VISIBLE_DEVICES": "0"}, ["--gpus", "2"], 6, "E0416"),
        ):
            with self.subTest(words=words):
                answer = env(around, *words)
                self.assertEqual((answer.returncode, answer.stdout), (code, ""), answer.stderr)
                self.assertIn(identifier, answer.stderr.splitlines()[0])
                error = json.loads(env(around, *words, "--json").stderr)["error"]
                self.assertEqual((error["id"], error["exit_code"]), (identifier, code))

    def test_an_eval_of_a_refusal_changes_nothing(self):
        script = f'eval "$({shlex.quote(BERTH)} env --gpus 1 2>/dev/null)"; echo "${{CUDA_VISIBLE_DEVICES-unset}}"'
        out = subprocess.run(["sh", "-c", script], env=machine("grace-hopper"), capture_output=True, text=True)
        self.assertEqual(out.stdout, "unset\n")

    def test_chinese_says_the_same_in_chinese(self):
        plain = env(machine("grace-hopper"))
        chinese = env(machine("grace-hopper"), "--lang", "zh")
        self.assertEqual(plain.stdout, chinese.stdout)
        self.assertIn("在 CPU 上", chinese.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
