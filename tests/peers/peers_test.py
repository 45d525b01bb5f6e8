#!/usr/bin/env python3
"""Unmodified third-party tools on simulated machines: gpustat, nvitop and (if installed) nvtop and btop run, and agree with `berth ls`
and `berth ps` about every device and process. Skipped if they are not available.

usage: peers_test.py BERTH
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "build/peers/bin"
BERTH = ""
MIB = 1 << 20

NVITOP = """
import json, nvitop
out = []
for device in nvitop.Device.all():
    def number(value):
        return None if value is nvitop.NA else value
    out.append({"name": device.name(), "uuid": device.uuid(), "pci": device.bus_id().lower()[4:],
                "total": number(device.memory_total()), "used": number(device.memory_used()),
                "use": number(device.gpu_utilization()), "celsius": number(device.temperature()),
                "milliwatts": number(device.power_usage()), "limit": number(device.power_limit()),
                "partitions": [p.uuid() for p in device.mig_devices()],
                "processes": sorted([p.pid, number(p.gpu_memory())] for p in device.processes().values())})
print(json.dumps(out))
"""


def on_machine(machine, *words, processes=0, command):
    return subprocess.run([BERTH, "sim", "--machine", machine, "--processes", str(processes), "--at", "60", *words, "--",
                           "sh", "-c", command], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "PEERS": str(PEERS), "BERTH": BERTH, "NVITOP": NVITOP, "LC_ALL": "C.UTF-8"})


def nvidia(document):
    return [device for device in document["devices"] if device["vendor"] == "nvidia"]


class Peers(unittest.TestCase):
    maxDiff = None

    def looks(self, machine, tool, processes):
        """The output of the tool, `berth ls` and `berth ps` in one simulation that stands still."""
        answer = on_machine(machine, processes=processes,
                            command=f"{tool}; echo; echo; $BERTH ls --json; echo; echo; $BERTH ps --json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        theirs, devices, users = answer.stdout.split("\n\n\n")
        ours = nvidia(json.loads(devices))
        for device in ours:
            device["processes"] = sorted([row["host_pid"], row["memory_bytes"]]
                                         for row in json.loads(users)["processes"] if row["device"] == device["index"])
        return json.loads(theirs), ours

    def test_gpustat_agrees(self):
        for machine, processes in (("dgx-h100-8", 20), ("mixed-5", 11), ("workstation-4090", 2), ("driver-470", 4), ("vgpu", 2),
                                   ("gb10", 2), ("wsl", 2)):
            with self.subTest(machine):
                theirs, ours = self.looks(machine, "$PEERS/gpustat --json", processes)
                self.assertEqual(len(theirs["gpus"]), len(ours))
                for gpu, device in zip(theirs["gpus"], ours):
                    self.assertEqual((gpu["name"], gpu["uuid"]), (device["name"], device["uuid"]))
                    self.assertEqual((gpu["utilization.gpu"], gpu["temperature.gpu"], gpu["fan.speed"]),
                                     (device["utilization_percent"], device["temperature_celsius"], device["fan_percent"]))
                    if machine != "gb10":  # its driver reports no memory, and Berth shows the host's
                        self.assertEqual(gpu["memory.total"], device["memory_total_bytes"] // MIB)
                        self.assertEqual(gpu["memory.used"], device["memory_used_bytes"] // MIB)
                    watts = device["power_milliwatts"]
                    self.assertEqual(gpu["power.draw"], None if watts is None else watts // 1000)
                    theirs_users = sorted([p["pid"], p["gpu_memory_usage"]] for p in gpu["processes"])
                    self.assertEqual(theirs_users, [[pid, None if used is None else used // MIB]
                                                    for pid, used in device["processes"]])

    def test_nvitop_agrees(self):
        for machine, processes in (("dgx-h100-8", 20), ("mixed-5", 11), ("driver-470", 4), ("vgpu", 2), ("dgx-a100-mig", 26)):
            with self.subTest(machine):
                theirs, ours = self.looks(machine, '$PEERS/python -c "$NVITOP"', processes)
                self.assertEqual(len(theirs), len(ours))
                for gpu, device in zip(theirs, ours):
                    self.assertEqual((gpu["name"], gpu["uuid"], gpu["pci"]),
                                     (device["name"], device["uuid"], device["pci_address"]))
                    self.assertEqual((gpu["use"], gpu["celsius"], gpu["milliwatts"], gpu["limit"]),
                                     (device["utilization_percent"], device["temperature_celsius"],
                                      device["power_milliwatts"], device["power_limit_milliwatts"]))
                    self.assertEqual((gpu["total"], gpu["used"]), (device["memory_total_bytes"], device["memory_used_bytes"]))
                    self.assertEqual(gpu["partitions"], [part["uuid"] for part in device["partitions"]])
                    self.assertEqual(gpu["processes"], device["processes"])

    def test_nvitop_shows_every_machine(self):
        for machine in ("dgx-h100-8", "hgx-h200-16", "dgx-a100-mig", "gb10", "wsl", "vgpu", "driver-470", "driver-535", "laptop-4060"):
            with self.subTest(machine):
                answer = on_machine(machine, command="$PEERS/nvitop -1 --no-unicode")
                self.assertEqual((answer.returncode, "Traceback" in answer.stderr), (0, False), answer.stderr)
                self.assertIn("Driver Version", answer.stdout)

    def test_a_lost_gpu_is_a_row_and_not_the_end(self):
        answer = on_machine("lab-4x3090", "--fault", "lost:2", processes=4, command="$PEERS/gpustat --no-color; $BERTH ls --json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("lost", answer.stdout.lower())
        health = [device["health"] for device in nvidia(json.loads(answer.stdout.splitlines()[-1]))]
        self.assertEqual(health, ["ok", "ok", "lost", "ok"])

    def test_no_driver_is_what_the_tools_say_then(self):
        answer = on_machine("none", command="$PEERS/gpustat")
        self.assertIn("NVML Shared Library Not Found", answer.stdout + answer.stderr)
        answer = on_machine("lab-4x3090", "--fault", "no-driver", command="$PEERS/gpustat")
        self.assertIn("Driver Not Loaded", answer.stdout + answer.stderr)

    @unittest.skipUnless(shutil.which("nvtop"), "nvtop is not installed")
    def test_nvtop_agrees(self):
        theirs, ours = self.looks("dgx-h100-8", "nvtop -s", 20)
        self.assertEqual([gpu["device_name"] for gpu in theirs], [device["name"] for device in ours])
        self.assertEqual([gpu["temp"] for gpu in theirs], [f"{device['temperature_celsius']:.0f}C" for device in ours])

    @unittest.skipUnless(shutil.which("btop") and shutil.which("script"), "btop or script is not installed")
    def test_btop_starts_on_it(self):
        answer = on_machine("lab-4x3090", "--report", "-", processes=4,
                            command="HOME=$BERTH_SIM_DIR script -qec 'stty rows 60 cols 200; timeout -s INT 3 btop' /dev/null "
                                    "> /dev/null 2>&1 < /dev/null; true")
        report = json.loads(answer.stderr.splitlines()[-1])
        if "nvmlInit" not in report["calls"] and "nvmlInit_v2" not in report["calls"]:
            self.skipTest("this btop was built without GPUs (before 1.3)")
        self.assertGreater(report["calls"].get("nvmlDeviceGetUtilizationRates", 0), 0)


def main():
    global BERTH
    BERTH = os.path.abspath(sys.argv.pop(1))
    if not (PEERS / "nvitop").exists():
        subprocess.run([ROOT / "scripts/peers.sh"], timeout=110, capture_output=True, check=False)
    if not (PEERS / "nvitop").exists() or not (PEERS / "gpustat").exists():
        print("skipped: gpustat and nvitop could not be got from a package index (scripts/peers.sh)")
        return 77
    unittest.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
