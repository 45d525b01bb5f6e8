"""`berth.launch` and `berth.stacks`, on a simulated machine.

usage: test_launching.py BERTH LIBRARY
"""
import importlib.util
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from on_a_machine import OnAMachine, main  # noqa: E402

import berth  # noqa: E402,F401

SCRIPT = """
import os, sys
import berth

def work(factor, offset=0):
    return int(os.environ["RANK"]) * factor + offset, os.environ["WORLD_SIZE"], os.environ.get("CUDA_VISIBLE_DEVICES")

def fails():
    if os.environ["RANK"] == "1":
        raise ValueError("of rank 1")

def gives_what_cannot_be_sent():
    return lambda: 1

if __name__ == "__main__":
    print(berth.launch(work, (10,), {"offset": 1}, ranks=3, gpus=0))
    print(berth.launch(work, (1,), ranks="gpu"))
    print(berth.launch(work, (1,), ranks="2:9"))
    for function in (fails, gives_what_cannot_be_sent):
        try: berth.launch(function, ranks=2, gpus=0)
        except berth.BerthError as problem: print(problem.id, "rank" in str(problem), "of rank 1" in str(problem), "pickle.dump" in str(problem), "_run_rank" in str(problem))
    for call in (lambda: berth.launch(lambda: 1, ranks=2), lambda: berth.launch(work, ranks="many"), lambda: berth.launch(work, ranks=2, gpus=9)):
        try: call()
        except berth.BerthError as problem: print(type(problem).__name__, problem.id)
"""


class Launching(OnAMachine):
    machine = "lab-4x3090"

    def test_a_function_of_a_script_runs_in_each_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "train.py")
            path.write_text(SCRIPT)
            said = self.prints(f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, {str(path)!r}], stderr=subprocess.DEVNULL).returncode)")
        lines = said.splitlines()
        self.assertEqual(lines[0], "[(1, '3', '-1'), (11, '3', '-1'), (21, '3', '-1')]")
        self.assertEqual(lines[1], str([(rank, "4", "0,1,2,3") for rank in range(4)]))
        self.assertEqual(lines[2], lines[1])
        self.assertEqual(lines[3:5], ["E0951 True True False False", "E0951 True False True True"])
        self.assertEqual(lines[5:], ["InvalidRequest E0551", "InvalidRequest E0104", "NoDevice E0411"])

    def test_a_program_without_the_guard_of_main_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "train.py")
            path.write_text("import berth\ndef work(): pass\nberth.launch(work, ranks=2, gpus=0)\n")
            said = self.prints(f"import subprocess, sys; print(subprocess.run([sys.executable, {str(path)!r}], capture_output=True, text=True).stderr)")
        self.assertIn("E0952", said)
        self.assertIn('if __name__ == "__main__":', said)

    @unittest.skipUnless(importlib.util.find_spec("cloudpickle"), "cloudpickle is not installed")
    def test_a_function_of_a_notebook_runs_in_each_rank(self):
        self.assertEqual(self.prints("def f(): return 7\nprint(berth.launch(f, ranks=2, gpus=0))"), "[7, 7]\n")

    @unittest.skipIf(importlib.util.find_spec("cloudpickle"), "cloudpickle is installed")
    def test_a_notebook_needs_cloudpickle(self):
        self.assertEqual(self.prints("""
            def f(): return 7
            try: berth.launch(f, ranks=2, gpus=0)
            except berth.Unsupported as problem: print(problem.id, problem.hint)
            """), "E0568 pip install cloudpickle\n")

    def test_stacks_say_where_a_process_is(self):
        self.assertEqual(self.prints("""
            import os
            mine = [one for one in berth.stacks() if one["pid"] == os.getpid()][0]
            print(len(mine["threads"]) > 0, mine["python"])
            try: berth.stacks(2**30)
            except berth.NotFound as problem: print(problem.id)
            """), "True None\nE0532\n")

    def test_the_examples_are_true(self):
        self.assertEqual(self.prints("""
            import doctest, berth.launching
            found = doctest.testmod(berth.launching)
            print(found.failed, found.attempted > 0)
            """), "0 True\n")


if __name__ == "__main__":
    main()
