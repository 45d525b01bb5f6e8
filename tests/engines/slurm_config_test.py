#!/usr/bin/env python3
"""A real Slurm accepts the output of `berth slurm gres` and gives its GPUs to jobs; `berth slurm check` finds differences."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import slurm_bed  # noqa: E402


def berth(*words, machine="lab-4x3090"):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "CUDA_", "SLURM_"))}
    return subprocess.run([BERTH, "sim", "--machine", machine, "--", BERTH, *words], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, env={**environment, "LANG": "C"})


def lines(name, *more):
    done = berth("slurm", "gres", "--only", name, *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Config(unittest.TestCase):
    def test_one_document_has_all_files(self):
        done = json.loads(berth("slurm", "gres", "--json", "--shards", "2").stdout)
        self.assertEqual(done["gres"], "gpu:rtx_3090:4,shard:8")
        self.assertEqual([one["files"] for one in done["gpus"]], [[f"/dev/nvidia{n}"] for n in range(4)])
        self.assertEqual(done["gres_conf"][0], "Name=gpu Type=rtx_3090 File=/dev/nvidia[0-3]")

    def test_each_difference_is_named_with_its_fix_and_code_1(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("slurm.conf", "gres.conf", "cgroup.conf"):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(lines(name, "--node", "n1"))
            good = berth("slurm", "check", "--conf", folder, "--node", "n1")
            self.assertEqual((good.returncode, good.stdout), (0, f"the configuration in {folder} matches this machine\n"), good.stderr)
            with open(os.path.join(folder, "gres.conf"), "w") as file:
                file.write("NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-2]\n")
            bad = berth("slurm", "check", "--conf", folder, "--node", "n1", "--json")
            self.assertEqual(bad.returncode, 1)
            found = {one["id"]: one for one in json.loads(bad.stdout)["differences"]}
            self.assertEqual(set(found), {"type_differs", "file_not_listed"})
            self.assertEqual(found["file_not_listed"]["fix"], "Name=gpu Type=rtx_3090 File=/dev/nvidia3")

    def test_wrong_words(self):
        self.assertEqual(berth("slurm").returncode, 2)
        self.assertEqual(berth("slurm", "gres", "--shards", "0").returncode, 2)
        self.assertEqual(berth("slurm", "check", "--conf", "/nowhere").returncode, 1)
        self.assertEqual(berth("slurm", "gres", machine="none").returncode, 3)


@unittest.skipIf(slurm_bed.why_not(), slurm_bed.why_not())
class RealSlurm(unittest.TestCase):
    def test_slurm_takes_the_lines_and_gives_the_gpus_to_jobs(self):
        with slurm_bed.Slurm(lines("gres.conf", "--node", "n1", "--shards", "4"),
                             lines("slurm.conf", "--node", "n1", "--shards", "4")) as slurm:
            node = slurm.run("scontrol", "show", "node", "n1").stdout
            self.assertIn("Gres=gpu:rtx_3090:4", node)
            self.assertRegex(node, r"shard:(rtx_3090:)?16")
            job = slurm.run("srun", "--gres=gpu:rtx_3090:2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
            self.assertEqual((job.returncode, job.stdout), (0, "0,1\n"), job.stderr + slurm.logs())
            part = slurm.run("srun", "--gres=shard:1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $SLURM_SHARDS_ON_NODE")
            self.assertEqual(part.stdout, "0 1\n", part.stderr)
            none = slurm.run("srun", "--immediate=5", "--gres=gpu:rtx_3090:5", "true")
            self.assertNotEqual(none.returncode, 0)


if __name__ == "__main__":
    unittest.main()
