#!/usr/bin/env python3
"""`berth jobs`, `why`, `logs`, `wait`, `cancel`, `hold` and `release` on a simulated machine with four GPUs, and against a fake broker
for rare answers.

usage: jobs_test.py BERTH
"""
import http.server
import json
import os
import pathlib
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from machine import switch_off, switch_on, wait_until

BERTH = os.path.abspath(sys.argv.pop(1))

class Caller(unittest.TestCase):
    variables = dict(os.environ)

    def start(self, *words, **more):
        process = subprocess.Popen([BERTH, *words], env={**self.variables, **more}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdout.close(), process.stderr.close()))
        return process

    def berth(self, *words, **more):
        return subprocess.run([BERTH, *words], env={**self.variables, **more}, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60)

    def says(self, *words, code=0, **more):
        done = self.berth(*words, **more)
        self.assertEqual(done.returncode, code, (words, done.stdout, done.stderr))
        return done.stdout

    def document(self, *words):
        return json.loads(self.says(*words, "--json"))


class Queue(Caller):
    def setUp(self):
        self.machine, self.variables = switch_on(BERTH, "lab-4x3090")
        self.variables["LC_ALL"] = "C.UTF-8"

    def tearDown(self):
        switch_off(self.machine)

    def states(self):
        return {one["id"]: one["state"] for one in self.document("jobs")["jobs"]}

    def run_job(self, state, *words):
        """Starts a job and waits until the broker has it in this state. Returns its number and its process."""
        known = set(self.states())
        process = self.start("run", *words)
        new = []
        self.assertTrue(wait_until(lambda: bool(new.extend(id for id, its in self.states().items()
                                                           if id not in known and its == state) or new)))
        return new[0], process

    def three(self):
        """Starts three jobs: one runs on three GPUs, one waits for two, and one waits for four."""
        first = self.run_job("running", "--gpus", "3", "--name", "big", "--", "sleep", "1000")[0]
        second = self.run_job("waiting", "--gpus", "2", "--name", "second", "--", "sh", "-c", "exit 3")
        third = self.run_job("waiting", "--gpus", "4", "--name", "third", "--", "true")
        return first, second, third

    def test_a_share_of_a_gpus_time_is_kept_for_a_job(self):
        part = ("--devices", "0", "--memory", "1GiB", "--share")
        self.says("run", "--queue", *part, "70%", "--", "sleep", "100")
        self.says("run", "--queue", *part, "0.4", "--", "true")
        self.assertIn("1.00 GiB on a GPU, 40 % of the time", self.says("why", "2"))
        self.assertIn("1.00 GiB, 70 %", self.says("jobs"))
        one, two = sorted(self.document("jobs")["jobs"], key=lambda job: job["id"])
        self.assertEqual((one["share_permille"], one["devices"][0]["share_permille"], two["state"]), (700, 700, "waiting"))
        gpu = self.document("ls")["devices"][0]
        self.assertEqual([(lease["job"], lease["share_permille"]) for lease in gpu["leases"]], [(1, 700)])
        self.says("run", *part, "30%", "--no-wait", "--", "true")
        self.assertIn("(E0013)", self.berth("run", "--share", "30%", "--", "true").stderr)
        self.says("cancel", "1")
        self.says("wait", "2")

    def test_without_a_broker_there_are_no_jobs(self):
        self.assertEqual(self.says("jobs"), "no jobs: no broker has been started yet\n")
        self.assertEqual(self.document("jobs", "--all"), {"schema": 1, "jobs": [], "elsewhere": [], "drained": [], "lent": [], "aside": [], "notices": [], "not_shown": 0})
        for verb in ("why", "logs", "cancel", "hold", "release"):
            done = self.berth(verb, "1")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("E0901", done.stderr)
        self.assertEqual(self.berth("wait", "1").returncode, 125)
        # None of these commands started a broker.
        self.assertEqual(self.says("jobs"), "no jobs: no broker has been started yet\n")

    def test_a_verb_needs_its_job(self):
        for words in (["why"], ["why", "1", "2"], ["logs"], ["wait"], ["cancel"], ["hold"], ["release"]):
            done = self.berth(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("E0930", done.stderr)

    def test_jobs_are_listed_as_they_are(self):
        first, (second, _), (third, _) = self.three()
        lines = self.says("jobs").splitlines()
        self.assertEqual(lines[0].split(), ["job", "user", "state", "devices", "waited", "ran", "what"])
        self.assertRegex(lines[1], rf"^ *{first} +\S+ +running +GPU 1, 2, 3 .* big$")
        self.assertRegex(lines[2], rf"^ *{second} +\S+ +waiting +2 GPUs .* second$")
        self.assertRegex(lines[3], rf"^ *{third} +\S+ +waiting +4 GPUs .* third$")
        self.assertEqual(lines[5], f"berth why {second}   what job {second} waits for")
        self.assertEqual(self.says("jobs", "--user", "nobody-else"), "no jobs of nobody-else\n")
        self.assertEqual(self.document("jobs", "--user", "nobody-else")["jobs"], [])
        mine = self.document("jobs", "--mine")["jobs"]
        self.assertEqual([one["id"] for one in mine], [first, second, third])
        self.assertEqual(self.document("jobs", "--user", str(os.getuid()))["jobs"], mine)

    def test_why_says_what_is_missing_and_what_would_fit(self):
        first, (second, _), (third, _) = self.three()
        said = self.says("why", "second")
        self.assertTrue(said.startswith(f"job {second} waits for 2 GPUs: 1 is free (GPU 0)\n"), said)
        self.assertIn(f"a guess, because job {first} (", said)
        self.assertIn(f"GPU 2: job {first} (", said)
        self.assertRegex(said, r"sooner +berth run --gpus 1 … +fits now, on GPU 0\n")
        self.assertIn(f"before it   job {second} (", self.says("why", "third"))
        document = self.document("why", str(third))
        self.assertEqual(document["job"]["state"], "waiting")
        self.assertEqual((document["outlook"]["obstruction"], document["outlook"]["before"]), ("busy", [second]))
        self.assertEqual(document["free"], ["GPU 0"])
        self.assertEqual([one["job"] for one in document["holders"]], [first] * 3)
        self.assertIn({"command": "berth run --gpus 1 …", "where": "GPU 0"}, document["sooner"])
        # What `why` suggests really fits.
        self.assertEqual(self.berth("run", "--gpus", "1", "--no-wait", "--dry-run", "--", "true").returncode, 0)
        self.assertRegex(self.says("why", str(first)), rf"^job {first} has been running on GPU 1, 2, 3 since \d\d:\d\d:\d\d \(\d+ s\)\n$")
        self.assertIsNone(self.document("why", "big")["outlook"])

    def test_held_jobs_wait_until_they_are_released(self):
        _, (second, _), (third, _) = self.three()
        self.assertEqual(self.says("hold", "second", str(third)), f"job {second} held\njob {third} held\n")
        self.assertEqual(self.states()[second], "held")
        self.assertTrue(self.says("why", "second").startswith(f"job {second} is held: it does not start until it is released\n"))
        self.assertIn(f"berth release {second}", self.says("why", "second"))
        self.assertEqual(self.says("release", "second"), f"job {second} released\n")
        self.assertEqual(self.states()[second], "waiting")
        self.assertEqual([one["state"] for one in self.document("release", "third")["jobs"]], ["waiting"])

    def test_each_of_several_is_tried_and_the_first_error_is_the_code(self):
        _, (second, process), (third, _) = self.three()
        done = self.berth("cancel", "999", "nobody", str(second), str(second), "third")
        self.assertEqual((done.returncode, done.stdout), (1, f"job {second} cancelled\njob {third} cancelled\n"))
        self.assertIn("there is no job 999 (E0901)", done.stderr)
        self.assertIn("you have no job named nobody (E0931)", done.stderr)
        self.assertEqual(process.wait(20), 125)
        self.assertIn("without having started: cancelled", self.says("why", str(second)))
        done = self.berth("cancel", "--json", "999", str(second))
        self.assertEqual(json.loads(done.stdout), {"schema": 1, "jobs": []})
        self.assertEqual([json.loads(line)["error"]["id"] for line in done.stderr.splitlines()], ["E0901", "E0903"])

    def test_wait_has_the_exit_codes_of_the_jobs(self):
        first, process = self.run_job("running", "--gpus", "1", "--name", "one", "--", "sleep", "3")
        waiting = self.start("wait", "one")
        time.sleep(0.5)
        self.assertIsNone(waiting.poll())
        self.assertEqual((waiting.wait(60), *waiting.communicate()), (0, "", ""))
        self.assertEqual(process.wait(20), 0)
        self.berth("run", "--gpus", "1", "--name", "three", "--", "sh", "-c", "exit 3")
        self.berth("run", "--gpus", "1", "--name", "killed", "--", "sh", "-c", "kill -9 $$")
        for words, code in ((["three"], 3), (["killed"], 137), (["one", "three", "killed"], 3), (["1"], 0)):
            self.assertEqual(self.says("wait", *words, code=code), "")
        self.assertEqual(self.berth("wait", "one", "999").returncode, 125)
        document = json.loads(self.says("wait", "--json", "killed", "one", code=137))
        self.assertEqual([one["id"] for one in document["jobs"]], [3, first])
        rows = self.says("jobs").splitlines()[1:]
        self.assertRegex(rows[0], r"^ *3 .* failed +GPU 0 .* SIGKILL +killed$")
        self.assertRegex(rows[1], r"^ *2 .* failed +GPU 0 .* 3 +three$")
        self.assertRegex(self.says("why", "three"), r"^job 2 ended at \S+ after 0 s on GPU 0: exit code 3\n")

    def test_one_name_of_two_jobs_is_no_answer(self):
        for _ in range(2):
            self.run_job("running", "--gpus", "1", "--name", "twin", "--", "sleep", "1000")
        done = self.berth("why", "twin")
        self.assertEqual(done.returncode, 2)
        self.assertIn("several jobs are named twin: 1 2 (E0932)", done.stderr)

    def test_what_is_waited_for_outlives_the_broker(self):
        _, process = self.run_job("running", "--gpus", "1", "--", "sh", "-c", "sleep 4; exit 5")
        waiting = self.start("wait", "1")
        time.sleep(0.5)
        os.kill(self.broker(), signal.SIGKILL)
        self.assertEqual(waiting.wait(60), 5, waiting.stderr.read())
        self.assertEqual(process.wait(20), 5)  # before that, the front would start a broker to report its end
        os.kill(self.broker(), signal.SIGKILL)
        # A thread that writes to the disk may end a little later, and only then is the socket closed.
        self.assertTrue(wait_until(lambda: not self.listens()))
        # Only a broker reads the journal, so `berth jobs` starts one.
        self.assertRegex(self.says("jobs"), r"\n *1 .* failed .* 5 ")
        self.assertEqual(self.berth("wait", "1").returncode, 5)

    def listens(self):
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.variables["BERTH_RUNTIME_DIR"] + "/berth.sock") == 0

    def broker(self):
        mark = f"BERTH_SIM_DIR={self.variables['BERTH_SIM_DIR']}".encode()
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and b"\0serve\0" in (entry / "cmdline").read_bytes() and mark in (entry / "environ").read_bytes():
                    return int(entry.name)
            except OSError:
                pass
        self.fail("no broker runs")

    def test_a_job_of_a_terminal_has_no_log(self):
        self.berth("run", "--gpus", "1", "--", "true")
        done = self.berth("logs", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("E0933", done.stderr)
        self.assertIn("hint: berth run --queue", done.stderr)


class Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Ignores clients that disconnect before the answer."""


class Logs(Caller):
    """A fake broker that has one queued job, 5, and reports its end."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="berth-test-")
        self.addCleanup(self.folder.cleanup)
        self.log = pathlib.Path(self.folder.name, "5.log")
        self.job = {"id": 5, "uid": os.getuid(), "user": "me", "state": "running", "queued": True, "log": str(self.log),
                    "submitted": "2026-09-10T00:26:40.123Z", "started": "2026-09-10T00:26:41.000Z", "name": "tune",
                    "tomorrow": {"is": "another day"}}
        self.over = threading.Event()
        test = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.path == "/v1/jobs/5?wait=ended" and test.over.wait(60):
                    test.job["state"] = "done"
                body = {"schema": 1, "jobs": [test.job]} if self.path.startswith("/v1/jobs?") else {"schema": 1, "job": test.job}
                said = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def address_string(self):
                return "test"

            def log_message(self, *_):
                pass

        self.server = Unix(self.folder.name + "/berth.sock", Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(lambda: (self.over.set(), self.server.shutdown(), self.server.server_close()))
        self.variables = {**os.environ, "BERTH_RUNTIME_DIR": self.folder.name, "LC_ALL": "C.UTF-8"}

    def test_the_output_comes_as_it_is(self):
        written = bytes(range(256)) * 1000
        self.log.write_bytes(written)
        done = subprocess.run([BERTH, "logs", "tune"], env=self.variables, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, written, b""))
        self.assertEqual(self.document("logs", "5"),
                         {"schema": 1, "job": 5, "state": "running", "log": str(self.log), "size_bytes": len(written)})

    def test_it_is_followed_to_the_end(self):
        following = self.start("logs", "-f", "5")
        time.sleep(0.3)
        with open(self.log, "w", buffering=1) as log:
            log.write("first\n")
            self.assertEqual(following.stdout.readline(), "first\n")
            log.write("sec")
            time.sleep(0.3)
            log.write("ond\n")
            self.assertEqual(following.stdout.readline(), "second\n")
            self.assertIsNone(following.poll())
            log.write("last")
            log.flush()
            self.over.set()
        self.assertEqual((*following.communicate(timeout=60), following.returncode), ("last", "", 0))

    def test_a_reader_that_leaves_ends_it(self):
        self.log.write_text("first\n")
        following = self.start("logs", "-f", "5")
        self.assertEqual(following.stdout.readline(), "first\n")
        following.stdout.close()
        with open(self.log, "a") as log:
            log.write("second\n")
        self.assertTrue(wait_until(lambda: following.poll() is not None))

    def test_what_cannot_be_read_is_said(self):
        done = self.berth("logs", "5")
        self.assertEqual(done.returncode, 1)
        self.assertIn("E0934", done.stderr)
        # Only a regular file is opened: another user may have put something else in its place.
        os.mkfifo(self.log)
        self.assertIn("E0934", self.berth("logs", "5").stderr)
        self.log.unlink()
        self.log.symlink_to("/etc/hostname")
        self.assertEqual(self.says("logs", "5", code=1), "")

    def test_what_has_not_started_wrote_nothing(self):
        self.job |= {"state": "waiting", "started": None}
        done = self.berth("logs", "5")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("job 5 has not started", done.stderr)

    def test_anothers_log_is_not_told(self):
        self.job |= {"uid": os.getuid() + 1, "log": None}
        done = self.berth("logs", "5")
        self.assertEqual(done.returncode, 5)
        self.assertIn("E0902", done.stderr)


if __name__ == "__main__":
    unittest.main()
