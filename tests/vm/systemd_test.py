#!/usr/bin/env python3
"""Debian with systemd in a virtual machine. The package's unit serves users. Jobs outlive logouts, and restarts and kills of the service.
The kernel denies devices to whole sessions. Reboots and power failures lose at most the last second of the queue and run nothing twice.

usage: systemd_test.py BUILD_FOLDER     (it works below: BUILD_FOLDER/vm)

The processor is emulated, so it also runs without virtualization; with it, BERTH_TEST_VM_ACCELERATOR=kvm is faster.
Debian is downloaded by debootstrap and kept in that folder.
"""
import json
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
CUTS = 10
HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = "systemd,systemd-sysv,dbus,libpam-systemd,udev,linux-image-cloud-amd64,python3,procps"
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


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def make_debian(folder):
    """Creates the Debian root once; later runs reuse it."""
    root = folder / "debian"
    if root.is_dir():
        return root
    draft = folder / "debian.new"
    shutil.rmtree(draft, ignore_errors=True)
    made = subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", draft],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if made.returncode != 0:
        skip("no Debian could be made: " + made.stdout.strip().splitlines()[-1])
    draft.rename(root)
    return root


def make_disk(build_folder, folder):
    debian = make_debian(folder)
    root, disk = folder / "root", folder / "disk"
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-al", debian, root], check=True)  # only new files are added to it
    with tempfile.TemporaryDirectory() as packages:
        subprocess.run(["cpack", "-G", "DEB", "-B", packages], cwd=build_folder, check=True, stdout=subprocess.DEVNULL)
        (package,) = pathlib.Path(packages).glob("berth_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    units = root / "etc/systemd/system"
    for name, text in UNITS.items():
        (units / name).parent.mkdir(parents=True, exist_ok=True)
        (units / name).write_text(text)
    wants = units / "multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "berth.service").symlink_to("/usr/lib/systemd/system/berth.service")
    (wants / "berth-check.service").symlink_to("/etc/systemd/system/berth-check.service")
    programs = root / "usr/lib/berth-check"
    programs.mkdir()
    (programs / "simulated").write_text(SIMULATED)
    shutil.copy(HERE / "guest.py", programs)
    disk.unlink(missing_ok=True)
    subprocess.run(["mkfs.ext4", "-q", "-d", root, disk, "3G"], check=True, stdout=subprocess.DEVNULL)
    kernel, memory = (next((root / "boot").glob(name)) for name in ("vmlinuz-*", "initrd.img-*"))
    for source, name in ((kernel, "kernel"), (memory, "initrd")):
        shutil.copy(source, folder / name)
    shutil.rmtree(root)


class Machine:
    """A running virtual machine. lines() yields what guest.py reports."""

    def __init__(self, folder):
        self.console = folder / "console"
        words = ["qemu-system-x86_64", "-accel", os.environ.get("BERTH_TEST_VM_ACCELERATOR", "tcg,thread=multi"), "-cpu", "max", "-smp", "2",
                 "-m", "1024", "-display", "none", "-nic", "none", "-no-reboot", "-kernel", folder / "kernel", "-initrd", folder / "initrd",
                 "-append", "root=/dev/vda rw console=ttyS0 panic=-1 systemd.show_status=0",
                 "-drive", f"file={folder}/disk,format=raw,if=virtio", "-serial", f"file:{self.console}", "-serial", "stdio"]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.rest = b""

    def lines(self, seconds=600):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not select.select([self.process.stdout], [], [], 1)[0]:
                continue
            read = os.read(self.process.stdout.fileno(), 65536)
            if not read:
                return
            *whole, self.rest = (self.rest + read).split(b"\n")
            for line in whole:
                word, _, told = line.decode().strip().partition(" ")
                if word == "failed":
                    self.fail(json.loads(told))
                yield word, json.loads(told) if told else None
        self.fail(f"no end after {seconds} s")

    def fail(self, why):
        self.cut()
        print(why, *self.console.read_text(errors="replace").splitlines()[-30:], sep="\n")
        sys.exit(1)

    def cut(self):
        """A power failure: data that is not on the disk is lost."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def wait_for(lines, machine, wanted):
    for word, told in lines:
        if word == "shown":
            print(told, flush=True)
        if word == wanted:
            return told
    return machine.fail(f"it stopped before it said '{wanted}'")


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
    if "BERTH_SOAK" not in os.environ:
        skip("it takes minutes: ./dev soak runs it")
    if os.geteuid() != 0:
        skip("only root can make a Debian")
    for tool in ("debootstrap", "qemu-system-x86_64", "mkfs.ext4", "cpack", "dpkg-deb"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    if os.uname().machine != "x86_64":
        skip("the virtual machine is an x86-64")
    build_folder = pathlib.Path(sys.argv[1]).resolve()
    folder = build_folder / "vm"
    folder.mkdir(parents=True, exist_ok=True)
    make_disk(build_folder, folder)
    machine = Machine(folder)
    for word, told in machine.lines():  # until the guest reboots
        if word == "shown":
            print(told, flush=True)
    machine = Machine(folder)
    lines = machine.lines()
    wait_for(lines, machine, "cut")
    seed = random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    moments = random.Random(seed)
    for _ in range(CUTS):
        before = work_and_cut(lines, machine, 2 + 10 * moments.random())
        machine = Machine(folder)
        lines = machine.lines()
        check_what_is_left(before, wait_for(lines, machine, "left"))
        wait_for(lines, machine, "cut")
    machine.cut()
    return 0


if __name__ == "__main__":
    sys.exit(main())
