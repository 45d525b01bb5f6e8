"""Scripts for other launchers run unchanged under `berth run --ranks 2`: those of `accelerate test`, and one as DeepSpeed's guide shows it.

usage: launcher_scripts.py BERTH      (this Python has PyTorch and accelerate; the tests of DeepSpeed are skipped without it)"""
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BERTH = sys.argv.pop(1)

try:
    import accelerate.test_utils
    import torch.distributed  # noqa: F401
    SCRIPTS = os.path.join(os.path.dirname(accelerate.test_utils.__file__), "scripts")
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


class Accelerate(unittest.TestCase):
    def run_script(self, *words):
        return subprocess.run([BERTH, "run", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)

    def test_its_own_test_of_an_installation(self):
        done = self.run_script("--cpu", "--ranks", "2", "--", sys.executable, SCRIPTS + "/test_script.py")
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertIn("Num processes: 2", done.stdout)
        self.assertIn("Training yielded the same results", done.stdout)

    def test_gradient_accumulation(self):
        done = self.run_script("--cpu", "--ranks", "2", "--", sys.executable, SCRIPTS + "/test_sync.py")
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])

    def test_its_launcher_works_inside_and_the_note_says_what_is_needless(self):
        done = self.run_script("--cpu", "--", sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2", "--num_machines", "1",
                               SCRIPTS + "/test_ops.py")
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertIn("instead: berth run --cpu --ranks 2 -- python", done.stderr)


# DeepSpeed compiles a part of itself on its first use, so this takes minutes once.
DEEPSPEED = """
import argparse
import deepspeed
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
args = deepspeed.add_config_arguments(parser).parse_args()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
config = {"train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "Adam", "params": {"torch_adam": True}}, "zero_optimization": {"stage": 1}}
engine, _, _, _ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters(), config=config)
torch.manual_seed(engine.global_rank)
for _ in range(5):
    loss = torch.nn.functional.cross_entropy(engine(torch.randn(4, 16)), torch.randint(0, 4, (4,)))
    engine.backward(loss)
    engine.step()
print("rank", engine.global_rank, "of", engine.world_size, "sum", sum(one.double().sum() for one in engine.module.parameters()).item())
"""


@unittest.skipUnless(importlib.util.find_spec("deepspeed"), "this Python has no DeepSpeed")
class DeepSpeed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.script = os.path.join(folder.name, "train.py")
        with open(self.script, "w") as file:
            file.write(DEEPSPEED)
        # DeepSpeed looks for ninja, numactl and its launcher in PATH.
        self.env = dict(os.environ, DS_ACCELERATOR="cpu", PATH=os.path.dirname(sys.executable) + ":" + os.environ["PATH"])

    def run_it(self, *words):
        done = subprocess.run([BERTH, "run", "--cpu", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        sums = dict(re.findall(r"rank (\d) of 2 sum (\S+)", done.stdout))
        self.assertEqual(set(sums), {"0", "1"}, done.stdout)
        self.assertEqual(sums["0"], sums["1"])  # both ranks have trained one model
        return done

    def test_a_script_runs_unchanged_as_ranks(self):
        self.run_it("--ranks", "2", "--tee", "all", "--", sys.executable, self.script)

    def test_its_launcher_works_inside_and_the_note_says_what_is_needless(self):
        if not shutil.which("numactl"):
            self.skipTest("DeepSpeed's launcher needs numactl on the CPU")
        launcher = os.path.join(os.path.dirname(sys.executable), "deepspeed")
        done = self.run_it("--", launcher, "--num_gpus", "2", self.script)
        self.assertIn("instead: berth run --ranks 2 -- python", done.stderr)


if __name__ == "__main__":
    unittest.main()
