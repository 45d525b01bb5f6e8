"""The command's exit code is passed through. Berth's own exit codes are 125, 126, 127 and 2."""
import os
import signal
import subprocess
import tempfile
import unittest

from support import BERTH, environment, main, run


class ExitCodes(unittest.TestCase):
    def test_codes_pass_through(self):
        for code in (0, 1, 2, 42, 70, 125, 126, 127, 128, 255):
            self.assertEqual(run("sh", "-c", f"exit {code}").returncode, code)

    def test_a_signal_is_128_plus_its_number(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGSEGV, signal.SIGPIPE, signal.SIGUSR1):
            self.assertEqual(run("sh", "-c", f"kill -{int(number)} $$").returncode, 128 + number)

    def test_no_such_command(self):
        for command in ("no-such-command-here", "/no/such/file", "./no-such-file"):
            done = run(command)
            self.assertEqual(done.returncode, 127)
            self.assertIn("E0510", done.stderr)
            self.assertIn(command, done.stderr)

    def test_not_executable(self):
        with tempfile.TemporaryDirectory() as folder:
            plain = os.path.join(folder, "plain")
            with open(plain, "w") as file:
                file.write("#!/bin/sh\n")
            done = run(plain)
            self.assertEqual(done.returncode, 126)
            self.assertIn("E0511", done.stderr)
            self.assertIn("chmod +x", done.stderr)
            self.assertEqual(run(folder).returncode, 126)

    def test_a_missing_interpreter_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script")
            with open(script, "w") as file:
                file.write("#!/no/such/interpreter\n")
            os.chmod(script, 0o755)
            done = run(script)
            self.assertEqual(done.returncode, 126)
            self.assertIn("interpreter", done.stderr)

    def test_a_script_without_a_first_line_runs_as_from_a_shell(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script")
            with open(script, "w") as file:
                file.write("exit 7\n")
            os.chmod(script, 0o755)
            self.assertEqual(run(script).returncode, 7)

    def test_a_python_file_without_python_gets_a_hint(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "train.py"), "w") as file:
                file.write("pass\n")
            done = run("train.py", cwd=folder)
            self.assertEqual(done.returncode, 127)
            self.assertIn("python train.py", done.stderr)

    def test_wrong_usage_is_2(self):
        for words in (["run"], ["run", "--"], ["run", "--no-such-option", "--", "true"]):
            done = subprocess.run([BERTH, *words], env=environment(), capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("error", done.stderr)

    def test_the_first_word_begins_the_command(self):
        done = subprocess.run([BERTH, "run", "sh", "-c", "echo $0 $1", "--cpu", "--", "x"],
                              env=environment(), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "--cpu --\n"), done.stderr)

    def test_errors_are_json_with_json(self):
        import json
        done = run("no-such-command-here", options=["--json"])
        self.assertEqual(json.loads(done.stderr)["error"]["id"], "E0510")
        self.assertEqual(json.loads(done.stderr)["error"]["exit_code"], 127)


main()
