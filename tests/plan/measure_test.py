#!/usr/bin/env python3
"""`berth plan measure` on ten small models on the CPU: its estimate at twice the batch, and at twice the sequence length, against the peak of the
allocator in a run of that size. Prints the table. Three of the models, or all with BERTH_SOAK=1.

usage: measure_test.py BERTH LIBRARY-THAT-COUNTS-ALLOCATIONS
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BERTH = COUNTER = ""
HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
MODELS = {"lenet": (32,), "vgg": (16,), "resnet": (16,), "mobilenet": (16,), "densenet": (16,), "unet": (8,), "vit": (16,), "lstm": (16, 32),
          "gpt": (8, 64), "bert": (16, 64)}
if not os.environ.get("BERTH_SOAK"):
    MODELS = {name: MODELS[name] for name in ("lenet", "mobilenet", "lstm")}
MOST_ERROR = 0.05
STEPS = ("import torch\nm = torch.nn.Linear(9, 9)\no = torch.optim.SGD(m.parameters(), 0.1)\n"
         "for i in range({}):\n    m(torch.randn(5, 9)).sum().backward()\n    o.step()\n")
OTHER_SIZES = ("import torch\nm = torch.nn.Linear(9, 9)\no = torch.optim.SGD(m.parameters(), 0.1)\n"
               "data = [torch.randn(1 + i % 5, 9) for i in range(500)]\nfor one in torch.utils.data.DataLoader(data, batch_size=None):\n"
               "    m(one).sum().backward()\n    o.step()\n")


def torch_is_here():
    return subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode == 0


class Measure(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8", "BERTH_STATE_DIR": folder.name,
                            "BERTH_RUNTIME_DIR": os.path.join(folder.name, "run"), "TMPDIR": folder.name}

    def berth(self, *words):
        return subprocess.run([BERTH, *map(str, words)], capture_output=True, text=True, timeout=110, env=self.environment, cwd=self.folder)

    def measure(self, *command, options=()):
        done = self.berth("plan", "measure", "--cpu", "--json", *options, "--", *command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def truth(self, *words):
        peak = self.folder / "peak"
        environment = {**self.environment, "LD_PRELOAD": COUNTER, "BERTH_ALLOCATOR_PEAK": str(peak)}
        subprocess.run([PYTHON, HERE / "small_models.py", *map(str, words)], check=True, capture_output=True, timeout=110, env=environment)
        return int(peak.read_text())

    def program(self, code):
        path = self.folder / "train.py"
        path.write_text(code)
        return PYTHON, path

    def test_the_peak_at_twice_the_batch(self):
        print(f"\n{'model':10} {'batch':>5} {'estimate':>12} {'truth':>12} {'error':>7}")
        for name, (batch, *tokens) in MODELS.items():
            with self.subTest(name):
                found = self.measure(PYTHON, HERE / "small_models.py", name, batch, *tokens)
                peaks = {(one["batch"], one["seq"]): one for one in found["peaks"]}
                self.assertTrue(peaks[batch, *tokens or [None]]["measured"])
                wanted = [(2 * batch, *tokens)] + [(batch, 2 * one) for one in tokens]
                for size in wanted:
                    one = peaks[size if tokens else (*size, None)]
                    self.assertFalse(one["measured"])
                    truth = self.truth(name, *size)
                    error = one["peak_bytes"] / truth - 1
                    shown = "×".join(map(str, size))
                    print(f"{name:10} {shown:>5} {one['peak_bytes']:12} {truth:12} {100 * error:6.2f} %", flush=True)
                    self.assertLess(abs(error), MOST_ERROR, f"{name} {size}")

    def test_a_program_with_placeholders_is_run_with_other_sizes(self):
        found = self.measure(PYTHON, HERE / "small_models.py", "lenet", "{batch}", options=("--batch", 64))
        peaks = {one["batch"]: one for one in found["peaks"]}
        self.assertTrue(peaks[32]["measured"])
        truth = self.truth("lenet", 128)
        self.assertLess(abs(peaks[128]["peak_bytes"] / truth - 1), MOST_ERROR)

    def test_run_warns_when_the_lease_is_too_small(self):
        command = self.program("import torch\nm = torch.nn.Linear(9, 9)\no = torch.optim.SGD(m.parameters(), 0.1)\n"
                               "for i in range(9):\n    m(torch.randn(5, 9)).sum().backward()\n    o.step()\nprint('end')")
        found = self.measure(*command)
        self.assertIsNone(found["batch"])
        self.assertEqual([one["batch"] for one in found["peaks"]], [None])
        self.assertIn("{batch}", found["note"])
        warned = self.berth("run", "--memory", "64MiB", "--dry-run", "--", *command)
        self.assertIn("`berth plan measure` found", warned.stderr)
        for enough in (("--memory", "4GiB"), ("--cpu",)):
            self.assertNotIn("plan measure", self.berth("run", *enough, "--dry-run", "--", *command).stderr)
        self.assertNotIn("plan measure", self.berth("run", "--memory", "64MiB", "--dry-run", "--", *command, "other").stderr)

    def test_a_program_that_cannot_be_recorded_says_why(self):
        for code, why in (("print(1)", "did not import torch"), ("import torch\nraise SystemExit(7)", "exit code 7"),
                          ("import torch", "ended before 6 optimizer steps"), (STEPS.format(5), "ended before 6 optimizer steps"),
                          (OTHER_SIZES, "its batches have different sizes")):
            done = self.berth("plan", "measure", "--cpu", "--", *self.program(code))
            self.assertIn(why, done.stderr)
            self.assertIn("E0954", done.stderr)
            self.assertNotEqual(done.returncode, 0)
        done = self.berth("plan", "measure", "--", "train", "{seq}")
        self.assertIn("E0961", done.stderr)

    def test_six_steps_are_enough(self):
        self.assertEqual(len(self.measure(*self.program(STEPS.format(6)))["peaks"]), 1)

    def test_other_processes_that_import_torch_do_not_overwrite_the_recording(self):
        other = "import subprocess, sys\nif len(sys.argv) < 2:\n    child = subprocess.Popen([sys.executable, sys.argv[0], 'late'])\n"
        late = "if len(sys.argv) > 1:\n    import time; time.sleep(1); import torch; raise SystemExit\n"
        wait = "    if i == 5:\n        child.wait()\n"
        self.assertEqual(len(self.measure(*self.program(other + late + STEPS.format(6)))["peaks"]), 1)
        self.assertEqual(len(self.measure(*self.program(other + late + STEPS.format(7) + wait))["peaks"]), 1)

    def test_a_size_that_fails_leaves_the_others(self):
        fails = "import sys, torch\nif int(sys.argv[1]) < 32:\n    raise SystemExit(3)\n" + STEPS.format(9)
        found = self.measure(*self.program(fails), "{seq}", options=("--seq", 64))
        self.assertEqual([(one["seq"], one["measured"]) for one in found["peaks"] if one["measured"]], [(64, True), (32, True)])
        self.assertIn("exit code 3", found["note"])

    def test_the_largest_batch_is_for_the_length_that_is_asked_for(self):
        ask = ("--gpu", "RTX 4090")
        own, long = (self.measure(PYTHON, HERE / "small_models.py", "lstm", 16, 32, options=(*ask, *more))["gpu"]["largest_batch"]
                     for more in ((), ("--seq", 320)))
        self.assertLess(long, own / 4)

    def test_the_picture_of_costs_is_xml_with_the_break_even(self):
        picture = self.folder / "cost.svg"
        done = self.berth("plan", "cost", "--gpu", "L4", "--card-price", 2600, "--json", "--svg", picture)
        months = json.loads(done.stdout)["rent"]["on_demand_break_even_months"]
        words = [one.text for one in xml.etree.ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn(f"{months:.1f}", words)
        self.assertIn("rent with reservation: not known", words)

    def test_the_programs_own_end_does_not_run(self):
        command = self.program("import atexit, torch\natexit.register(lambda: open('saved', 'w'))\nm = torch.nn.Linear(9, 9)\n"
                               "o = torch.optim.SGD(m.parameters(), 0.1)\n"
                               "for i in range(99):\n    m(torch.randn(5, 9)).sum().backward()\n    o.step()\n")
        self.measure(*command)
        self.assertFalse((self.folder / "saved").exists())
        self.assertEqual([one for one in os.listdir(self.folder) if one.startswith("berth-compare-")], [])


if __name__ == "__main__":
    BERTH, COUNTER = map(os.path.abspath, sys.argv[1:3])
    if not torch_is_here():
        print(f"skipped: {PYTHON} has no PyTorch")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
