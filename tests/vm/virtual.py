"""A Debian with systemd in a virtual machine, for tests: the disk is made once, the guest's program reports on the second serial port. The
processor is emulated, so it also runs without virtualization; with it, BERTH_TEST_VM_ACCELERATOR=kvm is faster."""
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = "usr/lib/berth-check"  # where the guest has the files of a test
BASE = ("systemd", "systemd-sysv", "dbus", "udev", "linux-image-cloud-amd64", "python3", "procps")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def check_tools(*more):
    if "BERTH_SOAK" not in os.environ:
        skip("it takes minutes: ./dev soak runs it")
    if os.geteuid() != 0:
        skip("only root can make a Debian")
    for tool in ("debootstrap", "qemu-system-x86_64", "mkfs.ext4", "cpack", "dpkg-deb", *more):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    if os.uname().machine != "x86_64":
        skip("the virtual machine is an x86-64")


def make_debian(folder, name, packages):
    """Creates the Debian root once; later runs reuse it."""
    root = folder / name
    if root.is_dir():
        return root
    draft = folder / f"{name}.new"
    shutil.rmtree(draft, ignore_errors=True)
    made = subprocess.run(["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", "bookworm", draft],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if made.returncode != 0:
        skip("no Debian could be made: " + made.stdout.strip().splitlines()[-1])
    draft.rename(root)
    return root


def make_disk(debian, folder, build_folder, units, programs, wanted):
    """A disk with Berth's package, the units (name: text), the test's programs (name: text or bytes), and the units that are started."""
    root, disk = folder / "root", folder / "disk"
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-al", debian, root], check=True)  # only new files are added to it
    with tempfile.TemporaryDirectory() as packages:
        subprocess.run(["cpack", "-G", "DEB", "-B", packages], cwd=build_folder, check=True, stdout=subprocess.DEVNULL)
        (package,) = pathlib.Path(packages).glob("berth_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    own = root / "etc/systemd/system"
    for name, text in units.items():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text(text)
    wants = own / "multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    for name in wanted:
        (wants / name).symlink_to(f"/etc/systemd/system/{name}" if name in units else f"/usr/lib/systemd/system/{name}")
    (root / PROGRAMS).mkdir()
    for name, held in programs.items():
        (root / PROGRAMS / name).write_bytes(held if isinstance(held, bytes) else held.encode())
    disk.unlink(missing_ok=True)
    subprocess.run(["mkfs.ext4", "-q", "-d", root, disk, "3G"], check=True, stdout=subprocess.DEVNULL)
    kernel, memory = (next((root / "boot").glob(name)) for name in ("vmlinuz-*", "initrd.img-*"))
    for source, name in ((kernel, "kernel"), (memory, "initrd")):
        shutil.copy(source, folder / name)
    shutil.rmtree(root)


class Machine:
    """A running virtual machine. lines() yields what its program reports."""

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
