#!/usr/bin/env python3
"""Rules that need the driver's answers, with simulated drivers: they fire on a live machine, and a stuck driver does not block the
doctor.

usage: live_test.py BERTH
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

BERTH = sys.argv[1]
MACHINES = pathlib.Path(__file__).parents[2] / "simulator/machines"
PLAIN = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}


# Some shared library that is not NVML: one that Python itself uses.
OTHER_LIBRARY = pathlib.Path(next(line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines()
                                  if "libm.so" in line or "libc.so" in line))


def doctor(machine, *faults, only=None):
    words = [BERTH, "sim", "--machine", str(machine)]
    for fault in faults:
        words += ["--fault", fault]
    words += ["--", BERTH, "doctor", "--json"] + (["--only", only] if only else [])
    done = subprocess.run(words, env=PLAIN, capture_output=True, text=True, timeout=100)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def found(document):
    return [one["id"] for one in document["findings"]]


class Live(unittest.TestCase):
    def machine(self, name, *changes):
        """A machine file that Berth ships, with these replacements."""
        text = (MACHINES / f"{name}.toml").read_text()
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new, 1)
        folder = tempfile.mkdtemp(dir=self.folder.name)
        path = pathlib.Path(folder) / "machine.toml"
        path.write_text(text)
        return path

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, rule, machine, healthy):
        sick, well = doctor(machine, only=rule), doctor(healthy, only=rule)
        self.assertEqual(set(found(sick)), {rule}, sick)
        self.assertEqual(found(well), [], well)
        self.assertIn(rule, well["checked"], well)

    def test_a_fabric_that_is_not_started(self):
        for state in ("not started", "in progress"):
            machine = self.machine("dgx-h100-8", ("nvlinks = 18", f'nvlinks = 18\nfabric = "{state}"'))
            document = doctor(machine, only="DRV15")
            self.assertEqual(found(document), ["DRV15"], document)
            self.assertIn(state, json.dumps(document))
        for state in ("", '\nfabric = "completed"'):
            machine = self.machine("dgx-h100-8", ("nvlinks = 18", "nvlinks = 18" + state))
            self.assertEqual(found(doctor(machine, only="DRV15")), [])

    def test_a_guest_without_a_licence(self):
        unlicensed = self.machine("vgpu", ("multiprocessors = 84", 'multiprocessors = 84\nvgpu_licence = "unlicensed"'))
        licensed = self.machine("vgpu", ("multiprocessors = 84", 'multiprocessors = 84\nvgpu_licence = "licensed"'))
        self.check("DRV21", unlicensed, licensed)

    def test_retired_pages_that_wait(self):
        self.check("DRV25", self.machine("dgx-a100-8", ("ecc = true", "ecc = true\nretired_pages_pending = true")),
                   "dgx-a100-8")

    def test_confidential_computing_that_is_not_ready(self):
        off, on = 'cuda = "13.0"', 'cuda = "13.0"\nconfidential = '
        self.check("DRV27", self.machine("dgx-h100-8", (off, on + '"not ready"')),
                   self.machine("dgx-h100-8", (off, on + '"ready"')))

    def test_a_lowered_power_limit_and_changed_clocks(self):
        limit = self.machine("dgx-h100-8", ("power_limit_watts = 700", "power_limit_watts = 500\npower_default_watts = 700"))
        self.check("RT04", limit, "dgx-h100-8")
        clock = self.machine("dgx-h100-8", ("nvlinks = 18", "nvlinks = 18\nclock_application_mhz = 900"))
        self.check("RT05", clock, "dgx-h100-8")

    def test_gpus_without_access_to_each_other(self):
        broken = self.machine("dgx-h100-8", ("nvlinks = 18", "nvlinks = 18\npeer_access = false"))
        self.check("RT08", broken, "dgx-h100-8")
        self.assertIn("0-1", json.dumps(doctor(broken, only="RT08")))

    def test_a_small_window_into_memory(self):
        small = self.machine("dgx-h100-8", ('bar1 = "131072MiB"', 'bar1 = "256MiB"'))
        self.check("RT10", small, "dgx-h100-8")

    def test_a_simulated_gpu_that_works_has_a_fast_link(self):
        words = [BERTH, "sim", "--machine", "lab-4x3090", "--processes", "8", "--at", "60", "--", BERTH, "doctor", "--json", "--only", "HW06"]
        done = subprocess.run(words, env=PLAIN, capture_output=True, text=True, timeout=100)
        self.assertEqual(found(json.loads(done.stdout)), [], done.stderr)

    def test_a_desktop_among_others(self):
        shown = self.machine("lab-4x3090", ("memory_bus_width = 384", "memory_bus_width = 384\ndisplay = true"))
        self.assertEqual(set(found(doctor(shown, only="RT09"))), {"RT09"})

    def test_what_a_sick_gpu_does_not_answer_is_not_checked(self):
        document = doctor("dgx-h100-8", "hung:3", only="RT08")
        self.assertEqual(found(document), [])
        self.assertIn("RT08", [one["id"] for one in document["not_checked"]], document)

    def test_a_driver_that_starts_slowly_is_not_checked_and_never_ill(self):
        """Without persistence mode eight GPUs may take half a minute to start. The doctor does not wait so long."""
        asks_driver = {"RT03", "RT04", "RT05", "RT08", "RT10", "DRV19", "DRV20", "DRV25", "DRV26", "DRV27"}
        for name in ("dgx-h100-8", "lab-4x3090"):
            text = (MACHINES / f"{name}.toml").read_text()
            cuda = next(line for line in text.splitlines() if line.startswith("cuda = "))
            slow = self.machine(name, (cuda, cuda + '\ninit = "9s"'))
            document, ready = doctor(slow), doctor(name)
            self.assertLessEqual(set(found(document)), set(found(ready)), document)
            not_checked = {one["id"] for one in document["not_checked"]}
            self.assertLessEqual(asks_driver, not_checked, asks_driver - not_checked)

    def test_a_gpu_that_does_not_answer_is_named_and_no_other_model(self):
        document = doctor("lab-4x3090", "hung:1")
        self.assertEqual(found(document)[0], "DRV30", document)
        self.assertIn("0000:", document["findings"][0]["title"])
        self.assertNotIn("ENV05", found(document))
        self.assertEqual(found(doctor("lab-4x3090", "hung", only="DRV30")), ["DRV30"])
        well = doctor("lab-4x3090", only="DRV30")
        self.assertEqual((found(well), well["checked"]), ([], ["DRV30"]))

    def test_a_driver_that_refuses_is_named(self):
        document = doctor("lab-4x3090", "no-permission")
        self.assertEqual(found(document)[0], "DRV29", document)
        self.assertIn("E0308", json.dumps(document["findings"][0]))

    def test_a_library_that_is_none_is_named(self):
        for error, bytes_of_it in (("E0302", os.urandom(4096)), ("E0303", OTHER_LIBRARY.read_bytes())):
            with self.subTest(error=error), tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / "libnvidia-ml.so.1").write_bytes(bytes_of_it)
                done = subprocess.run([BERTH, "doctor", "--json", "--only", "DRV29"], capture_output=True, text=True,
                                      env={**PLAIN, "LD_LIBRARY_PATH": folder}, timeout=100)
                document = json.loads(done.stdout)
                self.assertEqual(found(document), ["DRV29"], document)
                self.assertIn(error, json.dumps(document["findings"][0]))
                self.assertIn("LD_LIBRARY_PATH", json.dumps(document["findings"][0]["fix"]))

    def test_it_is_quick_and_a_stuck_driver_does_not_hold_it_up(self):
        """The goals are 1.5 s live and 3 s with a stuck driver. The limits here are much larger, because tests share the machine."""
        def seconds(machine, *faults):
            start = time.monotonic()
            doctor(machine, *faults)
            return time.monotonic() - start

        self.assertLess(min(seconds("dgx-h100-8") for _ in range(2)), 15)
        self.assertLess(min(seconds("dgx-h100-8", "hung=all") for _ in range(2)), 25)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
