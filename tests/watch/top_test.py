#!/usr/bin/env python3
"""`berth top` on simulated machines: a single picture, the stream, and the live view in a terminal.

usage: top_test.py BERTH"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "broker"))
from machine import switch_off, switch_on  # noqa: E402
from terminal import Terminal  # noqa: E402

BERTH = str(pathlib.Path(sys.argv.pop(1)).resolve())
COLOR = re.compile(rb"\x1b\[(?:[0-9;]*;)?3[0-9][;m]")


class Top(unittest.TestCase):
    def start(self, machine, *sim):
        self.shell, self.variables = switch_on(BERTH, machine, *sim)
        self.addCleanup(switch_off, self.shell)
        self.variables |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        self.variables.pop("NO_COLOR", None)
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.variables["XDG_CONFIG_HOME"] = home.name

    def top(self, *words, **more):
        return subprocess.run([BERTH, "top", *words], env=self.variables | more, stdin=subprocess.DEVNULL, capture_output=True, timeout=100)

    def test_one_picture_has_every_device_and_process(self):
        self.start("dgx-h100-8", "--processes", "12")
        text = self.top("--once").stdout.decode()
        for device in range(8):
            self.assertRegex(text, rf"(?m)^ +{device} ")
        self.assertIn("GiB", text)
        self.assertGreaterEqual(len(text.splitlines()), 8 + 12)

    def test_the_stream_is_one_document_a_line(self):
        self.start("lab-4x3090", "--processes", "4")
        with subprocess.Popen([BERTH, "top", "--json", "--interval", "100ms"], env=self.variables, stdout=subprocess.PIPE) as top:
            frames = [json.loads(top.stdout.readline()) for _ in range(3)]
            top.stdout.close()
            self.assertIn(top.wait(60), (0, -signal.SIGPIPE))  # a closed pipe ends it
        numbers = [frame["frame"] for frame in frames]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(frames[2]["schema"], 1)
        self.assertGreaterEqual(len(frames[2]["devices"]), 4)
        self.assertEqual(len(frames[2]["processes"]), 4)

    def test_readings_say_their_window_and_a_gpu_without_gpm_has_a_reason(self):
        def device(machine):
            self.start(machine, "--processes", "8")
            with subprocess.Popen([BERTH, "top", "--json", "--interval", "100ms"], env=self.variables, stdout=subprocess.PIPE) as top:
                for line in top.stdout:
                    one = json.loads(line)["devices"][0]
                    if one["nvlink_rx_bytes_per_second"] is not None:  # the last to come, after ten seconds
                        top.terminate()
                        return one

        busy = device("dgx-h100-8")
        self.assertGreater(busy["sm_active_percent"], busy["tensor_active_percent"])
        self.assertGreater(busy["nvlink_rx_bytes_per_second"], 0)
        self.assertEqual((busy["nvlink_links"], busy["nvlink_links_max"], busy["windows"]["power_milliwatts"]), (18, 18, 1))
        self.assertGreater(busy["windows"]["sm_active_percent"], 0)
        self.assertGreater(busy["windows"]["nvlink_tx_bytes_per_second"], busy["windows"]["sm_active_percent"])
        self.assertRegex(busy["slow_readings_time"], r"^20.*Z$")
        older = device("dgx-a100-8")
        self.assertIsNone(older["sm_active_percent"])
        self.assertEqual(older["absent"]["sm_active_percent"], "not supported")
        self.assertEqual(older["windows"]["power_milliwatts"], 0)  # A100: of one moment

    def test_keys_sort_filter_and_quit_and_the_terminal_comes_back(self):
        self.start("dgx-h100-8", "--processes", "6")
        terminal = Terminal(BERTH, self.variables)
        terminal.until(b"q quit")
        self.assertTrue(COLOR.search(terminal.said))
        terminal.press(b"s")
        terminal.until(b"sm")
        terminal.press(b"/no such thing\r")
        terminal.until_drawn(b"no process matches")
        terminal.press(b"?")
        terminal.until_drawn(b"reverse the order")
        terminal.press(b" q")
        self.assertEqual(terminal.status(), 0)
        self.assertIn(b"\x1b[?1049l", terminal.said)

    def test_it_follows_the_size_of_the_terminal(self):
        self.start("dgx-h100-8")
        terminal = Terminal(BERTH, self.variables)
        terminal.until(b"q quit")
        for columns, lines in ((200, 60), (30, 6), (1, 1), (80, 24)):
            terminal.said = b""
            terminal.resize(columns, lines)
            terminal.read(1)
        terminal.until(b"quit")
        terminal.press(b"q")
        self.assertEqual(terminal.status(), 0)

    def test_no_color_is_honoured_and_an_unknown_terminal_works(self):
        self.start("lab-4x3090")
        for more in ({"NO_COLOR": "1"}, {"TERM": "a-terminal-of-tomorrow"}, {"TERM": "xterm-256color", "TERMINFO_DIRS": "/nonexistent"},
                     {"LC_ALL": "C"}):
            with self.subTest(more):
                terminal = Terminal(BERTH, self.variables | more)
                terminal.until(b"q quit")
                self.assertEqual("NO_COLOR" in more, COLOR.search(terminal.said) is None)
                if more.get("LC_ALL") == "C":
                    self.assertTrue(terminal.said.isascii())
                terminal.press(b"q")
                self.assertEqual(terminal.status(), 0)

    def test_after_ctrl_z_everything_is_drawn_again(self):
        self.start("none")
        terminal = Terminal(BERTH, self.variables)
        terminal.until(b"quit")
        terminal.press(b"\x1a")  # no shell waits for the process, so the kernel does not stop it
        terminal.until(b"\x1b[?1049l")
        terminal.until(b"q quit")
        terminal.press(b"q")
        self.assertEqual(terminal.status(), 0)

    def test_signals_end_it_and_the_terminal_comes_back(self):
        self.start("none")
        for number in (signal.SIGINT, signal.SIGTERM):
            terminal = Terminal(BERTH, self.variables)
            terminal.until(b"quit")
            os.kill(terminal.pid, number)
            self.assertEqual(terminal.status(), 0)
            self.assertIn(b"\x1b[?1049l", terminal.said)

    def test_a_machine_without_gpu_shows_its_cpu(self):
        self.start("none")
        done = self.top("--once")
        self.assertEqual(done.returncode, 0)
        self.assertIn("CPU", done.stdout.decode())

    def test_a_lost_device_and_one_that_hangs_cost_their_own_rows(self):
        self.start("dgx-h100-8", "--fault", "lost:2", "--fault", "hung:5")
        frame = json.loads(self.top("--once", "--json").stdout)
        health = {device["index"]: device["health"] for device in frame["devices"]}
        self.assertEqual(health[2], "lost")
        self.assertEqual(health[5], "no answer")
        self.assertEqual(health[7], "ok")
        self.assertIsNone(frame["devices"][5]["utilization_percent"])

    def step(self, terminal, key, wanted):
        """Presses the key until the text is drawn. A change of the size, which until_drawn() makes, may interrupt a key of several bytes."""
        for _ in range(20):
            terminal.press(key * 3)
            try:
                return terminal.until_drawn(wanted, seconds=3)
            except AssertionError:
                continue
        raise AssertionError(wanted)

    def test_what_is_recorded_can_be_replayed(self):
        self.start("dgx-h100-8", "--processes", "6")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "recording"
            for _ in range(3):
                self.assertEqual(self.top("--once", "--record", str(file)).returncode, 0)
            self.assertEqual(file.stat().st_mode & 0o777, 0o600)
            frames = [json.loads(line) for line in file.read_text().splitlines()]
            self.assertEqual(len(frames), 3)
            again = json.loads(self.top("--json", "--replay", str(file)).stdout)
            self.assertEqual(len(again["processes"]), 6)
            self.assertEqual(again["devices"][7]["utilization_percent"], frames[2]["devices"][7]["utilization_percent"])
            terminal = Terminal(BERTH, self.variables, "--replay", str(file), columns=100)
            terminal.until(b"replay ")
            self.step(terminal, b"\x1bOD", b"replay 1/3")  # a step pauses it
            self.step(terminal, b"\x1bOC", b"replay 3/3")
            terminal.press(b"q")
            self.assertEqual(terminal.status(), 0)
            self.assertIn(b"E0010", self.top("--once", "--queue", "--replay", str(file)).stderr)
            self.assertIn(b"E0966", self.top("--once", "--record", "/dev/full").stderr)
            file.write_text("nothing\n")
            self.assertIn(b"E0966", self.top("--once", "--replay", str(file)).stderr)

    def test_a_selected_process_is_ended_after_a_question(self):
        self.start("lab-4x3090", "--processes", "2")
        pids = {one["pid"] for one in json.loads(self.top("--once", "--json").stdout)["processes"]}
        terminal = Terminal(BERTH, self.variables, columns=120)
        terminal.until_drawn(str(max(pids)).encode())  # the processes are drawn after the devices
        terminal.press(b"x")
        terminal.until(b"no process is selected")
        terminal.press(b"jx")
        terminal.until(b"y: SIGTERM")
        pid = int(re.search(rb"end (\d+) ", terminal.said)[1])
        self.assertIn(pid, pids)
        terminal.press(b"n")
        terminal.until(b"q quit")
        os.kill(pid, 0)  # it is still there
        terminal.press(b"xy")
        terminal.until(b"sent SIGTERM")
        end = time.monotonic() + 60
        while pid in {one["pid"] for one in json.loads(self.top("--once", "--json").stdout)["processes"]}:
            self.assertLess(time.monotonic(), end)
        terminal.press(b"q")
        self.assertEqual(terminal.status(), 0)

    def test_a_key_before_the_processes_are_read_is_told_so(self):
        self.start("lab-4x3090", "--processes", "1")
        (process,) = json.loads(self.top("--once", "--json").stdout)["processes"]
        terminal = Terminal(BERTH, self.variables, columns=120)
        terminal.press(b"jx")  # waits in the terminal until the devices are drawn
        terminal.until(str(process["pid"]).encode())
        self.assertNotIn(b"no process is selected", terminal.said)
        terminal.press(b"nx")  # "n", as the first frame drawn may have had the process already
        terminal.until_drawn(b"y: SIGTERM")
        terminal.press(b"nq")
        self.assertEqual(terminal.status(), 0)

    def test_a_click_sorts_and_the_tree_and_the_users_are_shown(self):
        self.start("lab-4x3090", "--processes", "4")
        self.assertRegex(self.top("--once", "--by-user").stdout, rb"user +processes +devices +memory")
        self.assertRegex(self.top("--once", "--tree").stdout, rb"pid .* command")
        self.assertIn(b"E0010", self.top("--once", "--tree", "--by-user").stderr)
        terminal = Terminal(BERTH, self.variables, columns=100)
        terminal.until(b"q quit")
        terminal.press(b"u")
        terminal.until(b"processes")
        terminal.press(b"jx")
        terminal.until(b"select a process")
        terminal.press(b"t")
        terminal.until(b"command")
        heading = 1 + 5 + 1  # title, four GPUs and the CPU, a gap
        graphs = 9
        terminal.said = b""
        terminal.press(b"\x1b[<0;15;%dM" % (heading + graphs + 1))
        terminal.until("user▼".encode())
        terminal.press(b"q")
        self.assertEqual(terminal.status(), 0)

    def test_the_queue_is_shown_and_a_job_cancelled_after_a_question(self):
        self.start("lab-4x3090")

        def states():
            jobs = json.loads(subprocess.run([BERTH, "jobs", "--json"], env=self.variables, capture_output=True, timeout=100).stdout)["jobs"]
            return {job["id"]: job["state"] for job in jobs}

        with tempfile.TemporaryDirectory() as folder:
            self.variables["BERTH_STATE_DIR"] = folder
            terminal = Terminal(BERTH, self.variables, columns=150)
            terminal.until(b"q quit")
            terminal.press(b"Q")
            terminal.until_drawn(b"no broker runs")
            for words in (("--gpus", "4", "--", "sleep", "600"), ("--gpus", "1", "--", "echo", "later")):
                subprocess.run([BERTH, "run", "--queue", *words], env=self.variables, check=True, capture_output=True, timeout=100)
            terminal.until_drawn(b"sleep 600")
            terminal.until_drawn(b"echo later")
            once = self.top("--once", "--queue").stdout
            self.assertIn(b"sleep 600", once)
            self.assertIn(b"echo later", once)
            terminal.press(b"jj")
            terminal.until_drawn(b"no suitable device is free")
            terminal.press(b"H")
            terminal.until_drawn(b"hold 2: ok")
            self.assertEqual(states()[2], "held")
            terminal.press(b"c")
            terminal.until_drawn(b"cancel job 2 (echo later)")
            terminal.press(b"n")
            terminal.read(1)
            self.assertEqual(states()[2], "held")
            terminal.press(b"cy")
            terminal.until_drawn(b"cancel 2: ok")
            self.assertEqual(states()[2], "cancelled")
            terminal.press(b"q")
            self.assertEqual(terminal.status(), 0)
            subprocess.run([BERTH, "cancel", "1"], env=self.variables, capture_output=True, timeout=100)

    def test_what_keys_changed_is_kept(self):
        self.start("lab-4x3090")
        with tempfile.TemporaryDirectory() as folder:
            self.variables["XDG_CONFIG_HOME"] = folder
            terminal = Terminal(BERTH, self.variables, columns=120)
            terminal.until(b"s sort: memory")
            terminal.press(b"s")
            terminal.until(b"sm")
            terminal.press(b"q")
            self.assertEqual(terminal.status(), 0)
            self.assertIn('sort = "sm"', (pathlib.Path(folder) / "berth" / "top.toml").read_text())
            for words, order in (((), b"s sort: sm"), (("--defaults",), b"s sort: memory"), (("--sort", "pid"), b"s sort: pid")):
                terminal = Terminal(BERTH, self.variables, *words, columns=120)
                terminal.until(order)
                terminal.press(b"q")
                self.assertEqual(terminal.status(), 0)

    def test_what_a_script_reads_does_not_depend_on_what_keys_changed(self):
        self.start("lab-4x3090")
        with tempfile.TemporaryDirectory() as folder:
            self.variables["XDG_CONFIG_HOME"] = folder
            usual = self.top("--once").stdout
            self.assertIn(b"PID", usual.upper())
            kept = pathlib.Path(folder, "berth", "top.toml")
            kept.parent.mkdir()
            kept.write_text('sort = "pid"\nby_user = true\ngraphs = false\n')
            head = [line for line in usual.splitlines() if b"PID" in line.upper()]
            after = self.top("--once").stdout
            self.assertEqual([line for line in after.splitlines() if b"PID" in line.upper()], head)
            by_user = self.top("--once", "--by-user").stdout
            self.assertNotEqual([line for line in by_user.splitlines() if b"PID" in line.upper()], head)

    def test_without_a_terminal_it_says_what_works(self):
        self.start("none")
        done = self.top()
        self.assertIn(b"E0983", done.stderr)
        self.assertIn(b"--once", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
