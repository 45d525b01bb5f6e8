#!/usr/bin/env python3
"""`berth exporter` on simulated machines: formats, access, driver calls per scrape, and promtool's checks.

usage: exporter_test.py BERTH"""
import contextlib
import http.client
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "broker"))
from machine import switch_off, switch_on, wait_until  # noqa: E402
from ports import free_port  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BERTH = str(pathlib.Path(sys.argv.pop(1)).resolve())


def value(text, name, **labels):
    """The value of the only series with this name and these labels."""
    found = [line for line in text.splitlines() if line.startswith((name + "{", name + " "))
             and all(f'{key}="{want}"' in line for key, want in labels.items())]
    assert len(found) == 1, (name, labels, found)
    return float(found[0].rsplit(" ", 1)[1])


class Exporter(unittest.TestCase):
    def start(self, machine, *words, sim=()):
        self.shell, self.variables = switch_on(BERTH, machine, *sim)
        self.addCleanup(switch_off, self.shell)
        self.port = free_port()
        self.server = subprocess.Popen([BERTH, "exporter", "--listen", f"127.0.0.1:{self.port}", *words], env=self.variables,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.stop)
        self.assertIn(b"metrics at", self.server.stdout.readline())

    def stop(self):
        self.server.terminate()
        self.assertEqual(self.server.wait(60), 0)
        self.server.stdout.close()
        self.server.stderr.close()

    def get(self, path="/metrics", **headers):
        caller = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        caller.request("GET", path, headers=headers)
        answer = caller.getresponse()
        body = answer.read().decode()
        caller.close()
        return answer.status, answer.getheader("Content-Type"), body

    def metrics(self, **headers):
        for _ in range(600):  # until then the answer is 503, because there is no reading yet
            status, kind, body = self.get(**headers)
            if status != 503:
                break
            time.sleep(0.1)
        self.assertEqual(status, 200, body)
        return kind, body

    def test_prometheus_gets_every_device_in_the_format_it_asks_for(self):
        self.start("dgx-h100-8", "--processes", "3", sim=("--processes", "20"))
        kind, text = self.metrics()
        self.assertTrue(kind.startswith("text/plain; version=0.0.4"), kind)
        for device in range(8):
            self.assertEqual(value(text, "berth_device_up", device=device), 1)
            self.assertGreater(value(text, "berth_device_memory_total_bytes", device=device), 2**36)
            self.assertLessEqual(value(text, "berth_device_utilization_ratio", device=device), 1)
        self.assertIn("berth_process_memory_bytes{", text)
        self.assertNotIn("pid=", text)
        kind, text = self.metrics(Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        self.assertTrue(kind.startswith("application/openmetrics-text; version=1.0.0"), kind)
        self.assertTrue(text.endswith("# EOF\n"))

    def test_who_is_not_meant_gets_no_metrics(self):
        with tempfile.NamedTemporaryFile("w") as token:
            token.write("a-token-of-this-test\n")
            token.flush()
            self.start("workstation-4090", "--token-file", token.name)
            self.assertEqual(self.get()[0], 401)
            self.assertEqual(self.get(Authorization="Bearer a-token-of-another")[0], 401)
            self.metrics(Authorization="Bearer a-token-of-this-test")
            self.assertEqual(self.get("/other", Authorization="Bearer a-token-of-this-test")[0], 404)

    def test_a_page_under_another_name_is_refused(self):
        self.start("workstation-4090")
        self.metrics()
        self.assertEqual(self.get(Host=f"attacker.example:{self.port}")[0], 403)

    def test_beyond_loopback_it_wants_a_token(self):
        done = subprocess.run([BERTH, "exporter", "--listen", "0.0.0.0:9837"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("E0980", done.stderr)

    def test_a_fault_shows_and_its_device_has_no_stale_series(self):
        self.start("lab-4x3090", sim=("--fault", "lost:1"))
        _, text = self.metrics()
        self.assertEqual(value(text, "berth_device_up", device=1), 0)
        self.assertNotIn('berth_device_utilization_ratio{device="1"', text)
        self.assertEqual(value(text, "berth_device_up", device=0), 1)

    def test_other_dialects_have_the_names_that_dashboards_ask_for(self):
        self.start("dgx-h100-8", "--dialect", "dcgm")
        _, text = self.metrics(Accept="application/openmetrics-text")
        # Grafana dashboard 12239 selects these by instance and gpu. The last one is the difference of two readings of GPM (Hopper and later).
        self.assertTrue(wait_until(lambda: self.metrics()[1].count("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{") == 8, 60))
        text = self.metrics()[1]
        for name in ("DEV_GPU_TEMP", "DEV_POWER_USAGE", "DEV_SM_CLOCK", "DEV_GPU_UTIL", "DEV_FB_USED", "PROF_PIPE_TENSOR_ACTIVE"):
            value(text, "DCGM_FI_" + name, gpu=7)
        self.assertNotIn("# EOF", text)

    def test_the_dashboard_of_nvidia_gpu_exporter_finds_what_it_asks_for(self):
        """The names of Grafana dashboard 14574 (revision of 2026-08), which it joins by uuid, and which it asks for job and instance by nvidia_smi_index."""
        self.start("dgx-h100-8", sim=("--processes", "16"))
        done = subprocess.run([BERTH, "exporter", "--once", "--dialect", "nvidia_smi", "--processes", "3"], env=self.variables, capture_output=True, text=True)
        reasons = ("gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown",
                   "sync_boost")
        for name in ("index", "gpu_info", "utilization_gpu_ratio", "utilization_memory_ratio", "memory_used_bytes", "memory_total_bytes", "power_draw_watts",
                     "enforced_power_limit_watts", "power_limit_watts", "energy_joules_total", "temperature_gpu", "clocks_current_sm_clock_hz",
                     "clocks_current_graphics_clock_hz", "clocks_current_memory_clock_hz", "clocks_max_graphics_clock_hz", "clocks_max_memory_clock_hz",
                     "pstate", "compute_mode", "pcie_throughput_rx_bytes_per_second", "pcie_throughput_tx_bytes_per_second",
                     "ecc_errors_uncorrected_volatile_total", *(f"clocks_event_reasons_{one}" for one in reasons),
                     *(f"clocks_throttle_reasons_{one}" for one in reasons)):
            self.assertEqual(done.stdout.count(f"\nnvidia_smi_{name}{{uuid="), 8, name)
        self.assertIn("\nnvidia_smi_compute_apps_last_collect_success 1\n", done.stdout)
        for name in ("compute_app_info", "compute_app_used_memory_bytes"):
            self.assertRegex(done.stdout, rf'\nnvidia_smi_{name}{{uuid="[^"]+",pid="\d+",process_name="[^"]+"}} \d')

    def test_with_json_it_prints_documents(self):
        run = [BERTH, "sim", "--machine", "lab-4x3090", "--", BERTH, "exporter", "--json"]
        once = subprocess.run([*run, "--once"], capture_output=True, timeout=110, check=True)
        self.assertEqual(sum(one["vendor"] == "nvidia" for one in json.loads(once.stdout)["devices"]), 4)
        server = subprocess.Popen([*run, "--listen", f"127.0.0.1:{free_port()}"], stdout=subprocess.PIPE)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        self.assertRegex(json.loads(server.stdout.readline())["metrics"], r"^http://127\.0\.0\.1:\d+/metrics$")

    def test_partitions_have_series(self):
        self.start("dgx-a100-mig")
        own = self.metrics()[1]
        self.assertRegex(own, r'\nberth_partition_info{device="\d+",uuid="GPU-[^"]+",partition="0",partition_uuid="MIG-[^"]+",profile="\dg')
        self.assertIn("\nberth_partition_memory_used_bytes{", own)
        done = subprocess.run([BERTH, "exporter", "--once", "--dialect", "nvidia_smi"], env=self.variables, capture_output=True, text=True)
        self.assertRegex(done.stdout, r'\nnvidia_smi_mig_info{uuid="[^"]+",mig_uuid="[^"]+",gpu_instance_id="\d+",compute_instance_id="\d+",profile="\dg')
        self.assertIn("\nnvidia_smi_mig_memory_used_bytes{", done.stdout)

    def test_containers_of_kubernetes_are_named_while_the_kubelet_lists_them(self):
        sys.path.insert(0, str(ROOT / "tests/engines"))
        import kubelet_bed
        if kubelet_bed.MISSING or not pathlib.Path(BERTH).with_name("berth-k8s").exists():
            self.skipTest(kubelet_bed.MISSING or "berth-k8s was not built: no gRPC")
        kubelet = kubelet_bed.Kubelet()
        self.addCleanup(kubelet.__exit__)
        kubelet.start()
        self.start("lab-4x3090", "--kubelet", kubelet.root)
        uuid = re.search(r'berth_device_info{device="2",uuid="([^"]+)"', self.metrics()[1])[1]
        with kubelet.lock:
            kubelet.resource, kubelet.pods = "nvidia.com/gpu", {"train": uuid}
        line = f'berth_device_pod_info{{device="2",uuid="{uuid}",namespace="default",pod="train",container="c"}} 1\n'
        self.assertTrue(wait_until(lambda: line in self.metrics()[1], 60))
        self.assertEqual(self.metrics()[1].count("\nberth_device_pod_info{"), 1)
        kubelet.finish("train")
        self.assertTrue(wait_until(lambda: "pod_info" not in self.metrics()[1], 60))

    def test_a_real_prometheus_scrapes_it_and_evaluates_the_shipped_rules(self):
        prometheus = shutil.which("prometheus")
        if prometheus is None:
            self.skipTest("prometheus is not installed (apt-get install prometheus)")
        self.start("dgx-h100-8", sim=("--fault", "lost:5", "--processes", "3"))
        self.metrics()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        config = pathlib.Path(folder.name) / "prometheus.yml"
        config.write_text(f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{ROOT / "integrations/prometheus/rules.yml"}]
scrape_configs: [{{job_name: berth, static_configs: [{{targets: ["127.0.0.1:{self.port}"]}}]}}]
""")
        port = free_port()
        server = subprocess.Popen([prometheus, f"--config.file={config}", f"--storage.tsdb.path={folder.name}/data", f"--web.listen-address=127.0.0.1:{port}"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait, 60)
        self.addCleanup(server.terminate)

        def ask(query):
            caller = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            with contextlib.closing(caller), contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError):
                caller.request("GET", "/api/v1/query?query=" + urllib.parse.quote(query))
                return json.loads(caller.getresponse().read())["data"]["result"]
            return []

        self.assertTrue(wait_until(lambda: len(ask("berth_device_temperature_celsius")) == 7, 60))
        self.assertEqual([one["value"][1] for one in ask("up")], ["1"])
        named = ask("berth_device_up * on (uuid) group_left (name) berth_device_info")
        self.assertEqual(len(named), 8)
        self.assertIn("H100", named[0]["metric"]["name"])
        self.assertTrue(wait_until(lambda: [one["metric"]["device"] for one in ask('ALERTS{severity="critical"}')] == ["5"], 60))

    def test_promtool_finds_nothing_wrong(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("promtool is not installed (apt-get install prometheus)")
        for machine in ("dgx-h100-8", "mixed-5", "none", "dgx-a100-mig", "gb10"):
            shell, variables = switch_on(BERTH, machine, *(() if machine == "none" else ("--processes", "5")))
            self.addCleanup(switch_off, shell)
            text = subprocess.run([BERTH, "exporter", "--once", "--processes", "5"], env=variables, capture_output=True, check=True).stdout
            done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, b""), machine)


if __name__ == "__main__":
    unittest.main(verbosity=2)
