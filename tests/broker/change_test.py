#!/usr/bin/env python3
"""Jobs that are already queued: changed, reordered, queued again, selected by number and state, and what they used.

usage: change_test.py BERTH
"""
import contextlib
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import time
import unittest

from machine import Machine, wait_until


class Change(Machine):
    machine = "laptop-4060"

    def berth_ok(self, *words, **more):
        done = self.run_berth(*words, **more)
        self.assertEqual(done.returncode, 0, (words, done.stdout, done.stderr))
        return done.stdout

    def queue(self, *words):
        return self.berth_ok("run", "--queue", *words).strip()

    def document(self, *words):
        return json.loads(self.berth_ok("--json", *words))

    def held(self, count=1, *words):
        return [self.queue("--hold", "--gpus", "1", *words, "--", "true") for _ in range(count)]

    def states(self):
        return {str(job["id"]): job["state"] for job in self.document("jobs", "--all")["jobs"]}

    def processes(self, name):
        """The numbers of this machine's processes of that name."""
        mark = f"BERTH_SIM_DIR={self.variables['BERTH_SIM_DIR']}".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and (entry / "cmdline").read_bytes().startswith(name.encode()) and mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    def test_jobs_change_places_and_what_they_ask_for(self):
        blocker = self.queue("--gpus", "1", "--", "sleep", "1000")
        ran = self.folder / "ran"
        one, two, three = [self.queue("--gpus", "1", "--", "sh", "-c", f"echo $BERTH_JOB >> {ran}") for _ in range(3)]
        self.assertEqual(self.berth_ok("edit", three, "--first"), f"job {three} changed\n")
        self.berth_ok("edit", one, "--swap", two)
        self.berth_ok("edit", one, "--time-limit", "1w", "--priority", "0")
        self.assertEqual(self.job(one)["time_limit_seconds"], 7 * 24 * 3600)
        self.berth_ok("edit", one, "--time-limit", "none")
        self.assertIsNone(self.job(one)["time_limit_seconds"])
        self.berth_ok("cancel", blocker)
        self.berth_ok("wait", one, two, three)
        self.assertEqual(ran.read_text().split(), [three, two, one])

    def test_edits_that_make_no_sense_are_refused(self):
        one, two = self.held(2)
        for words, code, error in (([one], 2, "E0948"), ([one, "--gpus", "9"], 3, "E0411"), ([one, "--after", two], 2, "E0948"),
                                   ([one, "--after", "99"], 1, "E0901"), ([one, "--time-limit", "5"], 2, "E0103"),
                                   ([one, "--first", "--swap", two], 2, "E0010")):
            done = self.run_berth("edit", *words)
            self.assertEqual(done.returncode, code, (words, done.stderr))
            self.assertIn(error, done.stderr, words)
        self.assertEqual(self.job(one)["gpus"], 1)

    def test_the_limit_of_a_running_job_can_be_made_shorter(self):
        job = self.queue("--gpus", "1", "--time-limit", "1h", "--", "sleep", "1000")
        self.berth_ok("edit", job, "--time-limit", "1s")
        self.assertEqual(self.job(job, "ended")["state"], "failed")

    def test_jobs_come_after_the_end_or_the_failure_of_others(self):
        bad = self.queue("--gpus", "1", "--hold", "--", "sh", "-c", "exit 3")
        always, clean, well = [self.queue("--gpus", "1", "--after", kind + bad, "--", "true") for kind in ("any:", "not-ok:", "")]
        self.assertEqual(self.job(always)["after_any"], [int(bad)])
        self.assertIn(f"waits for the end of job {bad}", self.berth_ok("why", always))
        self.berth_ok("release", bad)
        self.assertEqual([self.job(one, "ended")["state"] for one in (always, clean, well)], ["done", "done", "cancelled"])
        # An ended job may be named, too. A condition that can no longer be met is refused.
        self.assertIn("E0903", self.run_berth("run", "--queue", "--after", bad, "--", "true").stderr)
        self.queue("--gpus", "1", "--after", f"not-ok:{bad},any:{well}", "--", "true")

    def test_a_job_is_queued_again_as_it_was(self):
        script = "echo $MINE $PWD"
        first = self.run_berth("run", "--queue", "--gpus", "1", "--name", "again", "--", "sh", "-c", script, cwd=self.folder, MINE="word").stdout.strip()
        self.berth_ok("wait", first)
        second = self.berth_ok("rerun", first).strip()
        self.assertNotEqual(first, second)
        self.assertEqual(self.job(second, "ended")["name"], "again")
        self.assertEqual(self.berth_ok("logs", second), f"word {self.folder}\n")
        third = self.berth_ok("rerun").strip()
        self.assertEqual(self.job(third, "ended")["command"], ["sh", "-c", script])
        self.berth_ok("run", "--gpus", "1", "--", "true")
        self.assertIn("E0948", self.run_berth("rerun", str(int(third) + 1)).stderr)

    def test_what_a_job_used_is_told(self):
        busy = "import time; x = bytearray(80_000_000); end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
        job = self.queue("--gpus", "1", "--", sys.executable, "-c", busy)
        told = self.job(job, "ended")
        self.assertGreaterEqual(told["cpu_seconds"], 0.5)
        self.assertGreater(told["peak_memory_bytes"], 80_000_000)
        self.assertGreater(told["gpu_seconds"], 0)
        report = self.berth_ok("report", job)
        for label in ("waited", "ran", "GPU time", "CPU time", "peak memory", "command", "berth logs"):
            self.assertIn(label, report)
        self.assertEqual(self.document("report")["job"]["id"], int(job))
        waiting = self.held()[0]
        self.assertIsNone(self.job(waiting)["cpu_seconds"])
        self.assertIn(f"job {waiting}: held", self.berth_ok("report"))

    def test_the_report_of_a_queued_job_says_what_limited_it(self):
        sleep = "import time; time.sleep(2.6)"
        job = self.queue("--gpus", "1", "--name", "slow", "--", sys.executable, "-c", sleep)
        self.job(job, "ended")
        report = self.document("report", job)["report"]
        # As in the report of a job in the foreground.
        self.assertEqual((report["name"], report["environment"]["set"]["CUDA_VISIBLE_DEVICES"]), ("slow", "0"))
        self.assertRegex(report["reasons"][0], "^GPU 0 ")
        self.assertEqual(report["job"], int(job))
        self.assertEqual(report["outcome"]["exit_code"], 0)
        self.assertGreater(report["wall_seconds"], 2.5)
        self.assertIn("device_unused", [one["kind"] for one in report["bottlenecks"]])
        self.assertIn("waiting", [one["kind"] for one in report["bottlenecks"]])
        self.assertEqual(len(report["devices"]), 1)
        said = self.berth_ok("report", job)
        self.assertRegex(said, "(?m)^limit ")
        self.assertIn("this program never used the GPU", said)
        self.assertRegex(self.run_berth("report", job, "--lang", "zh").stdout, "(?m)^瓶颈 ")
        self.assertTrue(wait_until(lambda: not self.processes("job-sampler")))

    def test_a_job_in_the_foreground_has_its_report_too(self):
        busy = "import time\nend = time.process_time() + 0.8\nwhile time.process_time() < end: pass"
        self.berth_ok("run", "--gpus", "1", "--report", "none", "--", sys.executable, "-c", busy)
        told = self.document("report")
        job = told["job"]["id"]
        self.assertFalse(told["job"]["queued"])
        self.assertGreaterEqual(told["job"]["cpu_seconds"], 0.8)
        self.assertGreater(told["job"]["peak_memory_bytes"], 1_000_000)
        self.assertEqual(len(told["report"]["devices"]), 1)
        self.assertIn("cores used", self.berth_ok("report"))
        self.assertIn("E1084", str(self.call("POST", f"/v1/jobs/{job}/report", {"text": {}})))
        self.assertEqual(self.document("report"), told)
        running = self.held()[0]
        self.assertIn("E1083", str(self.call("POST", f"/v1/jobs/{running}/report", {"report": {}})))

    def test_a_short_or_a_lost_job_has_no_report(self):
        job = self.queue("--gpus", "1", "--", "true")
        self.job(job, "ended")
        self.assertIsNone(self.document("report", job)["report"])
        job = self.queue("--gpus", "1", "--", "sleep", "60")
        self.assertTrue(wait_until(lambda: self.processes("job-sampler")))
        for keeper in self.processes("job-keeper"):
            os.kill(keeper, signal.SIGKILL)
        self.job(job, "ended")
        self.assertTrue(wait_until(lambda: not self.processes("job-sampler")))
        self.assertIsNone(self.document("report", job)["report"])

    def test_the_report_of_a_job_over_its_time_limit_says_so(self):
        job = self.queue("--gpus", "1", "--time-limit", "2s", "--", "sleep", "60")
        self.job(job, "ended")
        self.assertEqual(self.document("report", job)["report"]["outcome"]["class"], "time limit")

    def test_a_killed_keeper_costs_no_other_job_its_report(self):
        kept = self.queue("--gpus", "1", "--", "sleep", "4")
        self.assertTrue(wait_until(lambda: len(self.processes("job-sampler")) == 1))
        before = self.processes("job-keeper")
        lost = self.queue("--cpu", "--", "sleep", "60")
        self.assertTrue(wait_until(lambda: len(self.processes("job-sampler")) == 2))
        for keeper in set(self.processes("job-keeper")) - set(before):
            os.kill(keeper, signal.SIGKILL)
        self.job(lost, "ended")
        self.job(kept, "ended")
        self.assertIsNotNone(self.document("report", kept)["report"])

    def test_a_job_with_a_run_inside_is_listed_by_its_own_command(self):
        for options in (("--cpu", "--ranks", "2"), ("--cpu", "--retries", "1")):
            with self.subTest(options):
                job = self.queue(*options, "--", "sh", "-c", "echo it ran")
                self.assertEqual(self.job(job, "ended")["command"], ["sh", "-c", "echo it ran"])
                self.assertIn("it ran", self.berth_ok("logs", job))
                again = self.berth_ok("rerun", job).strip()
                self.assertEqual(self.job(again, "ended")["command"], ["sh", "-c", "echo it ran"])
                self.assertIn("it ran", self.berth_ok("logs", again))
        job = self.queue("--isolation", "mig", "--", "true")
        self.assertEqual(self.job(job, "ended")["outcome"]["exit_code"], 125)
        self.assertIn("E1068", self.berth_ok("logs", job))

    def test_the_report_of_queued_ranks_is_that_of_the_run_inside(self):
        job = self.queue("--cpu", "--ranks", "2", "--", "sh", "-c", "sleep 1; test -z $BERTH_JOB_REPORT && ls /proc/self/fd")
        self.job(job, "ended")
        report = self.document("report", job)["report"]
        self.assertEqual([one["part"] for one in report["ranks"]], ["ok", "ok"])
        self.assertEqual(report["command"][0], "sh")
        self.assertIn("2 ranks", self.berth_ok("report", job))
        words = self.berth_ok("logs", job).replace("[rank 0] ", "").replace("[rank 1] ", "").split()
        self.assertEqual(set(words), {"0", "1", "2", "3"})

    def test_the_last_job_is_meant_where_none_is_named(self):
        self.queue("--gpus", "1", "--", "sh", "-c", "echo first")
        last = self.queue("--gpus", "1", "--", "sh", "-c", "echo last; exit 5")
        self.assertEqual(self.run_berth("wait").returncode, 5)
        self.assertEqual(self.berth_ok("logs"), "last\n")
        self.assertIn(f"job {last} ended", self.berth_ok("why"))

    def test_the_last_lines_are_enough(self):
        job = self.queue("--gpus", "1", "--", "sh", "-c", "seq 1 20000; printf end")
        self.berth_ok("wait", job)
        self.assertEqual(self.berth_ok("logs", "-n", "3", job), "19999\n20000\nend")
        self.assertEqual(self.berth_ok("logs", "-n", "0", job), "")
        self.assertEqual(len(self.berth_ok("logs", "-n", "99999", job).splitlines()), 20001)
        follow = self.queue("--gpus", "1", "--", "sh", "-c", "echo a; echo b; sleep 1; echo c")
        self.assertTrue(wait_until(lambda: self.run_berth("logs", follow).stdout == "a\nb\n"))
        self.assertEqual(self.berth_ok("logs", "-f", "-n", "1", follow), "b\nc\n")

    def test_a_command_follows_the_end_however_it_came(self):
        seen = self.folder / "seen"
        script = f'echo "$BERTH_JOB $BERTH_EXIT_CODE $BERTH_ENDED" >> {seen}; pwd >> {seen}'
        bad = self.queue("--gpus", "1", "--on-end", script, "--", "sh", "-c", "exit 3")
        self.assertEqual(self.job(bad, "ended")["outcome"]["exit_code"], 3)
        self.assertEqual(seen.read_text(), f"{bad} 3 itself\n{pathlib.Path.cwd()}\n")
        ended = self.queue("--gpus", "1", "--on-end", script, "--", "sleep", "1000")
        self.assertTrue(wait_until(lambda: self.job(ended)["state"] == "running"))
        self.berth_ok("cancel", ended)
        self.job(ended, "ended")
        self.assertIn(f"{ended} 143 told\n", seen.read_text())

    def test_a_terminal_is_told_of_the_end(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ.update(self.variables)
            done = subprocess.run([self.berth, "run", "--queue", "--notify", "--gpus", "1", "--name", "mine", "--", "sh", "-c", "sleep 1; exit 4"])
            os.read(0, 1)
            os._exit(done.returncode)
        said = b""
        end = time.monotonic() + 20
        while b"ended" not in said and time.monotonic() < end:
            if select.select([terminal], [], [], 1)[0]:
                said += os.read(terminal, 4096)
        os.write(terminal, b"\n")
        os.waitpid(pid, 0)
        os.close(terminal)
        self.assertIn(b"berth: job 1 (mine) ended: exit code 4", said)
        self.assertIn(b"job 1\r\n", said)

    def test_jobs_are_chosen_by_number_state_user_and_time(self):
        one, two, three = self.held(3)
        done = self.queue("--gpus", "1", "--", "true")
        self.berth_ok("wait", done)

        def listed(*words):
            return [str(job["id"]) for job in self.document("jobs", *words)["jobs"]]
        self.assertEqual(listed(one, f"{three}-{done}"), [one, three, done])
        self.assertEqual(listed("--state", "held"), [one, two, three])
        self.assertEqual(listed("--state", "done,failed", "--since", "1w"), [done])
        self.assertEqual(listed("--user", "nobody-else"), [])
        self.assertEqual(listed("--limit", "2"), [one, two])
        limited = self.run_berth("jobs", "--limit", "2")
        self.assertIn("2 more jobs are not shown: berth jobs --limit none", limited.stderr)
        self.assertEqual(len(self.berth_ok("jobs", "--limit", "none").splitlines()), 7)
        for words in (["--state", "asleep"], ["--limit", "0"], ["--since", "yesterday"], ["x7"]):
            self.assertEqual(self.run_berth("jobs", *words).returncode, 2, words)

    def test_ranges_and_all_of_ones_own_are_cancelled(self):
        numbers = self.held(5)
        done = self.berth_ok("cancel", f"{numbers[1]}-{numbers[2]}")
        self.assertEqual(done, f"job {numbers[1]} cancelled\njob {numbers[2]} cancelled\n")
        self.assertIn("E0901", self.run_berth("cancel", f"{numbers[1]}-{numbers[2]}").stderr)
        array = self.document("run", "--queue", "--hold", "--cpu", "--array", "1-5", "--", "true")["array"]
        self.assertEqual(self.berth_ok("cancel", f"{array}_[3-4]"), f"job {array}_3 cancelled\njob {array}_4 cancelled\n")
        self.berth_ok("cancel", "--mine")
        self.assertEqual(set(self.states().values()), {"cancelled"})
        self.assertEqual(self.berth_ok("cancel", "--mine"), "no jobs of yours\n")
        self.assertEqual(self.run_berth("cancel", "--mine", "7").returncode, 2)

    def test_why_says_who_cancelled(self):
        me = subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip()
        waiting = self.held()[0]
        running = self.queue("--gpus", "1", "--", "sleep", "1000")
        for job in (waiting, running):
            self.berth_ok("cancel", job)
            self.assertEqual(self.job(job, "ended")["ended_by"], me)
            self.assertRegex(self.berth_ok("why", job), rf"ended by +{me}\n")

    def test_names_that_read_as_numbers_or_lists_are_refused(self):
        for name in ("7", "7-12", "26_3", "26_[3-4]", "a,b", "any:x", "x" * 300):
            done = self.run_berth("run", "--queue", "--name", name, "--", "true")
            self.assertEqual(done.returncode, 2, name)
        self.queue("--gpus", "1", "--name", "sweep-7", "--", "true")

    def test_refusals_leave_no_record(self):
        blocker = self.queue("--gpus", "1", "--", "sleep", "1000")
        for _ in range(3):
            self.assertEqual(self.run_berth("run", "--gpus", "1", "--no-wait", "--", "true").returncode, 6)
        self.assertEqual(list(self.states()), [blocker])
        # The next broker does not know these jobs either.
        self.kill_brokers()
        self.assertEqual(list(self.states()), [blocker])
        self.berth_ok("cancel", blocker)

    def test_a_number_alone_is_printed_where_no_person_reads(self):
        self.assertRegex(self.berth_ok("run", "--queue", "--gpus", "1", "--", "true"), r"^\d+\n$")
        self.assertRegex(self.berth_ok("run", "--queue", "--hold", "--cpu", "--array", "1-3", "--", "true"), r"^\d+\n$")

    def test_the_api_refuses_keys_that_it_does_not_know(self):
        self.berth_ok("run", "--queue", "--gpus", "1", "--", "true")
        spec = {"folder": "/", "umask": 18, "environment": []}
        for body in ({"command": ["true"], "queued": True, "spec": spec, "time_limit": 5},
                     {"command": ["true"], "queued": True, "spec": spec | {"nise": 5}},
                     {"request": {"gpu": 1}}):
            error = self.call("POST", "/v1/jobs", body)["error"]
            self.assertEqual((error["id"], "there is no key" in error["message"]), ("E0904", True), body)
        for call, body in (("/v1/jobs/1/owners", {"owner": []}), ("/v1/jobs/1/enter", {"outcome": {}}), ("/v1/jobs/1/edit", {"gpu": 1}),
                           ("/v1/jobs/1/end", {"exit_code": 0}), ("/v1/jobs/1/hang", {"hangs": True}), ("/v1/devices/drain", {"device": 0})):
            error = self.call("POST", call, body)["error"]
            self.assertEqual((error["id"], "there is no key" in error["message"]), ("E0904", True), call)
        for call in ("/v1/jobs?limti=5", "/v1/jobs/1?wiat=ended", "/v1/jobs/1/log?form=5"):
            self.assertEqual(self.call("GET", call)["error"]["id"], "E0919", call)
        for size, identifier in ((257, "E0104"), (3 << 20, "E0104"), (4 << 20, "E0919")):
            error = self.call("POST", "/v1/jobs", {"command": ["true"], "queued": True, "spec": spec, "name": "x" * size})["error"]
            self.assertEqual(error["id"], identifier, size)

    def test_a_client_that_waits_for_100_continue_is_answered(self):
        self.berth_ok("run", "--queue", "--gpus", "1", "--", "true")
        import socket
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(20)
            line.connect(self.variables["BERTH_RUNTIME_DIR"] + "/berth.sock")
            body = json.dumps({"command": ["true"], "queued": True, "spec": {"folder": "/", "umask": 18, "environment": []}}).encode()
            line.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: berth\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
            self.assertEqual(line.recv(4096), b"HTTP/1.1 100 Continue\r\n\r\n")
            line.sendall(body)
            self.assertTrue(line.recv(4096).startswith(b"HTTP/1.1 201 "))

    def test_a_relative_state_folder_is_refused(self):
        done = self.run_berth("jobs", BERTH_STATE_DIR="here")
        self.assertIn("BERTH_STATE_DIR must begin with a slash", done.stderr)
        self.assertNotEqual(done.returncode, 0)


class Flexible(Machine):
    machine = "lab-4x3090"

    def test_ranks_from_two_to_four_wait_for_two_gpus_and_start_with_all_that_are_free(self):
        script = "echo world $WORLD_SIZE"
        blocker = self.run_berth("run", "--queue", "--gpus", "3", "--", "sleep", "1000").stdout.strip()
        first = self.run_berth("run", "--queue", "--ranks", "2:4", "--tee", "0", "--", "sh", "-c", script)
        self.assertEqual(first.returncode, 0, first.stderr)
        first = first.stdout.strip()
        time.sleep(0.3)
        self.assertEqual((self.job(first)["state"], self.job(first)["gpus"], self.job(first)["gpus_most"]), ("waiting", 2, 4))
        self.run_berth("cancel", blocker)
        self.assertEqual(len(self.job(first, "ended")["devices"]), 4)
        self.assertIn("world 4", self.run_berth("logs", first).stdout)
        blocker = self.run_berth("run", "--queue", "--gpus", "1", "--", "sleep", "1000").stdout.strip()
        second = self.run_berth("run", "--queue", "--ranks", "2:4", "--tee", "0", "--", "sh", "-c", script).stdout.strip()
        self.assertEqual(len(self.job(second, "ended")["devices"]), 3)
        self.assertIn("world 3", self.run_berth("logs", second).stdout)
        self.run_berth("cancel", blocker)


if __name__ == "__main__":
    Machine.berth = sys.argv.pop(1)
    unittest.main()
