#!/usr/bin/env python3
"""`berth run --container` with podman, on a simulated GPU: exit codes, signals, the guard, the report, and what is left behind. Also with
docker: with the daemon that answers, or one of its own. What needs no engine is tried with a program that plays podman."""
import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
IMAGE = "localhost/berth-container-test:1"
GIB = 1 << 30
MIB = 1 << 20
# No network and no raised limits: root in a container that runs the tests may lack the rights for both.
CONF = '[containers]\ndefault_ulimits = []\nnetns = "none"\n[engine]\n{}'
PROGRAMS = "bash cat sleep env id true".split()
LIBRARIES = ("/lib64/ld-linux-x86-64.so.2", *(f"/lib/x86_64-linux-gnu/{name}" for name in
                                              ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1")))


def need(reason):
    if os.environ.get("BERTH_NEED_CONTAINERS"):
        sys.exit(f"error: {reason}")
    return reason


def why_no_podman():
    if not shutil.which("podman") or not shutil.which("cc"):
        return need("podman or cc is not installed")
    if os.geteuid() != 0:
        return need("rootless podman needs more than a test may ask for")
    return ""


def make_image(folder):
    """A root file system from files of this machine: no registry is asked."""
    root = os.path.join(folder, "root")
    for name in "bin lib64 lib/x86_64-linux-gnu tmp proc etc run".split():
        os.makedirs(os.path.join(root, name), exist_ok=True)
    needed = set(LIBRARIES)
    for program in PROGRAMS:
        path = shutil.which(program)
        shutil.copy(path, os.path.join(root, "bin"))
        listed = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        needed |= {word for word in listed.split() if word.startswith("/")}
    for library in needed:
        os.makedirs(root + os.path.dirname(library), exist_ok=True)
        shutil.copy(os.path.realpath(library), root + library)
    subprocess.run(["cc", "-o", os.path.join(root, "bin", "take_memory"), os.path.join(HERE, "kubernetes", "take_memory.c")], check=True)
    source = os.path.join(folder, "ran.c")
    with open(source, "w") as file:
        file.write('#include <stdio.h>\nint main(void) { puts("ran"); return 5; }\n')
    subprocess.run(["cc", "-static", "-o", os.path.join(root, "bin", "of_static"), source], check=True)
    if shutil.which("musl-gcc"):
        subprocess.run(["musl-gcc", "-o", os.path.join(root, "bin", "of_musl"), source], check=True)
        for loader in glob.glob("/lib/ld-musl-*.so.1"):
            shutil.copy(os.path.realpath(loader), root + loader)
    archive = os.path.join(folder, "root.tar")
    subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
    return archive


class Machine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="berth-container-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "CUDA_", "BERTH_"))}
        self.environment.update(LANG="C", BERTH_RUNTIME_DIR=os.path.join(self.folder, "run"))

    def berth(self, *words, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([BERTH, *words], capture_output=True, text=True, timeout=100, env=self.environment, cwd=self.folder, **more)

    def run_in(self, *words, options=(), **more):
        return self.berth("run", "--container", IMAGE, *options, "--", *words, **more)

    def simulated(self, *words, machine="workstation-4090"):
        return self.berth("sim", "--machine", machine, "--", *words)


class WithoutAnEngine(Machine):
    """A program plays podman: what it was called with is in a file."""

    def setUp(self):
        super().setUp()
        self.bin = os.path.join(self.folder, "bin")
        os.mkdir(self.bin)
        self.environment["PATH"] = f"{self.bin}:/usr/bin:/bin"
        self.calls = os.path.join(self.folder, "calls")

    def play(self, script, name="podman"):
        path = os.path.join(self.bin, name)
        with open(path, "w") as file:
            file.write(f'#!/bin/sh\necho "$@" >>{self.calls}\n{script}\n')
        os.chmod(path, 0o755)

    def called(self):
        with open(self.calls) as file:
            return file.read().splitlines()

    def test_no_engine_is_installed(self):
        self.environment["PATH"] = self.bin
        done = self.run_in("true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("none of podman, docker and apptainer is installed (E1100)", done.stderr)

    def test_an_image_that_is_missing_is_fetched_before_the_job(self):
        self.play('case "$1 $2" in "image exists") exit 1;; esac')
        done = self.run_in("true", options=["--cpu"])
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = self.called()
        self.assertEqual(calls[:2], [f"image exists {IMAGE}", f"pull {IMAGE}"])
        self.assertTrue(calls[2].startswith("run --rm "), calls)

    def test_an_image_that_cannot_be_fetched_starts_nothing(self):
        self.play('[ "$1" = image ] && exit 1; echo "no such registry" >&2; exit 125')
        done = self.run_in("true", options=["--cpu"])
        self.assertEqual(done.returncode, 125)
        self.assertIn("no such registry", done.stderr)
        self.assertIn("(E1101)", done.stderr)
        self.assertEqual(len(self.called()), 2)

    def test_a_job_that_was_killed_leaves_no_container(self):
        self.play('[ "$1" = run ] && exec sleep 100; exit 0')
        job = subprocess.Popen([BERTH, "run", "--cpu", "--container", IMAGE, "--", "x"], env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not (os.path.exists(self.calls) and any(call.startswith("run ") for call in self.called())):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        job.kill()
        job.wait()
        while not self.called()[-1].startswith("rm --force berth-"):
            self.assertLess(time.monotonic(), deadline, self.called())
            time.sleep(0.02)

    def test_apptainer_gets_the_guard_by_its_own_variables(self):
        self.play('echo "${LD_PRELOAD:-none} $APPTAINERENV_LD_PRELOAD"; exit 9', name="apptainer")
        done = self.simulated(BERTH, "run", "--engine", "apptainer", "--container", "image.sif", "--memory", "1GiB", "--", "x")
        self.assertEqual((done.returncode, done.stdout), (9, "none /run/berth/libberth-guard.so\n"), done.stderr)
        self.assertIn("/guard/limits:/run/berth/limits:ro", self.called()[0])

    def test_each_rank_has_a_container_of_apptainer(self):
        # Rank 1 fails only when rank 0 has written its line, because rank 0 is then ended.
        self.play('echo "$RANK of $WORLD_SIZE, $MASTER_ADDR, ${LD_PRELOAD:-none} $APPTAINERENV_LD_PRELOAD"\n'
                  f'[ $RANK = 0 ] && {{ touch {self.folder}/written; exec sleep 100; }}\n'
                  f'while [ ! -e {self.folder}/written ]; do sleep 0.01; done; exit 9', name="apptainer")
        report, logs = os.path.join(self.folder, "report.json"), os.path.join(self.folder, "logs")
        done = self.simulated(BERTH, "run", "--ranks", "2", "--gpus", "2", "--memory", "1GiB", "--engine", "apptainer", "--container", "image.sif",
                              "--report", report, "--log-dir", logs, "--", "x", machine="lab-4x3090")
        self.assertEqual(done.returncode, 9, done.stderr)
        for rank in range(2):
            self.assertIn(f"{rank} of 2, 127.0.0.1, none /run/berth/libberth-guard.so\n", done.stdout)
        self.assertEqual(len(os.listdir(logs)), 2)
        with open(report) as file:
            told = json.load(file)
        self.assertEqual((told["container"]["engine"], told["tries"][0]["failed_first"], told["tries"][0]["world_size"]), ("apptainer", 1, 2))
        self.assertEqual([call.endswith(" docker://image.sif x") for call in self.called()], [True, True], self.called())

    def test_what_cannot_be(self):
        self.play("exit 0")
        for options, error in ((["--ranks", "2"], "E1104"), (["--mount", "/no/such/place"], "E1103"),
                               (["--engine", "apptainer"], "E1100")):
            done = self.run_in("true", options=["--cpu", *options])
            self.assertIn(error, done.stderr, options)
            self.assertNotEqual(done.returncode, 0)
        self.assertIn("E0013", self.berth("run", "--cpu", "--mount", "/tmp", "--", "true").stderr)
        self.assertFalse(os.path.exists(self.calls))


class Podman(Machine):
    engine = "podman"

    @classmethod
    def setUpClass(cls):
        if reason := why_no_podman():
            raise unittest.SkipTest(reason)
        cls.files = tempfile.TemporaryDirectory(prefix="berth-image-")
        cls.archive = make_image(cls.files.name)
        cls.conf = os.path.join(cls.files.name, "containers.conf")
        with open(cls.conf, "w") as file:
            file.write(CONF.format('runtime = "runc"\n' if shutil.which("runc") else ""))
        os.environ["CONTAINERS_CONF"] = cls.conf
        cls.addClassCleanup(cls.files.cleanup)
        cls.import_image()

    @classmethod
    def import_image(cls):
        subprocess.run([cls.engine, "import", cls.archive, IMAGE], check=True, capture_output=True)
        cls.addClassCleanup(subprocess.run, [cls.engine, "rmi", "--force", IMAGE], capture_output=True)
        probe = subprocess.run([cls.engine, "run", "--rm", "--network=none", IMAGE, "true"], capture_output=True, text=True)
        if probe.returncode != 0:
            raise unittest.SkipTest(need(f"{cls.engine} cannot run a container here: {probe.stderr.strip()[-200:]}"))

    def setUp(self):
        super().setUp()
        self.options = ["--engine", self.engine, "--engine-option=--network=none"]

    def run_in(self, *words, options=(), **more):
        return super().run_in(*words, options=[*self.options, *options], **more)

    def containers(self):
        return subprocess.run([self.engine, "ps", "--all", "--format", "{{.Names}}"], capture_output=True, text=True, env=self.environment).stdout.split()

    def start(self, *words, options=()):
        return subprocess.Popen([BERTH, "run", "--container", IMAGE, *self.options, *options, "--", *words], env=self.environment, cwd=self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def test_exit_code_streams_and_folder_are_those_of_the_command(self):
        done = self.run_in("bash", "-c", "read line; echo got $line; pwd; echo wrong >&2; echo new >file; exit 7", options=["--cpu"], stdin=None, input="text\n")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (7, f"got text\n{self.folder}\n", "wrong\n"))
        with open(os.path.join(self.folder, "file")) as file:
            self.assertEqual(file.read(), "new\n")
        self.assertEqual(self.containers(), [])

    def test_a_signal_reaches_the_command_once(self):
        job = self.start("bash", "-c", "trap 'echo saved; exit 3' TERM; echo ready; while :; do sleep 0.1; done", options=["--cpu"])
        self.assertEqual(job.stdout.readline(), "ready\n")
        job.send_signal(signal.SIGTERM)
        out, err = job.communicate(timeout=60)
        self.assertEqual((job.returncode, out), (3, "saved\n"), err)

    def test_a_command_that_handles_no_signal_ends_by_it(self):
        job = self.start("bash", "-c", "echo ready; exec sleep 1000", options=["--cpu"])
        self.assertEqual(job.stdout.readline(), "ready\n")
        job.send_signal(signal.SIGTERM)
        out, err = job.communicate(timeout=60)
        # Without catatonit, process 1 ignores it until it is killed after the grace period.
        self.assertIn(job.returncode, (143, 137), err)

    def test_a_retry_is_a_new_container(self):
        done = self.run_in("bash", "-c", "cat old 2>/dev/null; echo try $BERTH_TRY; echo written >/tmp/old; cat /tmp/old; "
                           "[ $BERTH_TRY = 3 ] || { echo 'RuntimeError: CUDA out of memory.' >&2; exit 1; }",
                           options=["--cpu", "--retries", "4", "--backoff", "10ms..20ms"])
        self.assertEqual((done.returncode, done.stdout), (0, "".join(f"try {number}\nwritten\n" for number in (1, 2, 3))), done.stderr)
        self.assertEqual(self.containers(), [])

    def test_an_error_of_the_command_is_not_tried_again(self):
        done = self.run_in("bash", "-c", "echo try $BERTH_TRY; exit 9", options=["--cpu", "--retries", "4"])
        self.assertEqual((done.returncode, done.stdout), (9, "try 1\n"), done.stderr)

    def test_a_try_whose_engine_was_killed_is_followed_by_another_one(self):
        job = self.start("bash", "-c", "echo try $BERTH_TRY; [ $BERTH_TRY = 2 ] || exec sleep 1002", options=["--cpu", "--retries", "2", "--backoff", "10ms..20ms"])
        self.assertEqual(job.stdout.readline(), "try 1\n")
        (name,) = self.containers()
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                if entry.isdigit() and words[1:2] == [b"run"] and name.encode() in words and os.path.basename(words[0]) == self.engine.encode():
                    os.kill(int(entry), signal.SIGKILL)
        out, err = job.communicate(timeout=100)
        self.assertEqual((job.returncode, out), (0, "try 2\n"), err)
        self.assertEqual(self.containers(), [])

    def test_nothing_is_left_when_berth_is_killed(self):
        job = self.start("bash", "-c", "echo ready; exec sleep 1001", options=["--cpu"])
        self.assertEqual(job.stdout.readline(), "ready\n")
        self.assertEqual(len(self.containers()), 1)
        job.kill()
        job.communicate()
        deadline = time.monotonic() + 60
        while self.containers():
            self.assertLess(time.monotonic(), deadline, self.containers())
            time.sleep(0.1)

    def test_the_guard_holds_the_quota_in_the_container(self):
        report = os.path.join(self.folder, "report.json")
        done = self.simulated(BERTH, "run", "--container", IMAGE, *self.options, "--memory", "2GiB", "--report", report, "--", "bash", "-c",
                              f"take_memory {3 * GIB} {MIB} & sleep 3; kill %1; echo x >/run/berth/limits || echo limits are read-only")
        self.assertEqual(done.stdout.splitlines(), [f"{3 * GIB}: out of memory", f"{MIB}: granted", "limits are read-only"], done.stderr)
        with open(report) as file:
            seen = json.load(file)
        self.assertEqual(seen["container"], {"engine": self.engine, "image": IMAGE})
        self.assertEqual((seen["isolation"]["by"], seen["isolation"]["devices"][0]["refusals"], seen["gpu_use"]), ("guard", 1, "seen"))
        self.assertEqual(seen["left_behind"], [])

    def test_without_the_guard_the_same_request_is_granted(self):
        done = self.simulated(BERTH, "run", "--container", IMAGE, *self.options, "--memory", "2GiB", "--isolation", "none", "--", "bash", "-c",
                              f"take_memory {3 * GIB} & sleep 2; kill %1")
        self.assertEqual(done.stdout, f"{3 * GIB}: granted\n", done.stderr)

    def test_a_static_program_or_one_for_musl_runs_and_is_not_said_to_be_limited(self):
        for program in ("of_static", "of_musl") if shutil.which("musl-gcc") else ("of_static",):
            with self.subTest(program):
                done = self.simulated(BERTH, "run", "--container", IMAGE, *self.options, "--memory", "2GiB", "--report", "-", "--", program)
                self.assertEqual((done.returncode, done.stdout), (5, "ran\n"), done.stderr)
                self.assertNotIn("limited by the guard", done.stderr)

    def test_a_queued_job_has_its_own_guard(self):
        options = " ".join(self.options)
        done = self.simulated("sh", "-c", f"{BERTH} run --queue --container {IMAGE} {options} --memory 2GiB -- bash -c "
                                          f"'take_memory {3 * GIB} & sleep 2; kill %1' && {BERTH} wait 1; {BERTH} logs 1")
        self.assertIn(f"{3 * GIB}: out of memory", done.stdout, done.stderr)


class Hook(Machine):
    """Containers that are started without Berth, after `berth container --install`."""

    CARD = "--device=/dev/null:/dev/nvidia0"  # the device file of the simulated GPU 0

    def setUp(self):
        super().setUp()
        os.mkdir(os.path.join(self.folder, "root"))

    def install(self, *words):
        done = self.berth("container", *words, "--root", os.path.join(self.folder, "root"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_docker_has_its_own_settings_again_after_remove(self):
        os.makedirs(os.path.join(self.folder, "root/etc/docker"))
        path = os.path.join(self.folder, "root/etc/docker/daemon.json")
        before = {"log-driver": "journald", "default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}
        with open(path, "w") as file:
            json.dump(before, file)
        for _ in range(2):
            self.install("--install")
        with open(path) as file:
            changed = json.load(file)
        self.assertEqual(changed["default-runtime"], "berth")
        self.assertIn("/usr/bin/nvidia-container-runtime", changed["runtimes"]["berth"]["runtimeArgs"])
        self.install("--remove")
        with open(path) as file:
            self.assertEqual(json.load(file), before)
        self.assertEqual(glob.glob(os.path.join(self.folder, "root/etc/containers/oci/hooks.d/*")), [])

    def test_a_broken_daemon_json_is_left_as_it_is(self):
        os.makedirs(os.path.join(self.folder, "root/etc/docker"))
        path = os.path.join(self.folder, "root/etc/docker/daemon.json")
        with open(path, "w") as file:
            file.write("{ not JSON")
        done = self.berth("container", "--install", "--root", os.path.join(self.folder, "root"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("E1106", done.stderr)
        with open(path) as file:
            self.assertEqual(file.read(), "{ not JSON")

    def test_the_runtime_adds_the_hook_for_containers_with_a_gpu_alone(self):
        bundle = os.path.join(self.folder, "bundle")
        os.mkdir(bundle)
        path = os.path.join(bundle, "config.json")
        for devices, hooks in (([], 0), ([{"path": "/dev/nvidia0"}], 1)):
            with open(path, "w") as file:
                json.dump({"linux": {"devices": devices}, "process": {"env": ["NVIDIA_VISIBLE_DEVICES=all"]}}, file)
            done = self.berth("container", "runtime", "--next", "echo", "--", "--root", "/r", "create", "--bundle", bundle, "id7")
            self.assertEqual((done.returncode, done.stdout), (0, f"--root /r create --bundle {bundle} id7\n"), done.stderr)
            with open(path) as file:
                self.assertEqual(len(json.load(file).get("hooks", {}).get("prestart", [])), hooks)

    def test_what_is_no_state_of_a_container_stops_it(self):
        for text in ("", "{}", '{"pid": 1, "bundle": "/"}', '{"pid": 7, "bundle": "/nonexistent"}'):
            self.assertNotEqual(self.berth("container", "prestart", stdin=None, input=text).returncode, 0, text)

    def test_a_root_that_does_not_exist_is_not_created(self):
        root = os.path.join(self.folder, "rooot")
        for word in ("--install", "--remove"):
            done = self.berth("container", word, "--root", root)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"--root: {root} is not a folder, so no system is installed there (E1079)", done.stderr)
        self.assertFalse(os.path.exists(root))

    def test_a_container_that_only_says_it_is_of_a_job_is_not_of_it(self):
        """The container and a process outside the job have the same number and token: only a process of the job proves it."""
        bundle = os.path.join(self.folder, "bundle")
        os.mkdir(bundle)
        started = os.path.join(self.folder, "started")
        for says, own, code in (("1", "A=1", 6), ("1:5e", "A=1", 6), ("1:5e", "BERTH_CONTAINER_JOB=1:5e", 0)):
            with open(os.path.join(bundle, "config.json"), "w") as file:
                json.dump({"linux": {"devices": [{"path": "/dev/nvidia0"}]}, "process": {"env": ["BERTH_CONTAINER_JOB=" + says]}}, file)
            self.environment["BERTH_RUNTIME_DIR"] = tempfile.mkdtemp(dir=self.folder)
            done = self.simulated("bash", "-c", f"""
                rm -f {started}
                {BERTH} run --devices 0 --report none -- env {own} sh -c 'echo >{started}; while [ -e {started} ]; do sleep 0.1; done' &
                while [ ! -e {started} ]; do sleep 0.1; done
                export BERTH_CONTAINER_JOB={says}
                echo '{{"id": "c1", "pid": '$$', "bundle": "{bundle}"}}' | {BERTH} container prestart
                echo code $?
                rm {started}; wait""")
            self.assertEqual(done.stdout, f"code {code}\n", done.stderr)

    def test_podman_containers_have_a_lease_until_they_end(self):
        if reason := why_no_podman():
            self.skipTest(reason)
        Podman.setUpClass()
        self.addCleanup(Podman.doClassCleanups)
        hooks = os.path.join(self.folder, "root/etc/containers/oci/hooks.d")
        conf = os.path.join(self.folder, "conf")
        with open(conf, "w") as file:
            file.write(CONF.format(f'hooks_dir = ["{hooks}"]\n' + ('runtime = "runc"\n' if shutil.which("runc") else "")))
        self.environment["CONTAINERS_CONF"] = conf
        done = self.simulated("sh", "-c", f"""
            {BERTH} container --install --root {self.folder}/root >&2
            podman run --rm -d --name berth-hook-1 {self.CARD} {IMAGE} sleep 100 >&2
            {BERTH} jobs | grep -c 'running.*GPU 0.*container '
            podman run --rm {self.CARD} {IMAGE} true; echo second $?
            podman run --rm {IMAGE} true; echo without $?
            {BERTH} run --no-wait -- true; echo run $?
            podman rm -f -t 0 berth-hook-1 >&2
            for i in $(seq 100); do {BERTH} jobs | grep -q running || break; sleep 0.1; done
            {BERTH} run --container {IMAGE} --engine podman --engine-option={self.CARD} -- true; echo own $?""")
        self.assertEqual(done.stdout.splitlines(), ["1", "second 126", "without 0", "run 6", "own 0"], done.stderr)
        self.assertIn("GPU 0: job 1 (", done.stderr)


class Docker(Podman):
    engine = "docker"

    @classmethod
    def setUpClass(cls):
        if not shutil.which("docker"):
            raise unittest.SkipTest("docker is not installed")
        if not cls.answers():
            cls.start_daemon()
        super().setUpClass()

    @staticmethod
    def answers():
        return subprocess.run(["docker", "version"], capture_output=True).returncode == 0

    @classmethod
    def start_daemon(cls):
        """A daemon of the test's own, which changes no network."""
        if not shutil.which("dockerd") or os.geteuid() != 0:
            raise unittest.SkipTest("no docker daemon answers, and none can be started")
        files = tempfile.TemporaryDirectory(prefix="berth-docker-")
        cls.addClassCleanup(files.cleanup)
        os.environ["DOCKER_HOST"] = f"unix://{files.name}/socket"
        cls.addClassCleanup(os.environ.pop, "DOCKER_HOST")
        log = open(os.path.join(files.name, "log"), "w+")
        with open(os.path.join(files.name, "daemon.json"), "w") as file:
            file.write("{}")
        daemon = subprocess.Popen(["dockerd", "--iptables=false", "--bridge=none", "--host", os.environ["DOCKER_HOST"], "--pidfile", f"{files.name}/pid",
                                   "--data-root", f"{files.name}/data", "--exec-root", f"{files.name}/exec", "--config-file", f"{files.name}/daemon.json"],
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        cls.addClassCleanup(log.close)
        cls.addClassCleanup(daemon.wait)
        cls.addClassCleanup(daemon.terminate)
        deadline = time.monotonic() + 60
        while not cls.answers():
            if daemon.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise unittest.SkipTest(need("dockerd does not start: " + log.read()[-300:]))
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main()
