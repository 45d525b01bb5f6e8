#!/usr/bin/env python3
"""Prolog, epilog and health check of a real Slurm on simulated GPUs. A node with a failed GPU is drained with the reason and gets no job.
It is resumed when the GPU works again. A node that someone else drained stays drained."""
import json
import os
import shutil
import subprocess
import sys
import time
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import slurm_bed  # noqa: E402


def lines(name):
    return subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", BERTH, "slurm", "gres", "--only", name, "--node", "n1"],
                          capture_output=True, text=True, timeout=60, check=True).stdout


@unittest.skipIf(slurm_bed.why_not(), slurm_bed.why_not())
class Node(unittest.TestCase):
    MORE = ("Prolog=FOLDER/prolog", "Epilog=FOLDER/epilog", "PrologFlags=Alloc", "HealthCheckProgram=FOLDER/health", "HealthCheckInterval=1",
            "HealthCheckNodeState=ANY")

    def setUp(self):
        self.slurm = slurm_bed.Slurm(lines("gres.conf"), lines("slurm.conf"), more=self.MORE)
        self.addCleanup(self.slurm.__exit__)
        for word in ("prolog", "epilog", "health"):
            # A site's script would have only the last line. The others simulate a machine with the fault that a file names.
            self.slurm.put(word, f"""#!/bin/sh
[ ! -e {self.slurm.path('off')} ] || [ {word} != health ] || exit 0
fault=$(cat {self.slurm.path('fault')} 2>/dev/null)
exec {BERTH} sim --machine lab-4x3090 $fault -- {BERTH} slurm {word} --json --conf {self.slurm.folder} >>{self.slurm.path(word + '.log')} 2>&1
""")
            os.chmod(self.slurm.path(word), 0o755)
        self.slurm.__enter__()

    def node(self):
        return self.slurm.run("scontrol", "show", "node", "n1", "--oneliner").stdout

    def wait(self, done, what):
        self.slurm.wait(done, what + "\n" + self.node() + "".join(self.log(word) for word in ("prolog", "epilog", "health")))

    def log(self, word):
        if not os.path.exists(self.slurm.path(word + ".log")):
            return ""
        with open(self.slurm.path(word + ".log")) as file:
            return file.read()

    def test_a_failing_gpu_drains_the_node_and_a_healthy_one_resumes_it(self):
        self.slurm.put("fault", "--fault lost:1")
        self.wait(lambda: "DRAIN" in self.node(), "drained node")
        self.assertIn("Reason=berth: GPU 1: ", self.node())
        refused = self.slurm.run("srun", "--immediate=2", "--gres=gpu:1", "true")
        self.assertNotEqual(refused.returncode, 0)
        os.unlink(self.slurm.path("fault"))
        self.wait(lambda: "DRAIN" not in self.node(), "resumed node")
        self.assertEqual(self.slurm.run("srun", "--gres=gpu:4", "true").returncode, 0, self.slurm.logs())
        said = [json.loads(line) for line in self.log("health").splitlines() if line.startswith("{")]
        self.assertEqual([one["action"] for one in said if one["action"] != "none"], ["drained", "resumed"], "each once")

    def test_a_node_that_somebody_else_drained_stays_so(self):
        self.slurm.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=new fans")
        before = self.log("health").count("\n")
        self.wait(lambda: self.log("health").count("\n") >= before + 3, "three health checks")
        self.assertIn("Reason=new fans", self.node())

    def test_a_prolog_keeps_the_job_from_its_own_gpus_alone(self):
        self.slurm.put("off", "")
        self.slurm.put("fault", "--fault lost:3")
        self.assertEqual(self.slurm.run("srun", "--gres=gpu:1", "true").returncode, 0, "GPU 0 is fit")
        self.assertNotIn("DRAIN", self.node())
        ran = self.slurm.path("ran")
        self.slurm.run("sbatch", "-o", "/dev/null", "--gres=gpu:4", f"--wrap=touch {ran}")
        self.wait(lambda: "DRAIN" in self.node(), "drained node")
        self.assertIn("Reason=berth: GPU 3: ", self.node())
        self.assertFalse(os.path.exists(ran))

    def test_a_job_without_a_gpu_asks_no_driver(self):
        self.slurm.put("off", "")
        self.slurm.put("fault", "--fault no-driver")
        self.assertEqual(self.slurm.run("srun", "true").returncode, 0, self.log("prolog"))
        self.assertNotIn("{", self.log("prolog"))


@unittest.skipIf(slurm_bed.why_not(), slurm_bed.why_not())
class Orphans(unittest.TestCase):
    """Jobs leave processes on their GPUs. All programs are in one simulated machine."""

    def setUp(self):
        self.simulation = subprocess.Popen([BERTH, "sim", "--machine", "lab-4x3090", "--", "sh", "-c", "echo $BERTH_SIM_DIR; exec sleep 86400"],
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.simulation.stdout.close)
        self.addCleanup(self.simulation.wait)
        self.addCleanup(self.simulation.terminate)
        sim = self.simulation.stdout.readline().strip()
        self.variables = {"BERTH_SIM_DIR": sim, "LD_LIBRARY_PATH": sim + "/lib"}
        self.slurm = slurm_bed.Slurm(lines("gres.conf"), lines("slurm.conf"), more=("Epilog=FOLDER/epilog",), accounting=self.accounting())
        self.addCleanup(self.slurm.__exit__)
        self.slurm.put("epilog", f"""#!/bin/sh
export BERTH_SIM_DIR={sim} LD_LIBRARY_PATH={sim}/lib
exec {BERTH} slurm epilog --json --conf {self.slurm.folder} >>{self.slurm.path('epilog.log')} 2>&1
""")
        os.chmod(self.slurm.path("epilog"), 0o755)
        self.program = self.slurm.path("take_memory")
        subprocess.run(["cc", "-o", self.program, os.path.join(os.path.dirname(os.path.abspath(__file__)), "kubernetes", "take_memory.c")], check=True)
        self.slurm.__enter__()

    def accounting(self):
        return "accounting" in self._testMethodName and all(shutil.which(one) for one in ("slurmdbd", "mariadbd", "mariadb-install-db"))

    def job(self, start):
        """Runs a job that leaves a process which runs until it is killed. Returns the job's number, and the end of its epilog."""
        pid = self.slurm.path("pid")
        script = f"{start} {self.program} {3 << 30} >/dev/null 2>&1 & echo $! >{pid}; sleep 2; echo $SLURM_JOB_ID"
        done = self.slurm.run("srun", "--gres=gpu:1", "sh", "-c", script, variables=self.variables)
        self.assertEqual(done.returncode, 0, done.stderr + self.slurm.logs())
        self.slurm.wait(lambda: os.path.exists(self.slurm.path("epilog.log")), "epilog")
        self.slurm.wait(lambda: "}" in self.log(), "end of the epilog")
        with open(pid) as file:
            self.pid = int(file.read())
        return done.stdout.strip(), json.loads(self.log().splitlines()[-1])

    def log(self):
        with open(self.slurm.path("epilog.log")) as file:
            return file.read()

    def lives(self):
        return os.path.exists(f"/proc/{self.pid}") and "Z" not in open(f"/proc/{self.pid}/stat").read().rsplit(")")[1].split()[:1]

    def node(self):
        return self.slurm.run("scontrol", "show", "node", "n1", "--oneliner").stdout

    def test_they_are_ended_and_the_job_says_so(self):
        number, said = self.job("setsid")
        self.assertEqual((said["orphans_ended"], said["left"], said["action"]), (1, None, "none"))
        self.assertFalse(self.lives())
        self.assertTrue(number.isdigit())
        self.assertNotIn("DRAIN", self.node())

    def test_what_cannot_be_told_to_be_the_jobs_stays_and_drains_the_node_until_it_ends(self):
        hidden = " ".join(f"{name}={value}" for name, value in self.variables.items())
        _, said = self.job(f"setsid env -i {hidden}")
        self.assertEqual((said["orphans_ended"], said["action"]), (0, "drained"))
        self.assertTrue(self.lives(), "a process was ended that may be somebody else's")
        self.slurm.wait(lambda: "Reason=berth: GPU 0: take_memory (pid" in self.node(), "reason\n" + self.node())
        health = (BERTH, "slurm", "health", "--json", "--node", "n1", "--conf", self.slurm.folder)
        self.assertEqual(json.loads(self.slurm.run(*health, variables=self.variables).stdout)["action"], "none")
        self.assertIn("DRAIN", self.node())
        os.kill(self.pid, 9)
        self.slurm.wait(lambda: json.loads(self.slurm.run(*health, variables=self.variables).stdout)["action"] == "resumed", "resumed node")
        self.assertNotIn("DRAIN", self.node())

    def test_the_jobs_summary_is_in_the_accounting_and_another_comment_is_kept(self):
        if not self.slurm.accounting:
            self.skipTest("not installed: slurmdbd or mariadb-server")
        numbers = []
        for own in ("", "scontrol update JobId=$SLURM_JOB_ID AdminComment=paid; "):
            script = own + f"setsid {self.program} {3 << 30} >/dev/null 2>&1 & sleep 2; echo $SLURM_JOB_ID"
            done = self.slurm.run("srun", "--gres=gpu:1", "sh", "-c", script, variables=self.variables)
            numbers.append(done.stdout.strip())

        def comments():
            shown = self.slurm.run("sacct", "-X", "-n", "-P", "-o", "jobid,admincomment", "-j", ",".join(numbers)).stdout
            return dict(line.split("|") for line in shown.splitlines())
        self.slurm.wait(lambda: comments().get(numbers[0]) == "berth: gpus=0 orphans_ended=1 left=none health=ok", f"comment, but {comments()}")
        self.slurm.wait(lambda: comments().get(numbers[1]) == "paid", f"kept comment, but {comments()}")


class Hostile(unittest.TestCase):
    def run_word(self, word, **variables):
        return subprocess.run([BERTH, "slurm", word], env={"PATH": "/nowhere", **variables}, capture_output=True, text=True, timeout=60)

    def test_variables_are_names_and_numbers_or_refused(self):
        for node in ("", "-x", "n1;reboot", "n1 State=RESUME", "$(id)", "x" * 300):
            self.assertEqual(self.run_word("health", SLURMD_NODENAME=node).returncode, 2, node)
        for job, uid in (("7;id", "0"), ("-7", "0"), ("7", "x"), ("9" * 30, "0"), ("", "")):
            done = self.run_word("epilog", SLURMD_NODENAME="n1", SLURM_JOB_GPUS="0", SLURM_JOB_ID=job, SLURM_JOB_UID=uid)
            self.assertNotIn("orphans ended", done.stdout)
        for gpus in ("0;id", "$(id)", "GPU-1", "9" * 5000):
            self.assertEqual(self.run_word("prolog", SLURMD_NODENAME="n1", SLURM_JOB_GPUS=gpus).returncode, 2, gpus)

    def test_it_ends_in_time_where_slurm_does_not_answer(self):
        begun = time.monotonic()
        done = self.run_word("health", SLURMD_NODENAME="n1", SLURM_CONF="/nowhere/slurm.conf", LD_PRELOAD="/nowhere.so")
        self.assertNotEqual(done.returncode, 0)
        self.assertLess(time.monotonic() - begun, 40)


if __name__ == "__main__":
    unittest.main()
