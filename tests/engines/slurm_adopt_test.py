#!/usr/bin/env python3
"""A login in a running job of a real Slurm: pam_slurm_adopt puts the session into the job. PAM is called as sshd calls it, without sshd. What
docs/slurm.md says of such a session is checked: its variables, its control group, which GPUs it can open, and what Berth makes of it.

usage: slurm_adopt_test.py BERTH
"""
import ctypes
import errno
import glob
import json
import os
import stat
import subprocess
import sys
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import slurm_bed  # noqa: E402

USER = "nobody"
MODULES = glob.glob("/lib/security/pam_slurm_adopt.so") + glob.glob("/lib/*/security/pam_slurm_adopt.so")


def why_not():
    if reason := slurm_bed.why_not():
        return reason
    if not MODULES:
        return "libpam-slurm-adopt is not installed"
    return "" if os.path.isdir("/sys/fs/cgroup/devices") else "the devices of cgroup v1 are needed"


def simulated(*words, **more):
    return subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", BERTH, *words], capture_output=True, text=True, timeout=60, **more)


def lines(name):
    return simulated("slurm", "gres", "--only", name, "--node", "n1", check=True).stdout


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
def no_answer(*_):
    """PAM_CONV_ERR: the module's message is not shown."""
    return 19


class Conversation(ctypes.Structure):
    _fields_ = [("call", ctypes.c_void_p), ("data", ctypes.c_void_p)]


def session(folder, nodes, config):
    """What a login sees, from a child process that PAM has adopted."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.environ["SLURM_CONF"] = config
        pam = ctypes.CDLL("libpam.so.0", ctypes.RTLD_GLOBAL)
        handle, talk = ctypes.c_void_p(), Conversation(ctypes.cast(no_answer, ctypes.c_void_p))
        answers = [pam.pam_start_confdir(b"sshd", USER.encode(), ctypes.byref(talk), folder.encode(), ctypes.byref(handle)),
                   pam.pam_acct_mgmt(handle, 0)]
        pam.pam_getenvlist.restype = ctypes.POINTER(ctypes.c_char_p)
        listed, variables = pam.pam_getenvlist(handle), []
        while listed[len(variables)]:
            variables.append(listed[len(variables)].decode())
        opened = []
        for node in nodes:
            try:
                os.open(node, os.O_RDWR)
                opened.append(0)
            except OSError as error:
                opened.append(error.errno)
        with open("/proc/self/cgroup") as file:
            groups = file.read()
        os.write(write, json.dumps({"answers": answers, "variables": variables, "opened": opened, "groups": groups}).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        seen = json.load(file)
    os.waitpid(child, 0)
    return seen


@unittest.skipIf(why_not(), why_not())
class Adopt(unittest.TestCase):
    def test_a_login_gets_the_gpus_of_its_job_and_no_others(self):
        slurm = slurm_bed.Slurm(lines("gres.conf"), lines("slurm.conf"), more=("PrologFlags=Contain",), tracked="cgroup/v1")
        nodes = [slurm.path(f"dev/nvidia{number}") for number in range(4)]
        for number, node in enumerate(nodes):
            os.unlink(node)
            os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(195, number))
            os.chmod(node, 0o666)
        os.mkdir(slurm.path("pam.d"))
        slurm.put("pam.d/sshd", f"account required {MODULES[0]}\n")
        with slurm:
            self.assertNotEqual(session(slurm.path("pam.d"), nodes, slurm.path("slurm.conf"))["answers"], [0, 0], "there is no job yet")
            job = slurm.run("sbatch", "--parsable", "--uid", USER, "--chdir=/", "-o", "/dev/null", "--gres=gpu:1", "--wrap=sleep 1000").stdout.strip()
            slurm.wait(lambda: session(slurm.path("pam.d"), [], slurm.path("slurm.conf"))["answers"] == [0, 0], "job to log in to")
            seen = session(slurm.path("pam.d"), nodes, slurm.path("slurm.conf"))
            slurm.run("scancel", job)
        self.assertEqual(seen["variables"], [f"SLURM_JOB_ID={job}"])
        self.assertIn(f"/job_{job}/", seen["groups"])
        # There is no driver behind the nodes: the kernel refuses all but one before it looks for it.
        self.assertEqual(sorted(seen["opened"]), sorted([errno.ENXIO] + 3 * [errno.EPERM]), slurm.logs())
        environment = {**os.environ, "SLURM_JOB_ID": job}
        done = simulated("run", "--gpus", "1", "--report", "-", "--", "true", env=environment)
        self.assertIn(f"Slurm job {job}", done.stderr)
        self.assertIn("the CPU", simulated("run", "--dry-run", "--", "true", env=environment).stdout)


if __name__ == "__main__":
    unittest.main()
