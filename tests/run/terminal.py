"""On a terminal a job behaves as if it was started directly: keys, job control, window size, full-screen programs."""
import fcntl
import os
import shutil
import signal
import struct
import tempfile
import termios
import time
import unittest

from support import BERTH, HERE, PYTHON, Terminal, environment, holding, main, wait_until

COUNTER = os.path.join(HERE, "count_signals.py")
ALL = "SIGINT,SIGQUIT,SIGTERM,SIGWINCH,SIGCONT,SIGHUP"

# Prints what a program can find out about its terminal.
ABOUT = r"""
import os, termios
print([os.isatty(fd) for fd in (0, 1, 2)], os.ttyname(0) == os.ttyname(1), os.tcgetpgrp(0) == os.getpgrp(),
      os.getpgrp() == os.getpid(), os.open("/dev/tty", os.O_RDWR) > 2, termios.tcgetattr(0)[:4], "end")
"""


class Alone(unittest.TestCase):
    """Started directly on the terminal, without a shell."""

    def start(self, *command):
        terminal = Terminal(BERTH, "run", "--", *command)
        self.addCleanup(terminal.close)
        return terminal

    def counted(self, send, *names):
        terminal = self.start(PYTHON, COUNTER, ALL)
        at = terminal.expect("ready")
        for _ in range(3):
            send(terminal)
            for name in names:
                at = terminal.expect(name, at)
            terminal.quiet()
            self.assertNotIn("SIG", terminal.text[at:])

    def test_ctrl_c_arrives_once(self):
        self.counted(lambda terminal: terminal.send("\x03"), "SIGINT")

    def test_ctrl_backslash_arrives_once(self):
        self.counted(lambda terminal: terminal.send("\x1c"), "SIGQUIT")

    def test_a_new_size_arrives_once_and_is_the_new_one(self):
        def resize(terminal):
            resize.rows += 1
            fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", resize.rows, 91, 0, 0))
        resize.rows = 30
        self.counted(resize, "SIGWINCH")

    def test_a_hangup_ends_the_job(self):
        mark = f"berth-hangup-{os.getpid()}"
        terminal = Terminal(BERTH, "run", "--", PYTHON, "-c", "print('ready', flush=True); input()", mark)
        terminal.expect("ready")
        os.close(terminal.fd)
        os.waitpid(terminal.pid, 0)
        wait_until(lambda: not holding(mark), "the job has ended")

    def test_it_is_the_same_terminal(self):
        def lines(*prefix):
            terminal = Terminal(*prefix, PYTHON, "-c", ABOUT)
            terminal.expect("end")
            terminal.close()
            return terminal.text.replace("\r", "").strip().splitlines()[-1]
        direct, through = lines(), lines(BERTH, "run", "--")
        # A program that is started directly leads its process group. Under Berth the front does.
        self.assertEqual(through, direct.replace("True True True True [", "True True False True ["))

    def test_ranks_may_use_the_terminal(self):
        # `import torch` loads readline on Python 3.13, which changes the terminal. In a process group of its own, SIGTTOU would stop the rank.
        words = ("import os, readline, termios; tty = os.open('/dev/tty', os.O_RDWR); termios.tcsetattr(tty, termios.TCSADRAIN, termios.tcgetattr(tty)); "
                 "print('same group', os.tcgetpgrp(tty) == os.getpgrp(), flush=True)")
        for options in (["--ranks", "2"], ["--retries", "1"]):
            terminal = Terminal(BERTH, "run", *options, "--report", "none", "--", PYTHON, "-c", words)
            self.addCleanup(terminal.close)
            at = 0
            for _ in range(2 if "--ranks" in options else 1):
                at = terminal.expect("same group True", at)
            self.assertEqual(terminal.status(), 0)

    def test_python_at_the_prompt(self):
        terminal = self.start(PYTHON, "-q", "-i")
        at = terminal.expect(">>> ")
        terminal.send("6 * 7\r")
        at = terminal.expect("42", at)
        terminal.send("while True: pass\r\r")
        terminal.quiet()
        terminal.send("\x03")
        at = terminal.expect("KeyboardInterrupt", at)
        at = terminal.expect(">>> ", at)
        terminal.send("raise SystemExit(7)\r")
        self.assertEqual(terminal.status(), 7)

    def test_pdb(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "x.py")
            with open(script, "w") as file:
                file.write("a = 6\nbreakpoint()\nb = a * 7\nprint('b is', b)\n")
            terminal = self.start(PYTHON, script)
            at = terminal.expect("(Pdb) ")
            terminal.send("p a + 100\r")
            at = terminal.expect("106", at)
            terminal.send("c\r")
            terminal.expect("b is 42", at)

    def test_less(self):
        if shutil.which("less") is None:
            self.skipTest("less is not installed")
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("".join(f"line {i}\n" for i in range(500)))
            file.flush()
            terminal = self.start("less", file.name)
            at = terminal.expect("line 10")
            terminal.send("G")
            at = terminal.expect("line 499", at)
            terminal.send("q")
            self.assertEqual(terminal.status(), 0)

    def test_vim(self):
        if shutil.which("vim") is None:
            self.skipTest("vim is not installed")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "text")
            terminal = self.start("vim", "-u", "NONE", path)
            terminal.quiet(0.5)
            terminal.send("ihello\x1b:wq\r")
            self.assertEqual(terminal.status(), 0)
            with open(path) as file:
                self.assertEqual(file.read(), "hello\n")


class InShell(unittest.TestCase):
    """Started from an interactive bash, which does job control."""

    def setUp(self):
        if shutil.which("bash") is None:
            self.skipTest("bash is not installed")
        self.shell = Terminal("bash", "--norc", "--noprofile", "-i",
                              env=environment(TERM="xterm", PS1="<$?> ", HISTFILE="/dev/null", PATH_TO=BERTH))
        self.addCleanup(self.shell.close)
        self.at = self.shell.expect("<0> ")

    def type(self, text, wanted):
        self.shell.send(text)
        self.at = self.shell.expect(wanted, self.at)

    def test_stop_and_continue(self):
        self.type(f"{BERTH} run -- {PYTHON} {COUNTER} SIGINT,SIGTERM,SIGCONT\r", "ready")
        for _ in range(3):
            self.type("\x1a", "Stopped")
            self.type("", "<148> ")
            self.type("fg\r", "\nSIGCONT\r\n")  # newlines, because the shell also echoes the command itself
            self.shell.quiet()
            self.assertNotIn("SIG", self.shell.text[self.at:])
        self.type("\x1a", "<148> ")
        self.type("bg\r", "SIGCONT\r\n")
        self.type("kill %1\r", "SIGTERM\r\n")
        self.shell.quiet()
        self.assertNotIn("SIGTERM", self.shell.text[self.at:])
        self.type("kill -9 %1; sleep 0.3\r", "Killed")

    def test_vim_stops_and_comes_back(self):
        if shutil.which("vim") is None:
            self.skipTest("vim is not installed")
        self.shell.send(f"{BERTH} run -- vim -u NONE\r")
        self.shell.quiet(0.5)
        self.type("\x1a", "Stopped")
        self.type("", "<148> ")
        self.type("echo $((40+2))\r", "42")
        self.shell.send("fg\r")
        self.shell.quiet(0.5)
        self.type(":q!\r", "<0> ")

    def test_a_background_job_that_reads_stops_and_reads_after_fg(self):
        self.type(f"{BERTH} run -- cat &\r", "<0> ")
        wait_until(lambda: self.jobs_say("Stopped"), "the job is stopped for its input")
        self.shell.send("fg\r")
        self.shell.quiet()
        self.type("hello\r", "hello")
        self.type("", "hello")
        self.type("\x04", "<0> ")

    def jobs_say(self, word):
        before = len(self.shell.text)
        self.shell.send("jobs\r")
        self.shell.quiet(0.2)
        self.at = len(self.shell.text)
        return word in self.shell.text[before:]

    def test_ctrl_c_ends_a_loop_of_jobs(self):
        self.type(f"for i in 1 2 3; do echo begin $i; {BERTH} run -- sleep 100; done\r", "begin 1\r\n")
        time.sleep(0.3)
        self.type("\x03", "<130> ")
        self.assertNotIn("begin 2", self.shell.text[self.at - 100:])

    def test_in_a_pipeline_the_reader_has_the_keyboard(self):
        if shutil.which("less") is None:
            self.skipTest("less is not installed")
        self.shell.send(f"{BERTH} run -- seq 1 5000 | less\r")
        self.type("", "\r\n20")
        self.type("G", "5000")
        self.type("q", "<0> ")

    def test_a_killed_full_screen_program_leaves_a_usable_terminal(self):
        self.type(f"{BERTH} run -- sh -c 'stty raw -echo; echo set; kill -9 $$'\r", "<137> ")
        self.type("stty -a\r", " echo ")
        self.type("", "<0> ")
        for setting in ("-icanon", "-isig", "-opost"):
            self.assertNotIn(setting, self.shell.text[self.at - 1500:])

    def test_a_shell_within(self):
        self.type(f"{BERTH} run -- bash --norc --noprofile -i\r", "<0> ")
        self.type("sleep 100\r", "sleep 100")
        time.sleep(0.3)
        self.type("\x03", "<130> ")
        self.type("sleep 101\r", "sleep 101")
        time.sleep(0.3)
        self.type("\x1a", "Stopped")
        self.type("kill -9 %1; sleep 0.2; echo\r", "Killed")
        self.type("exit 3\r", "<3> ")


main()
