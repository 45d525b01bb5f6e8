#!/usr/bin/env python3
"""Arrays, drained devices, and jobs that move to the CPU after waiting long enough, on a simulated machine with four GPUs.

usage: arrays_test.py BERTH
"""
import json
import sys
import unittest

from machine import Machine, wait_until


class Arrays(Machine):
    def says(self, *words):
        done = self.run_berth(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def document(self, *words):
        return json.loads(self.says(words[0], "--json", *words[1:]))

    def array(self, *words):
        return str(self.document("run", "--queue", *words)["array"])

    def test_each_job_of_an_array_runs_once_with_its_own_index(self):
        array = self.array("--cpu", "--array", "1-20", "--", "sh", "-c", f"echo $BERTH_ARRAY_INDEX >> {self.folder}/ran; "
                           "echo this is $BERTH_ARRAY_INDEX of $BERTH_ARRAY")
        self.assertEqual(self.run_berth("wait", array).returncode, 0)
        ran = sorted(int(one) for one in (self.folder / "ran").read_text().split())
        self.assertEqual(ran, list(range(1, 21)))
        self.assertEqual(self.says("logs", f"{array}_7"), f"this is 7 of {array}\n")
        self.assertRegex(self.says("jobs"), rf"{array}_\[1-20\] +\S+ +done")

    def test_wait_without_a_number_waits_for_the_whole_last_array(self):
        self.array("--cpu", "--array", "1-4%2", "--", "sh", "-c", "sleep 0.3; exit $((BERTH_ARRAY_INDEX / 4))")
        waited = self.run_berth("wait", "--json")
        self.assertEqual((waited.returncode, waited.stderr), (1, ""))
        self.assertEqual([job["outcome"]["exit_code"] for job in json.loads(waited.stdout)["jobs"]], [0, 0, 0, 1])

    def test_no_more_run_at_a_time_than_the_array_allows(self):
        array = self.array("--gpus", "1", "--array", "0-5%2", "--", "sleep", "0.3")
        running = [0]

        def over():
            jobs = self.document("jobs")["jobs"]
            running.append(sum(job["state"] == "running" for job in jobs))
            return all(job["state"] == "done" for job in jobs)
        self.assertTrue(wait_until(over))
        self.assertEqual(max(running), 2)
        self.assertEqual(self.run_berth("wait", array).returncode, 0)

    def test_verbs_take_an_array_as_a_whole_or_one_of_its_jobs(self):
        array = self.array("--gpus", "2", "--array", "1-6", "--name", "sweep", "--", "sleep", "1000")
        self.assertTrue(wait_until(lambda: self.says("jobs").count("running") == 2))
        self.assertTrue(self.says("why", f"{array}_3").startswith(f"job {array}_3 waits for 2 GPUs: none is free\n"))
        self.assertEqual(self.says("hold", array), f"array {array}: 4 held, 2 running\n")
        self.assertEqual(self.says("release", f"{array}_4"), f"job {array}_4 released\n")
        several = self.run_berth("logs", array)
        self.assertEqual(several.returncode, 2)
        self.assertIn("E0935", several.stderr)
        self.assertIn("E0901", self.run_berth("why", f"{array}_7").stderr)
        self.assertEqual(self.says("cancel", array), f"array {array}: 4 cancelled, 2 sent a signal to end\n")
        self.assertTrue(wait_until(lambda: {job["state"] for job in self.document("jobs")["jobs"]} == {"cancelled"}))

    def test_what_is_released_starts_from_its_beginning(self):
        self.says("drain", "0", "1", "2", "3")
        array = self.array("--gpus", "1", "--array", "1-4%1", "--", "sh", "-c", f"echo $BERTH_ARRAY_INDEX >> {self.folder}/ran")
        self.assertEqual(self.says("hold", array), f"array {array}: 4 held, 0 running\n")
        self.assertEqual(self.says("release", array), f"array {array}: 4 waiting, 0 running\n")
        self.says("undrain", "0")
        self.assertEqual(self.run_berth("wait", array).returncode, 0)
        self.assertEqual((self.folder / "ran").read_text().split(), ["1", "2", "3", "4"])

    def test_what_is_queued_on_hold_starts_when_it_is_released(self):
        array = self.array("--cpu", "--hold", "--array", "1-2", "--", "true")
        one = str(self.document("run", "--queue", "--hold", "--cpu", "--", "true")["job"]["id"])
        last = str(self.document("run", "--queue", "--cpu", "--", "true")["job"]["id"])
        self.assertEqual(self.run_berth("wait", last).returncode, 0)
        self.assertEqual([job["state"] for job in self.document("jobs")["jobs"]], ["held", "held", "held", "done"])
        self.assertIn(f"berth release {one}", self.says("why", one))
        self.says("release", one, array)
        self.assertEqual(self.run_berth("wait", one, array).returncode, 0)
        done = self.run_berth("run", "--hold", "--cpu", "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("E0013", done.stderr)

    def test_why_tells_of_an_array_how_many_ended_well_and_which_did_not(self):
        array = self.array("--cpu", "--array", "1-3", "--name", "s", "--", "sh", "-c", "exit $((BERTH_ARRAY_INDEX-1))")
        self.assertEqual(self.run_berth("wait", array).returncode, 1)
        self.assertRegex(self.says("why", "s"), rf"^array {array} ended at \S+: 1 done, 2 failed\nfailed   {array}_2: exit code 1\n"
                         rf" +{array}_3: exit code 2\noutput   berth logs {array}_2\n$")
        document = self.document("why", "s")["array"]
        self.assertEqual((document["id"], document["done"], document["failed"], document["not_well"]),
                         (int(array), 1, 2, [f"{array}_2", f"{array}_3"]))
        self.assertTrue(self.says("why", f"{array}_3").startswith(f"job {array}_3 ended at "))
        self.assertIsNone(self.document("why", f"{array}_3")["array"])

    def test_why_names_the_job_for_which_free_devices_are_kept(self):
        for gpus in ("2", "4", "1"):
            self.says("run", "--queue", "--gpus", gpus, "--name", f"of-{gpus}", "--", "sleep", "1000")
            self.assertTrue(wait_until(lambda: "running" in self.says("jobs")))
        four = [job["id"] for job in self.document("jobs")["jobs"] if job["name"] == "of-4"][0]
        self.assertRegex(self.says("why", "of-1"), rf"^job \d+ waits for 1 GPU: enough is free, but reserved for job {four} \(\S+\), which comes first\n")

    def test_why_says_what_a_job_waits_for_where_devices_are_drained(self):
        self.says("drain", "0", "1", "2", "3")
        self.says("run", "--queue", "--gpus", "1", "--name", "one", "--or-cpu-after", "10m", "--", "true")
        said = self.says("why", "one")
        self.assertIn("waits for 1 GPU: 4 of the 4 suitable devices are drained\n", said)
        self.assertRegex(said, r"or +at about .* on the CPU, after a wait of 10 m 0 s\n")

    def test_a_job_may_come_after_a_whole_array(self):
        array = self.array("--cpu", "--array", "1-4%2", "--", "sh", "-c", f"sleep 0.1; echo x >> {self.folder}/ran")
        after = self.document("run", "--queue", "--cpu", "--after", array, "--", "cp", f"{self.folder}/ran", f"{self.folder}/seen")
        self.assertEqual(self.run_berth("wait", str(after["job"]["id"])).returncode, 0)
        self.assertEqual((self.folder / "seen").read_text(), "x\n" * 4)

    def test_a_range_that_is_none_is_refused_before_anything_is_queued(self):
        for words, code in ((["--queue", "--array", "5-1"], "E0105"), (["--queue", "--array", "0-10000"], "E0105"),
                            (["--array", "1-4"], "E0013")):
            done = self.run_berth("run", "--cpu", *words, "--", "true")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(code, done.stderr)
        self.assertEqual(self.document("jobs")["jobs"], [])

    def test_a_drained_device_gets_no_new_jobs_also_from_the_next_broker(self):
        self.assertEqual(self.says("drain", "1"), "GPU 1 gets no new jobs; none runs on it\n")
        self.assertEqual(self.says("drain", "0", "2", "3").count("gets no new jobs"), 3)
        self.kill_brokers()
        waits = str(self.document("run", "--queue", "--gpus", "1", "--", "true")["job"]["id"])
        self.assertIn("GPU 1: drained: it gets no new jobs", self.says("why", waits))
        self.assertIn("drained: GPU 0, 1, 2, 3", self.says("jobs"))
        self.assertEqual(self.says("undrain", "2"), "GPU 2 accepts new jobs again\n")
        self.assertEqual(self.run_berth("wait", waits).returncode, 0)
        self.assertEqual(self.run_berth("drain").returncode, 2)
        self.assertIn("E0413", self.run_berth("drain", "9").stderr)

    def test_who_would_take_the_cpu_gets_it_after_the_time_they_gave(self):
        self.says("drain", "0", "1", "2", "3")
        done = self.run_berth("run", "--gpus", "1", "--or-cpu-after", "1s", "--report", "-", "--", "sh", "-c", "echo [$CUDA_VISIBLE_DEVICES]")
        self.assertEqual((done.returncode, done.stdout), (0, "[-1]\n"), done.stderr)
        self.assertIn("runs on the CPU", done.stderr)
        self.assertIn("why   on the CPU: the job waited 1.0 s for GPUs\n", done.stderr)
        queued = str(self.document("run", "--queue", "--gpus", "1", "--or-cpu-after", "1s", "--", "sh", "-c",
                                   "echo [$CUDA_VISIBLE_DEVICES]")["job"]["id"])
        self.assertEqual(self.run_berth("wait", queued).returncode, 0)
        self.assertEqual(self.says("logs", queued), "[-1]\n")
        self.assertIn("E0010", self.run_berth("run", "--cpu", "--or-cpu-after", "1s", "--", "true").stderr)


Machine.berth = sys.argv.pop(1)
unittest.main()
