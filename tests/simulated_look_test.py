#!/usr/bin/env python3
"""Complete snapshots of simulated machines: every process is matched with /proc, memory adds up, and a snapshot stays cheap."""
import json
import os
import subprocess
import sys
import time

BERTH = sys.argv[1]


def on(machine, *command, processes=0, faults=()):
    words = [BERTH, "sim", "--machine", machine]
    if processes:
        words += ["--processes", str(processes)]
    for fault in faults:
        words += ["--fault", fault]
    done = subprocess.run([*words, "--", *command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def look(verb, machine, **how):
    return json.loads(on(machine, BERTH, *filter(None, [verb]), "--json", **how))


def every_process_is_described():
    ps = look("ps", "dgx-h100-8", processes=200)
    rows = ps["processes"]
    assert len(rows) == 200, len(rows)
    assert len({row["pid"] for row in rows}) == 200, "a pid stands twice"
    for row in rows:
        assert row["pid"] == row["host_pid"], row
        assert row["user"] and row["command"].startswith("python"), row
        assert row["age_seconds"] is not None and row["rss_bytes"], row
    order = [(row["device"], -row["memory_bytes"]) for row in rows]
    assert order == sorted(order), "not by device, then memory"
    assert ps["unattributed"] == [], ps["unattributed"]


def devices_are_numbered_in_order():
    for machine in ("dgx-h100-8", "mixed-5", "laptop-4060", "amd-mi300x-8"):
        devices = look("ls", machine)["devices"]
        assert [device["index"] for device in devices] == list(range(len(devices))), machine
        assert devices[-1]["kind"] == "cpu" and all(device["kind"] == "gpu" for device in devices[:-1]), machine
    vendors = [device["vendor"] for device in look("ls", "laptop-4060")["devices"]]
    assert vendors[:2] == ["nvidia", "intel"], vendors


def memory_that_nobody_has_is_a_row():
    [row] = look("ps", "dgx-h100-8", processes=8, faults=["zombie:1"])["unattributed"]
    assert row["device"] == 1 and row["memory_bytes"] > 1 << 30, row
    assert row["cause"] == "zombie" and [holder["state"] for holder in row["holders"]] == ["Z"], row
    assert look("ps", "dgx-h100-8", processes=8, faults=["zombie:1@3600"])["unattributed"] == []
    [row] = look("ps", "amd-2x7900xtx", processes=2, faults=["zombie:1"])["unattributed"]
    assert row["device"] == 1 and row["cause"] == "zombie", row
    [row] = look("ps", "wsl", processes=2)["unattributed"]
    assert row["cause"] == "not_reported", row


def a_unified_gpu_has_the_memory_of_its_host():
    gpu, cpu = look("ls", "gb10")["devices"]
    assert gpu["memory_unified"] and gpu["memory_total_bytes"] == cpu["memory_total_bytes"], gpu
    assert gpu["note"], "what counts as used is not said"


def a_hung_gpu_costs_its_deadline_and_no_more():
    start = time.monotonic()
    devices = look("ls", "dgx-h100-8", faults=["hung:3"])["devices"]
    assert time.monotonic() - start < 15, "a hung GPU holds the look up"
    assert [device["index"] for device in devices if device["health"] == "no answer"] == [3]
    assert sum(device["memory_used_bytes"] is not None for device in devices) == 8


def rows_without_an_answer_say_what_the_bus_knows():
    known = [(gpu["pci_address"], gpu["numa_node"], gpu["local_cpus"]) for gpu in look("ls", "lab-4x3090")["devices"]]
    for faults in (["hung=all"], ["hung:1=all", "hung:2=all"], ["slow=1s"]):
        start = time.monotonic()
        devices = look("ls", "lab-4x3090", faults=faults)["devices"]
        assert time.monotonic() - start < 15, "the driver's silence holds the look up"
        assert [(gpu["pci_address"], gpu["numa_node"], gpu["local_cpus"]) for gpu in devices] == known, faults
        assert all("RTX 3090" in gpu["name"] for gpu in devices[:-1]), faults
        assert all(gpu["memory_used_bytes"] is None for gpu in devices if gpu["health"] == "no answer"), faults
        assert sum(gpu["health"] == "no answer" for gpu in devices) == (2 if len(faults) == 2 else 4), faults


def a_process_on_a_partition_says_which():
    text = on("dgx-a100-mig", BERTH, "ps", "--wide", processes=8)
    processes = look("ps", "dgx-a100-mig", processes=8)["processes"]
    assert len(processes) == 8 and all(one["partition_uuid"] for one in processes), processes
    assert all(one["partition_uuid"] in text for one in processes), text
    assert "1g.10gb" in on("dgx-a100-mig", BERTH, "ps", processes=8)


def what_is_normal_is_no_problem():
    assert look("", "wsl", processes=2)["problems"] == []
    assert on("amd-mi300x-8", BERTH, "ps") == "no process uses a device\n"
    assert "the host is not simulated: " in on("gb10", BERTH, "ps", processes=4)


def a_look_is_cheap():
    # Measures processor time, because other tests run at the same time. The goal in goals.md is 8 ms; the limit is 20 times that.
    script = (f"import os,subprocess;subprocess.run([{BERTH!r},'ls'],stdout=subprocess.DEVNULL,check=True);"
              "import resource;r=resource.getrusage(resource.RUSAGE_CHILDREN);print(r.ru_utime+r.ru_stime,r.ru_maxrss)")
    seconds, kibibytes = on("dgx-h100-8", sys.executable, "-c", script, processes=200).split()
    assert float(seconds) < 0.160, seconds
    assert int(kibibytes) < 40_000, kibibytes  # for a debug build; the goal for a release build in goals.md is 8 MB


def main():
    for test in (every_process_is_described, devices_are_numbered_in_order, memory_that_nobody_has_is_a_row,
                 a_unified_gpu_has_the_memory_of_its_host, a_hung_gpu_costs_its_deadline_and_no_more,
                 rows_without_an_answer_say_what_the_bus_knows, a_process_on_a_partition_says_which,
                 what_is_normal_is_no_problem, a_look_is_cheap):
        test()
        print(f"ok: {test.__name__.replace('_', ' ')}")
    return 0


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C.UTF-8"
    sys.exit(main())
