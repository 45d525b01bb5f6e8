"""Scripts that other launchers come with run unchanged under `berth run --ranks 2`: those of `accelerate test`.

usage: launcher_scripts.py BERTH      (this Python has PyTorch and accelerate)"""
import os
import subprocess
import sys
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


if __name__ == "__main__":
    unittest.main()
