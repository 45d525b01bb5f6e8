"""Helpers for the tests of `berth run`: the program under test, waiting, and living processes."""
import atexit
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BERTH = os.environ["BERTH"]
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = sys.executable
PATIENCE = 60.0  # generous, for busy machines; normally nothing waits that long


# A shell without job control starts background processes with SIGINT ignored, and all jobs here would inherit that. A Python handler
# becomes the default action in child processes.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def environment(**changes):
    env = {key: value for key, value in os.environ.items() if not key.startswith("LC_")}
    env.update(LANG="C", BERTH_RUNTIME_DIR=runtime_folder())
    for key, value in changes.items():
        if value is None:
            env.pop(key, None)
        else:
            env[key] = value
    return env


_RUNTIME = tempfile.TemporaryDirectory(prefix="berth-test-")


def runtime_folder():
    return _RUNTIME.name


def run(*command, options=(), **keywords):
    """Runs berth run OPTIONS -- COMMAND and waits until it ends."""
    keywords.setdefault("env", environment())
    keywords.setdefault("stdout", subprocess.PIPE)
    keywords.setdefault("stderr", subprocess.PIPE)
    keywords.setdefault("timeout", PATIENCE)
    if "input" not in keywords:
        keywords.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([BERTH, "run", *options, "--", *command], text=True, **keywords)


def start(*command, options=(), **keywords):
    keywords.setdefault("env", environment())
    keywords.setdefault("stdout", subprocess.PIPE)
    keywords.setdefault("stdin", subprocess.DEVNULL)
    keywords.setdefault("start_new_session", True)
    job = subprocess.Popen([BERTH, "run", *options, "--", *command], text=True, **keywords)
    atexit.register(end, job)
    return job


def end(job):
    """For a test that failed: a job that is still running would keep the test runner's pipes open."""
    if job.poll() is None:
        job.kill()
        job.wait()


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError(f"still not: {what}")


def holding(marker):
    """Pids of processes whose command line contains the marker, except for berth itself."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words and os.path.basename(words[0]) != b"berth" and any(marker.encode() in w for w in words):
            found.append(int(name))
    return found


def stat(pid):
    """Fields of /proc/PID/stat after the name: [0] state, [1] parent, [2] group, [3] session."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if int(stat(name)[1]) == pid:
                    found.append(int(name))
            except OSError:
                pass
    return found


def keeper_of(front):
    """The keeper: the child of the front that has this name and leads its own session. None if it does not exist yet."""
    for child in children(front):
        try:
            with open(f"/proc/{child}/comm") as file:
                if file.read() == f"job-keeper of {front}"[:15] + "\n":
                    return child
        except OSError:  # another child that has just ended
            pass
    return None


class Terminal:
    """A program on its own pseudo terminal."""

    def __init__(self, *command, env=None):
        self.pid, self.fd = os.forkpty()
        if self.pid == 0:
            # The test runner may ignore these signals; a shell in a terminal would not.
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(command[0], command, env or environment(TERM="xterm"))
        self.text = ""

    def send(self, text):
        os.write(self.fd, text.encode())

    def expect(self, wanted, after=0):
        """Reads until `wanted` appears after this position. Returns the position after it."""
        end = time.monotonic() + PATIENCE
        while True:
            at = self.text.find(wanted, after)
            if at >= 0:
                return at + len(wanted)
            if time.monotonic() > end or not self._read(1.0):
                if time.monotonic() > end or self._closed:
                    raise AssertionError(f"{wanted!r} did not come; the screen: {self.text!r}")

    _closed = False

    def _read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # EIO: no process has the terminal open any more
            data = b""
        self._closed = not data
        self.text += data.decode(errors="replace")
        return bool(data)

    def quiet(self, seconds=0.3):
        """Reads until nothing has arrived for this long."""
        while self._read(seconds):
            pass

    def status(self):
        """Reads until the program closes the terminal. Returns its exit code."""
        end = time.monotonic() + PATIENCE
        while not self._closed and time.monotonic() < end:
            self._read(1.0)
        self._ended = True
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    _ended = False

    def close(self):
        if not self._ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def main():
    unittest.main(verbosity=1)
