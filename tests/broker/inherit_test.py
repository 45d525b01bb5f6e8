#!/usr/bin/env python3
"""Cores, oom_score_adj, no_new_privs and signals of a queued job come from its submitter, never from the shell that started the broker.

usage: inherit_test.py BERTH
"""
import ctypes
import os
import pathlib
import signal
import sys
import unittest

from machine import Machine

PR_SET_NO_NEW_PRIVS = 38
# No shell: dash clears the signal mask.
SHOW = ["cat", "/proc/self/status", "/proc/self/oom_score_adj"]


class Inherit(Machine):
    def queue_in_child(self, prepare, *words):
        """Queues a job from a child process after `prepare`. Returns what the job saw."""
        pid = os.fork()
        if pid == 0:
            null = os.open("/dev/null", os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            prepare()
            os.execve(self.berth, [self.berth, "run", "--queue", "--cpu", *words, "--", *SHOW], self.variables)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        job = self.call("GET", "/v1/jobs?last")["jobs"][0]["id"]
        lines = pathlib.Path(self.job(job, "ended")["log"]).read_text().split("\n")
        told = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        # Signals 32 and 33 are reserved for the C library. Its posix_spawn leaves them ignored.
        signals = {name: int(told[name], 16) & ~(3 << 31) for name in ("SigIgn", "SigBlk")}
        return told | signals | {"oom": int(lines[-2])}

    def test_what_the_submitter_has_the_job_has(self):
        core = min(os.sched_getaffinity(0))

        def of_the_broker():
            os.sched_setaffinity(0, {core})
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
            pathlib.Path("/proc/self/oom_score_adj").write_text("400")
            # Python itself ignores these; a shell does not.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

        def of_another():
            pathlib.Path("/proc/self/oom_score_adj").write_text("300")
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

        first = self.queue_in_child(of_the_broker)
        second = self.queue_in_child(of_another)
        self.assertEqual(first["Cpus_allowed_list"], str(core))
        self.assertEqual(first["SigIgn"], 1 << (signal.SIGHUP - 1))
        self.assertEqual(first["SigBlk"], 1 << (signal.SIGUSR2 - 1))
        self.assertEqual((first["NoNewPrivs"], first["oom"]), ("0", 400))
        self.assertEqual(second["SigIgn"], 1 << (signal.SIGTERM - 1))
        self.assertEqual(second["SigBlk"], 0)
        self.assertEqual((second["NoNewPrivs"], second["oom"]), ("1", 300))
        if len(os.sched_getaffinity(0)) > 1:
            self.assertNotEqual(second["Cpus_allowed_list"], str(core))


if __name__ == "__main__":
    Machine.berth = sys.argv.pop(1)
    unittest.main()
