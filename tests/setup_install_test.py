#!/usr/bin/env python3
"""`berth setup` installs, upgrades and checks. An environment exists completely or not at all, and the error says why. Packages come from a
local folder, so there is no network access.

usage: setup_install_test.py BERTH
"""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import setup_fakes

BERTH = os.path.abspath(sys.argv[1])


def fingerprint(folder: pathlib.Path):
    """All files and links in the folder, with their content."""
    rows = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            rows[name] = os.readlink(path)
        elif path.is_file():
            rows[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return rows


class Base(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.home.name)
        self.work = self.root / "a place"
        self.work.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": self.home.name, "PIP_CONFIG_FILE": "/dev/null",
                            "PIP_RETRIES": "0", "PIP_TIMEOUT": "5", "FAKE_LOG": str(self.root / "log")}

    def tearDown(self):
        self.home.cleanup()

    def setup(self, *words, before=(), cwd=None, **more):
        return subprocess.run([*before, BERTH, "setup", *words], cwd=cwd or self.work, env={**self.environment, **more},
                              capture_output=True, text=True, timeout=200)

    def release(self, framework="torch"):
        done = self.setup(framework, "--cpu", "--dry-run", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["frameworks"][0]["release"]

    def index(self, **more):
        """Creates an index with the PyTorch and JAX that Berth chooses here. Returns the options for it."""
        folder = self.root / "index"
        setup_fakes.torch_wheel(folder, self.release() + ".0", **more)
        setup_fakes.jax_wheel(folder, self.release("jax") + ".0")
        return "--index", f"file://{folder}"

    def names(self):
        return sorted(path.name for path in self.work.iterdir())

    def failed(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertIn("hint: ", done.stderr)


class New(Base):
    def test_it_computes_and_knows_its_own_place(self):
        done = self.setup("torch", "--cpu", *self.index())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^PyTorch \S+ on the CPU; a test computation ran\n$")
        self.assertIn("Successfully installed torch-", done.stderr)
        self.assertEqual(self.names(), [".venv"])
        for path in [self.work / ".venv/pyvenv.cfg", *(self.work / ".venv/bin").iterdir()]:
            if not path.is_symlink():
                self.assertNotIn(b".part-", path.read_bytes(), path)
        pip = subprocess.run([self.work / ".venv/bin/pip", "--version"], capture_output=True, text=True)
        self.assertIn(str(self.work / ".venv"), pip.stdout + pip.stderr)
        # An existing environment is neither replaced nor changed.
        before = fingerprint(self.work)
        self.failed(self.setup("torch", "--cpu"), 2, "E0841", "--upgrade", "--check")
        self.assertEqual(fingerprint(self.work), before)

    def test_several_at_once(self):
        done = self.setup("torch", "jax", "--cpu", *self.index())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^PyTorch \S+ on the CPU; a test computation ran\nJAX \S+ on the CPU; a test computation ran\n$")

    def test_tensorflow_for_the_cpu_does_not_report_a_missing_driver(self):
        index = self.root / "tensorflow"
        setup_fakes.tensorflow_wheel(index, self.release("tensorflow") + ".0")
        done = self.setup("tensorflow", "--cpu", "--index", f"file://{index}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^TensorFlow \S+ on the CPU; a test computation ran\n$")
        self.assertNotIn("failed call to cuInit", done.stderr)

    def test_a_framework_that_does_not_start_is_a_failure_with_a_next_step(self):
        done = self.setup("torch", "--cpu", "--json", *self.index(init="raise ImportError('libfoo.so')\n"))
        self.assertEqual(done.returncode, 1, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["state"], "failed")
        [torch] = document["frameworks"]
        self.assertEqual(torch["state"], "failed")
        self.assertTrue(torch["says"])
        self.assertTrue(torch["hint"])
        self.assertIsNone(torch["devices"])

    def test_without_a_gpu_that_is_the_cause(self):
        if any(pathlib.Path(path).exists() for path in ("/proc/driver/nvidia", "/dev/kfd", "/dev/dri", "/dev/dxg")):
            self.skipTest("there may be a GPU")
        broken = "raise ImportError('libcuda.so.1')\n"
        done = self.setup("torch", self.release(), "--driver", "580.95", "--gpu", "H100", *self.index(init=broken))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("PyTorch is installed, but its test computation failed: there is no GPU on the PCI bus", done.stdout)
        self.assertIn("fix: ", done.stderr)
        done = self.setup("torch", "--cpu", "--check")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertNotIn("there is no GPU", done.stdout)

    def test_nothing_is_left_where_somebody_ends_it(self):
        child = subprocess.Popen([BERTH, "setup", "torch", "--cpu"], cwd=self.work, env=self.environment,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not self.names() and time.monotonic() < deadline:
            time.sleep(0.01)
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(60), -signal.SIGTERM)
        self.assertEqual(self.names(), [])

    def test_what_is_there_is_left_as_it_is(self):
        for make in (lambda path: path.mkdir(), lambda path: path.write_text("mine"), lambda path: path.symlink_to("gone")):
            path = self.work / "mine"
            make(path)
            self.failed(self.setup("torch", "--cpu", "--venv", "mine"), 2, "E0841")
            self.assertEqual(self.names(), ["mine"])
            path.rmdir() if path.is_dir() else path.unlink()

    def test_uv_and_conda_do_the_work(self):
        setup_fakes.programs(self.root / "bin", self.root / "envs")
        (self.root / "envs").mkdir()
        path = f"{self.root}/bin:{self.environment['PATH']}"
        index = self.index()
        done = self.setup("torch", "--cpu", "--uv", *index, PATH=path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue((self.work / ".venv/bin/torch-hello").exists())
        done = self.setup("torch", "--cpu", "--conda", "mine", *index, PATH=path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue((self.root / "envs/mine/bin/torch-hello").exists())
        log = (self.root / "log").read_text()
        self.assertIn("uv pip install", log)
        self.assertRegex(log, r"conda create --yes --prefix \S+/envs/mine python=3\.\d+ pip")
        # After a failure, conda's environment is removed, too.
        self.failed(self.setup("torch", "--cpu", "--conda", "other", "--index", "file:///nothing", PATH=path), 4, "E0845")
        self.assertEqual([one.name for one in (self.root / "envs").iterdir()], ["mine"])

    def test_uv_or_conda_that_is_not_installed(self):
        for option in (("--uv",), ("--conda", "mine")):
            self.failed(self.setup("torch", "--cpu", *option, PATH="/nowhere"), 2, "E0849", option[0])


class Failures(Base):
    """Each failure has its own message, and leaves no files."""

    def tearDown(self):
        if self.work.exists():
            self.work.chmod(0o755)
            self.assertEqual(self.names(), [])
        super().tearDown()

    def test_no_package(self):
        (self.root / "empty").mkdir()
        done = self.setup("torch", "--cpu", "--index", f"file://{self.root}/empty")
        self.failed(done, 4, "E0845", "the package index has no torch==", ".venv was not created")

    def test_no_network(self):
        done = self.setup("torch", "--cpu", "--index", "http://127.0.0.1:9/simple")
        self.failed(done, 4, "E0845", "there is no connection to 127.0.0.1", "--index URL")

    def test_no_name_of_the_index(self):
        done = self.setup("torch", "--cpu", PIP_INDEX_URL="https://index.invalid/simple")
        self.failed(done, 4, "E0845", "there is no connection to index.invalid")

    def test_a_proxy_that_refuses(self):
        for code in (403, 407):
            with setup_fakes.Refusing(code) as proxy:
                done = self.setup("torch", "--cpu", "--index", "https://index.invalid/simple", HTTPS_PROXY=proxy.address)
                self.failed(done, 4, "E0845", f"the proxy refuses the connection ({code})", "_proxy")
                self.assertTrue(proxy.asked)

    def test_an_index_that_refuses(self):
        with setup_fakes.Refusing(403) as index:
            done = self.setup("torch", "--cpu", "--index", f"{index.address}/simple")
            self.failed(done, 4, "E0845", "refuses access (403)")
            self.assertTrue(index.asked)

    def test_packages_that_do_not_go_together(self):
        folder = self.root / "index"
        setup_fakes.torch_wheel(folder, self.release() + ".0", needs=["thing==1"])
        setup_fakes.jax_wheel(folder, self.release("jax") + ".0", needs=["thing==2"])
        for version in "12":
            setup_fakes.wheel(folder, "thing", version, {"thing.py": ""})
        done = self.setup("torch", "jax", "--cpu", "--index", f"file://{folder}")
        self.failed(done, 4, "E0845", "these packages are not compatible", "torch", "jax")

    def small_disk(self, size, *words, **more):
        """Runs in a mount namespace with a file system of this size. Skips the test if that is not allowed."""
        before = ["unshare", "--mount", "--map-root-user", "sh", "-c",
                  f'mount -t tmpfs -o size={size},mode=755 none "$0" && cd "$0" && "$@"; code=$?; ls -A "$0" >&2; exit $code', str(self.work)]
        if os.geteuid() == 0:
            before.remove("--map-root-user")
        if subprocess.run([*before, "true"], capture_output=True).returncode != 0:
            self.skipTest("no mount namespaces")
        return self.setup(*words, before=before, **more)

    def test_a_full_disk(self):
        index = self.index(padding=24 << 20)
        for size in ("2m", "40m"):  # too small for the environment, and too small for the package
            done = self.small_disk(size, "torch", "--cpu", *index)
            self.failed(done, 4, "E0845", "a disk is full", "df -h")
            self.assertNotIn(".part-", done.stderr.rsplit("hint: ", 1)[1])

    def test_a_read_only_file_system(self):
        done = self.small_disk("2m,ro", "torch", "--cpu")
        self.failed(done, 5, "E0842", "Read-only file system")

    def test_a_folder_that_cannot_be_written(self):
        self.failed(self.setup("torch", "--cpu", "--venv", "no/such/parent"), 5, "E0842")
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        self.work.chmod(0o555)
        self.failed(self.setup("torch", "--cpu"), 5, "E0842", "Permission denied")

    def test_a_wrong_python(self):
        self.failed(self.setup("torch", "--cpu", "--python", str(self.work / "python3")), 2, "E0846", "it does not exist")
        self.failed(self.setup("torch", "--cpu", "--python", "/bin/sh"), 2, "E0846")
        self.failed(self.setup("torch", "--cpu", "--python", "3.99"), 2, "E0846", "3.99")
        # There is no release for this Python. uv and conda can provide another one.
        setup_fakes.programs(self.root / "bin", self.root / "envs")
        done = self.setup("torch", "--cpu", "--uv", "--python", "3.5", PATH=f"{self.root}/bin:{self.environment['PATH']}")
        self.failed(done, 1, "E0832", "a suitable build needs another Python", "--python 3.")

    def test_a_python_without_venv(self):
        python = self.root / "bin/python3"
        python.parent.mkdir()
        python.write_text(f'#!/bin/sh\n[ "$2" != venv ] || {{ echo "No module named venv" >&2; exit 1; }}\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        (self.root / "lib" / version).mkdir(parents=True)
        (self.root / "bin" / version).symlink_to("python3")
        done = self.setup("torch", "--cpu", "--python", str(python.parent / version))
        self.failed(done, 4, "E0845", "this Python has no module venv", "python3-venv")


class Existing(Base):
    def setUp(self):
        super().setUp()
        self.options = self.index()
        done = self.setup("torch", "--cpu", *self.options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.before = fingerprint(self.work)

    def newer(self, **more):
        setup_fakes.torch_wheel(self.root / "index", self.release() + ".1", **more)

    def test_an_upgrade_shows_the_changes_and_takes_the_place(self):
        self.newer(needs=["thing"])
        setup_fakes.wheel(self.root / "index", "thing", "1.0", {"thing.py": ""})
        script = self.work / ".venv/bin/mine"
        script.write_text("kept\n")
        done = self.setup("torch", "--cpu", "--upgrade", "--json", *self.options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(done.stdout)
        release = self.release()
        self.assertEqual(document["changes"], [{"package": "thing", "before": None, "after": "1.0"},
                                               {"package": "torch", "before": release + ".0", "after": release + ".1"}])
        self.assertEqual(document["frameworks"][0]["version"], release + ".1+cpu")
        self.assertEqual(script.read_text(), "kept\n")
        self.assertEqual(self.names(), [".venv"])
        self.assertNotIn("part-", (self.work / ".venv/bin/torch-hello").read_text())
        again = self.setup("torch", "--cpu", "--upgrade", *self.options)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("there is nothing to change in ", again.stdout)

    def test_a_dry_run_shows_the_changes_alone(self):
        self.newer()
        done = self.setup("torch", "--cpu", "--upgrade", "--dry-run", *self.options)
        self.assertEqual(done.returncode, 0, done.stderr)
        release = self.release()
        self.assertEqual(done.stdout, f"~ torch {release}.0 -> {release}.1\n")
        self.assertEqual(fingerprint(self.work), self.before)

    def test_an_upgrade_that_fails_changes_nothing(self):
        self.newer(needs=["no-such-thing"])
        # The exact version is requested, because pip would otherwise fall back to an older one.
        done = self.setup("torch", self.release() + ".1", "--cpu", "--upgrade", *self.options)
        self.failed(done, 4, "E0845", "no no-such-thing", ".venv is unchanged")
        self.assertEqual(fingerprint(self.work), self.before)

    def test_an_upgrade_that_is_ended_changes_nothing(self):
        self.newer()
        child = subprocess.Popen([BERTH, "setup", "torch", "--cpu", "--upgrade", *self.options], cwd=self.work, env=self.environment,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while len(self.names()) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(60), -signal.SIGINT)
        self.assertEqual(fingerprint(self.work), self.before)

    def test_an_environment_without_pip_is_changed_by_uv_only(self):
        shutil.rmtree(self.work / ".venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.work / ".venv"], check=True)
        before = fingerprint(self.work)
        done = self.setup("torch", "--cpu", "--upgrade", *self.options)
        self.failed(done, 2, "E0967", "has no pip", "--uv\n", "-m ensurepip")
        self.assertEqual(fingerprint(self.work), before)

    def test_only_an_environment_is_upgraded(self):
        (self.work / "data").mkdir()
        self.failed(self.setup("torch", "--cpu", "--upgrade", "--venv", "data"), 2, "E0848")
        self.failed(self.setup("torch", "--cpu", "--upgrade", "--venv", "none"), 2, "E0848")
        (self.work / "data").rmdir()
        self.assertEqual(fingerprint(self.work), self.before)

    def test_a_check_tries_what_is_there(self):
        done = self.setup("--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^PyTorch \S+ on the CPU; a test computation ran\n$")
        document = json.loads(self.setup("--check", "--json", "--venv", str(self.work / ".venv")).stdout)
        self.assertEqual((document["state"], document["frameworks"][0]["state"]), ("done", "ran_on_cpu"))
        self.failed(self.setup("jax", "--check"), 2, "E0848", "JAX")
        self.failed(self.setup("--check", "--venv", "none"), 2, "E0848")
        self.assertEqual(fingerprint(self.work), self.before)
        init = next((self.work / ".venv/lib").glob("python*/site-packages/torch/__init__.py"))
        init.write_text("raise ImportError('libfoo.so')\n")
        shutil.rmtree(init.parent / "__pycache__", ignore_errors=True)
        broken = self.setup("--check")
        self.assertEqual(broken.returncode, 1, broken.stdout)
        self.assertIn("fix: ", broken.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
