#!/usr/bin/env python3
"""Watching through `berth serve`: history, metrics with the queue, the stream, and the web page.

usage: daemon_test.py BERTH"""
import concurrent.futures
import http.client
import http.server
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import socketserver
import sqlite3
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import unittest.mock

from daemon_bed import BERTH, Daemon, wait_until


class IdleBench(Daemon):
    MACHINE = ("lab-4x3090",)

    def start(self):
        settings = self.state.parent / "berth.toml"
        settings.write_text('[bench]\nevery = "7d"\n')
        settings.chmod(0o644)
        self.OPTIONS = ("--config", str(settings))
        super().start()

    def test_idle_gpus_are_measured(self):
        latest, seen = self.state / "bench/latest.json", set()

        def measured():
            if latest.exists():
                seen.update(one["device"] for one in json.loads(latest.read_text())["results"] if one["backend"] == "cuda" and one["median_seconds"])
            return len(seen) > 1
        self.assertTrue(wait_until(measured, 300))
        self.assertLess(max(seen), 4)  # not the CPU


class Watching(Daemon):
    def test_the_page_is_for_everybody_and_what_it_shows_for_who_has_the_token(self):
        answer, page = self.get("/", token=False)
        self.assertEqual(answer.status, 200)
        self.assertIn("default-src 'none'", answer.getheader("Content-Security-Policy"))
        self.assertEqual(answer.getheader("X-Content-Type-Options"), "nosniff")
        files = {"app.css", *re.findall(r'src="([a-z.]+)"', page)}
        while files:  # the page, and all modules it imports
            answer, body = self.get("/" + files.pop(), token=False)
            self.assertEqual(answer.status, 200)
            self.assertNotIn("http://", body.replace("http://www.w3.org/2000/svg", ""))
            files |= set(re.findall(r'from "\./([a-z]+\.js)"', body))
        self.assertNotIn("http", page.replace("http-equiv", ""))  # the page loads nothing from other hosts
        for path in ("/metrics", "/v1/watch", "/v1/jobs", "/v1/history", "/v1/usage", "/v1/health", "/v1/doctor", "/app.js/../v1/jobs"):
            self.assertEqual(self.get(path, token=False)[0].status, 401, path)
        self.assertEqual(self.get("/", token=False, Host="attacker.example")[0].status, 403)
        self.assertEqual(self.get("/", token=False, Origin="http://attacker.example")[0].status, 403)
        for origin, status in ((f"http://127.0.0.1:{self.port}", 200), (f"http://127.0.0.1:{self.port + 1}", 403), (f"http://localhost:{self.port}", 403),
                               (f"https://127.0.0.1:{self.port}", 403), ("null", 403), ("", 403)):
            self.assertEqual(self.get("/v1/jobs", Origin=origin)[0].status, status, origin)

    def test_metrics_tell_of_devices_and_of_the_queue(self):
        answer, text = self.get("/metrics")
        self.assertEqual(answer.status, 200)
        self.assertIn('berth_jobs{state="waiting"} 0', text)
        self.assertEqual(text.count("\nberth_device_up{"), 4)
        _, text = self.get("/metrics", Accept="application/openmetrics-text")
        self.assertTrue(text.endswith("# EOF\n"))

    def test_the_stream_sends_a_frame_and_then_what_differs_each_second(self):
        caller = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        caller.request("GET", "/v1/watch", headers={"Authorization": f"Bearer {self.token}"})
        answer = caller.getresponse()
        self.assertEqual(answer.getheader("Content-Type"), "text/event-stream")
        frame, changes, kind = None, [], ""
        while len(changes) < 3:
            line = answer.fp.readline().decode()
            if line.startswith("event: "):
                kind = line[7:].strip()
            if line.startswith("data: ") and kind == "frame":
                self.assertIsNone(frame)  # only the first is whole
                frame = json.loads(line[6:])
            if line.startswith("data: ") and kind == "change":
                changes.append(json.loads(line[6:]))
        caller.close()
        self.assertEqual(len(frame["processes"]), 4)
        self.assertEqual([one["frame"] for one in changes], [frame["frame"] + 1 + i for i in range(3)])
        for change in changes:
            self.assertNotIn("driver", change)
            self.assertLessEqual({row["row"] for row in change.get("devices_changed", [])}, set(range(len(frame["devices"]))))
        self.assertTrue(any("devices_changed" in one for one in changes))

    def test_the_pages_get_what_the_verbs_print(self):
        def document(path, status=200):
            answer, body = self.get(path)
            self.assertEqual(answer.status, status, body)
            return json.loads(body)

        self.assertTrue(wait_until(lambda: any(one["points"] for one in document("/v1/history?step=1s")["devices"]), 60))
        verb = json.loads(self.berth("history", "--json", "--step", "1s").stdout)
        self.assertEqual([one["uuid"] for one in document("/v1/history")["devices"]], [one["uuid"] for one in verb["devices"]])
        self.assertEqual({one["device"] for one in document("/v1/history?device=2")["devices"]}, {2})
        self.assertTrue(wait_until(lambda: document("/v1/usage?by=command&since=1h")["usage"], 90))
        self.assertEqual(document("/v1/usage?colour=red", 400)["error"]["id"], "E0919")
        health = document("/v1/health")
        self.assertEqual(len(health["devices"]), 4)
        self.assertEqual([one["check"] for one in health["devices"][0]["checks"]],
                         [one["check"] for one in json.loads(self.berth("health", "--json").stdout)["devices"][0]["checks"]])
        findings = [one["id"] for one in document("/v1/doctor")["findings"]]
        verdicts = [document(f"/v1/doctor?lang={one}")["verdict"].isascii() for one in ("zh", "en")]
        self.assertEqual(verdicts, [False, True])
        self.assertEqual(findings, [one["id"] for one in json.loads(self.berth("doctor", "--json").stdout)["findings"]])

    def test_many_calls_for_the_history_hold_nobody_up(self):
        self.assertTrue(wait_until(lambda: self.get("/v1/history")[0].status == 200, 60))
        with concurrent.futures.ThreadPoolExecutor(100) as callers:
            calls = [callers.submit(self.get, "/v1/history?since=92d&step=1s") for _ in range(100)]
            begun = time.monotonic()
            self.assertEqual(self.get("/v1/ping")[0].status, 200)
            self.assertLess(time.monotonic() - begun, 5)
            answers = [one.result() for one in calls]
        refused = [json.loads(body)["error"]["id"] for answer, body in answers if answer.status != 200]
        self.assertLess(len(refused), 100)
        self.assertLessEqual(set(refused), {"E0990"})

    def test_history_survives_a_kill_and_is_read_while_it_is_written(self):
        def points():
            done = self.berth("history", "--device", "0", "--json")
            return [] if done.returncode else [point for device in json.loads(done.stdout)["devices"] for point in device["points"]]

        self.assertTrue(wait_until(points, 60))
        before = points()
        self.stop(signal.SIGKILL)
        self.assertGreaterEqual(len(points()), len(before))
        self.start()
        self.assertTrue(wait_until(lambda: len(points()) > len(before), 60))
        self.assertIsNotNone(points()[0]["utilization_percent"])
        csv = self.berth("history", "--format", "csv").stdout.splitlines()
        self.assertTrue(csv[0].startswith("time,device,uuid,utilization_percent"))
        self.assertNotRegex("\n".join(csv[1:]), r",\d[\d.]*e[+-]")  # memory in bytes
        plot = self.berth("history", "--format", "plot").stdout
        self.assertIn("100 %", plot)
        self.assertIn("GiB", self.berth("history").stdout)
        usage = json.loads(self.berth("usage", "--json").stdout)
        self.assertGreater(sum(one["held_seconds"] for one in usage["usage"]), 0)
        self.assertEqual(self.berth("history", "--device", "99").returncode, 1)

    def test_a_history_without_readings_says_when_there_will_be_some(self):
        """The hint was a shorter time than was asked for."""
        self.assertTrue(wait_until(lambda: self.berth("history").returncode == 0, 60))
        done = self.berth("history", "--since", "2h", "--device", "99")
        self.assertIn("the oldest readings are from 20", done.stderr)
        self.stop()
        history = sqlite3.connect(self.state / "history.db")
        for table in ("chunk", "usage"):
            history.execute(f"DELETE FROM {table}")
        history.commit()
        history.close()
        for verb in ("history", "usage", "diff"):
            done = self.berth(verb, "--since", "2h")
            self.assertIn("nothing is recorded yet: berth serve writes the first readings 10 s after its start (E0986)", done.stderr, verb)
            self.assertIn(f"hint: berth {'history' if verb == 'diff' else verb}\n", done.stderr + "\n", verb)
        self.start()

    def test_what_changed_is_compared_before_and_after(self):
        def changes(*words):
            return self.berth("diff", "--window", "5s", *words, "--json")

        self.assertTrue(wait_until(lambda: changes("--since", "15s").returncode == 0, 90))
        document = json.loads(changes("--since", "15s").stdout)
        device = document["devices"][0]
        self.assertIn("utilization_percent", device["before"])
        # Processes are stored by the minute: periods of 5 s may have no whole minute. changes_test.cpp compares minutes.
        self.assertIn(document["processes_known"], (True, False))
        self.assertIn("before:", self.berth("diff", "--window", "5s", "--since", "15s").stdout)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 15))
        self.assertEqual(json.loads(changes("--at", at).stdout)["at"][:19], at[:19])
        self.assertIn("E0986", changes("--at", "2001-01-01T00:00Z").stderr)
        for wrong in ("25:99", "soon", "2999-01-01T00:00Z"):
            self.assertIn("E0964", changes("--at", wrong).stderr, wrong)
        self.assertIn("E0010", changes("--at", "00:00", "--since", "1h").stderr)

    def test_a_damaged_history_is_set_aside_and_the_daemon_goes_on(self):
        self.stop()
        (self.state / "history.db").write_bytes(b"no database" * 1000)
        for end in ("-wal", "-shm"):
            (self.state / f"history.db{end}").unlink(missing_ok=True)
        self.start()
        self.assertEqual(self.get("/metrics")[0].status, 200)
        self.assertTrue((self.state / "history.db.damaged").exists())

    def test_more_streams_than_a_user_may_have_are_refused_and_others_are_served(self):
        most = 1000
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard < 2 * most:
            self.skipTest("too few files may be open")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        path = str(self.socket)

        def stream():
            caller = socket.socket(socket.AF_UNIX)
            self.addCleanup(caller.close)
            caller.settimeout(60)
            caller.connect(path)
            caller.sendall(b"GET /v1/watch HTTP/1.1\r\nHost: berth\r\n\r\n")
            return caller, caller.recv(1000)

        self.assertTrue(wait_until(lambda: self.get("/metrics")[0].status == 200, 60))
        streams = [stream() for _ in range(most)]
        for _, answer in streams:
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer)
        caller, answer = stream()
        self.assertTrue(answer.startswith(b"HTTP/1.1 503 "), answer)
        self.assertIn(b"E0928", answer if b"E0928" in answer else caller.recv(10000))
        read = b""
        while b"event: change" not in read:
            read += streams[-1][0].recv(100_000)
        self.assertEqual(self.get("/metrics")[0].status, 200)
        self.assertEqual(self.berth("jobs").returncode, 0)
        for caller, _ in streams[:8]:
            caller.close()
        self.assertTrue(wait_until(lambda: stream()[1].startswith(b"HTTP/1.1 200 "), 60))

    def test_many_scrapes_read_no_device_and_are_rendered_once(self):
        def number(text, name):
            return float(re.search(rf"(?m)^{name} (\S+)$", text)[1])

        texts, begin = {}, time.monotonic()
        while len(texts) < 4 or sum(map(len, texts.values())) < 200:
            answer, body = self.get("/metrics")
            self.assertEqual(answer.status, 200)
            texts.setdefault(number(body, "berth_sampler_frames_total"), []).append(body)
        passed = time.monotonic() - begin
        # The sampler keeps its pace of one frame a second, and a scrape calls no driver.
        self.assertLessEqual(max(texts) - min(texts), passed + 2)
        for same in texts.values():
            self.assertEqual(len({number(one, "berth_sampler_driver_seconds_total") for one in same}), 1)
            self.assertEqual(len(set(same)), 1, "a second scrape of the same frame was rendered again")
        self.assertEqual(self.berth("jobs").returncode, 0)


class Collector(http.server.BaseHTTPRequestHandler):
    """Of OpenTelemetry. Says first that it is busy, then takes what comes, and in the end answers nothing."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.calls.append((self.path, self.headers["Content-Type"], body))
        self.server.headers = self.headers
        if len(self.server.calls) > 4:
            self.server.is_over.wait(60)
        self.send_response(503 if len(self.server.calls) == 1 else 200)
        self.end_headers()

    def log_message(self, *words):
        pass


@unittest.skipUnless(shutil.which("curl"), "curl is not installed")
class OpenTelemetry(Daemon):
    SETTINGS = 'endpoint = "http://127.0.0.1:{}/"\ninterval = "1s"\n'

    def collect(self, folder):
        """What the collector needs besides HTTP."""

    def setUp(self):
        self.collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        self.collector.calls, self.collector.is_over = [], threading.Event()
        threading.Thread(target=self.collector.serve_forever, daemon=True).start()
        self.addCleanup(self.collector.server_close)
        self.addCleanup(self.collector.shutdown)
        self.addCleanup(self.collector.is_over.set)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "berth.toml"
        file.touch(0o600)
        file.write_text("[otlp]\n" + self.SETTINGS.format(self.collector.server_port))
        self.collect(pathlib.Path(folder.name))
        self.OPTIONS = ("--config", str(file))
        super().setUp()

    def test_a_collector_gets_metrics_again_if_it_was_busy_and_a_slow_one_delays_nobody(self):
        calls = self.collector.calls
        self.assertTrue(wait_until(lambda: len(calls) >= 5, 100))
        (path, kind, first), (_, _, again) = calls[:2]
        self.assertEqual((path, kind), ("/v1/metrics", "application/json"))
        self.assertEqual(first, again)
        (resource,) = json.loads(calls[2][2])["resourceMetrics"]
        self.assertIn({"key": "service.name", "value": {"stringValue": "berth"}}, resource["resource"]["attributes"])
        metrics = {one["name"]: one for one in resource["scopeMetrics"][0]["metrics"]}
        self.assertEqual([one["asDouble"] for one in metrics["berth_device_up"]["gauge"]["dataPoints"]], [1] * 4)
        self.assertTrue(metrics["berth_sampler_cpu_seconds_total"]["sum"]["isMonotonic"])
        begun = time.monotonic()
        self.assertEqual(self.get("/metrics")[0].status, 200)  # the collector does not answer now
        self.assertLess(time.monotonic() - begun, 8)


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class OpenTelemetryWithTls(OpenTelemetry):
    SETTINGS = 'endpoint = "https://localhost:{}"\ninterval = "1s"\nheaders = "authorization=Bearer%20secret,x-scope=team"\n'

    def collect(self, folder):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                        "-keyout", folder / "key", "-out", folder / "certificate"], check=True, stderr=subprocess.DEVNULL)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "certificate", folder / "key")
        self.collector.socket = tls.wrap_socket(self.collector.socket, server_side=True)
        environment = unittest.mock.patch.dict(os.environ, {"CURL_CA_BUNDLE": str(folder / "certificate")})
        environment.start()
        self.addCleanup(environment.stop)

    def test_a_collector_gets_metrics_again_if_it_was_busy_and_a_slow_one_delays_nobody(self):
        self.assertTrue(wait_until(lambda: len(self.collector.calls) >= 2, 100))
        self.assertEqual((self.collector.headers["Authorization"], self.collector.headers["X-Scope"]), ("Bearer secret", "team"))


class LostDevice(Daemon):
    MACHINE = ("dgx-h100-8", "--fault", "lost:5@8")

    def test_the_doctor_is_asked_again_after_a_fault(self):
        def found():
            return [one["id"] for one in json.loads(self.get("/v1/doctor")[1])["findings"]]

        found()  # usually before the fault; the answer is kept for a minute
        self.assertTrue(wait_until(lambda: json.loads(self.berth("alerts", "--json").stdout)["alerts"], 60))
        self.assertIn("HW08", found())

    def test_a_lost_gpu_has_one_alert_that_stays_and_its_uuid(self):
        def alerts():
            return json.loads(self.berth("alerts", "--json").stdout)["alerts"]

        self.assertTrue(wait_until(alerts, 60))
        begun = alerts()
        self.assertEqual([one["rule"] for one in begun], ["device_down"])
        self.assertEqual(begun[0]["device"], 5)
        end = time.monotonic() + 13  # time for two complete readings without this GPU
        while time.monotonic() < end:
            self.assertEqual(alerts(), begun)
            time.sleep(0.2)
        _, text = self.get("/metrics")
        self.assertIn(f'berth_device_up{{device="5",uuid="{begun[0]["uuid"]}"}} 0', text)
        self.assertTrue(begun[0]["uuid"].startswith("GPU-"))


class LostFromTheStart(Daemon):
    MACHINE = ("lab-4x3090", "--fault", "lost:2")

    def test_alerts_wait_for_the_first_reading(self):
        """They said that there are none, before any device was read."""
        done = self.berth("alerts", "--json")
        document = json.loads(done.stdout)
        self.assertEqual([(one["rule"], one["device"]) for one in document["alerts"]], [("device_down", 2)])
        self.assertRegex(document["checked_at"], r"^\d{4}-\d\d-\d\dT")
        self.assertEqual(done.returncode, 1)


class LostWhileRecorded(Daemon):
    MACHINE = ("lab-4x3090", "--processes", "4", "--fault", "lost:2@12")

    def test_a_lost_gpu_is_a_change_even_if_its_readings_before_were_the_same(self):
        def changes(*words):
            return self.berth("diff", "--window", "1m", "--since", "25s", *words)

        def silent():
            devices = json.loads(changes("--json").stdout or '{"devices": []}')["devices"]
            return [one["silent_after"] for one in devices if one["device"] == 2 and one["silent_after"]]

        self.assertTrue(wait_until(silent, 90))
        self.assertEqual(silent()[0]["reason"], "lost")
        self.assertRegex(changes().stdout, r"(?m)^device 2: lost since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")


class Odd(http.server.BaseHTTPRequestHandler):
    """A broker whose answers are not what a broker sends."""

    def do_GET(self):
        body = json.dumps(self.server.document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self):
        return "a client"

    def log_message(self, *_):
        pass


class OddAnswers(unittest.TestCase):
    def test_an_answer_of_another_shape_is_an_error_and_ends_nothing(self):
        with tempfile.TemporaryDirectory() as folder, socketserver.ThreadingUnixStreamServer(f"{folder}/berth.sock", Odd) as broker:
            threading.Thread(target=broker.serve_forever, daemon=True).start()
            self.addCleanup(broker.shutdown)

            def ask(document, *words):
                broker.document = document
                return subprocess.run([BERTH, "alerts", *words], env=os.environ | {"BERTH_RUNTIME_DIR": folder, "LC_ALL": "C.UTF-8"}, capture_output=True,
                                      text=True, timeout=100)

            done = ask({"rules": [5, None, {"rule": "hot", "for_seconds": 1e300}]}, "--rules")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, "(?m)^hot ")
            for wrong in ({"for_seconds": "x"}, {"enabled": 7}, {"from_settings": []}):
                done = ask({"rules": [{"rule": "hot", **wrong}]}, "--rules")
                self.assertIn("E0988", done.stderr)
                self.assertEqual(done.returncode, 4, done.stderr)
            self.assertNotIn("info", ask({"alerts": [5]}).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
