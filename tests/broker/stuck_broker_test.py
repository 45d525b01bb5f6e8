#!/usr/bin/env python3
"""A broker that does not answer is reported with a hint and blocks nobody. A submission is accepted only once, even if the answer is
lost.

usage: stuck_broker_test.py BERTH
"""
import contextlib
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time
import unittest

from machine import Machine, switch_off, switch_on, wait_until


class StuckBroker(Machine):
    def begin(self):
        """Starts a broker with a waiting job, and stops the broker's process. Returns the process and the job."""
        queued = self.run_berth("run", "--queue", "--hold", "--json", "--", "true")
        [broker] = self.brokers()
        os.kill(broker, signal.SIGSTOP)
        self.addCleanup(self.go_on, broker)
        return broker, json.loads(queued.stdout)["job"]["id"]

    @staticmethod
    def go_on(broker):
        with contextlib.suppress(ProcessLookupError):
            os.kill(broker, signal.SIGCONT)

    def test_every_verb_says_so_and_fails(self):
        broker, job = self.begin()
        verbs = (["jobs"], ["why", str(job)], ["cancel", str(job)], ["logs", str(job)], ["run", "--no-wait", "--gpus", "1", "--", "true"],
                 ["run", "--queue", "--", "true"])
        started = [self.start(*words) for words in verbs]
        for words, process in zip(verbs, started):
            with self.subTest(words):
                _, said = process.communicate(timeout=60)
                self.assertNotEqual(process.returncode, 0, said)
                self.assertRegex(said, f"note: the broker has not answered yet .process {broker}.")
                self.assertRegex(said, f"error: the broker at .* does not answer: process {broker} is stopped .E0922.")
                self.assertIn(f"kill -CONT {broker}", said)
        self.go_on(broker)
        self.assertEqual(self.run_berth("jobs").returncode, 0)

    def test_what_needs_no_lease_goes_on_soon(self):
        self.assertEqual(self.run_berth("run", "--queue", "--gpus", "4", "--", "sleep", "1000").returncode, 0)
        self.begin()
        begun = time.monotonic()
        self.assertEqual(self.run_berth("run", "--cpu", "--", "sh", "-c", "exit 3").returncode, 3)
        self.assertLess(time.monotonic() - begun, 8)
        said = self.run_berth("run", "--dry-run", "--gpus", "1", "--", "true").stderr
        self.assertRegex(said, "note: it is not known which jobs use which devices: the broker at .* does not answer")
        for verb in ("", "ls", "ps"):
            self.assertRegex(self.run_berth(*verb.split()).stdout, "it is not known which jobs use which devices", verb)
        self.assertIn(f"{os.getpid()} is treated as a process number", self.run_berth("stacks", str(os.getpid())).stderr)

    def test_where_no_gpu_is_seen_a_job_on_the_cpu_says_once_that_it_waits_and_goes_on(self):
        switch_off(self.shell)
        self.shell, self.variables = switch_on(self.berth, "none")
        broker, _ = self.begin()
        done = self.run_berth("run", "--", "sh", "-c", "exit 3")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr.count(f"note: the broker has not answered yet (process {broker})"), 1, done.stderr)

    def test_who_waits_hears_of_it_and_goes_on_with_the_broker(self):
        self.run_berth("run", "--queue", "--gpus", "4", "--", "sleep", "1000")
        queued = json.loads(self.run_berth("run", "--queue", "--gpus", "4", "--json", "--", "true").stdout)["job"]["id"]
        waiter = self.start("wait", str(queued))
        [broker] = self.brokers()
        time.sleep(1)  # first it sends its request, and then it waits
        os.kill(broker, signal.SIGSTOP)
        self.addCleanup(self.go_on, broker)
        said = waiter.stderr.readline()
        self.assertIn(f"kill -CONT {broker}", said)
        self.assertIsNone(waiter.poll())
        self.go_on(broker)
        self.run_berth("cancel", str(queued))
        self.assertNotEqual(waiter.wait(30), 0)


class Between(threading.Thread):
    """A proxy between client and broker. It passes requests on and drops the first answer to a submission."""

    def __init__(self, path, to):
        super().__init__(daemon=True)
        self.to, self.lost = str(to), 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(8)
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, socket.socket(socket.AF_UNIX) as broker:
            broker.connect(self.to)
            while asked := client.recv(1 << 20):
                broker.sendall(asked)
                answer = broker.recv(1 << 20)
                if asked.startswith(b"POST /v1/jobs ") and self.lost == 0:
                    self.lost += 1
                    return
                client.sendall(answer)


class OtherProgram(Between):
    """Answers every request with text that is not an answer of a broker."""

    def serve(self, client):
        with client:
            while client.recv(1 << 20):
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


class UnreadableAnswer(Machine):
    def test_an_unreadable_answer_is_reported_with_its_own_id(self):
        folder = self.folder / "other"
        folder.mkdir(0o700)
        other = OtherProgram(folder / "berth.sock", "")
        self.addCleanup(other.listener.close)
        for words in (["jobs"], ["run", "--gpus", "1", "--", "true"], ["run", "--queue", "--", "true"]):
            with self.subTest(words):
                done = self.run_berth(*words, BERTH_RUNTIME_DIR=str(folder))
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("error: the broker sent an answer that Berth cannot read (status 200) (E1140)", done.stderr)
                self.assertIn("sudo systemctl restart berth", done.stderr)
        self.assertIn("berth jobs --mine", done.stderr)  # the job may be queued


class LostAnswer(Machine):
    def test_a_submission_is_taken_once_though_its_answer_is_lost(self):
        real = pathlib.Path(self.variables["BERTH_RUNTIME_DIR"])
        broker = self.start("serve")
        self.assertTrue(broker.stdout.readline().startswith("serving "))
        between = self.folder / "between"
        between.mkdir(0o700)
        stand = Between(between / "berth.sock", real / "berth.sock")
        self.addCleanup(stand.listener.close)
        counter = self.folder / "counter"
        words = ["run", "--queue", "--cpu", "--json", "--", "sh", "-c", f"echo once >> {counter}"]
        done = self.run_berth(*words, BERTH_RUNTIME_DIR=str(between))
        self.assertEqual((done.returncode, stand.lost), (0, 1), done.stderr)
        job = json.loads(done.stdout)["job"]["id"]
        self.assertEqual(self.run_berth("wait", str(job)).returncode, 0)
        self.assertEqual(counter.read_text(), "once\n")
        self.assertEqual(len(self.call("GET", "/v1/jobs?all")["jobs"]), 1)

    def test_a_key_names_one_submission_of_its_user(self):
        broker = self.start("serve")
        self.assertTrue(broker.stdout.readline().startswith("serving "))
        spec = {"folder": "/", "umask": 0o22, "environment": [], "command": ["true"]}
        wish = {"queued": True, "request": {"gpus": 0}, "spec": spec, "key": "abc-1"}
        first, again = self.call("POST", "/v1/jobs", wish), self.call("POST", "/v1/jobs", wish)
        self.assertEqual(first["job"]["id"], again["job"]["id"])
        array = self.call("POST", "/v1/jobs", {**wish, "key": "abc-2", "array": "1-3"})
        repeated = self.call("POST", "/v1/jobs", {**wish, "key": "abc-2", "array": "1-3"})
        self.assertEqual([one["id"] for one in array["jobs"]], [one["id"] for one in repeated["jobs"]])
        self.assertEqual(self.call("POST", "/v1/jobs", {**wish, "key": "a b"})["error"]["id"], "E0104")
        # The next broker also knows the key.
        broker.kill()
        broker.wait()
        self.assertTrue(wait_until(lambda: self.run_berth("jobs").returncode == 0))
        self.assertEqual(self.call("POST", "/v1/jobs", wish)["job"]["id"], first["job"]["id"])


if __name__ == "__main__":
    Machine.berth = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
