#!/usr/bin/env python3
"""The broker over TCP: off by default, only on loopback, only with the token, and not for web pages. A caller with the token has the same
rights as its user at the socket.

usage: tcp_test.py BERTH
"""
import contextlib
import http.client
import json
import os
import pathlib
import random
import resource
import socket
import sys
import time
import unittest

from machine import Machine, wait_until

MIB = 1 << 20


def free_port():
    with contextlib.closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Tcp(Machine):
    machine = "workstation-4090"

    def setUp(self):
        super().setUp()
        self.variables |= {"LC_ALL": "C.UTF-8"}
        self.token_file = pathlib.Path(self.variables["BERTH_STATE_DIR"], "tcp-token")

    def serve(self, address=None):
        self.port = free_port()
        broker = self.start("serve", "--tcp", address or f"127.0.0.1:{self.port}")
        self.assertTrue(broker.stdout.readline().startswith("serving at "))
        self.assertEqual(broker.stdout.readline(), f"serving also at http://127.0.0.1:{self.port}, with the token in {self.token_file}\n")
        self.token = self.token_file.read_text().strip()
        return broker

    def ask(self, method="GET", path="/v1/jobs", body=None, host=None, token=None, **headers):
        """Returns (status, JSON of the answer)."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {key.replace("_", "-"): word for key, word in headers.items()}
        if host:
            headers["Host"] = host
        if token is None:
            headers["Authorization"] = f"Bearer {self.token}"
        elif token:
            headers["Authorization"] = token
        client.request(method, path, None if body is None else json.dumps(body), headers)
        with client.getresponse() as answer:
            said = answer.read()
        client.close()
        self.assertEqual(answer.headers.get("Access-Control-Allow-Origin"), None)
        if answer.status == 401:
            self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")
        return answer.status, json.loads(said) if said else None

    def refused(self, *words, **more):
        done = self.start("serve", *words, **more)
        said = done.communicate(timeout=30)[1]
        self.assertNotEqual(done.returncode, 0, said)
        return said

    def test_nothing_listens_unless_it_is_asked_for(self):
        broker = self.start("serve")
        self.assertTrue(broker.stdout.readline().startswith("serving at "))
        listens = {line.split()[9] for name in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/{broker.pid}/net/{name}").read_text().splitlines()[1:]
                   if line.split()[3] == "0A"}
        sockets = {os.readlink(f"/proc/{broker.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{broker.pid}/fd")}
        self.assertFalse({f"socket:[{inode}]" for inode in listens} & sockets)
        self.assertFalse(self.token_file.exists())

    def test_who_has_the_token_is_its_user(self):
        self.serve()
        self.assertEqual(self.token_file.stat().st_mode & 0o7777, 0o600)
        self.assertEqual(self.ask()[0], 200)
        spec = {"folder": "/", "umask": 0o022, "environment": [f"PATH={os.environ['PATH']}"]}
        status, said = self.ask("POST", "/v1/jobs", {"queued": True, "spec": spec, "request": {"gpus": 1}, "command": ["sh", "-c", "exit 3"]})
        self.assertEqual((status, said["job"]["uid"]), (201, os.getuid()))
        job = said["job"]["id"]
        status, said = self.ask(path=f"/v1/jobs/{job}?wait=ended")
        self.assertEqual((status, said["job"]["outcome"]["exit_code"]), (200, 3))
        # A lease over TCP needs the pids of its owners, because the kernel does not report who connects.
        self.assertEqual(self.ask("POST", "/v1/jobs", {"request": {"gpus": 1}})[0], 403)
        status, said = self.ask("POST", "/v1/jobs", {"request": {"gpus": 1}, "owners": [{"pid": os.getpid()}]})
        self.assertEqual((status, said["job"]["state"]), (201, "running"))
        self.assertEqual(self.ask("POST", f"/v1/jobs/{said['job']['id']}/end", {})[1]["job"]["state"], "failed")
        self.assertEqual(self.ask("GET", "/v1/nothing")[0], 404)
        for _ in range(20):  # the answer comes while the call is still being sent
            status, said = self.ask("POST", "/v1/jobs", {"name": "n" * 5 * MIB})
            self.assertEqual((status, said["error"]["id"]), (413, "E0919"))
        # The same token after a restart.
        before = self.token
        self.kill_brokers()
        self.serve()
        self.assertEqual(self.token, before)
        self.assertEqual(self.ask(path=f"/v1/jobs/{job}")[0], 200)

    def test_changes_are_told_as_they_come(self):
        self.serve()
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.port), 20)) as one:
            one.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: bearer {self.token}\r\n\r\n".encode())
            heard = b""
            while b"event: ready" not in heard:
                heard += one.recv(65536)
            self.run_berth("run", "--queue", "--cpu", "--", "true")
            while b'"done"' not in heard:
                more = one.recv(65536)
                self.assertTrue(more)
                heard += more

    def test_without_the_token_nobody_is_let_in(self):
        self.serve()
        wrong = self.token[:-1] + ("0" if self.token[-1] != "0" else "1")
        for token in (False, f"Bearer {wrong}", f"Bearer {self.token[1:]}", f"Bearer {self.token}0", "Bearer ", "Bearer", f"Basic {self.token}",
                      self.token, f"Bearer  {self.token}", "Bearer " + "0" * 64):
            for method, path, body in (("GET", "/v1/jobs", None), ("POST", "/v1/jobs", {"request": {"gpus": 1}}), ("GET", "/v1/machine", None),
                                       ("POST", "/v1/jobs", {"name": "n" * 5 * MIB})):
                status, said = self.ask(method, path, body, token=token)
                self.assertEqual((status, said["error"]["id"]), (401, "E0917"), token)
        self.assertEqual(self.ask(path=f"/v1/jobs?token={self.token}", token=False)[0], 401)
        self.assertEqual(self.call("GET", "/v1/jobs?all")["jobs"], [])
        # A second request without the token on the same connection is refused.
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.port), 20)) as one:
            call = b"GET /v1/machine HTTP/1.1\r\nHost: localhost\r\n"
            one.sendall(call + f"Authorization: Bearer {self.token}\r\n\r\n".encode() + call + b"\r\n")
            heard = b""
            while more := one.recv(65536):
                heard += more
            self.assertEqual(heard.count(b"HTTP/1.1 200"), 1)
            self.assertEqual(heard.count(b"HTTP/1.1 "), 1)

    def test_another_page_in_a_browser_is_refused_though_it_had_the_token(self):
        self.serve()
        for host in ("evil.example", f"evil.example:{self.port}", f"127.0.0.1.evil.example:{self.port}", f"10.0.0.1:{self.port}",
                     f"127.0.0.1:{self.port + 1}"):
            status, said = self.ask(host=host)
            self.assertEqual((status, said["error"]["id"]), (403, "E0918"), host)
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{self.port + 1}", f"http://localhost:{self.port}",
                       f"https://127.0.0.1:{self.port}"):
            for method in ("GET", "POST", "OPTIONS"):
                self.assertEqual(self.ask(method, Origin=origin)[0], 403, (origin, method))
        self.assertEqual(self.ask("GET", Origin=f"http://127.0.0.1:{self.port}")[0], 200)  # the dashboard's own origin
        self.assertEqual(self.ask(host=f"localhost:{self.port}")[0], 200)
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.port), 20)) as one:
            one.sendall(f"GET /v1/jobs HTTP/1.0\r\nAuthorization: Bearer {self.token}\r\n\r\n".encode())
            self.assertTrue(one.recv(100).startswith(b"HTTP/1.1 403 "))  # a request without a Host header

    def test_other_addresses_than_loopback_are_refused(self):
        for address in ("0.0.0.0:8642", "10.0.0.1:8642", "[::]:8642", "192.168.1.2:8642", "localhost:8642", "127.0.0.1", "127.0.0.1:0",
                        "127.0.0.1:65536", "127.0.0.1:x", ":8642", "8642"):
            self.assertIn("(E0915)", self.refused(f"--tcp={address}"), address)
        with contextlib.closing(socket.socket()) as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            self.assertIn("(E0916)", self.refused("--tcp", f"127.0.0.1:{other.getsockname()[1]}"))

    def test_a_token_that_others_could_know_is_refused(self):
        self.serve().terminate()
        self.assertTrue(wait_until(lambda: not self.brokers()))
        address = f"127.0.0.1:{free_port()}"
        for mode in (0o640, 0o604, 0o666):
            self.token_file.chmod(mode)
            said = self.refused("--tcp", address)
            self.assertIn("(E0914)", said)
            self.assertIn(f"hint: chmod 600 {self.token_file}", said)
        self.token_file.chmod(0o600)
        if os.geteuid() == 0:
            os.chown(self.token_file, 61021, 61021)
            self.assertIn("it belongs to another user (E0914)", self.refused("--tcp", address))
            os.chown(self.token_file, 0, 0)
        self.token_file.rename(self.folder / "elsewhere")
        self.token_file.symlink_to(self.folder / "elsewhere")
        self.assertIn("(E0914)", self.refused("--tcp", address))
        self.token_file.unlink()
        self.token_file.write_text("short\n")
        self.token_file.chmod(0o600)
        self.assertIn("it contains no token (E0914)", self.refused("--tcp", address))

    def test_who_floods_it_keeps_nobody_out(self):
        broker, chance = self.serve(), random.Random(5)
        with contextlib.ExitStack() as held:
            for _ in range(300):
                one = held.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", self.port), 20)))
                with contextlib.suppress(OSError):
                    one.sendall(chance.choice([b"", b"GET /", chance.randbytes(500), b"GET / HTTP/1.1\r\nX: " + b"y" * 20_000]))
            for _ in range(20):
                begun = time.monotonic()
                self.assertEqual(self.call("GET", "/v1/jobs")["jobs"], [])
                self.assertLess(time.monotonic() - begun, 1)
            # A caller with the token is served at once. If there are too many connections, the oldest one without a token is closed.
            for _ in range(20):
                begun = time.monotonic()
                self.assertEqual(self.ask()[0], 200)
                self.assertLess(time.monotonic() - begun, 5)
        self.assertIsNone(broker.poll())

    def hold(self, held, call):
        """Opens a connection that has sent this call, with the token."""
        one = held.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", self.port), 60)))
        one.sendall(f"{call} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n\r\n".encode())
        return one

    def need_files(self, count):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard < count:
            self.skipTest("too few files may be open")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def test_as_many_open_pages_as_a_user_may_have_keep_nobody_else_out(self):
        self.need_files(2000)
        self.serve()
        with contextlib.ExitStack() as held:
            pages = [self.hold(held, "GET /v1/watch") for _ in range(1000)]
            for one in pages:
                self.assertTrue(one.recv(100).startswith(b"HTTP/1.1 200 "))
            one, heard = self.hold(held, "GET /v1/watch"), b""
            while more := one.recv(65536):
                heard += more
            self.assertIn(b"HTTP/1.1 503 ", heard)
            self.assertIn(b"E0928", heard)
            self.assertEqual(self.ask()[0], 200)
            self.assertEqual(self.call("GET", "/v1/jobs")["jobs"], [])
            pages[0].close()  # noticed although the client sends nothing

            def is_served_again():
                return self.hold(held, "GET /v1/watch").recv(100).startswith(b"HTTP/1.1 200 ")
            self.assertTrue(wait_until(is_served_again))

    def test_a_call_above_the_limit_is_told_to_come_back(self):
        self.need_files(2500)
        self.serve()
        job = self.ask("POST", "/v1/jobs", {"request": {"gpus": 1}, "owners": [{"pid": os.getpid()}]})[1]["job"]["id"]
        with contextlib.ExitStack() as held:
            for _ in range(1300):
                self.hold(held, f"GET /v1/jobs/{job}?wait=ended")
            heard = b""
            one = self.hold(held, "GET /v1/jobs")
            while more := one.recv(65536):
                heard += more
            head, body = heard.split(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"HTTP/1.1 503 "))
            self.assertIn(b"\r\nRetry-After: 1", head)
            self.assertEqual(json.loads(body)["error"]["id"], "E1086")
        self.assertTrue(wait_until(lambda: self.ask()[0] == 200))


if __name__ == "__main__":
    Machine.berth = os.path.abspath(sys.argv.pop(1))
    unittest.main()
