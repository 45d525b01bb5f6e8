#!/usr/bin/env python3
"""A job of a real Slurm on a simulated GPU: `berth run` uses what Slurm assigned, and the plugin limits a task's memory and writes its
report."""
import json
import os
import pwd
import subprocess
import sys
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "guard", "program.py")
GIB = 1 << 30
sys.path.insert(0, HERE)
import slurm_bed  # noqa: E402


def lines(name):
    done = subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", BERTH, "slurm", "gres", "--only", name, "--node", "n1", "--shards", "4"],
                          capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@unittest.skipIf(slurm_bed.why_not(), slurm_bed.why_not())
class Job(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.slurm = slurm_bed.Slurm(lines("gres.conf"), lines("slurm.conf"))
        cls.addClassCleanup(cls.slurm.__exit__)
        cls.plugin = cls.slurm.run(BERTH, "slurm", "plugin", "--install", "--conf", cls.slurm.folder, "--prefix", cls.slurm.path("lib"))
        cls.slurm.__enter__()

    def srun(self, *words, **keywords):
        """Runs srun in the simulated machine. srun passes the machine's variables to the task."""
        return self.slurm.run(BERTH, "sim", "--machine", "lab-4x3090", "--", "srun", *words, cwd=self.slurm.folder, **keywords)

    def report(self, name="report.json"):
        with open(self.slurm.path(name)) as file:
            return json.load(file)

    def test_berth_run_takes_what_slurm_gave(self):
        done = self.srun("--gres=gpu:2", BERTH, "run", "--report", self.slurm.path("report.json"), "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        self.assertEqual((done.returncode, done.stdout), (0, "0,1\n"), done.stderr)
        report = self.report()
        self.assertEqual([one["index"] for one in report["devices"]], [0, 1])
        self.assertEqual((report["engine"]["name"], report["engine"]["node"], report["engine"]["rank"]), ("slurm", "n1", 0))
        self.assertTrue(report["engine"]["job"].isdigit())
        self.assertIsNone(report["job"], "a lease was taken beside Slurm's")

    def test_each_task_of_a_step_runs_on_its_own_gpu(self):
        done = self.srun("-n2", "--gpus-per-task=1", "--overcommit", BERTH, "run", "--", "sh", "-c", "echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES")
        self.assertEqual(sorted(done.stdout.split("\n")), ["", "0 0", "1 1"], done.stderr)

    def test_beyond_the_allocation_there_is_nothing(self):
        done = self.srun("--gres=gpu:1", BERTH, "run", "--gpus", "2", "--", "true")
        self.assertIn("E1010", done.stderr)
        self.assertEqual(done.returncode, 125)
        done = self.srun(BERTH, "run", "--", "sh", "-c", "echo ${CUDA_VISIBLE_DEVICES-unset}")
        self.assertEqual((done.returncode, done.stdout), (0, "-1\n"), done.stderr)

    def test_berth_run_holds_its_part_of_a_shard(self):
        done = self.srun("--gres=shard:1", BERTH, "run", "--memory", "2GiB", "--report", self.slurm.path("shard.json"), "--", sys.executable,
                         PROGRAM, "quota", str(2 * GIB))
        self.assertEqual(done.stdout, f"0 2 0 {2 * GIB} 2\n0\n", done.stderr)
        self.assertEqual(self.report("shard.json")["isolation"]["devices"][0]["refusals"], 2)

    def test_the_plugin_holds_a_task_to_its_memory_and_writes_its_report(self):
        self.assertEqual(self.plugin.returncode, 0, self.plugin.stderr)
        done = self.srun("--gres=gpu:1", "--berth-memory=2G", "--berth-report=job-%j.json", sys.executable, PROGRAM, "quota", str(2 * GIB))
        self.assertEqual(done.stdout, f"0 2 0 {2 * GIB} 2\n0\n", done.stderr + self.slurm.logs())
        names = [name for name in os.listdir(self.slurm.folder) if name.startswith("job-")]
        self.assertEqual(len(names), 1)
        report = self.report(names[0])
        self.assertEqual(names[0], f"job-{report['engine']['job']}.json")
        self.assertEqual(report["outcome"], {"class": "ok", "exit_code": 0, "signal": None})
        self.assertEqual(report["isolation"]["by"], "guard")
        device = report["isolation"]["devices"][0]
        self.assertEqual((device["memory_limit_bytes"], device["memory_peak_bytes"], device["refusals"]), (2 * GIB, 2 * GIB, 2))
        self.assertIsNone(report["cpu_seconds"])
        self.assertEqual(report["gpu_use"], "seen")

    def test_the_plugin_works_as_the_user_of_the_job(self):
        home = self.slurm.path("nobody")
        os.makedirs(home)
        os.chmod(home, 0o777)
        done = self.slurm.run("runuser", "-u", "nobody", "--", BERTH, "sim", "--machine", "lab-4x3090", "--", "srun", "--gres=gpu:1",
                              "--berth-memory=2G", "--berth-report=own.json", sys.executable, PROGRAM, "quota", str(2 * GIB), cwd=home,
                              variables={"HOME": home})
        self.assertEqual(done.stdout, f"0 2 0 {2 * GIB} 2\n0\n", done.stderr + self.slurm.logs())
        self.assertEqual(self.report("nobody/own.json")["isolation"]["by"], "guard")
        self.assertEqual(pwd.getpwuid(os.stat(os.path.join(home, "own.json")).st_uid).pw_name, "nobody")

    def test_a_batch_script_and_its_steps_are_held_alike(self):
        script = self.slurm.path("batch.sh")
        with open(script, "w") as file:
            file.write(f"""#!/bin/sh
#SBATCH --gres=gpu:1 --berth-memory=2G --berth-report=batch-%j.%t.json
srun {sys.executable} {PROGRAM} quota {2 * GIB}
""")
        done = self.slurm.run(BERTH, "sim", "--machine", "lab-4x3090", "--", "sbatch", "--wait", "-o", self.slurm.path("batch.out"), script,
                              cwd=self.slurm.folder)
        with open(self.slurm.path("batch.out")) as file:
            said = file.read()
        self.assertEqual(done.returncode, 0, done.stderr + said)
        self.assertIn(f"0 2 0 {2 * GIB} 2\n0\n", said)

    def test_a_task_that_is_killed_has_its_report_too(self):
        done = self.srun("--gres=gpu:1", "--berth-memory=1G", "--berth-report=killed.json", "sh", "-c", "kill -9 $$")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.report("killed.json")["outcome"]["signal"], 9)

    def test_a_task_that_hangs_says_where_it_is(self):
        program = self.slurm.path("stuck.py")
        with open(program, "w") as file:
            file.write("import time\ndef step():\n    time.sleep(9)\nstep()\n")
        done = self.srun("--gres=gpu:1", "--berth-hang-timeout=2s", "--berth-report=hang.json", "python3", program)
        self.assertEqual(done.returncode, 0, done.stderr + self.slurm.logs())
        self.assertRegex(done.stderr, r"task 0 has made no progress for [2-4](\.\d)? s: it is at stuck\.py:3 in step")
        one, = self.report("hang.json")["tries"]
        hang, = one["hangs"]
        self.assertEqual((one["class"], hang["ranks"][0]["where"]), ("ok", "stuck.py:3 in step"))
        self.assertIn("in step", hang["ranks"][0]["stack"])
        done = self.srun("--gres=gpu:1", "--berth-hang-timeout=soon", "true")
        self.assertIn("limits not enforced", done.stderr)

    def test_each_of_several_tasks_has_a_report_of_its_own(self):
        done = self.srun("-n2", "--overcommit", "--gpus-per-task=1", "--berth-report=many.json", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        uuids = {self.report(f"many.json.{rank}")["devices"][0]["uuid"] for rank in range(2)}
        self.assertEqual(len(uuids), 2)

    def test_many_tasks_of_a_node_are_all_held(self):
        done = self.srun("-n18", "--overcommit", "--gres=gpu:1", "--berth-memory=1G", "sh", "-c", "echo $LD_PRELOAD $BERTH_GUARD")
        lines = done.stdout.splitlines()
        self.assertEqual((len(lines), len(set(lines))), (18, 18), done.stderr)
        self.assertNotIn("", lines)

    def test_a_task_is_held_also_if_the_program_that_was_started_before_it_fails(self):
        plugstack, program = self.slurm.path("plugstack.conf"), self.slurm.path("berth.sh")
        for failure in ("exit 1", "echo LD_PRELOAD=/nonexistent.so; exit 0", "kill -9 $$", "exec sleep 3"):
            with self.subTest(failure):
                with open(program, "w") as file:
                    file.write(f'#!/bin/sh\ncase "$4" in -) {failure};; esac\nexec {BERTH} "$@"\n')
                os.chmod(program, 0o755)
                with open(plugstack) as file:
                    before = file.read()
                self.slurm.put("plugstack.conf", before.replace("berth=" + BERTH, "berth=" + program))
                try:
                    done = self.srun("--gres=gpu:1", "--berth-memory=2G", sys.executable, PROGRAM, "quota", str(2 * GIB))
                finally:
                    self.slurm.put("plugstack.conf", before)
                self.assertEqual(done.stdout, f"0 2 0 {2 * GIB} 2\n0\n", done.stderr + self.slurm.logs())

    def test_a_job_without_the_options_is_not_touched(self):
        done = self.srun("--gres=gpu:1", "sh", "-c", "echo [$LD_PRELOAD] [$BERTH_GUARD]")
        self.assertEqual(done.stdout, "[] []\n", done.stderr)

    def test_a_quota_that_cannot_be_held_is_said(self):
        done = self.srun("--berth-memory=2G", "echo", "ran")
        self.assertEqual(done.stdout, "ran\n")
        self.assertIn("limits not enforced", done.stderr)
        done = self.srun("--gres=gpu:1", "--berth-memory=plenty", "echo", "ran")
        self.assertIn("limits not enforced", done.stderr)

    def test_installing_again_and_removing_leaves_one_line_and_none(self):
        folder = self.slurm.path("other")
        os.makedirs(folder)
        with open(os.path.join(folder, "slurm.conf"), "w") as file:
            file.write("ClusterName=x\n")
        plugstack = os.path.join(folder, "plugstack.conf")
        with open(plugstack, "w") as file:
            file.write("# ours\nrequired /opt/other.so\n")
        words = (BERTH, "slurm", "plugin", "--conf", folder, "--prefix", os.path.join(folder, "lib"))
        for _ in range(2):
            done = self.slurm.run(*words, "--install")
            self.assertEqual(done.returncode, 0, done.stderr)
        with open(plugstack) as file:
            self.assertEqual(file.read(), f"# ours\nrequired /opt/other.so\noptional {folder}/lib/spank_berth.so berth={BERTH}\n")
        self.assertEqual(self.slurm.run(*words, "--remove").returncode, 0)
        with open(plugstack) as file:
            self.assertEqual(file.read(), "# ours\nrequired /opt/other.so\n")
        self.assertFalse(os.path.exists(os.path.join(folder, "lib")))


if __name__ == "__main__":
    unittest.main()
