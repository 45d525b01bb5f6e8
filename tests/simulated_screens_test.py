#!/usr/bin/env python3
"""All screens on every simulated machine, in both languages: they work, no line is wider than 100 columns, everything is translated, JSON
matches docs/json.md, and each fault is reported.

usage: simulated_screens_test.py BERTH"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unicodedata
import unittest

import check_json_docs
from checking import ROOT, skip  # check_json_docs puts scripts/ on the path

try:
    import polib
except ImportError:
    skip("python3-polib is not installed for this Python")

BERTH = str(pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else "build/dev/berth").resolve())
SCREENS = {"berth": "", "ls": "ls", "ps": "ps", "details": "ls --details", "wide": "ls --wide"}
JSON = {"berth --json": "--json", "berth ls --json": "ls --json", "berth ps --json": "ps --json"}


def width(line: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def sentences() -> list[str]:
    """Berth's own English sentences with at least three words, so that a command line does not contain one by chance."""
    found = []
    for path in (ROOT / "po/zh_CN").glob("*.po"):
        for entry in polib.pofile(str(path)):
            for part in re.split(r"\{[^{}]*\}", entry.msgid_plural or entry.msgid):
                if re.search(r"[a-z]+ [a-z]+ [a-z]+", part) and "berth" not in part:
                    found.append(part.strip())
    return found


def simulate(machine: str, *options: str) -> dict[str, str]:
    """Every screen and document of a machine, from one simulation in which time stands still."""
    with tempfile.TemporaryDirectory() as folder:
        lines = ["set -e"]
        for name, words in SCREENS.items():
            for lang in ("en", "zh"):
                lines.append(f'"$B" {words} --lang {lang} > "{folder}/{name} {lang}"')
        for name, words in JSON.items():
            lines.append(f'"$B" {words} > "{folder}/{name}"')
        env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "BERTH_OPENCL_LIBRARY": "", "B": BERTH, "COLUMNS": "100",
               "XDG_RUNTIME_DIR": folder, "HOME": folder}
        command = [BERTH, "sim", "--machine", machine, "--at", "100", *options, "--", "sh", "-c", "\n".join(lines)]
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=100)
        if done.returncode != 0:
            raise AssertionError(f"{machine} {options}: exit code {done.returncode}: {done.stderr}")
        return {path.name: path.read_text() for path in pathlib.Path(folder).iterdir() if path.is_file()}


def machines() -> list[str]:
    listed = subprocess.run([BERTH, "sim", "--list", "--lang", "en"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines()[1:] if line.strip()]


class Screens(unittest.TestCase):
    def check(self, pages: dict[str, str]):
        english = sentences()
        rows = check_json_docs.sections((ROOT / "docs/json.md").read_text())
        for name, page in pages.items():
            if name in JSON:
                problems = check_json_docs.problems_of(name, rows[name], [json.loads(page)])
                self.assertEqual([p for p in problems if ": no document has" not in p], [])
                continue
            for line in page.splitlines():
                self.assertLessEqual(0 if name.startswith("wide") else width(line), 100, line)
                self.assertEqual(line, line.rstrip())
            if name.endswith(" zh"):
                self.assertEqual([s for s in english if s in page], [], name)

    def test_every_machine(self):
        names = machines()
        self.assertGreaterEqual(len(names), 13)
        for machine in names:
            with self.subTest(machine=machine):
                pages = simulate(machine, "--processes", "0" if machine == "none" else "12")
                self.check(pages)
                self.assertIn("simulated", pages["berth en"])
                self.assertLessEqual(len(pages["berth en"].splitlines()), 24)

    def test_every_fault_is_said(self):
        said = {"lost:1": "lost", "hung:1": "no answer", "throttle:1": "degraded", "ecc:1": "degraded", "remap:1": "degraded",
                "no-driver": "E03", "mismatch": "E03", "no-permission": "E03",
                "no-permission:1": "no permission", "zombie:1": "no process accounts for"}
        for fault, word in said.items():
            with self.subTest(fault=fault):
                pages = simulate("dgx-h100-8", "--processes", "4", "--fault", fault)
                self.check(pages)
                screen = pages["ps en"] if fault.startswith("zombie") else pages["ls en"]
                self.assertIn(word, screen)
                self.assertNotEqual(json.loads(pages["berth --json"])["problems"], [])
                if fault.endswith(":1"):
                    device = json.loads(pages["berth --json"])["devices"][1]
                    self.assertNotEqual(device["state"], "free", fault)
                if word in ("lost", "no answer", "no permission"):
                    self.assertIn("GPU 1: its users are not known", pages["ps en"])
                if word == "no answer":
                    health = [d["health"] for d in json.loads(pages["berth ls --json"])["devices"]]
                    self.assertEqual(health[:4], ["ok", "no answer", "ok", "ok"])

    def test_a_gpu_that_its_driver_does_not_reach_is_no_stranger(self):
        for fault in ("no-driver", "mismatch", "no-permission"):
            with self.subTest(fault=fault):
                pages = simulate("lab-4x3090", "--fault", fault)
                self.check(pages)
                self.assertNotIn("not managed", pages["berth en"])
                self.assertIn("4 × RTX 3090 (the driver cannot access it)", pages["berth en"])
                self.assertNotIn("managed", pages["details en"])
                for name in ("berth --json", "berth ls --json"):
                    device = json.loads(pages[name])["devices"][0]
                    self.assertEqual(device.get("state", "problem"), "problem")
                    self.assertTrue(device.get("managed", True))
                    self.assertIn("driver_unreachable", device.get("health_reasons", ["driver_unreachable"]))

    def test_an_identifier_is_never_alone_on_its_line(self):
        for fault in ("no-driver", "mismatch", "no-permission", "hung"):
            pages = simulate("lab-4x3090", "--fault", fault)
            for name, page in pages.items():
                self.assertEqual(re.findall(r"^ *\(E\d+\)$", page, re.M), [], name)

    def test_numbers_of_devices_stand_below_each_other(self):
        page = simulate("hgx-h200-16", "--processes", "4")["berth en"]
        self.assertRegex(page, r"(?m)^  0  ▇")
        self.assertRegex(page, r"(?m)^  4  free    ")

    def test_a_machine_without_devices_has_none_that_could_wake(self):
        done = subprocess.run([BERTH, "sim", "--machine", "none", "--processes", "6", "--lang", "en", "--", "true"],
                              capture_output=True, text=True, timeout=60)
        self.assertIn("no device that a process could use", done.stderr)

    def test_the_machine_file_of_the_guide_is_one(self):
        page = (pathlib.Path(__file__).parents[1] / "docs/simulator.md").read_text(encoding="utf-8")
        with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
            file.write(re.search(r"```toml\n(.*?)```", page, re.S)[1])
            file.flush()
            done = subprocess.run([BERTH, "sim", "--describe", file.name, "--lang", "en"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("1 partition\n", done.stdout)

    def test_filters_choose_among_many(self):
        script = '"$B" ls --device 1,3 --json; "$B" ls --device GPU- --json; "$B" ps --device 2 --sort memory --json'
        done = subprocess.run([BERTH, "sim", "--machine", "dgx-h100-8", "--at", "5", "--processes", "24", "--", "sh", "-c", script],
                              capture_output=True, text=True, timeout=60, env={**os.environ, "B": BERTH, "LC_ALL": "C.UTF-8"})
        some, processes = (json.loads(line) for line in done.stdout.splitlines())
        self.assertEqual([device["index"] for device in some["devices"]], [1, 3])
        self.assertEqual(json.loads(done.stderr)["error"]["id"], "E0415")
        memory = [process["memory_bytes"] for process in processes["processes"]]
        self.assertEqual({process["device"] for process in processes["processes"]}, {2})
        self.assertEqual(memory, sorted(memory, reverse=True))
        self.assertGreater(len(memory), 1)


if __name__ == "__main__":
    unittest.main()
