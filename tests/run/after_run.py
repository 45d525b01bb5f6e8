"""`berth run --on-end` and `--notify`: what happens when the command has ended."""
import os
import signal
import subprocess
import tempfile
import unittest

from support import BERTH, PATIENCE, Terminal, environment, main, run, start


class Afterwards(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_a_command_runs_after_it_with_its_exit_code(self):
        done = run("sh", "-c", "echo one; exit 3", options=["--on-end", "echo $BERTH_EXIT_CODE $BERTH_ENDED; exit 9"])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "one\n", "3 itself\n"))
        told = run("sleep", "100", options=["--on-end", "echo $BERTH_EXIT_CODE $BERTH_ENDED", "--time-limit", "1s"],
                       env=environment(BERTH_STATE_DIR=self.folder))
        self.assertEqual((told.returncode, told.stderr.splitlines()[-1]), (143, "143 told"), told.stderr)
        self.assertNotIn("after", run("no-such-command", options=["--on-end", "echo after"]).stderr)

    def test_it_also_runs_after_ctrl_c(self):
        terminal = Terminal(BERTH, "run", "--on-end", "echo after $BERTH_EXIT_CODE", "--", "sh", "-c", "echo ready; sleep 100")
        at = terminal.expect("ready")
        terminal.send("\x03")
        terminal.expect("after 130", at)

    def test_a_signal_ends_it_with_all_that_it_started(self):
        job = start("sh", "-c", "exit 3", options=["--on-end", "echo begun; sleep 1000; echo never"], stderr=subprocess.PIPE)
        self.assertEqual(job.stderr.readline(), "begun\n")
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.communicate(timeout=PATIENCE), ("", ""))  # the sleep would hold the pipe
        self.assertEqual(job.returncode, 3)
        terminal = Terminal(BERTH, "run", "--report", "none", "--on-end", "echo begun; sleep 1000", "--", "sh", "-c", "exit 4")
        terminal.expect("begun")
        terminal.send("\x03")
        self.assertEqual(terminal.status(), 4)

    def test_the_terminal_gets_a_line(self):
        terminal = Terminal(BERTH, "run", "--notify", "--report", "none", "--name", "mine", "--", "sh", "-c", "exit 4")
        terminal.expect("berth: mine ended with exit code 4 after ")

    def test_a_desktop_gets_a_message(self):
        with tempfile.TemporaryDirectory() as folder:
            said = os.path.join(folder, "said")
            with open(os.path.join(folder, "notify-send"), "w") as file:
                file.write(f'#!/bin/sh\nprintf "%s|" "$@" > {said}\n')
            os.chmod(file.name, 0o755)
            path = folder + os.pathsep + os.environ["PATH"]
            run("true", options=["--notify"], env=environment(PATH=path, DBUS_SESSION_BUS_ADDRESS="unix:path=/nowhere"))
            with open(said) as file:
                self.assertRegex(file.read(), r"^--app-name=berth\|--\|berth\|berth: true ended with exit code 0 after ")


main()
