#!/usr/bin/env python3
"""Alerts of `berth serve`: their rules, their delivery, and what a restart does to them.

usage: alerts_test.py BERTH"""
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from daemon_bed import BERTH, Daemon, wait_until


class Xid(Daemon):
    MACHINE = ("dgx-h100-8", "--fault", "xid:3@2=79")

    def test_an_xid_is_an_alert_with_the_words_of_the_catalogue(self):
        def alerts():
            return json.loads(self.berth("alerts", "--json").stdout)["alerts"]

        self.assertTrue(wait_until(alerts, 60))
        (alert,) = alerts()
        self.assertEqual((alert["rule"], alert["severity"], alert["device"]), ("xid_79", "critical", 3))
        self.assertIn("GPU 3 reported Xid 79: GPU fell off the bus", alert["message"])
        metrics = self.get("/metrics")[1]
        self.assertRegex(metrics, r'berth_device_xid_errors_total\{device="3",uuid="[^"]+",severity="critical"\} 1\n')
        self.assertRegex(metrics, r'berth_device_xid_errors_total\{device="2",uuid="[^"]+",severity="critical"\} 0\n')
        at = float(re.search(r'berth_device_xid_last_timestamp_seconds\{device="3",[^}]*xid="79",severity="critical"\} (\S+)', metrics)[1])
        self.assertLess(abs(time.time() - at), 120)


class XidAcrossRestart(Daemon):
    MACHINE = Xid.MACHINE

    def test_a_restarted_broker_neither_reports_nor_counts_an_xid_again(self):
        def alerts():
            return json.loads(self.berth("alerts", "--json").stdout)["alerts"]

        def count():
            found = re.search(r'berth_device_xid_errors_total\{device="3",uuid="[^"]+",severity="critical"\} (\d)', self.get("/metrics")[1])
            return found and found[1]

        self.assertTrue(wait_until(alerts, 60))
        first = alerts()
        self.assertEqual(count(), "1")
        self.stop(signal.SIGKILL)
        self.start()
        self.assertTrue(wait_until(count, 60))  # the driver reports Xids of this device from now on
        time.sleep(3)  # three frames
        self.assertEqual((count(), alerts()), ("0", first))
        self.daemon.send_signal(signal.SIGTERM)
        self.assertNotIn("Xid", self.daemon.stderr.read())


# Ranks that wait in a collective of NCCL use a whole core each. A thread stands for PyTorch's flight recorder.
STUCK = """
import os, pickle, threading
rank, stem = os.environ["RANK"], os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"]
os.mkfifo(f"{stem}{rank}.pipe")
pipe = os.open(f"{stem}{rank}.pipe", os.O_RDWR)
def serve():
    while os.read(pipe, 1):
        entry = {"profiling_name": "nccl:all_reduce", "collective_seq_id": 4, "is_p2p": False, "process_group": ("0", "default_pg"), "state": "started"}
        with open(f"{stem}{rank}.new", "wb") as file:
            pickle.dump({"version": "2.10", "entries": [entry]}, file, protocol=2)
        os.rename(f"{stem}{rank}.new", f"{stem}{rank}")
threading.Thread(target=serve, daemon=True).start()
while True:
    pass
"""


class HangOfRanks(Daemon):
    MACHINE = ("lab-4x3090",)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "berth.toml"
        file.write_text('[alert_rule.job_hangs]\nfor = "1s"\n')
        self.OPTIONS = ("--config", str(file))
        super().setUp()

    def test_ranks_that_spin_in_a_collective_are_an_alert_until_the_job_ends(self):
        def alerts():  # without those of a driver that is slow because the ranks spin
            return [one for one in json.loads(self.berth("alerts", "--json").stdout)["alerts"] if one["rule"] == "job_hangs"]

        words = ["--gpus", "2", "--ranks", "2", "--", "python3", "-c", STUCK]
        here = subprocess.Popen([BERTH, "run", *words], env=self.variables, stderr=subprocess.DEVNULL)
        self.addCleanup(here.wait)
        self.addCleanup(here.kill)
        queued = json.loads(self.berth("run", "--queue", "--json", *words).stdout)["job"]["id"]
        self.assertTrue(wait_until(lambda: len(alerts()) == 2, 200), alerts())
        for one in alerts():
            self.assertEqual((one["severity"], one["hint"]), ("warning", f"berth stacks {one['job']}"))
            self.assertRegex(one["message"], f"^job {one['job']} hangs: no rank has made progress for [0-9.]+ s: all wait for each other")

        def series():
            return re.findall(r'(?m)^berth_job_ranks_hang\{job_id="(\d+)",user="[^"]+"\} 1$', self.get("/metrics")[1])
        self.assertEqual(sorted(series()), ["1", "2"])
        here.terminate()
        self.berth("cancel", str(queued))
        self.assertTrue(wait_until(lambda: not alerts(), 60), alerts())
        self.assertTrue(wait_until(lambda: not series()), series())


class XidWithRule(Daemon):
    MACHINE = Xid.MACHINE

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "berth.toml"
        file.write_text('[alert_rule.xid_79]\nseverity = "info"\n')
        self.OPTIONS = ("--config", str(file))
        super().setUp()

    def test_metrics_have_the_severity_of_the_settings(self):
        def metrics():
            return re.findall(r'berth_device_xid_last_timestamp_seconds\{device="3",[^}]*xid="79",severity="(\w+)"\}', self.get("/metrics")[1])
        self.assertTrue(wait_until(metrics, 60))
        self.assertEqual(metrics(), ["info"])


class Hook(http.server.BaseHTTPRequestHandler):
    """Fails once, then takes what comes. At /slow it answers nothing."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/slow":
            self.server.is_over.wait(60)
            return
        self.server.calls.append((self.path, dict(self.headers), body))
        self.send_response(500 if len(self.server.calls) == 1 else 200)
        self.end_headers()

    def log_message(self, *words):
        pass


def has_namespaces():
    return shutil.which("unshare") and subprocess.run(["unshare", "-r", "-m", "true"], capture_output=True).returncode == 0


@unittest.skipUnless(has_namespaces(), "no user namespaces here")
class Terminals(unittest.TestCase):
    def test_a_test_message_reaches_the_terminal_where_the_caller_is_logged_in(self):
        end, terminal = pty.openpty()
        self.addCleanup(os.close, end)
        self.addCleanup(os.close, terminal)
        line = os.ttyname(terminal).removeprefix("/dev/")
        with tempfile.TemporaryDirectory() as folder:
            utmp, settings = pathlib.Path(folder) / "utmp", pathlib.Path(folder) / "berth.toml"
            user_process = 7
            utmp.write_bytes(struct.pack("hxxi32s4s32s256s52x", user_process, os.getpid(), line.encode(), b"", b"root", b""))
            settings.write_text('[[alerts]]\nterminal = "owner"\n')
            variables = {name: value for name, value in os.environ.items() if name != "SUDO_UID"} | {"LC_ALL": "C.UTF-8"}
            done = subprocess.run(["unshare", "-r", "-m", "sh", "-c", 'mount -t tmpfs none /run && cp "$0" /run/utmp && exec "$@"', str(utmp),
                                   BERTH, "alerts", "--test", "--config", str(settings)],
                                  env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(select.select([end], [], [], 10)[0])
        self.assertIn(b"test", os.read(end, 4096))


@unittest.skipUnless(shutil.which("curl"), "curl is not installed")
class Delivered(Daemon):
    MACHINE = ("dgx-h100-8", "--fault", "lost:5@2")

    def setUp(self):
        self.hook = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self.hook.calls, self.hook.is_over = [], threading.Event()
        threading.Thread(target=self.hook.serve_forever, daemon=True).start()
        self.addCleanup(self.hook.server_close)
        self.addCleanup(self.hook.shutdown)
        self.addCleanup(self.hook.is_over.set)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "berth.toml"
        self.said = pathlib.Path(folder.name) / "said"
        url = f"http://127.0.0.1:{self.hook.server_port}"
        self.file.write_text(f"""
[[alerts]]
webhook = "{url}/slow"
[[alerts]]
webhook = "{url}/hook"
secret = "s3cret"
[[alerts]]
command = ["sh", "-c", 'echo "$1" >>"$0"', "{self.said}", "{{event}} {{rule}} {{text}}"]
""")
        self.file.chmod(0o600)
        self.OPTIONS = ("--config", str(self.file))
        super().setUp()

    def lines(self):
        return self.said.read_text().splitlines() if self.said.exists() else []

    def waiting(self):
        """The number of targets with events that wait."""
        return sum(bool(events) for events in json.loads((self.state / "alerts.json").read_text())["waiting"].values())

    def test_an_alert_reaches_command_and_webhook_once_also_across_a_restart(self):
        self.assertTrue(wait_until(lambda: self.lines() and len(self.hook.calls) == 2, 100))
        self.assertRegex(self.lines()[0], r"^begun device_down .*GPU 5 is lost")
        (path, _, first), (_, headers, body) = self.hook.calls
        self.assertEqual((path, first), ("/hook", body))  # it failed once and was tried again
        event = json.loads(body)
        self.assertEqual((event["event"], event["rule"], event["device"]), ("begun", "device_down", 5))
        signed = headers["X-Berth-Timestamp"].encode() + b"." + body
        self.assertEqual(headers["X-Berth-Signature"], "sha256=" + hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest())
        # A broker that is killed before it has stored that an event was delivered delivers it again.
        self.assertTrue(wait_until(lambda: self.waiting() == 1, 60))
        self.stop(signal.SIGKILL)
        self.start()
        self.assertTrue(wait_until(lambda: json.loads(self.berth("alerts", "--json").stdout)["alerts"], 60))
        begun = json.loads(self.berth("alerts", "--json").stdout)["alerts"]
        self.assertEqual(begun[0]["since"], event["since"])
        time.sleep(3)  # three frames with the same fault
        self.assertEqual((len(self.lines()), len(self.hook.calls)), (1, 2))

    def test_a_test_message_says_who_took_it(self):
        text = self.file.read_text().replace("/slow", "/other").replace('"sh", "-c"', '"/no/such/program", "-c"')
        self.file.write_text(text)
        self.hook.calls.append(None)  # so that none fails
        done = self.berth("alerts", "--test", "--config", str(self.file), "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        targets = json.loads(done.stdout)["targets"]
        self.assertEqual([one["delivered"] for one in targets], [True, True, False])
        self.assertEqual(targets[0]["target"], f"http://127.0.0.1:{self.hook.server_port} ([[alerts]] number 1)")  # there are several on this host
        self.assertIn("/no/such/program", targets[2]["problem"])
        self.assertEqual(json.loads(self.hook.calls[1][2])["event"], "test")
        self.file.write_text("")
        self.assertIn("E0962", self.berth("alerts", "--test", "--config", str(self.file)).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
