#!/usr/bin/env python3
"""The kernel denies jobs the GPUs they have no lease on. The nodes have a simulated machine's GPU numbers, which no driver serves:
opening one gives ENXIO if the kernel allows it, EPERM if not.

usage: fence_test.py BERTH DAEMON_PROBE
"""
import contextlib
import ctypes
import json
import os
import pathlib
import pty
import pwd
import random
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from machine import Machine, switch_off, switch_on, unified, wait_until

BERTH, PROBE = (os.path.abspath(word) for word in sys.argv[1:3])
SOAK = "BERTH_SOAK" in os.environ
NOBODY = pwd.getpwnam("nobody").pw_uid
TRY = """for n in 0 1 2 3; do
  case "$( (: < "$NODES/nvidia$n") 2>&1 )" in *"not permitted"*) ;; *) echo "$n" ;; esac
done
"""
SAY = 'echo "has $CUDA_VISIBLE_DEVICES"; '
WAYS = {
    "direct": SAY + "sh $NODES/try",
    "exec": SAY + "exec sh $NODES/try",
    "setsid": SAY + "setsid -w sh $NODES/try",
    "two forks": SAY + "(setsid sh -c 'sh $NODES/try > $OUT.new; mv $OUT.new $OUT' &) & until [ -e $OUT ]; do sleep 0.01; done; cat $OUT",
}


def bpf(command, **at):
    """Calls bpf(2) on x86-64 or arm64. Attributes are given by offset, as 32 or 64 bits. Returns the result and the attributes as the
    kernel changed them."""
    number = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    attributes = bytearray(120)
    for offset, (form, value) in at.items():
        struct.pack_into(form, attributes, int(offset[1:]), value)
    whole = (ctypes.c_char * len(attributes)).from_buffer(attributes)
    return ctypes.CDLL(None, use_errno=True).syscall(number, command, whole, len(attributes)), attributes


def drop_filters(group):
    """Detaches the device filters of a group, as `systemctl daemon-reload` may do. Returns how many there were."""
    folder, ids = os.open(group, os.O_RDONLY), (ctypes.c_uint32 * 64)()
    _, told = bpf(16, _0=("I", folder), _4=("I", 6), _16=("Q", ctypes.addressof(ids)), _24=("I", 64))
    count = struct.unpack_from("I", told, 24)[0]
    for one in ids[:count]:
        program, _ = bpf(13, _0=("I", one))
        bpf(9, _0=("I", folder), _4=("I", program), _8=("I", 6))
        os.close(program)
    os.close(folder)
    return count


class Fenced(unittest.TestCase):
    enforce = ("observe", "", "", "")

    def setUp(self):
        self.machine_of, self.variables = switch_on(BERTH, "lab-4x3090")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="berth-fence-"))
        self.folder.chmod(0o755)
        (self.folder / "run").mkdir(0o755)
        (self.folder / "try").write_text(TRY)
        for n in range(4):
            os.mknod(self.folder / f"nvidia{n}", stat.S_IFCHR | 0o666, os.makedev(195, n))
            os.chmod(self.folder / f"nvidia{n}", 0o666)
        self.variables |= {"BERTH_RUNTIME_DIR": f"{self.folder}/run", "NODES": str(self.folder)}
        self.point, own = unified()
        self.groups = (own if own.name.endswith(".service") else self.point) / f"berth-test-{os.getpid()}"
        self.enforced = self.point / f"berth-test-{os.getpid()}-all"
        self.enforced.mkdir()
        self.daemon = None
        self.start()

    def tearDown(self):
        self.stop(signal.SIGKILL)
        switch_off(self.machine_of)
        for group in [*self.groups.glob("job-*"), self.groups / "probe", self.groups, self.enforced]:
            if group.is_dir():
                (group / "cgroup.kill").write_text("1")
                self.assertTrue(wait_until(lambda one=group: self.removed(one)), group)
        shutil.rmtree(self.folder)

    def start(self, *mode):
        self.daemon = subprocess.Popen([PROBE, self.folder / "run/berth.sock", self.folder / "state", "all", self.groups.name,
                                        *(mode or self.enforce)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.variables)
        said = self.daemon.stdout.readline()
        if said != "ready\n":
            raise AssertionError(self.daemon.stderr.read())

    def stop(self, how=signal.SIGTERM):
        self.daemon.send_signal(how)
        self.daemon.wait()
        self.daemon.stdout.close()
        self.daemon.stderr.close()

    def berth(self, *words, inside=None, user=None, start=False, **more):
        def enter():
            if inside:
                (inside / "cgroup.procs").write_text("0")
            if user is not None:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)

        # With `start`, the caller gets the running process. Otherwise this waits for its end.
        call = subprocess.Popen if start else lambda *a, **k: subprocess.run(*a, timeout=60, **k)
        return call([BERTH, *words], env={**self.variables, **more}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True, cwd="/", preexec_fn=enter)

    def job(self, number, wait=""):
        return Machine.job(self, number, wait)

    def call(self, *words):
        return Machine.call(self, *words)

    def jobs(self):
        return self.call("GET", "/v1/jobs?all")["jobs"]

    @staticmethod
    def removed(group):
        with contextlib.suppress(OSError):
            group.rmdir()
        return not group.exists()

    @staticmethod
    def inside(group):
        with contextlib.suppress(OSError):
            return (group / "cgroup.procs").read_text().split()
        return []

    def opens(self, inside=None, user=None):
        """The numbers of the device nodes that a process without a lease can open."""
        return subprocess.run(["sh", self.folder / "try"], env=self.variables, capture_output=True, text=True, check=True,
                              preexec_fn=lambda: self.become(inside, user)).stdout.split()

    @staticmethod
    def become(inside, user):
        if inside:
            (inside / "cgroup.procs").write_text("0")
        if user is not None:
            os.setresuid(user, user, user)

    def queue(self, *words, **more):
        done = self.berth("run", "--queue", *words, **more)
        self.assertEqual((done.returncode, done.stdout.strip().isdigit()), (0, True), done.stderr)
        return int(done.stdout.split()[-1])

    def gone(self, number):
        return wait_until(lambda: not (self.groups / f"job-{number}").exists())


class Access(Fenced):
    def trial(self, way, gpus, queued, user=None, **more):
        out = self.folder / f"out-{random.random()}"
        words = (*(["--gpus", str(gpus)] if gpus else ["--cpu"]), "--", "sh", "-c", WAYS[way])
        if queued:
            number = self.queue(*words, user=user, OUT=str(out))
            ended = self.job(number, "ended")
            said = pathlib.Path(ended["log"]).read_text().split("\n")
            self.assertEqual((ended["outcome"]["exit_code"], ended["access"]), (0, "kernel"), (way, said))
            refusals = ended["refusals"]
        else:
            done = self.berth("run", "--json", *words, user=user, OUT=str(out), **more)
            said = done.stdout.split("\n")
            report = json.loads(done.stderr.splitlines()[-1])
            self.assertEqual((done.returncode, report["access"]), (0, "kernel"), (way, done.stderr))
            self.assertEqual(report["gpu_use"] == "denied_by_kernel", not gpus, report)
            refusals = self.job(report["job"])["refusals"]
        has = said[0].removeprefix("has ").split(",") if gpus else []
        self.assertEqual((said[1:-1], len(has), refusals), (has, gpus, 4 - gpus), (way, queued, said))

    def test_a_job_opens_what_it_has_and_nothing_else_however_it_tries(self):
        """The unit of counting is an attempt to open a node: four for each job."""
        chance = random.Random(4)
        self.assertEqual(self.opens(), ["0", "1", "2", "3"])
        every = [(way, gpus, queued) for way in WAYS for gpus in (0, 1, 2) for queued in (False, True)]
        for way, gpus, queued in every if not SOAK else (every * 42)[:1000]:
            blocker = self.queue("--gpus", "1", "--", "sleep", "1000") if chance.random() < 0.5 else None
            self.trial(way, gpus, queued)
            if blocker:
                self.call("POST", f"/v1/jobs/{blocker}/cancel?wait=ended", {})
        self.assertTrue(wait_until(lambda: not list(self.groups.glob("job-*"))))

    def test_a_user_without_rights_is_kept_too_and_brings_in_only_what_is_their_own(self):
        subprocess.run(["chmod", "-R", "a+rwX", self.variables["BERTH_SIM_DIR"]], check=True)
        self.folder.chmod(0o777)
        for way in WAYS:
            self.trial(way, 1, True, NOBODY)
            self.trial(way, 1, False, NOBODY)
        mine = self.call("POST", "/v1/jobs", {"request": {"gpus": 1}, "owners": [{"pid": os.getpid()}]})["job"]
        self.assertEqual((mine["access"], mine["group"]), ("variable", f"{self.groups}/job-{mine['id']}"))
        other = subprocess.Popen(["sleep", "1000"], user=NOBODY)
        said = self.call("POST", f"/v1/jobs/{mine['id']}/enter", {"owners": [{"pid": other.pid}]})
        self.assertEqual(said["error"]["id"], "E0912", said)
        said = self.call("POST", f"/v1/jobs/{mine['id']}/enter", {"owners": [{"pid": 1 << 22}]})
        self.assertEqual(said["error"]["id"], "E0912", said)
        self.assertEqual(self.inside(self.groups / f"job-{mine['id']}"), [])
        sleeper = subprocess.Popen(["sleep", "1000"])
        said = self.call("POST", f"/v1/jobs/{mine['id']}/enter", {"owners": [{"pid": sleeper.pid}]})["job"]
        self.assertEqual((said["access"], self.inside(pathlib.Path(said["group"]))), ("kernel", [str(sleeper.pid)]))
        self.call("POST", f"/v1/jobs/{mine['id']}/end", {"outcome": {"class": 0, "exit_code": 0}})
        self.assertEqual(sleeper.wait(20), -9)
        other.kill()
        other.wait()

    def test_a_filter_that_somebody_drops_comes_back(self):
        number = self.queue("--gpus", "1", "--", "sh", "-c", "while sleep 0.05; do sh $NODES/try > $NODES/new; mv $NODES/new $NODES/now; done")
        now = self.folder / "now"
        opened = lambda: now.exists() and len(now.read_text().split())
        self.assertTrue(wait_until(lambda: opened() == 1))
        self.assertEqual(drop_filters(self.groups / f"job-{number}"), 1)
        self.assertTrue(wait_until(lambda: opened() == 4), "without its filter it opens all")
        self.assertTrue(wait_until(lambda: opened() == 1))
        self.call("POST", f"/v1/jobs/{number}/cancel?wait=ended", {})
        self.stop()

    def test_the_filter_stays_while_there_is_no_broker_and_the_next_one_takes_it_over(self):
        script = "until [ -e $NODES/go ]; do sh $NODES/try > $NODES/new-$OUT; mv $NODES/new-$OUT $NODES/$OUT; sleep 0.05; done"
        number = self.queue("--gpus", "1", "--", "sh", "-c", script, OUT="queued")
        front = self.berth("run", "--gpus", "1", "--json", "--", "sh", "-c", script, OUT="front", start=True)

        def opened():
            for out in ("queued", "front"):
                with contextlib.suppress(OSError):
                    (self.folder / out).unlink()
            self.assertTrue(wait_until(lambda: (self.folder / "queued").exists() and (self.folder / "front").exists()))
            return [len((self.folder / out).read_text().split()) for out in ("queued", "front")]

        self.assertEqual(opened(), [1, 1])
        self.stop(signal.SIGKILL)
        self.assertEqual(opened(), [1, 1])
        left = self.groups / "job-999"  # the journal does not know this job, so the broker must leave it running
        left.mkdir()
        stray = subprocess.Popen(["sleep", "1000"], preexec_fn=lambda: (left / "cgroup.procs").write_text("0"))
        self.start()
        self.assertEqual(opened(), [1, 1])
        self.assertIsNone(stray.poll())
        stray.kill()
        stray.wait()
        running = {one["id"]: one["access"] for one in self.jobs()}
        self.assertEqual((len(running), set(running.values())), (2, {"kernel"}))
        for one in running:
            self.assertEqual(drop_filters(self.groups / f"job-{one}"), 1, "one filter, not two")
        self.assertTrue(wait_until(lambda: opened() == [4, 4]))
        self.assertTrue(wait_until(lambda: opened() == [1, 1]))
        (self.folder / "go").touch()
        self.assertEqual(front.wait(60), 0)
        self.assertEqual(json.loads(front.stderr.read().splitlines()[-1])["access"], "kernel")
        front.stdout.close()
        front.stderr.close()
        self.assertEqual(self.job(number, "ended")["state"], "done")
        self.assertTrue(self.gone(number))


    def test_a_broker_of_another_state_folder_keeps_off(self):
        number = self.queue("--gpus", "1", "--", "sleep", "1000")
        group, second = self.groups / f"job-{number}", self.groups.with_name(self.groups.name + "-2")
        self.assertTrue(wait_until(lambda: self.inside(group)))
        for alone in (False, True):
            if alone:
                self.stop(signal.SIGKILL)
            other = subprocess.Popen([PROBE, self.folder / "other.sock", self.folder / "other", "all", self.groups.name, *self.enforce],
                                     stdout=subprocess.PIPE, text=True, env=self.variables)
            self.assertEqual(other.stdout.readline(), "ready\n")
            self.assertTrue(second.is_dir())
            other.terminate()
            other.wait()
            other.stdout.close()
            self.assertFalse(second.exists())
            self.assertTrue(self.inside(group), "it ended what it does not know")
        self.start()
        self.assertEqual(self.job(number)["access"], "kernel")
        self.call("POST", f"/v1/jobs/{number}/cancel?wait=ended", {})
        self.assertTrue(self.gone(number))

    def test_jobs_that_another_state_folder_left_where_ours_once_were_are_not_ended(self):
        self.stop(signal.SIGKILL)
        ours, theirs = self.folder / "state", self.folder / "theirs"
        ours.rename(self.folder / "kept")
        self.start()
        number = self.queue("--gpus", "1", "--", "sleep", "1000")
        group = self.groups / f"job-{number}"
        self.assertTrue(wait_until(lambda: self.inside(group)))
        self.stop(signal.SIGKILL)
        ours.rename(theirs)
        (self.folder / "kept").rename(ours)
        self.start()
        self.assertTrue(self.groups.with_name(self.groups.name + "-2").is_dir())
        time.sleep(0.2)
        self.assertTrue(self.inside(group), "it ended what it does not know")
        self.stop()
        ours.rename(self.folder / "kept")
        theirs.rename(ours)
        self.start()
        self.assertEqual(self.job(number)["access"], "kernel")
        self.call("POST", f"/v1/jobs/{number}/cancel?wait=ended", {})
        self.assertTrue(self.gone(number))


class NothingSurvives(Fenced):
    SCRIPT = "(setsid sh -c 'setsid sleep 1000 & exec sleep 1001' &) & echo started; sleep 1002"

    def check(self, number):
        self.assertTrue(self.gone(number), (number, self.inside(self.groups / f"job-{number}")))
        free = self.call("POST", "/v1/jobs", {"request": {"gpus": 4}, "owners": [{"pid": os.getpid()}]})["job"]
        self.assertEqual(self.job(free["id"], "started")["state"], "running")
        self.call("POST", f"/v1/jobs/{free['id']}/end", {"outcome": {"class": 0, "exit_code": 0}})

    def number_of(self, state="running"):
        (number,) = [one["id"] for one in self.jobs() if one["state"] == state]
        return number

    def members(self, number):
        """Waits until the script has started everything. Returns {command: pid}."""
        found = {}

        def all_there():
            found.clear()
            for pid in self.inside(self.groups / f"job-{number}"):
                with contextlib.suppress(OSError):
                    found[pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ").strip()] = int(pid)
            return all(f"sleep {n}" in found for n in (1000, 1001, 1002))

        self.assertTrue(wait_until(all_there), found)
        return found

    def test_of_a_queued_job_whoever_is_killed(self):
        for victim in ("job", "keeper", "grandchild"):
            number = self.queue("--gpus", "1", "--", "sh", "-c", self.SCRIPT)
            pids = self.members(number)
            if victim == "keeper":
                status = pathlib.Path(self.job(number)["log"]).with_suffix(".status")
                os.kill(int(status.read_text().split()[0]), signal.SIGKILL)
            elif victim == "job":
                os.kill(pids[f"sh -c {self.SCRIPT}"], signal.SIGKILL)
            else:
                os.kill(pids["sleep 1000"], signal.SIGKILL)
                self.call("POST", f"/v1/jobs/{number}/cancel?wait=ended", {})
            self.job(number, "ended")
            self.check(number)

    def test_of_a_job_in_a_terminal_whoever_is_killed(self):
        for victims in (("job",), ("keeper",), ("front",), ("keeper", "front"), ("front", "keeper", "job")):
            front = self.berth("run", "--gpus", "1", "--", "sh", "-c", self.SCRIPT, start=True)
            self.assertEqual(front.stdout.readline(), "started\n")
            number = self.number_of()
            pids = self.members(number)
            who = {"front": front.pid, "keeper": pids[f"job-keeper of {front.pid}"], "job": pids[f"sh -c {self.SCRIPT}"]}
            for victim in victims:  # stop all of them first, so that they die as simultaneously as possible
                os.kill(who[victim], signal.SIGSTOP if len(victims) > 1 else signal.SIGKILL)
            for victim in victims if len(victims) > 1 else ():
                os.kill(who[victim], signal.SIGKILL)
            front.wait(20)
            front.stdout.close()
            front.stderr.close()
            self.job(number, "ended")
            self.check(number)


class Enforced(Fenced):
    """A shell in a group on which root's broker enforces leases."""

    def setUp(self):
        self.enforce = ("enforce", str(unified()[0] / f"berth-test-{os.getpid()}-all"), "", "")
        super().setUp()

    def test_nobody_opens_a_gpu_without_a_lease(self):
        shells = [subprocess.Popen(["sh"], env={**self.variables, "BERTH": BERTH}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: self.become(self.enforced, None)) for _ in range(2)]

        def ask(shell, line):
            shell.stdin.write(line + "; echo end\n")
            shell.stdin.flush()
            said = []
            while (word := shell.stdout.readline().strip()) != "end":
                said.append(word)
            return said

        for _ in range(1000 // 4 if SOAK else 3):
            for shell in shells:
                self.assertEqual(ask(shell, "sh $NODES/try"), [])
                self.assertEqual(ask(shell, "setsid -w sh $NODES/try"), [])
                has = ask(shell, "$BERTH run --gpus 1 -- sh -c 'echo $CUDA_VISIBLE_DEVICES; sh $NODES/try'")
                self.assertEqual((len(has), has[1:]), (2, has[:1]))
                self.assertEqual(ask(shell, "sh $NODES/try"), [])
        self.assertEqual(len(self.opens()), 4, "outside of the group nothing is enforced")
        # Without access to any node the driver shows no GPU. The broker says which GPUs exist.
        blind = ask(shells[0], "LD_LIBRARY_PATH= $BERTH run --gpus 2 --report none -- sh -c 'echo $CUDA_VISIBLE_DEVICES; sh $NODES/try'")
        self.assertEqual((len(blind), blind[0].split(",")), (3, blind[1:]))
        self.stop(signal.SIGKILL)
        self.assertEqual(ask(shells[0], "sh $NODES/try"), [], "what is enforced outlives a broker that is killed")
        self.start()
        self.assertEqual(ask(shells[0], "sh $NODES/try"), [])
        self.assertEqual(drop_filters(self.enforced), 1)
        self.assertTrue(wait_until(lambda: not ask(shells[0], "sh $NODES/try")))
        self.stop()
        self.assertEqual(len(ask(shells[0], "sh $NODES/try")), 4, "it ends with a broker that ends in order")
        self.start()
        self.assertEqual(ask(shells[0], "sh $NODES/try"), [])
        self.stop(signal.SIGKILL)
        self.start("observe", "", "", "")
        self.assertEqual(len(ask(shells[0], "sh $NODES/try")), 4, "a broker that does not enforce takes back what another left")
        for shell in shells:
            shell.stdin.close()
            shell.wait()
            shell.stdout.close()

    def test_who_is_exempt_by_name_opens_all(self):
        self.folder.chmod(0o755)
        self.assertEqual(self.opens(self.enforced, NOBODY), [])
        self.stop()
        self.start("enforce", str(self.enforced), "nobody", "")
        self.assertEqual((len(self.opens(self.enforced, NOBODY)), self.opens(self.enforced)), (4, []))
        self.stop()
        self.start("enforce", str(self.enforced), "", "root")
        self.assertEqual(len(self.opens(self.enforced)), 4)

    def test_what_cannot_be_enforced_is_refused(self):
        self.stop()
        for words in (("enforce", "/no/such/group", "", ""), ("enforce", str(self.point), "", ""), ("enforce", str(self.enforced), "no-such-user", "")):
            with self.assertRaisesRegex(AssertionError, "E0942"):
                self.start(*words)
        self.start()


class Warned(Fenced):
    enforce = ("warn", "", "", "")

    def test_the_owner_of_a_process_without_a_lease_is_told_once_on_its_terminal(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvp("sleep", ["sleep", "1000"])
        self.stop()
        switch_off(self.machine_of)
        self.machine_of, machine = switch_on(BERTH, "lab-4x3090", "--attach", f"{pid}:1:2GiB")
        self.variables |= {name: value for name, value in machine.items() if name != "BERTH_RUNTIME_DIR"}
        self.start()
        os.set_blocking(terminal, False)

        def said():
            with contextlib.suppress(BlockingIOError):
                return os.read(terminal, 4096).decode()
            return ""

        told = ""
        end = time.monotonic() + 20
        while not told.endswith("COMMAND\r\r\n") and time.monotonic() < end:
            told += said()
            time.sleep(0.05)
        self.assertIn(f"your process {pid} uses GPU 1", told)
        for _ in range(3):
            time.sleep(2.1)
            self.call("POST", "/v1/jobs", {"request": {"gpus": 1}, "owners": [{"pid": os.getpid()}]})
        self.assertEqual(said(), "")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def why_not():
    if os.geteuid() != 0:
        return "only root makes control groups and device nodes"
    if unified() is None:
        return "there is no cgroup v2 here"
    probe = unified()[0] / f"berth-test-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
        with tempfile.TemporaryDirectory() as folder:
            os.mknod(f"{folder}/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
            open(f"{folder}/null").close()
    except OSError as problem:
        return str(problem)
    return None


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    del sys.argv[1:3]
    unittest.main()
