#!/usr/bin/env python3
"""Details of the queue on a simulated machine with four GPUs: how a queued job starts, which job a word selects, and the messages of the
verbs.

usage: promises_test.py BERTH
"""
import json
import os
import resource
import subprocess
import sys
import unittest

from machine import Machine, wait_until

LIMITS = "ulimit -Sn; ulimit -Hn; ulimit -Sv; ulimit -c; nice"


class Calls(Machine):
    def queue(self, *words, **more):
        done = self.run_berth("run", "--queue", *words, **more)
        self.assertEqual((done.returncode, done.stdout.strip().isdigit()), (0, True), done.stderr)
        return done.stdout.split()[-1]

    def says(self, *words, code=0, **more):
        done = self.run_berth(*words, **more)
        self.assertEqual(done.returncode, code, (words, done.stdout, done.stderr))
        return done.stdout + done.stderr

    def fill(self, *devices):
        """Starts a job on these devices that runs until the test ends."""
        job = self.start("run", "--devices", ",".join(map(str, devices)), "--", "sh", "-c", "echo up; read line")
        self.assertEqual(job.stdout.readline(), "up\n")
        return job

    def array(self, *words):
        return str(json.loads(self.says("run", "--queue", "--json", *words))["array"])


class Promises(Calls):
    def limits_of_a_job(self, set_them):
        words = ["sh", "-c", f'{set_them}; exec "$0" run --queue --cpu -- bash -c "{LIMITS}"', self.berth]
        queued = self.start_words(words)
        job = queued.split()[-1]
        self.assertEqual(self.says("wait", job), "")
        return self.says("logs", job).split()

    def start_words(self, words):
        done = subprocess.run(words, env=self.variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_queued_job_has_the_limits_of_its_submitter(self):
        self.says("wait", self.queue("--cpu", "--", "true"))  # starts the broker, so that it does not have the limits that are set below
        hard = str(resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        nice = os.nice(0)
        had = self.limits_of_a_job(f"ulimit -Sn 300; ulimit -Sv 8000000; ulimit -c 0; renice -n {nice + 3} $$ > /dev/null")
        self.assertEqual(had, ["300", hard, "8000000", "0", str(nice + 3)])
        self.assertEqual(self.limits_of_a_job("ulimit -n 200")[:2], ["200", "200"])

    def test_who_tells_of_no_limits_has_them_all_the_same(self):
        self.says("wait", self.queue("--cpu", "--", "true"))
        body = json.dumps({"queued": True, "command": ["bash", "-c", LIMITS], "request": {"gpus": 0},
                           "spec": {"folder": "/", "umask": 18, "environment": [f"PATH={os.environ['PATH']}"],
                                    "limits": {"nofile": [400, None], "gpus": [1, 2]}, "nice": -20}})
        call = ("import resource, socket, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (150, 250)); s = socket.socket(socket.AF_UNIX);"
                "resource.setrlimit(resource.RLIMIT_CORE, (0, 0));"
                f"s.connect({self.variables['BERTH_RUNTIME_DIR']!r} + '/berth.sock'); b = {body!r}.encode();"
                "s.sendall(b'POST /v1/jobs HTTP/1.1\\r\\nHost: berth\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(b) + b);"
                "print(s.makefile().read())")
        answer = self.start_words([sys.executable, "-c", call])
        job = str(json.loads(answer[answer.index("{"):])["job"]["id"])
        self.says("wait", job)
        had = self.says("logs", job).split()
        self.assertEqual((had[:2], had[3], had[4]), (["250", "250"], "0", str(os.nice(0))))

    def test_what_berth_set_for_a_job_does_not_bind_what_that_job_queues(self):
        self.fill(0, 1)
        script = ('n=$("$0" run --queue --gpus 1 -- sh -c "echo on \\$CUDA_VISIBLE_DEVICES" | cut -d" " -f2);'
                  '"$0" wait $n; "$0" logs $n; echo mine $CUDA_VISIBLE_DEVICES')
        self.assertEqual(self.says("run", "--gpus", "1", "--", "sh", "-c", script, self.berth), "on 3\nmine 2\n")
        # The same from a job without devices, from a job inside a job, and from a queued job.
        hidden = 'n=$("$0" run --queue --gpus 1 -- true | cut -d" " -f2); "$0" wait $n && echo good'
        self.assertEqual(self.says("run", "--cpu", "--", "sh", "-c", hidden, self.berth), "good\n")
        self.assertEqual(self.says("run", "--gpus", "1", "--", self.berth, "run", "--", "sh", "-c", script, self.berth),
                         "on 3\nmine 2\n")
        outer = self.queue("--gpus", "1", "--", "sh", "-c", script, self.berth)
        self.says("wait", outer)
        self.assertEqual(self.says("logs", outer), "on 3\nmine 2\n")

    def test_a_users_own_variable_binds_and_is_named_where_it_is_waited_for(self):
        self.fill(0)
        script = 'CUDA_VISIBLE_DEVICES=0 "$0" run --queue --gpus 1 -- true'
        told = self.says("run", "--gpus", "1", "--", "sh", "-c", script, self.berth)
        job = told.split()[-1]
        said = self.says("why", job)
        self.assertIn("CUDA_VISIBLE_DEVICES=0 was set and allows only GPU 0", said)
        self.assertIn("env -u CUDA_VISIBLE_DEVICES berth run --gpus 1", said)
        self.assertNotIn("free (", said)
        self.assertEqual(self.job(job)["visible"], {"cuda_visible_devices": "0"})
        self.says("cancel", job)
        waits = self.start("run", "--gpus", "1", "--", "true", CUDA_VISIBLE_DEVICES="0")
        said = [waits.stderr.readline() for _ in range(2)]
        self.assertIn("CUDA_VISIBLE_DEVICES=0 was set and allows only GPU 0", said[1], said)

    def test_a_number_that_no_array_has_means_none_of_its_jobs(self):
        self.says("wait", self.queue("--cpu", "--", "true"))
        array = int(self.array("--cpu", "--array", "1-3", "--", "sleep", "1000"))
        for wrong in (f"{array + 2}_2", f"{array + 1}_1", "1_1", f"{array}_4"):
            for verb in ("cancel", "why", "hold"):
                self.assertIn(f"there is no job {wrong} (E0901)", self.says(verb, wrong, code=1))
        self.assertLessEqual({one["state"] for one in self.call("GET", f"/v1/jobs/{array}")["jobs"]}, {"running", "waiting"})
        self.says("cancel", str(array))

    def test_verbs_take_an_array_by_its_name(self):
        self.fill(0, 1, 2, 3)
        array = self.array("--gpus", "1", "--array", "1-100%2", "--name", "arr", "--", "sh", "-c", "exit 3")
        self.assertTrue(self.says("why", "arr").startswith(f"job {array}_1 waits for 1 GPU"))
        self.assertEqual(self.says("hold", "arr"), f"array {array}: 100 held, 0 running\n")
        self.assertEqual(self.says("release", "arr"), f"array {array}: 100 waiting, 0 running\n")
        self.assertIn("E0935", self.says("logs", "arr", code=2))
        self.assertIn(f"job {array}_3 has not started", self.says("logs", f"{array}_3"))
        self.says("cancel", "arr")
        self.assertEqual(self.says("wait", "arr", code=125), "")
        self.assertIn(f"job {array}_3 has ended", self.says("cancel", f"{array}_3", code=2))

    def test_a_name_that_many_have_is_no_page_of_numbers(self):
        held = self.queue("--cpu", "--name", "many", "--", "sleep", "1000")
        for _ in range(11):
            self.queue("--cpu", "--name", "many", "--", "sleep", "1000")
        said = self.says("why", "many", code=2)
        self.assertIn("E0932", said)
        self.assertIn(f"named many: {held} ", said)
        self.assertIn("and 4 more", said)

    def test_a_job_comes_after_what_is_named_as_everywhere(self):
        array = self.array("--cpu", "--array", "1-2", "--name", "arr", "--", "sh", "-c",
                           f"while ! test -e {self.folder}/go; do sleep 0.05; done; exit $((BERTH_ARRAY_INDEX - 1))")
        one = self.queue("--cpu", "--after", f"{array}_1", "--", "true")
        other = self.queue("--cpu", "--after", f"{array}_1,{array}_2", "--", "true")
        whole = self.queue("--cpu", "--after", "arr", "--", "true")
        self.assertIn(f"waits for the end of job {array}_1\n", self.says("why", one))
        self.assertIn(f"berth why {array}_1", self.says("why", one))
        self.assertIn(f"waits for the end of job {array}", self.says("why", whole))
        (self.folder / "go").touch()
        self.assertEqual(self.says("wait", one), "")
        self.says("wait", other, whole, code=125)
        self.assertIn(f"job {array}_2, which it depends on", self.says("why", other))
        for words, code, exit_code in ((["--queue", "--after", "nobody"], "E0931", 125), (["--after", array], "E0013", 2),
                                       (["--queue", "--after", f"{array}_9"], "E0901", 125)):
            self.assertIn(code, self.says("run", "--cpu", *words, "--", "true", code=exit_code))

    def test_the_job_of_an_array_that_is_in_the_way_is_named_as_it_is_everywhere(self):
        array = self.array("--gpus", "2", "--array", "3,4", "--", "sleep", "1000")
        for one in self.call("GET", f"/v1/jobs/{array}")["jobs"]:
            self.job(one["id"], "started")
        said = self.says("run", "--gpus", "1", "--no-wait", "--", "true", code=6)
        self.assertIn(f"job {array}_3 (", said)
        self.says("cancel", array)

    def test_the_first_screen_calls_nothing_free_that_is_given_away(self):
        self.fill(0)
        array = self.array("--memory", "20GiB", "--devices", "1", "--array", "4", "--", "sleep", "1000")
        self.says("drain", "3")
        self.assertTrue(self.job(int(array) + 1, "started"))
        said = self.says()
        self.assertRegex(said, r"\n *0 .* job \d+\n *1 .* job " + array + r"_4\n *2  free .*\n *3  drained ")
        self.assertIn("berth run --gpus 1", said)
        self.says("drain", "2")
        said = self.says()
        self.assertNotIn("free  ", said)
        self.assertNotIn("berth run --gpus 1", said)
        self.assertIn("berth run --memory 4GiB", said)
        self.assertEqual([one["state"] for one in json.loads(self.says("--json"))["devices"]][:4], ["busy", "busy", "drained", "drained"])
        self.says("cancel", array)

    def test_who_was_told_to_end_and_says_that_all_is_well_did_not_do_its_work(self):
        polite = ["sh", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"]
        limited = self.queue("--cpu", "--time-limit", "500ms", "--", *polite)
        self.says("wait", limited, code=143)
        self.assertIn("the time limit of 500 ms was exceeded", self.says("why", limited))
        self.assertIn("时限 500 ms 已到", self.says("--lang", "zh", "why", limited))
        said = self.says("run", "--gpus", "1", "--time-limit", "500ms", "--", "sleep", "1000", code=143)
        self.assertIn("note: the job was ended: the time limit of 500 ms was exceeded", said)

    def test_a_job_ended_by_cancel_or_its_limit_has_failed_for_everyone_alike(self):
        polite = ["sh", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"]
        report = os.path.join(self.folder, "report.json")
        for way in (["--gpus", "1"], ["--cpu"]):
            self.says("run", *way, "--time-limit", "500ms", "--report", report, "--", *polite, code=143)
            with open(report, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["outcome"]["class"], "time limit")
        queued = self.queue("--cpu", "--", *polite)
        self.job(queued, "started")
        self.assertTrue(wait_until(lambda: self.run_berth("logs", queued).stdout == "up\n"))
        self.says("cancel", queued)
        self.says("wait", queued, code=143)
        ended = {one["id"]: one for one in json.loads(self.says("jobs", "--json"))["jobs"]}
        told = [(one["state"], one["outcome"]["class"], one["outcome"]["exit_code"]) for one in ended.values()]
        self.assertEqual(told, [("failed", "time limit", 143), ("failed", "time limit", 143), ("cancelled", "cancelled", 143)])

    def test_errors_are_said_in_the_readers_language(self):
        said = self.says("--lang", "zh", "cancel", self.queue("--cpu", "--", "true") + "0", code=1)
        self.assertNotIn("there is no job", said)
        self.assertIn("E0901", said)

    def test_what_was_queued_is_said_where_its_number_cannot_be(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([self.berth, "run", "--queue", "--cpu", "--", "true"], env=self.variables, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 125)
        self.assertIn("job 1 is queued, but the output cannot be written", done.stderr)
        self.assertIn("berth cancel 1", done.stderr)
        self.assertEqual(done.stderr.count("error:"), 1)

    def test_a_call_that_is_wrong_is_told_in_our_words(self):
        self.says("wait", self.queue("--cpu", "--", "true"))
        spec = {"folder": "/", "umask": 18, "environment": []}
        for body, words in (({"queued": True, "command": 7, "spec": spec}, "command has the wrong type"),
                            ({"request": {"gpus": "two"}}, "gpus has the wrong type"),
                            ({"queued": True, "command": ["true"], "spec": {"folder": "/", "umask": 18}}, "environment is missing"),
                            ({"queued": True, "command": ["true"]}, "spec is missing"),
                            ([1], "has the wrong type"),
                            ({"request": {"memory_bytes": 1 << 30, "share_permille": -5}}, "'-0.5 %' is not a share")):
            error = self.call("POST", "/v1/jobs", body)["error"]
            self.assertIn(words, error["message"])
            self.assertNotIn("json.exception", error["message"])
            self.assertTrue(error["hint"], error)

    def test_settings_are_a_file(self):
        self.assertIn("E0925", self.says("serve", "--config", "/dev/null", code=4))


class WithoutGpus(Calls):
    machine = "none"

    def test_jobs_on_the_cpu_wait_for_cores(self):
        cores = len(os.sched_getaffinity(0))
        first = self.queue("--cpus", str(cores), "--", "sleep", "1000")
        second, third = self.queue("--", "true"), self.queue("--cpus", "1", "--", "true")
        self.assertEqual(self.job(first, "started")["state"], "running")
        said = self.says("jobs")
        self.assertNotIn("GPU", said)
        self.assertRegex(said, rf"{second} +\S+ +waiting +the CPU")
        for job in (second, third):
            said = self.says("why", job)
            self.assertTrue(said.startswith(f"job {job} waits for 1 core: none is free\n"), said)
            self.assertRegex(said, rf"held by +cores \S+: job {first} ")
            self.assertNotIn("sooner", said)
        self.assertIn("1 core was requested, but other jobs leave only 0", self.says("run", "--cpus", "1", "--no-wait", "--", "true", code=6))
        self.says("cancel", first)
        self.says("wait", second, third)
        self.assertEqual(self.says("run", "--cpus", "1", "--", "echo", "ran"), "ran\n")


if __name__ == "__main__":
    Machine.berth = os.path.abspath(sys.argv.pop(1))
    unittest.main()
