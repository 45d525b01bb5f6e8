"""Several users on one simulated machine that root serves with `berth serve --system`. The test runs in its own mount namespace with its
own /run, /var/lib and /etc, so that useradd and the broker change nothing on the real machine.
"""
import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import unittest

from machine import switch_off, switch_on, wait_until

SKIPPED = 77
MARK = "BERTH_TEST_MOUNTS"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def enter():
    """Restarts this script in its own mount namespace, so that its mounts end with the test and nobody else sees them."""
    if os.environ.get(MARK) == "ours":
        for command in ("mount -t tmpfs -o mode=755 berth /run", "mkdir /run/etc", "cp -a /etc/. /run/etc",
                        "mount --bind /run/etc /etc", "mount -t tmpfs -o mode=755 berth /var/lib"):
            subprocess.run(command.split(), check=True)
        return
    if os.geteuid() != 0:
        skip("only root can be several users")
    here = pathlib.Path(__file__).resolve()
    if here.is_relative_to("/run") or here.is_relative_to("/var/lib"):
        skip("the tree lies where the test mounts folders of its own")
    private = ["unshare", "--mount", "--propagation", "private"]
    try:
        subprocess.run([*private, "mount", "-t", "tmpfs", "berth", "/run"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        skip(f"no mounts of one's own here: {problem}")
    os.execvpe(private[0], [*private, sys.executable, *sys.argv], {**os.environ, MARK: "ours"})


def without_folders(variables):
    """The variables without those that name a broker or its folders."""
    return {key: word for key, word in variables.items() if key not in ("BERTH_RUNTIME_DIR", "BERTH_STATE_DIR")}


class Person:
    """A user who can read the simulated machine."""

    def __init__(self, berth, machine, name, uid=None):
        self.berth, self.name = berth, name
        if uid is None:
            subprocess.run(["useradd", "--create-home", "--home-dir", f"/run/{name}", "--shell", "/bin/sh", name], check=True,
                           capture_output=True)
            uid = pwd.getpwnam(name).pw_uid
        self.uid = uid
        self.home = pathlib.Path("/run", name)
        if not self.home.is_dir():
            self.home.mkdir(0o700)
            os.chown(self.home, uid, uid)
        self.as_them = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
        plain = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(self.home), "TMPDIR": str(self.home)}
        self.machine, variables = switch_on([*self.as_them, berth], machine, env=plain)
        self.variables = without_folders(variables)
        self.started = []

    def leave(self):
        for one in self.started:
            one.kill()
            one.wait()
            for stream in (one.stdin, one.stdout, one.stderr):
                stream.close()
        switch_off(self.machine)

    def command(self, *words, **more):
        """Runs any command as this user. Returns the finished process."""
        return subprocess.run([*self.as_them, *map(str, words)], env={**self.variables, **more}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, cwd=self.home)

    def __call__(self, *words, **more):
        return self.command(self.berth, *words, **more)

    def start(self, *words, **more):
        self.started.append(subprocess.Popen([*self.as_them, self.berth, *words], env={**self.variables, **more}, text=True,
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                             cwd=self.home))
        return self.started[-1]


class MachineOfAll(unittest.TestCase):
    berth = ""
    machine = "lab-4x3090"

    def setUp(self):
        self.root_machine, self.variables = switch_on(self.berth, self.machine)
        self.addCleanup(switch_off, self.root_machine)
        self.of_the_system = without_folders(self.variables)
        self.people = []
        self.serve()
        self.addCleanup(self.clean)

    def clean(self):
        self.stop()
        for one in self.people:
            one.leave()
            # Queued jobs continue without a broker.
            wait_until(lambda uid=one.uid: not kill_all_of(uid))
            subprocess.run(["userdel", "--force", one.name], capture_output=True)
            shutil.rmtree(one.home)
        for folder in ("/run/berth", "/var/lib/berth"):
            shutil.rmtree(folder, ignore_errors=True)
        wait_until(self.has_no_groups)

    def has_no_groups(self):
        """Removes the control groups that a killed broker left. Their names contain the name of the simulation."""
        try:
            groups = [*pathlib.Path("/sys/fs/cgroup").glob(f"**/{pathlib.Path(self.variables['BERTH_SIM_DIR']).name}*/**")]
        except FileNotFoundError:  # another test has removed its group in the meantime
            return False
        for group in sorted(groups, reverse=True):
            with contextlib.suppress(OSError):
                (group / "cgroup.kill").write_text("1")
            with contextlib.suppress(OSError):
                group.rmdir()
        return not any(group.exists() for group in groups)

    def serve(self, program=None, *options):
        self.broker = subprocess.Popen([program or self.berth, "serve", "--system", *options], env=self.of_the_system, text=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = self.broker.stdout.readline()
        if not said.startswith("serving "):
            raise AssertionError((said, self.broker.communicate()))

    def stop(self, number=signal.SIGTERM):
        self.broker.send_signal(number)
        self.broker.wait(20)
        self.broker.stdout.close()
        self.broker.stderr.close()

    def person(self, name, uid=None):
        self.people.append(Person(self.berth, self.machine, name, uid))
        return self.people[-1]


def kill_all_of(uid):
    """Kills all processes of this user in our mount namespace, because a real user may have the same uid. Returns how many there were."""
    found, ours = 0, os.readlink("/proc/self/ns/mnt")
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == uid and os.readlink(entry / "ns/mnt") == ours:
                os.kill(int(entry.name), signal.SIGKILL)
                found += 1
    return found


def processes_with(mark):
    """The pids of processes that have the word in their arguments or variables."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


__all__ = ["MachineOfAll", "enter", "processes_with", "wait_until"]
