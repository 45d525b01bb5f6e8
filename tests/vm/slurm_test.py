#!/usr/bin/env python3
"""A Slurm 22.05 of Debian with cgroup/v2 alone, in a virtual machine: elsewhere the tests have only v1. A job with Berth's plugin, prolog and
epilog gets one GPU and its quota, and a login of pam_slurm_adopt the GPU of its job.

usage: slurm_test.py BUILD_FOLDER     (it works below: BUILD_FOLDER/vm-slurm)
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import virtual  # noqa: E402

PACKAGES = (*virtual.BASE, "slurmctld", "slurmd", "slurm-client", "munge", "libpam-slurm-adopt", "iproute2")
TESTS = virtual.HERE.parent
UNITS = {"berth-check.service": f"""[Unit]
After=dbus.service
[Service]
ExecStart=/usr/bin/python3 /{virtual.PROGRAMS}/slurm_guest.py
Environment=LC_ALL=C.UTF-8
"""}


def make_plugin(berth):
    """Built here, because the guest has no compiler; both have Debian's Slurm."""
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        (folder / "slurm.conf").write_text("ClusterName=x\n")
        done = subprocess.run([berth, "slurm", "plugin", "--install", "--conf", folder, "--prefix", folder / "lib"], capture_output=True, text=True)
        if done.returncode != 0:
            virtual.skip("no plugin can be built here: " + done.stderr.strip())
        return (folder / "lib/spank_berth.so").read_bytes()


def main():
    virtual.check_tools("slurmd", "cc")
    build_folder = pathlib.Path(sys.argv[1]).resolve()
    folder = build_folder / "vm-slurm"
    folder.mkdir(parents=True, exist_ok=True)
    programs = {path.name: path.read_bytes() for path in (virtual.HERE / "guest.py", virtual.HERE / "slurm_guest.py", TESTS / "engines/slurm_bed.py",
                                                          TESTS / "engines/slurm_adopt_test.py", TESTS / "guard/program.py")}
    programs["spank_berth.so"] = make_plugin(build_folder / "berth")
    virtual.make_disk(virtual.make_debian(folder, "debian", PACKAGES), folder, build_folder, UNITS, programs, ("berth-check.service",))
    machine = virtual.Machine(folder)
    virtual.wait_for(machine.lines(900), machine, "done")
    machine.cut()
    return 0


if __name__ == "__main__":
    sys.exit(main())
