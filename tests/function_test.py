#!/usr/bin/env python3
"""`berth function serve` on a simulated machine: leases only while they are used, a limited queue, and workers that fail or hang.

usage: function_test.py BERTH
"""
import http.client
import importlib.util
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "broker"))
from machine import Machine, wait_until  # noqa: E402

SERVER = pathlib.Path(__file__).resolve().parents[1] / "src/cli/function_server.py"

HANDLER = """
    import json, os, signal, sys, time
    calls = 0
    def seen(value):
        global calls
        calls += 1
        print("to standard output")
        return {"value": value, "gpu": os.environ.get("CUDA_VISIBLE_DEVICES"), "pid": os.getpid(), "calls": calls}
    def until(path):
        open(f"{path}-{os.getpid()}", "w").close()
        while not os.path.exists(path): time.sleep(0.01)
        return seen(path)
    def other(value):
        if value == "bytes": return b"\\x00\\xff"
        if value == "text": return "größer"
        if value == "raise": raise ValueError("a secret")
        if value == "exit": sys.exit(3)
        if value == "die": os.kill(os.getpid(), signal.SIGKILL)
        if value == "hang": time.sleep(1e6)
        if value == "odd": return {1, 2}
        return [value, os.getpid()]
    async def later(value): return value
"""


class Function(Machine):
    def setUp(self):
        super().setUp()
        self.handler = self.folder / "handler.py"
        self.handler.write_text(textwrap.dedent(HANDLER))

    def serve(self, function="seen", *words, host="127.0.0.1"):
        self.host = host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        for _ in range(20):  # another process may take the port in between
            with socket.socket(family) as probe:
                probe.bind((host, 0))
                self.port = probe.getsockname()[1]
            log = open(self.folder / "log", "wb")
            self.addCleanup(log.close)
            process = subprocess.Popen([self.berth, "function", "serve", f"{self.handler}:{function}", "--listen", f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}", *words],
                                       env={**self.variables, "LC_ALL": "C.UTF-8"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)

            def clean():
                process.kill()
                process.wait()
                process.stdout.close()
            self.addCleanup(clean)
            self.said = process.stdout.readline().decode()
            if self.said:
                break
        self.assertTrue(self.said, self.log())
        return process

    def log(self):
        return (self.folder / "log").read_text()

    def post(self, value=None, headers=None, method="POST", path="/", body=None):
        """(code, headers, body) of one call."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=100)
        try:
            connection.request(method, path, json.dumps(value) if body is None else body, {"Content-Type": "application/json", **(headers or {})})
            with connection.getresponse() as answer:
                return answer.status, dict(answer.headers), answer.read()
        finally:
            connection.close()

    def value(self, *words, **more):
        code, _, body = self.post(*words, **more)
        self.assertEqual(code, 200, (body, self.log()))
        return json.loads(body)

    def error(self, *words, **more):
        code, _, body = self.post(*words, **more)
        return code, json.loads(body)["error"]["type"]

    def in_background(self, count, *words):
        found = []
        threads = [threading.Thread(target=lambda: found.append(self.post(*words))) for _ in range(count)]
        for one in threads:
            one.start()
            self.addCleanup(one.join)
        return threads, found

    def running(self):
        jobs = json.loads(self.run_berth("jobs", "--json").stdout)["jobs"]
        return [one for one in jobs if one["state"] == "running"]

    def test_a_gpu_is_leased_while_it_is_used_and_freed_after_the_idle_time(self):
        self.serve("seen", "--gpus", "1", "--idle", "1s")
        self.assertEqual(self.said, f"http://127.0.0.1:{self.port}/ calls handler.py:seen: at most 1 at a time; a worker ends after 1 s without a call\n")
        self.assertEqual(self.running(), [], "nothing is leased before the first call")
        first = self.value({"x": 3})
        self.assertEqual((first["value"], first["calls"]), ({"x": 3}, 1))
        self.assertIn(first["gpu"], "0123")
        self.assertTrue(wait_until(lambda: not self.running()))
        again = self.value(None)
        self.assertEqual((again["value"], again["calls"]), (None, 1), "a new worker")
        self.assertIn("to standard output", self.log())

    def test_a_worker_stays_warm(self):
        self.serve("seen", "--gpus", "1")
        first, second = self.value(1), self.value(2)
        self.assertEqual((first["pid"], second["calls"]), (second["pid"], 2))
        (job,) = self.running()
        self.assertEqual(job["name"], "function handler.py:seen")

    def test_calls_beyond_the_queue_get_503_and_when_to_try_again(self):
        self.serve("until", "--gpus", "1", "--max", "2", "--queue", "1")
        go = self.folder / "go"
        threads, found = self.in_background(5, str(go))
        self.assertTrue(wait_until(lambda: len(found) == 2 and len(list(self.folder.glob("go-*"))) == 2, 60), found)
        for code, headers, body in found:
            self.assertEqual((code, json.loads(body)), (503, {"error": {"type": "busy"}}))
            self.assertTrue(1 <= int(headers["Retry-After"]) <= 60, headers)
        go.touch()
        for one in threads:
            one.join(60)
        answers = [json.loads(body) for code, _, body in found if code == 200]
        self.assertEqual(len(answers), 3)
        self.assertEqual(len({one["gpu"] for one in answers}), 2, answers)

    def test_what_the_function_returns_and_raises(self):
        self.serve("other", "--cpu")
        code, headers, body = self.post("bytes")
        self.assertEqual((code, headers["Content-Type"], body), (200, "application/octet-stream", b"\x00\xff"))
        code, headers, body = self.post("text")
        self.assertEqual((code, headers["Content-Type"], body.decode()), (200, "text/plain; charset=utf-8", "größer"))
        code, _, body = self.post("raise")
        self.assertEqual((code, body), (500, b'{"error": {"type": "ValueError"}}'), "the type alone")
        self.assertIn("ValueError: a secret", self.log(), "the log has the whole")
        _, pid = self.value("x")
        self.assertEqual(self.error("exit"), (500, "SystemExit"))
        self.assertEqual(self.error("odd"), (500, "TypeError"))
        self.assertEqual(self.value("y"), ["y", pid], "the worker is still warm")
        self.assertEqual(self.error(body="{", ), (400, "body"))
        self.assertEqual(self.error(body="[" * 100000), (400, "body"), "deeper than Python reads")
        self.assertEqual(self.value("z"), ["z", pid], "the worker is still warm")
        self.assertEqual(self.value(body=b"as text", headers={"Content-Type": "text/plain"})[0], "as text")

    def test_a_coroutine_is_awaited(self):
        self.serve("later", "--cpu")
        self.assertEqual(self.value({"a": [1]}), {"a": [1]})

    def test_a_killed_worker_frees_its_gpu_and_another_takes_the_next_call(self):
        self.serve("other", "--gpus", "1")
        _, pid = self.value("x")
        self.assertEqual(self.error("die"), (500, "worker_ended"))
        self.assertTrue(wait_until(lambda: not self.running()))
        _, second = self.value("x")
        self.assertNotEqual(second, pid)
        os.kill(second, signal.SIGKILL)  # while it is idle
        self.assertTrue(wait_until(lambda: not self.running()))
        self.assertNotEqual(self.value("x")[1], second)

    def test_a_function_that_hangs_is_ended(self):
        self.serve("other", "--gpus", "1", "--timeout", "5s")

        def answers():  # the limit is also that of a worker's start: on a busy machine a later call gets it
            return wait_until(lambda: self.post("x")[0] == 200, 100)
        self.assertTrue(answers(), self.log())
        self.assertEqual(self.error("hang"), (504, "timeout"))
        self.assertTrue(wait_until(lambda: not self.running()))
        self.assertTrue(answers(), self.log())

    def test_a_client_that_sends_without_end_is_cut_off(self):
        spec = importlib.util.spec_from_file_location("function_server", SERVER)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        listening = socket.create_server(("127.0.0.1", 0))
        server = module.Server({"socket": listening.detach(), "max": 1, "queue": 0, "token": "secret", "body": 1 << 20})
        module.Endpoint.timeout = 1
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            for start in (b"", b"POST / HTTP/1.1\r\nX: ", b"POST / HTTP/1.1\r\nAuthorization: Bearer secret\r\nContent-Length: 100000\r\n\r\n"):
                with socket.create_connection(server.server_address) as client:
                    client.sendall(start)

                    def is_cut():
                        try:
                            client.sendall(b"x")
                            client.setblocking(False)
                            return client.recv(1000) == b""
                        except BlockingIOError:
                            return False
                        except ConnectionError:
                            return True
                        finally:
                            client.setblocking(True)
                    self.assertTrue(wait_until(is_cut, 60), start)
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def test_a_second_signal_does_not_wait_for_open_connections(self):
        server = self.serve("seen", "--cpu")
        with socket.create_connection((self.host, self.port)) as client:
            client.sendall(b"POST / HTTP/1.1\r\n")
            self.assertEqual(self.post(method="GET", path="/healthz")[0], 200)  # the server has taken the first connection too
            server.terminate()
            self.assertTrue(wait_until(lambda: not self.listens()))
            begun = time.monotonic()
            server.terminate()
            self.assertEqual(server.wait(60), 0)
            self.assertLess(time.monotonic() - begun, 25, "the limit of a request is 30 s")

    def listens(self):
        with socket.socket() as probe:
            return probe.connect_ex((self.host, self.port)) == 0

    def test_a_call_without_a_free_gpu_gives_up_and_frees_what_waits(self):
        holder = self.start("run", "--gpus", "4", "--", "cat")
        self.assertTrue(wait_until(lambda: len(self.running()) == 1))
        server = self.serve("other", "--gpus", "1", "--timeout", "3s")
        code, headers, body = self.post("x")
        self.assertEqual((code, json.loads(body)["error"]["type"]), (503, "busy"))
        self.assertGreaterEqual(int(headers["Retry-After"]), 1)
        server.terminate()
        self.assertEqual(server.wait(60), 0)
        holder.stdin.close()
        self.assertTrue(wait_until(lambda: all(one["state"] not in ("running", "waiting") for one in
                                               json.loads(self.run_berth("jobs", "--json").stdout)["jobs"])))

    def test_what_is_not_a_call_is_refused(self):
        self.serve("seen", "--cpu", "--body", "1KiB")
        self.assertEqual(self.error(method="GET"), (405, "method_not_allowed"))
        self.assertEqual(self.post(method="GET", path="/healthz")[::2], (200, b"ok\n"))
        self.assertEqual(self.error(path="/other"), (404, "not_found"))
        self.assertEqual(self.error(body="x" * 1025), (413, "body_too_large"))
        self.assertEqual(self.error(headers={"Content-Length": "-1"}, body="1"), (400, "bad_request"))
        self.assertEqual(self.error(headers={"Transfer-Encoding": "chunked"}, body=b"0\r\n\r\n")[0], 411)
        self.assertEqual(self.error(1, headers={"Host": "evil.example"}), (403, "forbidden"), "DNS rebinding")
        self.assertEqual(self.error(1, headers={"Origin": "http://evil.example"}), (403, "forbidden"), "a page in a browser")
        self.assertEqual(self.running(), [])

    @unittest.skipIf(os.getuid() != 0, "only root can become another user")
    def test_another_user_of_the_machine_is_refused_unless_it_has_the_token(self):
        call = ("import sys, urllib.request, urllib.error\n"
                "request = urllib.request.Request(sys.argv[1], b'1', {'Content-Type': 'application/json'})\n"
                "if sys.argv[2:]: request.add_header('Authorization', 'Bearer ' + sys.argv[2])\n"
                "try: print(urllib.request.urlopen(request).status)\nexcept urllib.error.HTTPError as problem: print(problem.code)")

        def as_nobody(*words):
            return subprocess.run(["/usr/bin/python3", "-c", call, f"http://127.0.0.1:{self.port}/", *words], user=65534, capture_output=True, text=True,
                                  timeout=60, env={}, cwd="/").stdout.strip()
        server = self.serve("seen", "--cpu")
        self.assertEqual(as_nobody(), "403")
        server.terminate()
        token = self.folder / "token"
        token.write_text("0123456789abcdef\n")
        token.chmod(0o600)
        self.serve("seen", "--cpu", "--token-file", str(token))
        self.assertEqual((as_nobody(), as_nobody("wrong"), as_nobody("0123456789abcdef")), ("401", "401", "200"))

    def test_a_module_that_cannot_be_loaded_is_said_by_each_call(self):
        self.handler.write_text("import no_such_module\n")
        self.serve("seen", "--cpu")
        for _ in range(2):
            self.assertEqual(self.error(1), (500, "ModuleNotFoundError"))
        self.assertIn("no_such_module", self.log())

    def test_it_ends_with_its_calls_answered_and_its_workers_ended(self):
        server = self.serve("until", "--gpus", "1")
        go = self.folder / "go"
        threads, found = self.in_background(1, str(go))
        self.assertTrue(wait_until(lambda: len(self.running()) == 1))
        server.terminate()
        go.touch()
        threads[0].join(60)
        self.assertEqual(found[0][0], 200, found)
        self.assertEqual(server.wait(60), 0)
        self.assertTrue(wait_until(lambda: not self.running()))

    def test_killed_it_leaves_no_worker_behind(self):
        server = self.serve("until", "--gpus", "1", "--max", "2")
        self.value(str(self.handler))  # an idle worker, then one that hangs
        threads, found = [], []

        def call(path):
            try:
                found.append(self.post(path))
            except (OSError, http.client.HTTPException) as problem:
                found.append(problem)
        for name in ("never-1", "never-2"):
            thread = threading.Thread(target=call, args=(str(self.folder / name),))
            thread.start()
            threads.append(thread)
            self.addCleanup(thread.join)
            self.assertTrue(wait_until(lambda: list(self.folder.glob(f"{name}-*"))))
        self.assertEqual(len(self.running()), 2)
        server.kill()
        self.assertTrue(wait_until(lambda: not self.running()))
        for thread in threads:
            thread.join(60)
        self.assertEqual([isinstance(one, Exception) for one in found], [True, True], "the connections break")

    def test_it_listens_on_ipv6_too(self):
        with socket.socket(socket.AF_INET6) as probe:
            try:
                probe.bind(("::1", 0))
            except OSError:
                self.skipTest("this machine has no IPv6")
        self.serve("seen", "--cpu", host="::1")
        self.assertEqual(self.value(1)["value"], 1)

    def test_wrong_words_are_named(self):
        handler = f"{self.handler}:seen"
        open_token = self.folder / "open"
        open_token.write_text("0123456789abcdef")
        open_token.chmod(0o644)
        for words, id in ((("serve",), "E0998"), (("serve", "handler.py"), "E0998"), (("serve", "none.py:f"), "E0998"), (("serve", handler + "()"), "E0998"),
                          (("run", handler), "E0998"), (("serve", handler, "--max", "0"), "E0998"), (("serve", handler, "--idle", "soon"), "E0998"),
                          (("serve", handler, "--body", "2GiB"), "E0998"), (("serve", handler, "--listen", "0.0.0.0:8643"), "E0998"),
                          (("serve", handler, "--listen", "here"), "E0998"), (("serve", handler, "--token-file", str(open_token)), "E0998"),
                          (("serve", handler, "--gpus", "some"), "E0104"), (("serve", handler, "--python", "/no/such", "--listen", "127.0.0.1:1"), "E0999")):
            done = self.run_berth("function", *words, "--json", LC_ALL="C.UTF-8")
            self.assertEqual(json.loads(done.stderr)["error"]["id"], id, words)


if __name__ == "__main__":
    Machine.berth = os.path.abspath(sys.argv.pop(1))
    unittest.main()
