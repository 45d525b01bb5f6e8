#!/usr/bin/env python3
"""Debian with systemd in a virtual machine. The package's unit serves users. Jobs outlive logouts, and restarts and kills of the service.
The kernel denies devices to whole sessions. Reboots and power failures lose at most the last second of the queue and run nothing twice.

usage: systemd_test.py BUILD_FOLDER     (it works below: BUILD_FOLDER/vm)

Debian is downloaded by debootstrap and kept in that folder.
"""
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import virtual  # noqa: E402
from virtual import wait_for  # noqa: E402

CUTS = 10
PACKAGES = (*virtual.BASE, "libpam-systemd")
# In guest time. The queue is written to the disk once a second, and an emulated disk is slow.
LAST_SECONDS = 2.0

UNITS = {
    # The broker uses a simulated machine with GPUs, because the virtual machine has none.
    "berth-sim.service": """[Service]
Type=notify
NotifyAccess=all
ExecStart=/usr/bin/berth sim --machine lab-4x3090 -- /bin/sh /usr/lib/berth-check/simulated
""",
    "berth.service.d/simulated.conf": """[Unit]
Requires=berth-sim.service
After=berth-sim.service
[Service]
EnvironmentFile=/run/berth-sim
""",
    "berth-check.service": """[Unit]
After=berth.service systemd-logind.service
[Service]
ExecStart=/usr/bin/python3 /usr/lib/berth-check/guest.py
Environment=LC_ALL=C.UTF-8
StateDirectory=berth-check
StateDirectoryMode=0777
[Install]
WantedBy=multi-user.target
"""}
SIMULATED = """unset BERTH_RUNTIME_DIR BERTH_STATE_DIR
env | grep -E '^(BERTH|LD_|CUDA)' > /run/berth-sim
systemd-notify --ready
exec sleep infinity
"""


def work_and_cut(lines, machine, seconds):
    """Collects what was confirmed and what had ended, with the guest's times, then cuts the power. Also returns the time of the last
    report."""
    confirmed, ended, last, end = {}, {}, 0.0, None
    for word, told in lines:
        end = end or time.monotonic() + seconds
        if word in ("confirmed", "ended"):
            last = told["at"]
            (confirmed.update((one, last) for one in told["jobs"]) if word == "confirmed" else
             ended.update({told["job"]: (last, told["exit_code"])}))
        if time.monotonic() > end:
            break
    machine.cut()
    return confirmed, ended, last


def check_what_is_left(before, left):
    confirmed, ended, last = before
    known = {int(number): how for number, how in left["jobs"].items()}
    gone = [last - at for number, at in confirmed.items() if number not in known]
    forgotten = [last - at for number, (at, code) in ended.items() if known.get(number, [None, None])[1] != code]
    twice = {number: times for number, times in left["ran"].items() if times > 1}
    print(f"of {len(confirmed)} confirmed jobs {len(gone)} are gone, of the last {max(gone, default=0):.2f} s; "
          f"of {len(ended)} that ended {len(forgotten)} are not known to have, of the last {max(forgotten, default=0):.2f} s", flush=True)
    assert confirmed and ended
    assert max(gone + forgotten, default=0) <= LAST_SECONDS, (gone, forgotten)
    assert not twice, twice


def main():
    virtual.check_tools()
    build_folder = pathlib.Path(sys.argv[1]).resolve()
    folder = build_folder / "vm"
    folder.mkdir(parents=True, exist_ok=True)
    virtual.make_disk(virtual.make_debian(folder, "debian", PACKAGES), folder, build_folder, UNITS,
                      {"simulated": SIMULATED, "guest.py": (virtual.HERE / "guest.py").read_text()}, ("berth.service", "berth-check.service"))
    machine = virtual.Machine(folder)
    for word, told in machine.lines():  # until the guest reboots
        if word == "shown":
            print(told, flush=True)
    machine = virtual.Machine(folder)
    lines = machine.lines()
    wait_for(lines, machine, "cut")
    seed = random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    moments = random.Random(seed)
    for _ in range(CUTS):
        before = work_and_cut(lines, machine, 2 + 10 * moments.random())
        machine = virtual.Machine(folder)
        lines = machine.lines()
        check_what_is_left(before, wait_for(lines, machine, "left"))
        wait_for(lines, machine, "cut")
    machine.cut()
    return 0


if __name__ == "__main__":
    sys.exit(main())
