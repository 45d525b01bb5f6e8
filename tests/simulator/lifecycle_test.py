#!/usr/bin/env python3
"""`berth sim` as a user starts it: exit codes, signals, streams, and that it leaves nothing behind, however it ends.

usage: lifecycle_test.py BERTH
"""
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BERTH = ""


def environment(folder):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
    return {**kept, "TMPDIR": str(folder), "LC_ALL": "C.UTF-8"}


def processes_in(folder):
    """Processes whose program or environment belongs to a simulation in the folder."""
    mark, found = f"{folder}/berth-sim-".encode(), []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark in (entry / "environ").read_bytes() or mark in os.readlink(entry / "exe").encode():
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


class Lifecycle(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="berth-test-")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def sim(self, *words, machine="lab-4x3090", **more):
        return subprocess.run([BERTH, "sim", "--machine", machine, *words], env=environment(self.folder),
                              capture_output=True, text=True, timeout=60, **more)

    def start(self, *words):
        process = subprocess.Popen([BERTH, "sim", "--machine", "lab-4x3090", "--processes", "6", "--", *words],
                                   env=environment(self.folder), stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdout.close()))
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def assert_nothing_stays(self):
        self.assertTrue(wait_until(lambda: not processes_in(self.folder)), processes_in(self.folder))
        self.assertTrue(wait_until(lambda: not os.listdir(self.folder)), os.listdir(self.folder))

    def test_the_exit_code_is_the_childs(self):
        for code in (0, 1, 2, 3, 70, 125, 255):
            self.assertEqual(self.sim("--", "sh", "-c", f"exit {code}").returncode, code)
        self.assertEqual(self.sim("--", "sh", "-c", "kill -9 $$").returncode, 137)
        self.assertEqual(self.sim("--", "sh", "-c", "kill -TERM $$").returncode, 143)
        self.assert_nothing_stays()

    def test_what_cannot_be_run_has_the_shells_codes(self):
        missing = self.sim("--", "no-such-command")
        self.assertEqual((missing.returncode, "E0614" in missing.stderr), (127, True))
        denied = self.sim("--", "/etc/passwd")
        self.assertEqual((denied.returncode, "E0615" in denied.stderr), (126, True))
        self.assert_nothing_stays()

    def test_wrong_usage_is_2_and_starts_nothing(self):
        for words, identifier in ((("--machine", "dgx", "--", "true"), "E0601"), (("--fault", "x", "--", "true"), "E0607"),
                                  (("--attach", "1", "--", "true"), "E0608"), (("--at", "x", "--", "true"), "E0609"),
                                  (("--processes", "5000", "--", "true"), "E0104"), (("--seed", "-1", "--", "true"), "E0104"),
                                  (("--attach", "4194304:0:1GiB", "--", "true"), "E0608"), ((), "E0618")):
            with self.subTest(words):
                answer = self.sim(*words)
                self.assertEqual((answer.returncode, identifier in answer.stderr), (2, True), answer.stderr)
        self.assertEqual(subprocess.run([BERTH, "sim", "--", "true"], capture_output=True).returncode, 2)
        self.assert_nothing_stays()

    def test_errors_are_json_where_json_is_asked_for(self):
        answer = self.sim("--json", "--fault", "losst", "--", "true")
        error = json.loads(answer.stderr)["error"]
        self.assertEqual((error["id"], error["exit_code"]), ("E0607", 2))

    def test_a_temporary_folder_that_does_not_serve_is_125_with_a_hint(self):
        for temporary in ("/nonexistent", "/proc"):
            answer = subprocess.run([BERTH, "sim", "--machine", "none", "--", "true"], capture_output=True, text=True,
                                    env=environment(temporary))
            self.assertEqual((answer.returncode, "E0611" in answer.stderr, "TMPDIR" in answer.stderr), (125, True, True))

    def test_a_full_temporary_folder_is_125_and_leaves_nothing(self):
        script = (f"mount -t tmpfs -o size=64k tmpfs {self.folder} && {BERTH} sim --machine dgx-h100-8 --processes 8 -- true; "
                  f"code=$?; ls -A {self.folder} | wc -l; exit $code")
        answer = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True,
                                env=environment(self.folder))
        if "Operation not permitted" in answer.stderr or "permission denied" in answer.stderr.lower():
            self.skipTest("a small file system cannot be mounted by this user")
        self.assertEqual((answer.returncode, "E0611" in answer.stderr, answer.stdout.strip()), (125, True, "0"), answer.stderr)

    def test_a_noexec_temporary_folder_is_125(self):
        script = f"mount -t tmpfs -o noexec tmpfs {self.folder} && {BERTH} sim --machine none -- true"
        answer = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True,
                                env=environment(self.folder))
        if "E0612" not in answer.stderr and answer.returncode != 125:
            self.skipTest("a file system cannot be mounted by this user")
        self.assertIn("E0612", answer.stderr)

    def test_streams_pass_through(self):
        answer = self.sim("--", "sh", "-c", "cat; echo err >&2", input="through")
        self.assertEqual((answer.stdout, answer.stderr), ("through", "err\n"))

    def test_the_terminal_is_the_childs(self):
        leader, follower = pty.openpty()
        with os.fdopen(leader, "rb", closefd=True):
            answer = subprocess.run([BERTH, "sim", "--machine", "none", "--", "sh", "-c", "test -t 0 && test -t 1 && stty size"],
                                    stdin=follower, stdout=follower, stderr=follower, env=environment(self.folder))
            os.close(follower)
        self.assertEqual(answer.returncode, 0)

    def test_a_signal_sent_to_us_reaches_the_child_once(self):
        process = self.start("sh", "-c", "trap 'echo got' TERM; echo ready; while :; do sleep 0.05; done")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), "got\n")
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), "got\n")
        process.kill()
        process.wait()
        self.assert_nothing_stays()

    def test_nothing_stays_after_sigkill(self):
        process = self.start("sh", "-c", "(setsid sh -c 'trap \"\" TERM; sleep 1000' &) ; echo ready; sleep 1000")
        self.assertTrue(wait_until(lambda: len(processes_in(self.folder)) >= 8), processes_in(self.folder))
        process.kill()
        process.wait()
        self.assert_nothing_stays()

    def test_what_the_child_left_behind_ends_with_the_simulation(self):
        answer = self.sim("--processes", "3", "--", "sh", "-c", "(setsid sleep 1000 >/dev/null 2>&1 &); exit 4")
        self.assertEqual(answer.returncode, 4)
        self.assert_nothing_stays()

    def test_stale_folders_go_and_others_stay(self):
        stale = pathlib.Path(self.folder, "berth-sim-dead01")
        stale.mkdir()
        (stale / "lock").touch()
        (stale / "sys").mkdir()
        (stale / "sys/link").symlink_to("/etc")
        process = self.start("sh", "-c", "echo ready; exec sleep 1000")
        living = {path for path in os.listdir(self.folder) if path != stale.name}
        self.assertFalse(stale.exists())
        self.assertTrue(pathlib.Path("/etc/passwd").exists())
        self.assertEqual(self.sim("--", "true").returncode, 0)
        self.assertEqual(set(os.listdir(self.folder)), living)
        process.kill()
        process.wait()
        self.assert_nothing_stays()

    def test_the_folder_is_private_and_the_runtime_folder_its_own(self):
        answer = self.sim("--", "sh", "-c", 'stat -c "%a %U" "$BERTH_SIM_DIR" "$BERTH_RUNTIME_DIR"; echo "$BERTH_RUNTIME_DIR"')
        lines = answer.stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines[:2]], ["700", "700"])
        self.assertTrue(lines[2].startswith(self.folder + "/berth-sim-"))

    def test_processes_are_real_and_have_commands(self):
        answer = self.sim("--processes", "5", "--", BERTH, "ps", "--json")
        rows = json.loads(answer.stdout)["processes"]
        self.assertEqual(len(rows), 5)
        for row in rows:
            self.assertTrue(row["command"].startswith("python "), row)
            self.assertIsNotNone(row["pid"])
            self.assertGreater(row["memory_bytes"], 0)

    def test_an_attached_process_is_listed_until_it_ends(self):
        with subprocess.Popen(["sleep", "1000"]) as mine:
            script = (f"{BERTH} ps --json; kill {mine.pid}; "
                      f"for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; {BERTH} ps --json > $BERTH_SIM_DIR/out; done; cat $BERTH_SIM_DIR/out")
            answer = self.sim("--attach", f"{mine.pid}:1:3GiB", "--", "sh", "-c", script)
        before, after = (json.loads(line)["processes"] for line in answer.stdout.splitlines())
        self.assertEqual([(row["host_pid"], row["device"], row["memory_bytes"]) for row in before], [(mine.pid, 1, 3 << 30)])
        self.assertEqual(after, [])

    def test_frozen_time_shows_the_same_twice(self):
        def look(seed):
            answer = self.sim("--processes", "8", "--at", "42", "--seed", seed, "--", BERTH, "ls", "--json")
            return json.loads(answer.stdout)["devices"][:4]
        self.assertEqual(look("1"), look("1"))
        self.assertNotEqual(look("1"), look("2"))

    def test_looking_does_not_wake_a_sleeping_gpu(self):
        answer = self.sim("--report", "-", "--", BERTH, "ls", machine="laptop-4060")
        self.assertEqual(json.loads(answer.stderr.splitlines()[-1])["wakes"], [0, 0])
        self.assertIn("asleep", answer.stdout)

    def test_every_machine_can_be_looked_at(self):
        listing = json.loads(subprocess.run([BERTH, "sim", "--list", "--json"], capture_output=True, check=True).stdout)
        for machine in listing["machines"]:
            with self.subTest(machine["name"]):
                described = json.loads(subprocess.run([BERTH, "sim", "--describe", machine["name"], "--json"],
                                                      capture_output=True, check=True).stdout)
                answer = self.sim("--at", "10", "--", BERTH, "ls", "--json", machine=machine["name"])
                self.assertEqual(answer.returncode, 0, answer.stderr)
                seen = [device for device in json.loads(answer.stdout)["devices"] if device["kind"] == "gpu"]
                self.assertEqual([device["pci_address"] for device in seen],
                                 [device["pci_address"] for device in described["devices"]])
                for device, wanted in zip(seen, described["devices"]):
                    if wanted["vendor"] == "nvidia" and not wanted["asleep"]:
                        self.assertEqual((device["name"], device["uuid"]), (wanted["name"], wanted["uuid"]))


if __name__ == "__main__":
    BERTH = os.path.abspath(sys.argv.pop(1))
    unittest.main()
