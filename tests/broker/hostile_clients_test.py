#!/usr/bin/env python3
"""Users who try to block root's broker: its memory stays small, and other users are served as usual.

usage: hostile_clients_test.py BERTH
"""
import http.client
import json
import os
import pathlib
import random
import resource
import select
import signal
import socket
import statistics
import sys
import time
import traceback
import unittest

import machine_of_all
from machine_of_all import MachineOfAll, wait_until

SOAK = "BERTH_SOAK" in os.environ
SANITIZED = "TSAN_OPTIONS" in os.environ  # the sanitizer itself makes it slow and large
SOCKET = "/run/berth/berth.sock"
HOSTILE = 61001  # this uid and the ones after it belong to no user
MIB = 1 << 20
MOST_OPEN = 1200  # connections of a user: src/serve/server.hpp
MOST_MORE = 100 * MIB


def connect():
    one = socket.socket(socket.AF_UNIX)
    one.connect(SOCKET)
    one.settimeout(30)
    return one


def is_closed(one):
    """Whether the broker has closed the connection."""
    one.setblocking(False)
    try:
        return one.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    finally:
        one.settimeout(30)


def send_all_of(one, bytes_):
    """Sends everything. False if the broker closed the connection before that."""
    try:
        one.sendall(bytes_)
        return True
    except OSError:
        return False


def heard(one):
    """What the broker sends until it closes the connection or sends nothing more."""
    said = b""
    try:
        while more := one.recv(65536):
            said += more
    except OSError:
        pass
    return said


class HostileClients(MachineOfAll):
    machine = "workstation-4090"

    def setUp(self):
        # The usual limit of systemd services and login shells.
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
        try:
            super().setUp()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
        self.children = []
        self.addCleanup(self.end_children)
        self.usual = self.times(50)
        self.memory_before = self.peak()

    def end_children(self):
        for pid, line in self.children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(line)

    def peak(self):
        status = pathlib.Path(f"/proc/{self.broker.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    def times(self, count):
        """Response times for another user, in seconds; each call has its own connection."""
        taken = []
        for _ in range(count):
            begun = time.monotonic()
            client = http.client.HTTPConnection("berth", timeout=30)
            client.sock = connect()
            client.request("GET", "/v1/jobs/999999999")
            self.assertEqual(client.getresponse().status, 404)
            client.close()
            taken.append(time.monotonic() - begun)
        return taken

    def hostile(self, work, user=0):
        """Runs `work` as another user in its own process. The result is read with said(). The process stays until the test ends."""
        reads, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.setgroups([])
                os.setgid(HOSTILE + user)
                os.setuid(HOSTILE + user)
                os.write(writes, json.dumps(work()).encode() + b"\n")
                time.sleep(1000)  # keeps connections open
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.close(writes)
        self.children.append((pid, reads))
        return reads

    def said(self, line, seconds=60):
        ready, _, _ = select.select([line], [], [], seconds)
        self.assertTrue(ready, "the hostile client came to no end")
        return json.loads(os.read(line, 65536))

    def assert_others_are_served(self, count=50):
        taken = self.times(count)
        usual = statistics.median(self.usual)
        if SANITIZED:
            return
        self.assertLess(statistics.median(taken), 20 * usual + 1, (usual, taken))
        self.assertLess(max(taken), 2.0, (usual, taken))

    def assert_memory_is_bounded(self, most_more=MOST_MORE):
        more = self.peak() - self.memory_before
        if not SANITIZED:
            self.assertLess(more, most_more, f"{more / MIB:.0f} MiB more than before")

    def test_ten_thousand_idle_connections_of_one_user(self):
        count = 10_000

        def open_many():
            held = [connect() for _ in range(count)]
            left, deadline = held, time.monotonic() + 30
            while len(left) > MOST_OPEN and time.monotonic() < deadline:
                time.sleep(0.2)
                left = [index for index, one in enumerate(held) if not is_closed(one)]
            held[-1].sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: b\r\n\r\n")
            globals()["kept"] = held
            return [len(left), left[0], held[-1].recv(100).decode().split("\r\n")[0]]

        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < count + 100:
            self.skipTest("so many files may not be open here")
        line = self.hostile(open_many)
        while not select.select([line], [], [], 0)[0]:
            self.assert_others_are_served(20)
        left, oldest, answer = self.said(line)
        # The newest connections remain and are served.
        self.assertEqual((left, oldest, answer), (MOST_OPEN, count - MOST_OPEN, "HTTP/1.1 200 OK"))
        self.assert_others_are_served()
        self.assert_memory_is_bounded()

    def test_several_users_who_open_all_they_may(self):
        def open_many():
            globals()["kept"] = [connect() for _ in range(MOST_OPEN)]
            return "open"

        for user in range(5):
            self.said(self.hostile(open_many, user))
        self.assert_others_are_served()
        self.assert_memory_is_bounded()

    def test_several_users_who_wait_with_all_they_may(self):
        job = http.client.HTTPConnection("berth", timeout=30)
        job.sock = connect()
        job.request("POST", "/v1/jobs", json.dumps({"request": {"gpus": 1}}))
        number = json.loads(job.getresponse().read())["job"]["id"]

        def open_many():
            globals()["kept"] = [connect() for _ in range(MOST_OPEN - 1)]
            for one in globals()["kept"]:
                one.sendall(b"GET /v1/jobs/%d?wait=ended HTTP/1.1\r\nHost: b\r\n\r\n" % number)
            return "wait"

        for user in range(5):
            self.said(self.hostile(open_many, user))
        self.assert_others_are_served()
        self.assert_memory_is_bounded()
        job.close()

    def test_bytes_that_are_no_call(self):
        def babble():
            chance = random.Random(5)
            good = b"POST /v1/jobs HTTP/1.1\r\nHost: b\r\nContent-Length: 12\r\n\r\n{\"queued\":1}"
            for round_ in range(20_000 if SOAK else 2000):
                said = bytearray(good)
                if round_ % 3 == 0:
                    said = bytearray(chance.randbytes(chance.randint(1, 3000)))
                for _ in range(chance.randint(1, 5)):
                    said[chance.randrange(len(said))] = chance.randrange(256)
                one = connect()
                send_all_of(one, said)
                one.shutdown(socket.SHUT_WR)
                if round_ % 2:
                    one.settimeout(5)
                    heard(one)
                one.close()
            return "done"

        line = self.hostile(babble)
        while not select.select([line], [], [], 0)[0]:
            self.assert_others_are_served(20)
        self.said(line)
        self.assert_memory_is_bounded()

    def test_a_body_without_end(self):
        def send_body():
            gigabyte, answers = 1 << 30, []
            for head in (f"Content-Length: {gigabyte}", "Transfer-Encoding: chunked"):
                one, block = connect(), b"100000\r\n" + b"a" * MIB + b"\r\n"
                one.sendall(f"POST /v1/jobs HTTP/1.1\r\nHost: b\r\n{head}\r\n\r\n".encode())
                sent = 0
                while sent < gigabyte and send_all_of(one, block):
                    sent += len(block)
                answers.append([sent // MIB, heard(one).decode().split("\r\n")[0]])
            return answers

        line = self.hostile(send_body)
        self.assert_others_are_served()
        for sent, answer in self.said(line):
            self.assertLess(sent, 16)
            self.assertIn(answer, ("HTTP/1.1 413 Payload Too Large", ""))
        self.assert_memory_is_bounded()

    def test_headers_without_end(self):
        def send_headers():
            one, sent = connect(), 0
            one.sendall(b"GET /v1/jobs HTTP/1.1\r\n")
            while sent < 1 << 30 and send_all_of(one, b"X-Y: " + b"z" * 1000 + b"\r\n"):
                sent += 1007
            return sent

        line = self.hostile(send_headers)
        self.assert_others_are_served()
        self.assertLess(self.said(line), 16 * MIB)
        self.assert_memory_is_bounded()

    def test_a_byte_now_and_then(self):
        def drip():
            call = b"GET /v1/jobs HTTP/1.1\r\nHost: " + b"b" * 4000
            held = [connect() for _ in range(MOST_OPEN)]
            for byte in call[:20]:
                for one in held:
                    send_all_of(one, bytes([byte]))
                time.sleep(0.1)
            globals()["kept"] = held
            return "dripped"

        line = self.hostile(drip)
        time.sleep(0.5)
        self.assert_others_are_served()
        self.said(line)
        self.assert_memory_is_bounded()

    def test_bodies_of_which_the_end_never_comes(self):
        def send_most():
            head = b"POST /v1/jobs HTTP/1.1\r\nHost: b\r\nContent-Length: 1048576\r\n\r\n"
            globals()["kept"] = held = []
            for _ in range(400):
                one = connect()
                one.settimeout(2)
                send_all_of(one, head + b"a" * (MIB - 1))
                held.append(one)
            return "sent"

        line = self.hostile(send_most)
        self.assert_others_are_served()
        self.said(line)
        self.assert_others_are_served()
        self.assert_memory_is_bounded()

    def test_answers_that_nobody_reads(self):
        """The user has many jobs, so each answer is long."""
        def submit_and_ask():
            own = http.client.HTTPConnection("berth", timeout=30)
            own.sock = connect()
            for _ in range(1000):
                own.request("POST", "/v1/jobs", json.dumps({"request": {"gpus": 1}, "name": "n" * 500}))
                if own.getresponse().read()[:12] != b'{"schema":1,':
                    return "not submitted"
            globals()["kept"] = held = []
            for _ in range(450):
                one = connect()
                one.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: b\r\n\r\n")
                held.append(one)
            return "asked"

        line = self.hostile(submit_and_ask)
        self.assertEqual(self.said(line), "asked")
        self.assert_others_are_served()
        self.assert_memory_is_bounded()

    def test_one_call_for_jobs_of_long_words(self):
        def submit_arrays():
            own = http.client.HTTPConnection("berth", timeout=60)
            own.sock = connect()
            said = []
            for word in ("n" * 30_000, "n" * 3_000_000, "n"):
                body = {"request": {"gpus": 1}, "queued": True, "name": "n", "command": ["true", word], "array": "1-5000%1",
                        "spec": {"folder": "/", "umask": 18, "environment": []}}
                own.request("POST", "/v1/jobs", json.dumps(body))
                answer = own.getresponse()
                said.append([answer.status, json.loads(answer.read()).get("error", {}).get("id")])
            return said

        self.assertEqual(self.said(self.hostile(submit_arrays)), [[409, "E0937"], [409, "E0937"], [201, None]])
        self.assert_others_are_served()
        self.assert_memory_is_bounded()

    def test_listeners_that_do_not_read(self):
        def listen():
            own = http.client.HTTPConnection("berth", timeout=60)
            own.sock = connect()
            body = {"request": {"gpus": 1}, "queued": True, "name": "n", "command": ["true", "n" * 2500], "array": "1-2000%1",
                    "spec": {"folder": "/", "umask": 18, "environment": []}}
            own.request("POST", "/v1/jobs", json.dumps(body))
            if own.getresponse().status != 201:
                return "not submitted"
            own.close()
            globals()["kept"] = held = []
            for _ in range(100):
                one = connect()
                send_all_of(one, b"GET /v1/events HTTP/1.1\r\nHost: b\r\n\r\n")
                held.append(one)
            return "listen"

        self.assertEqual(self.said(self.hostile(listen)), "listen")
        self.assert_others_are_served()
        self.assert_memory_is_bounded(200 * MIB)

    def test_clients_who_wait_for_ever_and_leave(self):
        def wait_and_leave():
            own = http.client.HTTPConnection("berth", timeout=30)
            own.sock = connect()
            own.request("POST", "/v1/jobs", json.dumps({"request": {"gpus": 1}}))
            job = json.loads(own.getresponse().read())["job"]["id"]
            globals()["kept"] = own
            body = b"x" * 1000
            for _ in range(100_000 if SOAK else 20_000):
                one = connect()
                send_all_of(one, b"GET /v1/jobs/%d?wait=ended HTTP/1.1\r\nHost: b\r\nContent-Length: 1000\r\n\r\n" % job + body)
                one.close()
            return "left"

        line = self.hostile(wait_and_leave)
        while not select.select([line], [], [], 0)[0]:
            self.assert_others_are_served(20)
        self.said(line)
        self.assertTrue(wait_until(lambda: self.times(1)))
        self.assert_memory_is_bounded(20 * MIB)


if __name__ == "__main__":
    HostileClients.berth = os.path.abspath(sys.argv[1])
    machine_of_all.enter()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], warnings="ignore")
