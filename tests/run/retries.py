"""`berth run --retries`: which failures are retried, when, and what the report says about each try."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

from support import BERTH, PYTHON, environment, main, run, start

OUT_OF_MEMORY = ("import os, sys\nprint('try', os.environ['BERTH_TRY'], flush=True)\n"
                 "if int(os.environ['BERTH_TRY']) < 3: raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')\n")


class Retries(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "report.json")

    def tries(self, *command, options=(), **keywords):
        done = run(*command, options=["--report", self.file, *options], **keywords)
        with open(self.file) as file:
            return done, json.load(file)["tries"]

    def test_out_of_memory_is_tried_again(self):
        done, tries = self.tries("python3", "-c", OUT_OF_MEMORY, options=["--retries", "5", "--backoff", "100ms..150ms"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "try 1\ntry 2\ntry 3\n")
        self.assertEqual([one["class"] for one in tries], ["out of memory", "out of memory", "ok"])
        self.assertEqual([one["number"] for one in tries], [1, 2, 3])
        self.assertEqual(tries[0]["evidence"], "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB")
        self.assertEqual(tries[0]["waited_seconds"], 0)
        self.assertLessEqual(0.07, tries[1]["waited_seconds"], tries[1])
        self.assertLessEqual(0.1, tries[2]["waited_seconds"], tries[2])
        self.assertEqual([(one["change"], one["batch_scale"]) for one in tries],
                         [(None, 1), ("smaller batch", 0.5), ("smaller batch", 0.25)])
        self.assertIn("try 1 of 6 ended: out of memory", done.stderr)

    def test_an_error_of_the_program_is_not(self):
        done, tries = self.tries("python3", "-c", "raise ValueError('CUDA out of memory. Tried to allocate')", options=["--retries", "5"])
        self.assertEqual(done.returncode, 1)
        self.assertEqual([(one["class"], one["exit_code"]) for one in tries], [("user error", 1)])
        self.assertIn("ValueError", done.stderr)

    def test_no_more_than_asked_for(self):
        done, tries = self.tries("sh", "-c", "kill -9 $$", options=["--retries", "2", "--backoff", "10ms"])
        self.assertEqual(done.returncode, 137)
        self.assertEqual([(one["class"], one["signal"]) for one in tries], [("killed", 9)] * 3)

    def test_ranks_are_tried_again_together(self):
        words = "echo try $BERTH_TRY of $RANK at $TORCHELASTIC_RESTART_COUNT; [ $BERTH_TRY$RANK = 11 ] && kill -9 $$; [ $BERTH_TRY = 2 ] || exec sleep 60"
        done, tries = self.tries("sh", "-c", words, options=["--ranks", "2", "--retries", "1", "--backoff", "10ms"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(one["class"], one["failed_first"]) for one in tries], [("killed", 1), ("ok", None)])
        self.assertIn("[rank 0] try 2 of 0 at 1\n", done.stdout)

    def test_what_a_try_left_behind_is_ended_before_the_next(self):
        marker = f"600.{os.getpid()}"
        words = f"[ $BERTH_TRY = 2 ] && {{ pgrep -fx 'sleep {marker}'; exit 0; }}; setsid sleep {marker} & sleep 0.2; kill -9 $$"
        done, tries = self.tries("bash", "-c", words, options=["--retries", "1", "--backoff", "10ms"])
        self.assertEqual(len(tries), 2)
        self.assertEqual(done.stdout, "")

    def test_a_signal_ends_the_waiting(self):
        job = start("sh", "-c", "echo one; kill -9 $$", options=["--retries", "1", "--backoff", "60s", "--report", self.file])
        self.assertEqual(job.stdout.readline(), "one\n")
        time.sleep(0.3)
        begun = time.monotonic()
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(timeout=30), 143)
        self.assertLess(time.monotonic() - begun, 10)

    def test_a_time_limit_ends_all_tries(self):
        with tempfile.TemporaryDirectory() as state:
            done, tries = self.tries("sh", "-c", "kill -9 $$", options=["--retries", "9", "--backoff", "30s", "--time-limit", "1s"],
                                     env=environment(BERTH_STATE_DIR=state))
        self.assertEqual(done.returncode, 143)
        self.assertEqual(len(tries), 1)

    def test_wrong_words(self):
        for options in (["--retries", "many"], ["--backoff", "1s"], ["--retries", "1", "--backoff", "5s..1s"], ["--retries", "1", "--backoff", "5"]):
            done = run("true", options=options)
            self.assertEqual((done.returncode, "hint:" in done.stderr), (2, True), (options, done.stderr))


FAULT = """
import json, os, sys
print(json.dumps({name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "BERTH_TRY", "CUDA_VISIBLE_DEVICES")}), flush=True)
if os.environ["BERTH_TRY"] == "1" and os.environ["RANK"] == sys.argv[1]:
    raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
"""


class AsManyAsThereAre(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if subprocess.run([BERTH, "sim", "--machine", "none", "--", BERTH, "--version"], capture_output=True, env=environment()).returncode != 0:
            raise unittest.SkipTest("no simulator in this build")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(folder.name, "report.json")

    def simulated(self, *words, machine="lab-4x3090"):
        done = subprocess.run([BERTH, "sim", "--machine", machine, "--", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env=environment(BERTH_STATE_DIR=self.folder), timeout=100)
        ranks = [json.loads(line.partition("] ")[2]) for line in done.stdout.splitlines()]
        return done, ranks

    def test_options_for_a_rank_that_is_left_out_move_to_those_that_are_left(self):
        done, ranks = self.simulated(BERTH, "run", "--ranks", "2:4", "--tee", "3", "--stdin-rank", "3", "--retries", "2", "--backoff", "10ms", "--",
                                     PYTHON, "-c", FAULT, "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank 2 has standard input now", done.stderr)
        self.assertIn("no rank of --tee is left: the output of all ranks is shown", done.stderr)
        self.assertEqual(sorted(one["RANK"] for one in ranks if one["BERTH_TRY"] == "2"), ["0", "1", "2"])

    def test_after_a_fault_of_a_gpu_it_continues_without_it(self):
        done, ranks = self.simulated(BERTH, "run", "--ranks", "2:4", "--retries", "2", "--backoff", "10ms", "--report", self.file, "--",
                                     PYTHON, "-c", FAULT, "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the job continues with 3 ranks, without GPU 2", done.stderr)
        first, second = ([one for one in ranks if one["BERTH_TRY"] == number] for number in "12")
        self.assertEqual({(one["WORLD_SIZE"], one["CUDA_VISIBLE_DEVICES"]) for one in first}, {("4", "0,1,2,3")})
        self.assertEqual(sorted(one["RANK"] for one in second), ["0", "1", "2"])
        self.assertEqual({(one["WORLD_SIZE"], one["CUDA_VISIBLE_DEVICES"]) for one in second}, {("3", "0,1,3")})
        with open(self.file) as file:
            report = json.load(file)
        self.assertEqual([(one["class"], one["world_size"], one["lost_devices"]) for one in report["tries"]],
                         [("device fault", 4, []), ("ok", 3, [2])])
        self.assertEqual([one["devices"] for one in report["ranks"]], [[0], [1], [3]])

    def test_with_the_fewest_ranks_the_same_start_again(self):
        done, ranks = self.simulated(BERTH, "run", "--ranks", "4:5", "--retries", "1", "--backoff", "10ms", "--", PYTHON, "-c", FAULT, "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([one["WORLD_SIZE"] for one in ranks if one["BERTH_TRY"] == "2"], 4 * ["4"])

    def test_as_many_as_are_free(self):
        held = os.path.join(self.folder, "held")
        script = (f'{BERTH} run --devices 1 -- sh -c "touch {held}; exec sleep 100" & until [ -e {held} ]; do sleep 0.05; done; '
                  f'{BERTH} run --ranks 2:4 -- {PYTHON} -c "$0" none; code=$?; kill $!; wait; exit $code')
        done, ranks = self.simulated("sh", "-c", script, FAULT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(one["WORLD_SIZE"], one["CUDA_VISIBLE_DEVICES"]) for one in ranks], 3 * [("3", "0,2,3")])

    def test_more_ranks_than_gpus_share_them_if_asked_for(self):
        done, ranks = self.simulated(BERTH, "run", "--ranks", "6", "--oversubscribe", "--", PYTHON, "-c", FAULT, "none")
        self.assertEqual(sorted((one["RANK"], one["CUDA_VISIBLE_DEVICES"]) for one in ranks),
                         [("0", "0"), ("1", "1"), ("2", "2"), ("3", "3"), ("4", "0"), ("5", "1")], done.stderr)
        self.assertIn("NCCL refuses that", done.stderr)
        done, _ = self.simulated(BERTH, "run", "--ranks", "6", "--", PYTHON, "-c", FAULT, "none")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("E0411", done.stderr)
        self.assertIn("berth run --ranks 6 --oversubscribe", done.stderr)
        done, _ = self.simulated(BERTH, "run", "--ranks", "gpu", "--oversubscribe", "--", "true")
        self.assertIn("E0013", done.stderr)

    def test_without_gpus_and_on_several_nodes(self):
        self.assertEqual(len(self.simulated(BERTH, "run", "--ranks", "2:3", "--", PYTHON, "-c", FAULT, "none", machine="none")[1]), 3)
        several = run("true", options=["--ranks", "2:4", "--nodes", "2"], env=environment(NODE_RANK="0", MASTER_ADDR="127.0.0.1"))
        self.assertEqual((several.returncode, "E0950" in several.stderr), (2, True), several.stderr)
        for wrong in ("4:2", "2:", ":4", "0:2", "2:4:6"):
            self.assertEqual(run("true", options=["--ranks", wrong]).returncode, 2, wrong)


if __name__ == "__main__":
    main()
