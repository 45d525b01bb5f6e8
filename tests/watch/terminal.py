"""A pseudo terminal in which `berth top` runs."""
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time


class Terminal:
    """`berth top` on its own pseudo terminal."""

    def __init__(self, berth, variables, *words, columns=80, lines=24):
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            try:
                os.execve(berth, [str(berth), "top", *words], variables)
            finally:
                os._exit(127)
        self.resize(columns, lines)
        self.said = b""

    def resize(self, columns, lines):
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def read(self, seconds=0.1):
        ready, _, _ = select.select([self.end], [], [], seconds)
        try:
            new = os.read(self.end, 65536) if ready else b""
        except OSError:
            new = b""
        self.said += new
        return new

    def until(self, wanted, seconds=60):
        end = time.monotonic() + seconds
        while wanted not in self.said and time.monotonic() < end:
            self.read()
        assert wanted in self.said, (wanted, self.said[-2000:])

    def until_drawn(self, wanted, seconds=60):
        """Changes the size, so that all is drawn again: otherwise only differences are sent."""
        end, columns = time.monotonic() + seconds, 150
        while time.monotonic() < end:
            columns = 299 - columns
            self.said = b""
            self.resize(columns, 30)
            for _ in range(5):
                self.read(0.2)
                if wanted in self.said:
                    return
        raise AssertionError((wanted, self.said[-2000:]))

    def press(self, keys):
        self.said = b""
        os.write(self.end, keys)

    def close(self):
        """Ends it if the test did not."""
        if self.end is not None:
            os.kill(self.pid, signal.SIGKILL)
            self.status()

    def status(self, seconds=60):
        """Waits until the program ends. Returns its exit code."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.end)
                self.end = None
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.end)
        self.end = None
        raise AssertionError("it did not end")
