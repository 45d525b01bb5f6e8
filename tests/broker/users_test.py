#!/usr/bin/env python3
"""Users who share a machine through root's broker: no user can see, end, hold or take what belongs to another, under any claimed identity.

usage: users_test.py BERTH
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import sys
import unittest

import machine_of_all
from machine import unified
from machine_of_all import MachineOfAll, processes_with, wait_until

NO_NAME = 54321  # a uid without a name, as if a directory service did not answer
HANDED_ON = """
import array, json, os, socket, sys
ours, theirs = socket.socketpair()
pid = os.fork()
if pid == 0:
    made = socket.socket(socket.AF_UNIX)
    made.connect("/run/berth/berth.sock")
    theirs.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [made.fileno()]))])
    os._exit(0)
_, passed, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
os.waitpid(pid, 0)
print(pid, flush=True)
sys.stdin.readline()
made = socket.socket(fileno=array.array("i", passed[0][2][:4])[0])
body = json.dumps({"request": {"gpus": 1}}).encode()
made.sendall(b"POST /v1/jobs HTTP/1.1\\r\\nHost: b\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
said = b""
while more := made.recv(65536):
    said += more
print(said.decode().split("\\r\\n\\r\\n", 1)[1])
"""


class Users(MachineOfAll):
    def queue(self, who, *words, **more):
        done = who("run", "--queue", *words, **more)
        self.assertEqual((done.returncode, done.stdout.strip().isdigit()), (0, True), done.stderr)
        return int(done.stdout.split()[-1])

    def jobs(self, who, *words):
        done = who("jobs", "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {one["id"]: one for one in json.loads(done.stdout)["jobs"]}

    def state(self, who, job):
        return self.jobs(who, "--all")[job]["state"]

    def secret_job(self, who, *options):
        job = self.queue(who, *options, "--name", "tell-no-one", "--", "sh", "-c", "echo tell-no-one; sleep 1000; : tell-no-one",
                         SECRET="tell-no-one")
        return job

    def test_nobody_gets_rid_of_a_limit_by_queueing(self):
        alice = self.person("alice")
        script = f'ulimit -n 120; ulimit -u 400; renice -n {os.nice(0) + 4} $$ > /dev/null; "$0" run --queue --cpu -- bash -c "ulimit -Hn; ulimit -Hu; nice"'
        job = alice.command("bash", "-c", script, self.berth).stdout.split()[-1]
        self.assertEqual(alice("wait", job).returncode, 0)
        self.assertEqual(alice("logs", job).stdout.split(), ["120", "400", str(os.nice(0) + 4)])

    def test_who_may_not_have_more_is_told_so_and_never_waits_for_what_is_not_allowed(self):
        settings = pathlib.Path("/run/limits.toml")
        settings.write_text("[everyone]\nmost_devices = 2\n")
        self.stop()
        self.serve(None, "--config", str(settings))
        alice = self.person("alice")
        for words in (["run", "--queue", "--gpus", "3"], ["run", "--no-wait", "--gpus", "3"], ["run", "--queue", "--array", "1-2", "--gpus", "3"]):
            done = alice(*words, "--", "true")
            self.assertEqual(done.returncode, 125, words)
            self.assertIn("one user may have 2 devices at a time, and 3 were requested (E0938)", done.stderr)
            self.assertIn("hint: berth run --gpus 2 …", done.stderr)
        self.queue(alice, "--gpus", "2", "--time-limit", "1h", "--", "sleep", "1000")
        done = alice("run", "--no-wait", "--gpus", "1", "--", "true")
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("you have reached the limit of devices or jobs for one user", done.stderr)
        why = alice("why", str(self.queue(alice, "--gpus", "1", "--", "true"))).stdout
        self.assertIn("alice has reached the limit of devices or jobs for one user", why)
        self.assertRegex(why, "when .*, when the time limit of job [0-9]+ \\(alice\\) expires")

    def test_administrators_read_what_jobs_write(self):
        subprocess.run(["groupadd", "gpuadmins"], check=True)
        settings = pathlib.Path("/run/admins.toml")
        settings.write_text('admins = ["gpuadmins"]\n')
        self.stop()
        self.serve(None, "--config", str(settings))
        alice, bob, boss = self.person("alice"), self.person("bob"), self.person("boss")
        subprocess.run(["usermod", "-aG", "gpuadmins", "boss"], check=True)
        boss.as_them[-1] = "--init-groups"
        job = str(self.queue(alice, "--cpu", "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo; sleep 0.5; echo end"))
        self.assertEqual(boss("logs", "-f", job).stdout, "x" * 3_000_000 + "\nend\n")
        self.assertEqual(boss("logs", job).stdout, alice("logs", job).stdout)
        self.assertIn("E0902", bob("logs", job).stderr)

    @unittest.skipIf(unified() is None, "no cgroup v2 here")
    def test_settings_have_leases_enforced(self):
        group = unified()[0] / f"berth-test-{os.getpid()}-settings"
        group.mkdir()
        self.addCleanup(group.rmdir)
        for n in range(4):  # no driver serves these numbers here, so an open that the kernel allows gives ENXIO
            os.mknod(f"/run/nvidia{n}", stat.S_IFCHR | 0o666, os.makedev(195, n))
            self.addCleanup(os.unlink, f"/run/nvidia{n}")
        settings = pathlib.Path("/run/enforce.toml")

        def opens(*prefix, inside):
            script = "for n in 0 1 2 3; do (: < /run/nvidia$n) 2>&1; done"
            said = subprocess.run([*prefix, "sh", "-c", script], capture_output=True, text=True, env=self.of_the_system,
                                  preexec_fn=lambda: (group / "cgroup.procs").write_text("0") if inside else None).stdout
            return ["No such device" in line for line in said.splitlines()]

        for mode, allowed in (("observe", True), ("enforce", False)):
            settings.write_text(f'mode = "{mode}"\n')
            self.stop()
            self.serve(None, "--config", str(settings), *(["--enforce-on", str(group)] if mode == "enforce" else []))
            self.assertEqual((opens(inside=True), opens(inside=False)), ([allowed] * 4, [True] * 4), mode)
        # A job can open the device of its lease.
        self.assertEqual(sorted(opens(self.berth, "run", "--gpus", "1", "--", inside=True)), [False] * 3 + [True])

    def test_what_is_anothers_is_called_so(self):
        alice, bob = self.person("alice"), self.person("bob")
        job = str(self.queue(alice, "--gpus", "1", "--", "sleep", "1000"))
        self.assertIn(f"job {job} is another user's (E0902)", bob("run", "--queue", "--after", job, "--", "true").stderr)
        ask = ("import socket, sys; one = socket.socket(socket.AF_UNIX); one.connect('/run/berth/berth.sock')\n"
               "one.sendall(f'{sys.argv[1]} HTTP/1.1\\r\\nHost: b\\r\\nConnection: close\\r\\nContent-Length: 2\\r\\n\\r\\n{{}}'.encode())\n"
               "print(b''.join(iter(lambda: one.recv(65536), b'')).decode())")
        for call, status, identifier, code in ((f"POST /v1/jobs/{job}/end", 403, "E0902", 5), (f"POST /v1/jobs/{job}/owners", 403, "E0902", 5),
                                               (f"GET /v1/jobs/{job}/log", 403, "E0902", 5), (f"GET /v1/jobs/{job}?wait=start", 400, "E0919", 2),
                                               ("GET /v1/jobs/99", 404, "E0901", 1)):
            said = bob.command(sys.executable, "-c", ask, call).stdout
            self.assertIn(f" {status} ", said.splitlines()[0], call)
            error = json.loads(said[said.index("{"):])["error"]
            self.assertEqual((error["id"], error["exit_code"]), (identifier, code), call)

    def test_a_user_whom_the_settings_name_must_be_there(self):
        settings = pathlib.Path("/run/berth.toml")
        settings.write_text("[user.nosuch]\nweight = 2\n[user.54321]\nweight = 2\n")
        done = subprocess.run([self.berth, "serve", "--system", "--config", str(settings)], env=self.of_the_system,
                              capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("there is no user nosuch (E0927)", done.stderr)

    def test_another_sees_who_has_which_device_and_nothing_else(self):
        alice, bob = self.person("alice"), self.person("bob")
        running = self.secret_job(alice, "--gpus", "2")
        shell = alice.start("lease", "--gpus", "1", "--name", "tell-no-one", "--", "sh", "-c", "echo up; sleep 1000; : tell-no-one")
        self.assertEqual(shell.stdout.readline(), "up\n")
        waiting = self.secret_job(alice, "--gpus", "4")
        ended = self.queue(alice, "--cpu", "--name", "tell-no-one", "--", "sh", "-c", "echo tell-no-one; exit 3")
        self.assertEqual(alice("wait", str(ended)).returncode, 3)
        numbers = [str(one) for one in self.jobs(bob)]
        self.assertEqual(len(numbers), 4)
        asked = [["jobs"], ["jobs", "--all"], ["jobs", "--json"], ["ls"], ["ls", "--json"], ["ps"], ["ps", "--json"], []]
        asked += [[verb, *more, number] for number in numbers for verb in ("why", "logs", "cancel", "hold", "release")
                  for more in ([], ["--json"])]
        asked += [[verb, "tell-no-one"] for verb in ("why", "logs", "wait")]
        for words in asked:
            done = bob(*words)
            if "tell-no-one" not in words:
                self.assertNotIn("tell-no-one", done.stdout + done.stderr, words)
            else:
                self.assertIn("E0931", done.stderr, words)
        seen = self.jobs(bob)[running]
        self.assertEqual((seen["user"], len(seen["devices"]), seen["state"]), ("alice", 2, "running"))
        self.assertIn("alice", bob("jobs").stdout)
        # A user sees all details of their own jobs.
        self.assertEqual(self.jobs(alice)[waiting]["name"], "tell-no-one")
        self.assertEqual(alice("logs", str(running)).stdout, "tell-no-one\n")

    def test_what_a_job_keeps_on_disk_and_in_proc_is_its_users_alone(self):
        alice, bob = self.person("alice"), self.person("bob")
        job = self.secret_job(alice, "--gpus", "1")
        log = pathlib.Path(self.jobs(alice)[job]["log"])
        self.assertTrue(wait_until(lambda: log.exists() and log.read_text() == "tell-no-one\n"))
        for path in [*log.parent.iterdir(), *log.parents[1].glob("journal.db*"), log.parent, log.parents[1]]:
            command = ["ls", path] if path.is_dir() else ["cat", path]
            done = bob.command(*command)
            self.assertNotEqual((done.returncode, done.stdout), (0, ""), path)
            self.assertIn("Permission denied", done.stderr, path)
        self.assertEqual(alice.command("cat", log).stdout, "tell-no-one\n")
        processes = [pid for pid in processes_with("SECRET=tell-no-one") if os.stat(f"/proc/{pid}").st_uid == alice.uid]
        self.assertTrue(processes)
        for pid in processes:
            self.assertIn("Permission denied", bob.command("cat", f"/proc/{pid}/environ").stderr)

    def test_another_neither_ends_nor_holds_nor_takes_what_is_not_theirs(self):
        alice, bob = self.person("alice"), self.person("bob")
        running = self.secret_job(alice, "--gpus", "4")
        waiting = self.secret_job(alice, "--gpus", "1")
        held = self.secret_job(alice, "--gpus", "1")
        self.assertEqual(alice("hold", str(held)).returncode, 0)
        for verb, job in (("cancel", running), ("cancel", waiting), ("hold", waiting), ("release", held), ("logs", running)):
            done = bob(verb, str(job))
            self.assertEqual((done.returncode, "E0902" in done.stderr), (5, True), (verb, done.stderr))
        keeper, *processes = self.processes_of(running)
        self.assertIn("ermitted", bob.command("kill", "-9", keeper).stderr)
        for pid in processes:  # some end by themselves after a moment
            self.assertRegex(bob.command("kill", "-9", pid).stderr, "ermitted|No such process")
        # Another user's job cannot depend on it, take its place, or run inside its lease.
        self.assertIn("E0902", bob("run", "--queue", "--after", str(running), "--", "true").stderr)
        self.assertEqual(bob("run", "--gpus", "4", "--no-wait", "--", "true", BERTH_JOB=str(running)).returncode, 6)
        for what, body in (("end", {"outcome": {"class": 0, "exit_code": 0}}), ("owners", {"owners": [{"pid": os.getpid()}]})):
            self.assertIn("E0902", self.ask_as(bob, "POST", f"/v1/jobs/{running}/{what}", body))
        self.assertEqual([self.state(alice, job) for job in (running, waiting, held)], ["running", "waiting", "held"])
        # The job's own user can cancel it, and so can root.
        self.assertEqual(alice("cancel", str(waiting)).returncode, 0)
        self.ask(running, "cancel")
        self.assertTrue(wait_until(lambda: self.state(alice, running) == "cancelled"))

    def processes_of(self, job):
        status = pathlib.Path(f"/var/lib/berth/jobs/{job}.status")
        self.assertTrue(wait_until(lambda: processes_with("tell-no-one") and status.exists()))
        return [int(status.read_text().split()[0]), *(pid for pid in processes_with(f"BERTH_JOB={job}\0"))]

    def ask(self, job, what):
        import http.client
        client = http.client.HTTPConnection("berth", timeout=20)
        client.sock = socket.socket(socket.AF_UNIX)
        client.sock.connect("/run/berth/berth.sock")
        client.request("POST", f"/v1/jobs/{job}/{what}", "{}")
        self.assertEqual(client.getresponse().status, 200)
        client.close()

    def ask_as(self, who, method, path, body):
        code = ("import http.client, socket, sys\nc = http.client.HTTPConnection('b'); c.sock = socket.socket(socket.AF_UNIX)\n"
                "c.sock.connect('/run/berth/berth.sock'); c.request(*sys.argv[1:]); print(c.getresponse().read().decode())")
        done = who.command(sys.executable, "-c", code, method, path, json.dumps(body))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def process_with_number(self, number, uid):
        """Creates a process of this user with this pid; None if another process took the pid meanwhile."""
        for _ in range(300):
            pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(number - 1))
            pid = os.fork()
            if pid == 0:
                if os.getpid() == number:
                    os.setgroups([])
                    os.setresgid(uid, uid, uid)
                    os.setresuid(uid, uid, uid)
                    signal.pause()
                os._exit(0)
            if pid == number:
                self.assertTrue(wait_until(lambda: os.stat(f"/proc/{pid}").st_uid == uid))
                return pid
            os.waitpid(pid, 0)
        return None

    def test_a_process_that_got_anothers_number_owns_no_lease(self):
        if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
            self.skipTest("numbers of processes cannot be chosen here")
        alice, bob = self.person("alice"), self.person("bob")
        # One process connects and exits. Another one uses the connection while a third user's process has the first one's pid.
        script = self.folder_of(bob) / "handed_on.py"
        script.write_text(HANDED_ON)
        caller = subprocess.Popen([*bob.as_them, sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        number = int(caller.stdout.readline())
        victim = self.process_with_number(number, alice.uid)
        said = json.loads(caller.communicate("now\n", timeout=30)[0])
        if victim is None:
            self.skipTest("the number was taken")
        self.addCleanup(os.waitpid, victim, 0)
        self.addCleanup(os.kill, victim, signal.SIGKILL)
        self.assertEqual(said["error"]["id"], "E0912", said)
        self.assertEqual(os.waitpid(victim, os.WNOHANG), (0, 0))

    def folder_of(self, person):
        person.home.chmod(0o755)
        return person.home

    def test_who_somebody_says_they_are_changes_nothing(self):
        alice, bob = self.person("alice"), self.person("bob")
        hers = self.secret_job(alice, "--gpus", "1")
        forged = {"USER": "alice", "LOGNAME": "alice", "USERNAME": "root", "SUDO_USER": "root", "SUDO_UID": "0",
                  "UID": str(alice.uid), "HOME": str(alice.home)}
        his = self.queue(bob, "--gpus", "1", "--", "sh", "-c", "id -un; id -G; sleep 1000", **forged)
        mine = bob("jobs", "--mine", "--json", **forged)
        self.assertEqual([one["id"] for one in json.loads(mine.stdout)["jobs"]], [his])
        self.assertEqual((self.jobs(bob)[his]["user"], self.jobs(bob)[his]["uid"]), ("bob", bob.uid))
        self.assertTrue(wait_until(lambda: bob("logs", str(his)).stdout == f"bob\n{bob.uid}\n"))
        self.assertIn("E0902", bob("cancel", str(hers), **forged).stderr)
        self.assertNotIn("tell-no-one", bob("jobs", **forged).stdout)
        shell = bob.start("lease", "--gpus", "1", "--", "sh", "-c", "echo up; sleep 1000", **forged)
        self.assertEqual(shell.stdout.readline(), "up\n")
        self.assertEqual(sorted(one["user"] for one in self.jobs(bob).values()), ["alice", "bob", "bob"])

    def test_a_user_without_a_name_is_a_user(self):
        stranger, bob = self.person("stranger", NO_NAME), self.person("bob")
        for env in ({}, {"HOME": ""}):
            job = self.queue(stranger, "--gpus", "1", "--name", "mine", "--", "sh", "-c", "id -u; sleep 1000", **env)
            self.assertRegex(stranger("jobs", "--mine", **env).stdout, rf"(?m)^ *{job} +{NO_NAME} +running ")
            self.assertEqual(max(self.jobs(bob, "--user", str(NO_NAME))), job)
            self.assertTrue(wait_until(lambda: stranger("logs", "mine", **env).stdout == f"{NO_NAME}\n"))
            self.assertEqual(stranger("why", "mine", **env).returncode, 0)
            his = self.queue(bob, "--gpus", "4", "--", "true")
            self.assertIn(str(NO_NAME), bob("why", str(his)).stdout)
            self.assertEqual(bob("cancel", str(his)).returncode, 0)
            later = self.queue(stranger, "--after", str(job), "--gpus", "1", "--name", "later", "--", "true", **env)
            for verb in ("hold", "release", "cancel"):
                done = stranger(verb, "later", **env)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.state(stranger, later), "cancelled")
            self.assertEqual(stranger("run", "--gpus", "1", "--", "sh", "-c", "exit 3", **env).returncode, 3)
            self.assertEqual(stranger("cancel", "mine", **env).returncode, 0)
            self.assertEqual(stranger("wait", str(job), **env).returncode, 143)

    def test_a_user_without_a_name_has_a_broker_of_their_own_where_root_has_none(self):
        self.stop()
        stranger = self.person("stranger", NO_NAME)
        own = {"BERTH_RUNTIME_DIR": f"{stranger.home}/r", "BERTH_STATE_DIR": f"{stranger.home}/s"}
        job = self.queue(stranger, "--gpus", "1", "--", "sh", "-c", "id -u; exit 4", **own)
        self.assertEqual(stranger("wait", str(job), **own).returncode, 4)
        self.assertEqual(stranger("logs", str(job), **own).stdout, f"{NO_NAME}\n")
        lines = stranger("jobs", "--mine", **own).stdout.splitlines()
        self.assertRegex(lines[1], rf"^ *{job} +{NO_NAME} +failed ")
        self.serve()

    def test_a_broker_of_somebody_else_is_told_nothing(self):
        """The broker of another user listens where the user's own broker would, and everyone may connect to it."""
        self.stop()
        alice, bob = self.person("alice"), self.person("bob")
        place = pathlib.Path("/run/lent")
        place.mkdir()
        os.chown(place, bob.uid, bob.uid)
        server = bob.start("serve", BERTH_RUNTIME_DIR=str(place), BERTH_STATE_DIR=f"{place}/s")
        self.assertTrue(server.stdout.readline().startswith("serving "))
        os.chmod(place / "s", 0o711)
        os.chmod(place / "berth.sock", 0o666)
        for words in (["jobs"], ["why", "1"], ["logs", "1"], ["wait", "1"], ["cancel", "1"], ["hold", "1"],
                      ["run", "--queue", "--gpus", "1", "--", "true"]):
            done = alice(*words, BERTH_RUNTIME_DIR=str(place))
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(f"another user's (uid {bob.uid})", done.stderr, words)
            self.assertIn("E0921", done.stderr, words)
        # A job in a terminal runs without a lease and says so.
        done = alice("run", "--gpus", "1", "--", "true", BERTH_RUNTIME_DIR=str(place))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no lease: the broker at", done.stderr)
        self.assertEqual(json.loads(bob("jobs", "--all", "--json", BERTH_RUNTIME_DIR=str(place)).stdout)["jobs"], [])
        self.serve()

    def test_a_folder_that_somebody_else_made_first_is_not_used(self):
        self.stop()
        shutil.rmtree("/run/berth")  # otherwise clients would wait for the system broker
        alice, bob = self.person("alice"), self.person("bob")
        shared = pathlib.Path("/run/shared")
        shared.mkdir()
        shared.chmod(0o1777)
        trap, hers = bob.home / "trap", alice.home / "hers"
        bob.command("mkdir", "-m", "777", trap)
        bob.command("chmod", "755", bob.home)
        alice.command("mkdir", hers)
        plants = (["mkdir", "-m", "777"], ["ln", "-s", trap], ["ln", "-s", hers])
        for place, identifier, env in ((shared / f"berth-{alice.uid}", "E0514", {"TMPDIR": str(shared)}),
                                       (shared / "state", "E0907", {"BERTH_STATE_DIR": str(shared / "state")})):
            for plant in plants:
                self.assertEqual(bob.command(*plant, place).returncode, 0)
                done = alice("serve", "--idle", "1s", **env)
                self.assertNotEqual(done.returncode, 0, (place, plant))
                self.assertIn(f"({identifier})", done.stderr)
                self.assertIn("\nhint: ls -ld ", done.stderr)
                queued = alice("run", "--queue", "--gpus", "1", "--", "true", **env)
                self.assertEqual(queued.returncode, 125)
                self.assertEqual((list(trap.iterdir()), list(hers.iterdir())), ([], []))
                shutil.rmtree(place) if not place.is_symlink() else place.unlink()
        self.serve()


if __name__ == "__main__":
    Users.berth = os.path.abspath(sys.argv[1])
    machine_of_all.enter()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
