#!/usr/bin/env python3
"""`--host`: other machines through ssh. A stand-in for ssh runs the command here, or fails as ssh does.

usage: hosts_test.py BERTH"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "broker"))
from machine import switch_off, switch_on, wait_until  # noqa: E402
from terminal import Terminal  # noqa: E402

BERTH = pathlib.Path(sys.argv.pop(1)).resolve()

# The words before the command: -T -o BatchMode=yes -o ConnectTimeout=5 -- HOST
SSH = """#!/bin/sh
[ "$1 $2 $3 $4 $5 $6" = "-T -o BatchMode=yes -o ConnectTimeout=5 --" ] || exit 99
case $7 in
  down) echo "ssh: connect to host down port 22: Connection refused" >&2; exit 255;;
  bare) echo "sh: 1: berth: not found" >&2; exit 127;;
  slow) echo $$ >"$BERTH_STATE_DIR/slow"; exec sleep 1000;;
  deep) head -c 1000000 /dev/zero | tr '\\0' '['; exit 0;;
  words) printf '%s\\n' "$8"; exit 0;;
  greet) echo "Welcome to the laboratory";;
  once) sh -c "$8 --once"; echo "Connection to once closed." >&2; exit 255;;
  evil) printf '\\033[2Jno table\\n'; exit 0;;
  noisy) echo "Welcome" >&2;;
esac
exec sh -c "$8"
"""


class WithSsh(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = bin_ = pathlib.Path(folder.name)
        (bin_ / "ssh").write_text(SSH)
        (bin_ / "ssh").chmod(0o755)
        (bin_ / "berth").symlink_to(BERTH)
        self.variables = os.environ | {"PATH": f"{bin_}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "BERTH_RUNTIME_DIR": folder.name,
                                       "BERTH_STATE_DIR": folder.name}

    def berth(self, *words):
        return subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--processes", "2", "--", BERTH, *words], env=self.variables,
                              capture_output=True, text=True, timeout=100)


class Hosts(WithSsh):
    def test_each_machine_answers_and_one_that_does_not_costs_one_row(self):
        done = self.berth("ls", "--host", "one,down", "--host", "noisy,bare", "--sort", "index")
        self.assertEqual(done.returncode, 1, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "one")
        self.assertEqual(len(re.findall(r"(?m)^  +[0-3] ", done.stdout)), 8, done.stdout)
        self.assertIn("down  ssh: connect to host down port 22: Connection refused", lines)
        self.assertIn("bare  berth is not installed there", lines)
        self.assertNotIn("Welcome", done.stdout)

    def test_as_json_it_has_the_documents(self):
        done = self.berth("ps", "--json", "--host", "one,down")
        one, down = json.loads(done.stdout)["hosts"]
        self.assertTrue(one["answered"])
        self.assertEqual(len(one["document"]["processes"]), 2)
        self.assertIsNone(one["problem"])
        self.assertFalse(down["answered"])
        self.assertIsNone(down["document"])
        self.assertIn("refused", down["problem"])
        self.assertFalse(json.loads(self.berth("ls", "--json", "--host", "evil").stdout)["hosts"][0]["answered"])

    def test_options_reach_the_other_machine_as_they_are(self):
        done = self.berth("ls", "--host", "one", "--user", "no $(touch /tmp/x) 'body'")
        self.assertEqual(done.stdout.count("RTX 3090"), 0, done.stdout)
        self.assertEqual(self.berth("top", "--once", "--host", "one").returncode, 0)
        self.assertIn("E0983", self.berth("top", "--host", "one").stderr)  # no terminal
        self.assertIn("berth ls --user='' --user=lin", self.berth("ls", "--host", "words", "--user", "", "--user", "lin").stdout)
        for option in ("--record", "--replay"):  # files of this machine
            done = self.berth("top", "--once", "--host", "words", option, "x")
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(option, done.stderr)
        for words in (("--queue",), ("--device", "0")):  # of one machine
            done = self.berth("top", "--host", "words", *words)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(words[0], done.stderr)
        done = self.berth("top", "--host", "words", "--interval", "soon")
        self.assertEqual(done.returncode, 2, done)

    def test_a_signal_ends_the_programs_that_ask(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            mark = self.folder / "slow"
            process = subprocess.Popen([BERTH, "ls", "--host", "slow"], env=self.variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.kill)
            self.assertTrue(wait_until(lambda: mark.exists() and mark.read_text().endswith("\n"), 60))
            child = int(mark.read_text())
            process.send_signal(number)
            self.assertEqual(process.wait(20), -number)
            self.assertFalse(os.path.exists(f"/proc/{child}"))
            mark.unlink()

    def test_an_answer_that_is_nested_without_end_is_no_answer(self):
        done = self.berth("ls", "--json", "--host", "deep")
        self.assertEqual(done.returncode, 0, done)
        self.assertFalse(json.loads(done.stdout)["hosts"][0]["answered"])

    def test_control_characters_do_not_reach_the_terminal_and_names_are_no_options(self):
        self.assertNotIn("\033", self.berth("ls", "--host", "evil").stdout)
        done = self.berth("ls", "--host=-oProxyCommand=id")
        self.assertEqual(done.returncode, 2)
        self.assertIn("E0965", done.stderr)


class LiveView(WithSsh):
    """`berth top --host` without --once: one stream of each machine."""

    def start_inside(self, *words):
        shell, variables = switch_on(str(BERTH), "lab-4x3090", "--processes", "2")
        self.addCleanup(switch_off, shell)
        self.variables = self.variables | variables | {"PATH": self.variables["PATH"], "TERM": "xterm-256color", "XDG_CONFIG_HOME": str(self.folder),
                                                       "BERTH_STATE_DIR": str(self.folder)}
        self.variables.pop("NO_COLOR", None)

    def programs(self):
        """The stand-ins for ssh that still run."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"{self.folder}/ssh".encode() in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
            except OSError:
                pass
        return found

    def test_each_machine_has_a_row_and_keys_show_another(self):
        self.start_inside()
        terminal = Terminal(BERTH, self.variables, "--host", "one,down,greet,bare,slow", "--interval", "200ms", columns=110, lines=40)
        self.addCleanup(terminal.close)
        for wanted in ("> one", "Connection refused", "berth is not installed there", "greet", "asked, no answer yet", "96.0 GiB", "RTX 3090"):
            terminal.until_drawn(wanted.encode())
        terminal.press(b"\x1bOC")
        terminal.until_drawn(b"> down")
        terminal.press(b"\x1bOC")
        terminal.until_drawn(b"> greet")
        terminal.press(b"jx")
        terminal.until(b"log in to that machine")
        terminal.press(b"?")
        terminal.until_drawn(b"another machine")
        terminal.press(b" ")
        terminal.press(b"q")
        self.assertEqual(terminal.status(), 0)
        self.assertTrue(wait_until(lambda: not self.programs(), 20), self.programs())

    def test_a_machine_that_stops_answering_loses_its_readings(self):
        self.start_inside()
        terminal = Terminal(BERTH, self.variables, "--host", "once", columns=110, lines=40)
        self.addCleanup(terminal.close)
        terminal.until_drawn(b"Connection to once closed.")
        os.kill(terminal.pid, signal.SIGTERM)
        self.assertEqual(terminal.status(), 0)

    def test_the_stream_has_a_line_for_each_answer_and_each_failure(self):
        self.start_inside()
        with subprocess.Popen([BERTH, "top", "--json", "--interval", "200ms", "--host", "one,down,deep,greet"], env=self.variables,
                              stdout=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as top:
            seen = {}
            while len(seen) < 4 or seen["one"]["document"]["frame"] < 3:
                row = json.loads(top.stdout.readline())
                seen[row["host"]] = row
            top.send_signal(signal.SIGINT)
            top.stdout.read()
            self.assertEqual(top.wait(20), -signal.SIGINT)
        self.assertEqual(len(seen["one"]["document"]["processes"]), 2)
        self.assertTrue(seen["greet"]["answered"])
        self.assertIn("refused", seen["down"]["problem"])
        self.assertIsNone(seen["deep"]["document"])
        self.assertTrue(wait_until(lambda: not self.programs(), 20), self.programs())

    def test_the_stream_ends_with_its_reader(self):
        self.start_inside()
        top = subprocess.Popen([BERTH, "top", "--json", "--host", "slow"], env=self.variables, stdout=subprocess.PIPE)
        self.addCleanup(top.kill)
        self.assertTrue(wait_until((self.folder / "slow").exists, 60))
        top.stdout.close()
        self.assertEqual(top.wait(20), 0)
        self.assertTrue(wait_until(lambda: not self.programs(), 20), self.programs())


if __name__ == "__main__":
    unittest.main(verbosity=2)
