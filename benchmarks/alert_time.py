"""Measures the time from a simulated fault to its alert in the daemon's log.

usage: python3 benchmarks/alert_time.py BERTH [FAULT...]     (FAULT as for berth sim; default: lost:5 xid:2=79 hung:3)
"""
import os
import subprocess
import sys
import tempfile
import time

SECONDS = 8  # after the start of the simulated machine


def measure(berth, fault):
    kind, _, value = fault.partition("=")
    with tempfile.TemporaryDirectory() as folder:
        variables = os.environ | {"BERTH_STATE_DIR": folder, "BERTH_RUNTIME_DIR": folder}
        begun = time.monotonic()
        words = [berth, "sim", "--machine", "dgx-h100-8", "--processes", "20", "--fault", f"{kind}@{SECONDS}" + (f"={value}" if value else "")]
        with subprocess.Popen([*words, "--", berth, "serve"], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as daemon:
            for line in daemon.stderr:
                if "alert" in line:
                    print(f"{fault}: {time.monotonic() - begun - SECONDS:.2f} s: {line.strip()}", flush=True)
                    break
            daemon.terminate()


def main():
    for fault in sys.argv[2:] or ["lost:5", "xid:2=79", "hung:3"]:
        measure(sys.argv[1], fault)


if __name__ == "__main__":
    main()
