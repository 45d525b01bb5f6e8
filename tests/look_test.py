#!/usr/bin/env python3
"""`berth`, `berth ls` and `berth ps` on any machine: exit codes, streams, filters, both languages, closed and full outputs, and
unreadable machines.

usage: look_test.py BERTH"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BERTH = sys.argv.pop() if len(sys.argv) > 1 else "build/dev/berth"


def run(*words, env=None, **more):
    clean = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "BERTH_OPENCL_LIBRARY": "", **(env or {})}
    return subprocess.run([BERTH, *words], capture_output=True, env=clean, timeout=60, **more)


def text(done):
    return done.stdout.decode()


class Look(unittest.TestCase):
    def test_every_screen_works_and_keeps_to_stdout(self):
        for words in ([], ["ls"], ["ls", "--wide"], ["ls", "--details"], ["ps"], ["ps", "--wide"]):
            for lang in ("en", "zh"):
                with self.subTest(words=words, lang=lang):
                    done = run(*words, "--lang", lang)
                    self.assertEqual((done.returncode, done.stderr), (0, b""))
                    self.assertTrue(text(done).endswith("\n"))
                    self.assertNotIn("\x1b", text(done))

    def test_options_may_stand_before_the_verb(self):
        def words(*given):  # numbers are masked, because memory in use changes between calls
            return re.sub(rb"[0-9.]+", b"N", run(*given).stdout)
        self.assertEqual(words("--lang", "zh", "ls"), words("ls", "--lang", "zh"))
        self.assertEqual(run("--json", "ps").returncode, 0)

    def test_json_is_one_line_and_does_not_follow_the_locale(self):
        documents = []
        for locale in ("C", "zh_CN.UTF-8"):
            done = run("ls", "--json", env={"LC_ALL": locale})
            self.assertEqual(done.stdout.count(b"\n"), 1)
            documents.append(json.loads(done.stdout))
        self.assertEqual(documents[0]["driver"], documents[1]["driver"])
        self.assertEqual(documents[0]["notes"], documents[1]["notes"])
        self.assertEqual(documents[0]["devices"][-1]["kind"], "cpu")

    def test_what_is_not_there_is_not_found(self):
        last = json.loads(run("ls", "--json").stdout)["devices"][-1]["index"]
        for words, code, identifier in ((["ls", "--device", str(last + 1)], 1, "E0413"), (["ps", "--user", "no one"], 1, "E0006"),
                                        (["ls", "-d", "::"], 2, "E0415"), (["ls", "--sort", "size"], 2, "E0003"),
                                        (["ls", "--colour", "no"], 2, "E0001"), (["sl"], 2, "E0002"), ([""], 2, "E0002"), (["ls", "x"], 2, "E0004"),
                                        (["ls", "--opencl", "--no-opencl"], 2, "E0010"), (["--lang", "fr"], 2, "E0003")):
            with self.subTest(words=words):
                done = run(*words)
                self.assertEqual((done.returncode, done.stdout), (code, b""))
                self.assertIn(f"({identifier})", done.stderr.decode())
                spoken = run(*words, "--json")
                self.assertEqual(spoken.returncode, code)
                error = json.loads(spoken.stderr)["error"]
                self.assertEqual((error["id"], error["exit_code"]), (identifier, code))
        self.assertEqual(run("ls", "--device", str(last)).returncode, 0)

    def test_hostile_words_are_refused_printably(self):
        for word in (b"\xff\xfe", b"\x1b[31m", b"-\xff", b"--\x07", b"a" * 100_000):
            done = run(word)
            self.assertEqual(done.returncode, 2)
            done.stderr.decode()
            self.assertNotIn(b"\x1b", done.stderr)
            self.assertNotIn(b"\x07", done.stderr)

    def test_a_closed_pipe_is_quiet_and_a_full_disk_is_not(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([BERTH, "ls"], stdout=writer, stderr=subprocess.PIPE, timeout=60)
        os.close(writer)
        self.assertEqual(done.stderr, b"")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BERTH, "ls", "--json"], stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stderr)["error"]["id"], "E0008")
        self.assertEqual(json.loads(done.stderr)["error"]["code"], "output_failed")
        for words in (["--help"], ["run", "--help"], ["help"], ["--version"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([BERTH, *words], stdout=full, stderr=subprocess.PIPE, timeout=60)
            self.assertIn(done.returncode, (1, 125), words)
            self.assertIn(b"E0008", done.stderr, words)

    def test_a_locale_that_is_not_utf8_gets_ascii(self):
        for words in ([], ["ls"], ["--help"], ["help", "ls"], ["sl"]):
            done = run(*words, env={"LC_ALL": "C"})
            (done.stdout + done.stderr).decode("ascii")

    def test_colour_is_asked_for_or_not_there(self):
        self.assertIn("\x1b[", text(run("ls", "--color", "always")))
        self.assertNotIn("\x1b[", text(run("ls", "--color=never")))

    def test_a_machine_that_cannot_be_read_is_still_shown(self):
        with tempfile.TemporaryDirectory() as root:
            for part in ("proc", "sys", "dev", "etc"):
                (pathlib.Path(root) / part).mkdir()
            for words in ([], ["ls"], ["ps"], ["ls", "--details"]):
                with self.subTest(words=words):
                    done = run(*words, env={"BERTH_ROOT": root})
                    self.assertEqual(done.returncode, 0)
                    self.assertNotEqual(done.stdout, b"")
            host = json.loads(run("ls", "--json", env={"BERTH_ROOT": root}).stdout)["host"]
            self.assertEqual((host["cores_total"], host["cores_affinity"], host["memory_total_bytes"]), (None, None, None))
            self.assertNotIn("1 core", text(run("ls", env={"BERTH_ROOT": root})))

    def test_a_recorded_machine_that_is_not_there_is_an_error(self):
        for words in ([], ["ls"], ["ps"], ["env"], ["doctor"], ["run", "--", "true"]):
            with self.subTest(words=words):
                done = run(*words, env={"BERTH_ROOT": "/nonexistent"})
                self.assertEqual((done.returncode, b"E0012" in done.stderr), (2, True), done.stderr)

    def test_another_user_is_told_that_the_simulation_is_not_theirs(self):
        """Regression: a user who could not read the simulation's folder saw a machine without GPUs."""
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        with tempfile.TemporaryDirectory() as shared:
            os.chmod(shared, 0o755)
            berth = shutil.copy(BERTH, shared)
            with tempfile.TemporaryDirectory() as folder:  # mode 0700, like the folder of a simulation
                for words in ([], ["ls"], ["ps"], ["doctor"], ["run", "--", "true"]):
                    with self.subTest(words=words):
                        done = subprocess.run([berth, *words], capture_output=True,
                                              env={"LC_ALL": "C.UTF-8", "BERTH_SIM_DIR": folder},
                                              user=65534, group=65534, extra_groups=[], timeout=60)
                        self.assertNotEqual(done.returncode, 0)
                        self.assertIn(b"E0014", done.stderr)

    def test_opencl_does_not_vanish_where_tmpdir_cannot_be_written(self):
        def found(**env):
            return json.loads(run("ls", "--json", "--opencl", env={"HOME": "/nonexistent", "BERTH_OPENCL_LIBRARY": "libOpenCL.so.1", **env}).stdout)

        usual, without = found(), found(TMPDIR="/proc")
        self.assertEqual(len(usual["devices"]), len(without["devices"]), without.get("notes"))

    def test_version_names_itself(self):
        for word in ("--version", "-V"):
            self.assertRegex(text(run(word)), r"^berth \d+\.\d+\.\d+ \(.+\)\n$")
        self.assertEqual(run("--version", "--lang", "zh").stdout, run("-V").stdout)
        document = json.loads(run("--version", "--json").stdout)
        for key in ("version", "compiler"):
            self.assertIn(document[key], text(run("-V")))

    def test_bash_completes_verbs_options_values_and_commands(self):
        script = text(run("help", "--completion", "bash"))

        def completed(*words):
            line = " ".join(f"'{word}'" for word in words)
            tail = f"\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _berth; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            return subprocess.run(["bash", "-c", script + tail], capture_output=True, text=True, check=True).stdout.split()

        self.assertIn("ls", completed("berth", ""))
        self.assertEqual(completed("berth", "pl"), ["plan"])
        self.assertEqual(completed("berth", "ls", "--det"), ["--details"])
        self.assertEqual(completed("berth", "--lang", "z"), ["zh"])
        self.assertEqual(completed("berth", "ls", "--sort", "me"), ["memory"])
        self.assertEqual(completed("berth", "help", "ls"), ["ls"])
        self.assertEqual(completed("berth", "sim", "--mach"), ["--machine"])
        self.assertEqual(completed("berth", "sim", "--machine", "dgx-h"), ["dgx-h100-8"])
        self.assertEqual(completed("berth", "sim", "--fault", "no-d"), ["no-driver"])
        self.assertIn("/etc/passwd", completed("berth", "sim", "--machine", "/etc/passw"))
        self.assertIn("bash", completed("berth", "sim", "--machine", "none", "bas"))
        self.assertIn("bash", completed("berth", "sim", "--", "bas"))
        self.assertNotIn("--machine", completed("berth", "sim", "python3", "--mach"))


if __name__ == "__main__":
    unittest.main()
