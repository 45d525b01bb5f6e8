"""No process of a job is left, no matter which of its processes or watching processes is killed."""
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from support import BERTH, HERE, PYTHON, children, environment, holding, keeper_of, main, run, runtime_folder, start, wait_until

TREE = os.path.join(HERE, "grow_tree.py")
_count = 0


def marker():
    global _count
    _count += 1
    return f"berth-orphan-{os.getpid()}-{_count}"


def ordinary_user():
    """Returns (a command prefix that switches to an ordinary user, the environment for it)."""
    if os.geteuid() != 0:
        return [], environment()
    folder = os.path.join(runtime_folder(), "ordinary")
    os.makedirs(folder, exist_ok=True)
    os.chmod(runtime_folder(), 0o711)
    os.chown(folder, 65534, 65534)
    return (["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"],
            environment(BERTH_RUNTIME_DIR=folder))


class Orphans(unittest.TestCase):
    def tearDown(self):
        for pid in holding(f"berth-orphan-{os.getpid()}"):
            os.kill(pid, signal.SIGKILL)

    def gone(self, mark):
        wait_until(lambda: not holding(mark), "all of the job are gone")

    def test_what_the_job_leaves_behind_ends_with_it(self):
        mark = marker()
        done = run("sh", "-c", f"{PYTHON} {TREE} {mark} quiet & sleep 0.3; exit 6")
        self.assertEqual(done.returncode, 6)
        self.assertEqual(holding(mark), [])

    def test_stubborn_ones_too(self):
        mark = marker()
        done = run("sh", "-c", f"{PYTHON} {TREE} {mark} quiet stubborn & sleep 0.5; exit 6")
        self.assertEqual(done.returncode, 6)
        self.assertEqual(holding(mark), [])

    def kill_the_front(self, seconds, prefix=(), env=None, how=signal.SIGKILL):
        mark = marker()
        job = subprocess.Popen([*prefix, BERTH, "run", "--", PYTHON, TREE, mark], stdout=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, env=env or environment(), start_new_session=True)
        if seconds is None:
            self.assertEqual(job.stdout.readline(), b"grown\n")
        else:
            time.sleep(seconds)
        os.kill(job.pid, how)
        job.wait(60)
        self.gone(mark)
        job.stdout.close()

    def test_sigkill_of_the_front(self):
        self.kill_the_front(None)

    def test_sigkill_of_the_front_at_any_moment(self):
        source = random.Random(4121)
        for _ in range(20):
            self.kill_the_front(source.uniform(0.0, 0.25))

    def test_sigkill_of_the_front_as_an_ordinary_user(self):
        prefix, env = ordinary_user()
        if prefix and shutil.which(prefix[0]) is None:
            self.skipTest("no setpriv here to become an ordinary user")
        if subprocess.run([*prefix, BERTH, "--version"], capture_output=True).returncode != 0:
            self.skipTest("an ordinary user cannot reach the program under test")
        for _ in range(3):
            self.kill_the_front(None, prefix, env)

    def test_sigkill_of_the_whole_group(self):
        mark = marker()
        job = start(PYTHON, TREE, mark)
        self.assertEqual(job.stdout.readline(), "grown\n")
        os.killpg(job.pid, signal.SIGKILL)
        job.wait(60)
        self.gone(mark)
        job.stdout.close()

    def test_sigkill_of_the_keeper(self):
        mark = marker()
        job = start(PYTHON, TREE, mark, stderr=subprocess.PIPE)
        self.assertEqual(job.stdout.readline(), "grown\n")
        os.kill(keeper_of(job.pid), signal.SIGKILL)
        _, errors = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 125)
        self.assertIn("E0513", errors)
        self.assertEqual(holding(mark), [])

    def test_sigkill_of_all_that_is_called_berth(self):
        """Does what pkill -9 berth and pkill -9 -f "berth run" do, but only to the processes of this job."""
        mark = marker()
        job = start(PYTHON, TREE, mark)
        self.assertEqual(job.stdout.readline(), "grown\n")
        wait_until(lambda: keeper_of(job.pid), "a keeper")
        called = []
        for pid in [job.pid, *children(job.pid)]:
            with open(f"/proc/{pid}/comm") as name, open(f"/proc/{pid}/cmdline") as words:
                if "berth" in name.read() or "berth\0run" in words.read():
                    called.append(pid)
        self.assertEqual(len(called), 2)  # the front and its signal probe
        for pid in called:
            os.kill(pid, signal.SIGKILL)
        job.wait(60)
        self.gone(mark)
        job.stdout.close()

    def test_nothing_of_ours_stays_either(self):
        job = start("sleep", "600")
        wait_until(lambda: keeper_of(job.pid), "a keeper")
        keeper = keeper_of(job.pid)
        os.kill(job.pid, signal.SIGKILL)
        job.wait(60)
        wait_until(lambda: not os.path.exists(f"/proc/{keeper}"), "the keeper is gone")
        job.stdout.close()
        jobs = os.path.join(runtime_folder(), "jobs")
        wait_until(lambda: str(job.pid) not in os.listdir(jobs), "the job's folder is gone")

    def test_a_stopped_job_ends_as_well(self):
        mark = marker()
        job = start(PYTHON, TREE, mark)
        self.assertEqual(job.stdout.readline(), "grown\n")
        os.killpg(job.pid, signal.SIGSTOP)
        os.kill(job.pid, signal.SIGKILL)
        job.wait(60)
        self.gone(mark)
        job.stdout.close()

    def test_a_berth_inside_a_berth(self):
        mark = marker()
        job = start(BERTH, "run", "--", PYTHON, TREE, mark)
        self.assertEqual(job.stdout.readline(), "grown\n")
        job.kill()
        job.wait(60)
        self.gone(mark)
        job.stdout.close()


main()
