#!/usr/bin/env python3
"""The shipped files for Prometheus and Grafana use only existing metrics, and promtool accepts the rules.

usage: rules_test.py BERTH"""
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/broker"))
from machine import Client, switch_off, switch_on, wait_until  # noqa: E402

BERTH = str(pathlib.Path(sys.argv.pop(1)).resolve())
RULES = ROOT / "integrations/prometheus/rules.yml"
SUMMARY = ROOT / "integrations/prometheus/node-summary.yml"
NAME = re.compile(r"\b(?:berth|DCGM)_\w+")


class Shipped(unittest.TestCase):
    def exported(self):
        """The names of `berth exporter --once`, and those of a broker, which has a queue and Xids too."""
        shell, variables = switch_on(BERTH, "dgx-h100-8", "--processes", "8", "--fault", "xid:3@2=79")
        self.addCleanup(switch_off, shell)
        once = subprocess.run([BERTH, "exporter", "--once"], env=variables, capture_output=True, text=True, check=True).stdout
        served = ""

        def has_xid():
            nonlocal served
            with contextlib.closing(Client(pathlib.Path(variables["BERTH_RUNTIME_DIR"]) / "berth.sock")) as client:
                client.request("GET", "/metrics")
                served = client.getresponse().read().decode()
            return 'xid="79"' in served

        with subprocess.Popen([BERTH, "serve"], env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as broker:
            try:
                self.assertIn("serving at", broker.stdout.readline())
                self.assertTrue(wait_until(has_xid, 60), served)
            finally:
                broker.terminate()
        lines = (once + served).splitlines()
        # No job runs here, so there are no series of jobs.
        return {re.split("[{ ]", line)[0] for line in lines if line and not line.startswith("#")} | {line.split()[2] for line in lines
                                                                                                      if line.startswith("# TYPE berth_job_")}

    def test_rules_and_dashboard_ask_for_metrics_that_exist(self):
        exported = self.exported()
        board = json.loads((ROOT / "integrations/grafana/berth.json").read_text())
        asked = {name for panel in board["panels"] for target in panel["targets"] for name in NAME.findall(target["expr"])}
        for line in (RULES.read_text() + SUMMARY.read_text()).splitlines():
            if "expr:" in line or line.startswith("          "):
                asked |= set(NAME.findall(line.split("summary:")[0].split("description:")[0]))
        self.assertGreater(len(asked), 15)
        self.assertEqual(sorted(asked - exported), [])

    def test_the_page_about_metrics_names_all_of_them(self):
        page = (ROOT / "docs/watch.md").read_text()
        # The page's tables omit the common prefix of the names.
        missing = [name for name in sorted(self.exported())
                   if name not in page and not any(f"`{part}" in page for part in (name.removeprefix("berth_device_"),))
                   and name.removesuffix("_max").removeprefix("berth_device_") not in page and not name.startswith("berth_sampler_")]
        self.assertEqual(missing, [])

    def test_hot_is_the_same_temperature_as_in_the_built_in_rule(self):
        limit = re.search(r"kTooHot = (\d+);", (ROOT / "src/watch/health.hpp").read_text()).group(1)
        self.assertIn(f"expr: berth_device_temperature_celsius > {limit}\n", RULES.read_text())

    def test_promtool_agrees_with_the_rules(self):
        if shutil.which("promtool") is None:
            self.skipTest("promtool is not installed (apt-get install prometheus)")
        with tempfile.TemporaryDirectory() as folder:
            for one in (RULES, SUMMARY, ROOT / "tests/watch/rules_test.yml"):
                shutil.copy(one, folder)
            for words in (["check", "rules", "rules.yml"], ["check", "rules", "node-summary.yml"], ["test", "rules", "rules_test.yml"]):
                done = subprocess.run(["promtool", *words], cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
