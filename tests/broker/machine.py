"""A simulated machine for tests of the broker. Processes started with its variables run on it until it is switched off."""
import contextlib
import http.client
import json
import os
import pathlib
import select
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
import unittest


def wait_until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def switch_on(berth, machine, *more, env=None):
    """Starts a simulated machine. Returns the shell that keeps it alive, and the variables that place other processes on it. `berth` may be
    a list of words."""
    program = [berth] if isinstance(berth, str) else berth
    shell = subprocess.Popen([*program, "sim", "--machine", machine, *more, "--", "sh", "-c", "env -0; cat"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    said = b""
    while not said.endswith(b"\0") or b"BERTH_SIM_DIR" not in said:
        read = os.read(shell.stdout.fileno(), 65536)
        if not read:
            raise AssertionError("the simulation ended")
        said += read
    return shell, dict(one.decode().split("=", 1) for one in said.split(b"\0") if one)


def switch_off(shell):
    shell.stdin.close()
    shell.wait(60)
    shell.stdout.close()


def record_sum(kind, key, revision, words):
    """The checksum of a record in the journal, as in src/broker/record_sum.hpp."""
    total = 0xcbf29ce484222325
    for byte in kind.encode() + b"\0" + key.encode() + b"\0" + revision.to_bytes(8, "little") + words.encode() + b"\0":
        total = ((total ^ byte) * 0x100000001b3) % 2**64
    return total - 2**64 if total >= 2**63 else total


@contextlib.contextmanager
def edited_journal(state_folder):
    """Opens the journal while no broker runs. Changed rows get correct checksums from record_sum(), as the broker's do."""
    with contextlib.closing(sqlite3.connect(pathlib.Path(state_folder, "journal.db"))) as journal:
        journal.create_function("record_sum", 4, record_sum)
        yield journal
        for table, key, words in (("job", "id", "record"), ("value", "key", "value")):
            journal.execute(f"UPDATE {table} SET sum = record_sum('{table}', CAST({key} AS TEXT), revision, {words})")
        journal.commit()


class Client(http.client.HTTPConnection):
    """One connection to the broker whose socket lies at `path`."""

    def __init__(self, path, timeout=60):
        super().__init__("berth", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def call(self, method, path, body=None):
        """Returns (status, JSON of the answer)."""
        self.request(method, path, None if body is None else json.dumps(body))
        with self.getresponse() as answer:
            return answer.status, json.loads(answer.read())


def unified():
    """Returns (mount point of cgroup v2, folder of this process's own group); None without cgroup v2."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        if " - cgroup2 " in line:
            point = pathlib.Path(line.split(" ")[4])
            mine = [row[3:] for row in pathlib.Path("/proc/self/cgroup").read_text().splitlines() if row.startswith("0::")]
            return point, point / mine[0].lstrip("/")
    return None


class Machine(unittest.TestCase):
    berth = ""
    machine = "lab-4x3090"

    def setUp(self):
        self.shell, self.variables = switch_on(self.berth, self.machine)
        holder = tempfile.TemporaryDirectory(prefix="berth-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def tearDown(self):
        switch_off(self.shell)
        self.assertTrue(wait_until(lambda: not self.brokers()), "the broker ends with its machine")

    def brokers(self):
        mark = f"BERTH_SIM_DIR={self.variables['BERTH_SIM_DIR']}".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and b"\0serve\0" in (entry / "cmdline").read_bytes() and mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def kill_brokers(self):
        for pid in self.brokers():
            with contextlib.suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                # A thread that writes to the disk ends a little later than the others, and only then is the socket closed.
                select.select([handle], [], [], 20)
                os.close(handle)

    def start(self, *words, **more):
        process = subprocess.Popen([self.berth, *words], env={**self.variables, **more}, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def clean():
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                stream.close()

        self.addCleanup(clean)
        return process

    def run_berth(self, *words, cwd=None, **more):
        return subprocess.run([self.berth, *words], env={**self.variables, **more}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, cwd=cwd)

    def call(self, method, path, body=None):
        with contextlib.closing(Client(self.variables["BERTH_RUNTIME_DIR"] + "/berth.sock")) as client:
            return client.call(method, path, body)[1]

    def job(self, number, wait=""):
        return self.call("GET", f"/v1/jobs/{number}" + (f"?wait={wait}" if wait else ""))["job"]
