#!/usr/bin/env python3
"""Jobs over three nodes of a real Slurm, three slurmd on this host: each node's `berth run` finds its rank and its peers, and each task has its own
quota and report."""
import json
import os
import subprocess
import sys
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
GIB = 1 << 30
PYTHON = "/usr/bin/python3"
sys.path.insert(0, HERE)
import slurm_bed  # noqa: E402

ALL_REDUCE = """
import torch
import torch.distributed as distributed
distributed.init_process_group("gloo")
value = torch.tensor([distributed.get_rank() + 1.0])
distributed.all_reduce(value)
print("sum", value.item(), flush=True)
"""


def lines(name):
    done = subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", BERTH, "slurm", "gres", "--only", name, "--node", "n1"],
                          capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@unittest.skipIf(slurm_bed.why_not(), slurm_bed.why_not())
class Nodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.slurm = slurm_bed.Slurm(lines("gres.conf"), lines("slurm.conf"), others=("n2", "n3"))
        cls.addClassCleanup(cls.slurm.__exit__)
        cls.plugin = cls.slurm.run(BERTH, "slurm", "plugin", "--install", "--conf", cls.slurm.folder, "--prefix", cls.slurm.path("lib"))
        cls.slurm.put("hosts", "127.0.0.1\tlocalhost n1 n2 n3\n")
        cls.slurm.put("reduce.py", ALL_REDUCE)
        cls.slurm.__enter__()

    def srun(self, *words):
        return self.slurm.run(BERTH, "sim", "--machine", "lab-4x3090", "--", "srun", "--nodes", "3", "--ntasks-per-node", "1", *words, cwd=self.slurm.folder)

    def report(self, name):
        with open(self.slurm.path(name)) as file:
            return json.load(file)

    def test_each_task_has_its_own_quota_and_report_on_its_own_node(self):
        self.assertEqual(self.plugin.returncode, 0, self.plugin.stderr)
        done = self.srun("--gres=gpu:1", "--berth-memory=2G", "--berth-report=three-%t.json", sys.executable,
                         os.path.join(HERE, "..", "guard", "program.py"), "quota", str(2 * GIB))
        self.assertEqual(done.stdout, f"0 2 0 {2 * GIB} 2\n0\n" * 3, done.stderr + self.slurm.logs())
        reports = [self.report(f"three-{rank}.json") for rank in range(3)]
        self.assertEqual([(one["engine"]["node"], one["engine"]["rank"]) for one in reports], [("n1", 0), ("n2", 1), ("n3", 2)])
        self.assertEqual({one["isolation"]["by"] for one in reports}, {"guard"})

    def test_a_node_that_is_drained_leaves_the_others(self):
        self.slurm.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=berth: GPU 1: lost")
        done = self.slurm.run("srun", "--nodes", "2", "--gres=gpu:1", "printenv", "SLURMD_NODENAME")
        self.assertEqual(sorted(done.stdout.split()), ["n1", "n3"], done.stderr)
        self.slurm.run("scontrol", "update", "NodeName=n2", "State=RESUME")

    @unittest.skipUnless(subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True).returncode == 0, "no PyTorch")
    def test_the_ranks_of_three_nodes_meet_and_reduce(self):
        # The names of the nodes lead to this host for the job alone.
        own_hosts = f"mount --bind {self.slurm.path('hosts')} /etc/hosts; exec {BERTH} run --cpu --ranks 1 -- {PYTHON} {self.slurm.path('reduce.py')}"
        done = self.srun("unshare", "--mount", "sh", "-ec", own_hosts)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"[rank {rank}] sum 6.0" for rank in range(3)], done.stderr + self.slurm.logs())


if __name__ == "__main__":
    unittest.main()
