"""A broker with a TCP port on a simulated machine."""
import http.client
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "broker"))
from machine import switch_off, switch_on, wait_until  # noqa: E402, F401
from ports import free_port  # noqa: E402

BERTH = str(pathlib.Path(sys.argv.pop(1)).resolve())


class Daemon(unittest.TestCase):
    MACHINE = ("lab-4x3090", "--processes", "4")
    OPTIONS = ()

    def setUp(self):
        self.shell, self.variables = switch_on(BERTH, *self.MACHINE)
        self.addCleanup(switch_off, self.shell)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = pathlib.Path(folder.name) / "state"
        self.variables |= {"BERTH_STATE_DIR": str(self.state), "LC_ALL": "C.UTF-8"}
        self.start()
        self.addCleanup(self.stop)

    def start(self):
        self.port = free_port()
        self.daemon = subprocess.Popen([BERTH, "serve", "--tcp", f"127.0.0.1:{self.port}", *self.OPTIONS], env=self.variables, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
        said = self.daemon.stdout.readline()
        self.assertIn("serving at", said)
        self.socket = pathlib.Path(re.search(r"/\S+", said)[0])
        self.token = (self.state / "tcp-token").read_text().strip()

    def stop(self, number=signal.SIGTERM):
        self.daemon.send_signal(number)
        self.daemon.wait(60)
        self.daemon.stdout.close()
        self.daemon.stderr.close()

    def get(self, path, token=True, **headers):
        caller = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if token:
            headers["Authorization"] = f"Bearer {self.token}"
        caller.request("GET", path, headers=headers)
        answer = caller.getresponse()
        body = answer.read().decode()
        caller.close()
        return answer, body

    def berth(self, *words):
        return subprocess.run([BERTH, *words], env=self.variables, capture_output=True, text=True, timeout=100)
