"""A signal to the front, or to the whole process group, reaches the job exactly once."""
import os
import random
import signal
import subprocess
import time
import unittest

from support import HERE, PATIENCE, PYTHON, Terminal, keeper_of, main, start, wait_until

COUNTER = os.path.join(HERE, "count_signals.py")
NAMES = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGALRM", "SIGCONT", "SIGWINCH",
         "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGIO", "SIGABRT", "SIGXCPU"]
REAL_TIME = str(int(signal.SIGRTMIN) + 5)


class Counted(unittest.TestCase):
    def setUp(self):
        self.job = start(PYTHON, COUNTER, ",".join(NAMES + [REAL_TIME]))
        self.assertEqual(self.job.stdout.readline(), "ready\n")

    def tearDown(self):
        os.killpg(self.job.pid, signal.SIGKILL)
        self.job.wait()
        self.job.stdout.close()

    def heard(self):
        """All signals that arrived. SIGUSR2 is sent last, directly to the job, and marks the end."""
        lines = []
        time.sleep(0.1)  # time for a second copy to arrive, if there is one
        os.kill(self.workload(), signal.SIGUSR2)
        for line in self.job.stdout:
            if line.strip() == "SIGUSR2":
                return lines
            lines.append(line.strip())
        return lines

    def workload(self):
        from support import children
        return children(keeper_of(self.job.pid))[0]

    def test_to_the_front_alone(self):
        for name in NAMES:
            if name == "SIGUSR2":
                continue
            os.kill(self.job.pid, getattr(signal, name))
            self.assertEqual(self.heard(), [name])

    def test_to_the_group(self):
        for name in NAMES:
            if name == "SIGUSR2":
                continue
            os.killpg(self.job.pid, getattr(signal, name))
            self.assertEqual(self.heard(), [name])

    def test_both_ways_in_turn_many_times(self):
        for turn in range(30):
            (os.killpg if turn % 3 else os.kill)(self.job.pid, signal.SIGTERM)
            self.assertEqual(self.heard(), ["SIGTERM"], turn)

    def test_real_time_signals_arrive_too(self):
        os.kill(self.job.pid, int(REAL_TIME))
        self.assertEqual(len(self.heard()), 1)


class Ending(unittest.TestCase):
    def test_sigterm_ends_the_job_and_its_code_comes_back(self):
        job = start("sleep", "600")
        wait_until(lambda: keeper_of(job.pid), "a keeper")
        job.terminate()
        self.assertEqual(job.wait(60), 128 + signal.SIGTERM)
        job.stdout.close()

    def test_a_job_that_handles_sigterm_ends_as_it_likes(self):
        job = start("sh", "-c", "trap 'exit 33' TERM; echo ready; while :; do sleep 0.05; done")
        self.assertEqual(job.stdout.readline(), "ready\n")
        job.terminate()
        self.assertEqual(job.wait(60), 33)
        job.stdout.close()

    def test_a_stopped_job_can_be_continued_from_either_side(self):
        for stop, go in ((os.killpg, os.killpg), (os.killpg, os.kill)):
            job = start("sh", "-c", "echo ready; read line; exit 4", stdin=subprocess.PIPE)
            self.assertEqual(job.stdout.readline(), "ready\n")
            stop(job.pid, signal.SIGSTOP)
            from support import stat
            wait_until(lambda: stat(job.pid)[0] == "T", "the front is stopped")
            go(job.pid, signal.SIGCONT)
            job.communicate("\n", timeout=60)
            self.assertEqual(job.returncode, 4)

    def test_the_front_stops_when_the_job_was_stopped_and_wakes_with_it(self):
        from support import children, stat
        job = start("sh", "-c", "echo ready; read line; exit 4", stdin=subprocess.PIPE)
        self.assertEqual(job.stdout.readline(), "ready\n")
        workload = children(keeper_of(job.pid))[0]
        for _ in range(5):
            os.kill(workload, signal.SIGSTOP)
            wait_until(lambda: stat(job.pid)[0] == "T", "the front is stopped")
            os.kill(workload, signal.SIGCONT)
            wait_until(lambda: stat(job.pid)[0] != "T", "the front goes on")
        job.communicate("\n", timeout=60)
        self.assertEqual(job.returncode, 4)


# The signal is blocked from the start, so even a very early one is counted.
COUNT_FROM_THE_START = r"""
import signal, sys, time
wanted = {signal.SIGRTMIN + 5}
got = signal.sigtimedwait(wanted, 60)
time.sleep(0.1)  # a second copy would be on its way
sys.exit(40 + (got is not None) + (signal.sigtimedwait(wanted, 0) is not None))
"""


class AtAnyMomentOfTheStart(unittest.TestCase):
    """Signals arrive while the front, the keeper, the signal probe and the workload are being started."""
    times = 1000 if "BERTH_SOAK" in os.environ else 40

    def moments(self):
        return (turn % 20 * 0.001 + random.random() * 0.001 for turn in range(self.times))

    def test_a_signal_arrives_once(self):
        def blocked():
            signal.pthread_sigmask(signal.SIG_BLOCK, {int(REAL_TIME)})
        for turn, moment in enumerate(self.moments()):
            job = start(PYTHON, "-S", "-c", COUNT_FROM_THE_START, preexec_fn=blocked)
            time.sleep(moment)
            (os.killpg if turn % 4 else os.kill)(job.pid, int(REAL_TIME))
            self.assertEqual(job.wait(PATIENCE), 41, f"sent after {moment * 1000:.2f} ms")
            job.stdout.close()

    def test_ctrl_c_ends_the_job(self):
        for moment in self.moments():
            job = start("sleep", "600", stderr=subprocess.PIPE)
            time.sleep(moment)
            os.killpg(job.pid, signal.SIGINT)
            self.assertEqual(job.communicate(timeout=PATIENCE), ("", ""), f"sent after {moment * 1000:.2f} ms")
            self.assertIn(job.returncode, (130, -signal.SIGINT))


main()
