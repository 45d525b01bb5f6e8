"""The job gets the caller's streams, descriptors, signal mask, limits and folder."""
import ctypes
import os
import re
import resource
import signal
import subprocess
import tempfile
import threading
import unittest

from support import BERTH, PYTHON, environment, main, run, runtime_folder, start, wait_until

PR_SET_NO_NEW_PRIVS = 38


class Streams(unittest.TestCase):
    def test_stdin_to_stdout(self):
        data = "x" * 3_000_000
        self.assertEqual(run("cat", input=data).stdout, data)

    def test_streams_are_the_very_same(self):
        with tempfile.TemporaryFile() as a, tempfile.TemporaryFile() as b, tempfile.TemporaryFile() as c:
            show = "import os; print([os.fstat(fd).st_ino for fd in (0,1,2)], flush=True)"
            run(PYTHON, "-c", show, stdin=a, stdout=b, stderr=c)
            b.seek(0)
            self.assertEqual(b.read().decode().strip(), str([os.fstat(f.fileno()).st_ino for f in (a, b, c)]))

    def test_a_reader_that_leaves_ends_the_job(self):
        # Without Berth, `yes` gets SIGPIPE when `head` has exited.
        pipe = subprocess.Popen(f"{BERTH} run -- sh -c 'trap - PIPE; exec yes' | head -1; echo ${{PIPESTATUS[0]}}",
                                shell=True, executable="/bin/bash", stdout=subprocess.PIPE, text=True,
                                env=environment(), preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))
        self.assertEqual(pipe.communicate(timeout=60)[0], f"y\n{128 + signal.SIGPIPE}\n")

    def test_a_closed_stdout_is_seen_by_its_reader_while_the_job_runs(self):
        job = start("sh", "-c", "exec >&-; read line", stdin=subprocess.PIPE)
        seen = threading.Thread(target=job.stdout.read)
        seen.start()
        seen.join(30)
        self.assertFalse(seen.is_alive(), "someone of ours keeps the pipe open")
        self.assertIsNone(job.poll())
        job.communicate("\n", timeout=30)

    def test_a_closed_stdin_is_seen_by_its_writer(self):
        job = start("sh", "-c", "exec <&-; echo closed; sleep 60", stdin=subprocess.PIPE)
        self.assertEqual(job.stdout.readline(), "closed\n")

        def broken():
            try:
                os.write(job.stdin.fileno(), b"x")
            except BrokenPipeError:
                return True
            return False
        wait_until(broken, "EPIPE on stdin")
        job.terminate()
        job.wait()
        job.stdout.close()
        try:
            job.stdin.close()
        except BrokenPipeError:
            pass

    def test_closed_streams_stay_closed(self):
        for closed in ("<&-", ">&-", "<&- >&-"):
            with tempfile.NamedTemporaryFile("r") as out:
                shell = f"{BERTH} run -- {PYTHON} -c 'import os; open(\"{out.name}\", \"w\").write(" \
                        f"str([fd for fd in (0, 1, 2) if os.path.exists(f\"/proc/self/fd/{{fd}}\")]))' {closed}"
                subprocess.run(["bash", "-c", shell], env=environment(), stdin=subprocess.DEVNULL, timeout=60)
                expected = [fd for fd, sign in ((0, "<&-"), (1, ">&-"), (2, "2>&-")) if sign not in closed]
                # Python opens the script's file, which takes the lowest free descriptor. So this compares with a direct run.
                self.assertEqual(out.read(), str(self.direct(closed)), closed)
                self.assertTrue(set(expected))

    @staticmethod
    def direct(closed):
        with tempfile.NamedTemporaryFile("r") as out:
            shell = f"{PYTHON} -c 'import os; open(\"{out.name}\", \"w\").write(" \
                    f"str([fd for fd in (0, 1, 2) if os.path.exists(f\"/proc/self/fd/{{fd}}\")]))' {closed}"
            subprocess.run(["bash", "-c", shell], env=environment(), stdin=subprocess.DEVNULL, timeout=60)
            return out.read()


SHOW = r"""
import os, resource, signal, sys
own = os.open("/proc/self/fd", os.O_RDONLY)
print(sorted(int(fd) for fd in os.listdir(own) if int(fd) != own))
print([line for line in open("/proc/self/status") if line[:6] in ("SigBlk", "SigIgn", "Umask:", "NoNewP", "Seccom")])
print(os.getcwd(), os.getpriority(os.PRIO_PROCESS, 0))
print([resource.getrlimit(getattr(resource, name)) for name in sorted(dir(resource)) if name.startswith("RLIMIT_")])
print(sys.argv)
print(sorted(os.environ.items()))
"""


class Inheritance(unittest.TestCase):
    def both(self, **keywords):
        keywords.update(stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=60, env=environment())
        # -I: without the module that `berth stacks` uses, which opens a file.
        command = [PYTHON, "-I", "-c", SHOW, "a b", "", "--json", "--"]
        direct = subprocess.run(command, **keywords).stdout.splitlines()
        self.assertEqual(len(direct), 6)
        for options in ([], ["--retries", "1"], ["--ranks", "1"]):
            through = subprocess.run([BERTH, "run", *options, "--", *command], **keywords).stdout
            through = through.replace("[rank 0] ", "").splitlines()
            self.assertEqual(direct[:5], through[:5], options)
        return direct

    def test_nothing_of_ours_leaks_and_nothing_is_lost(self):
        self.both()

    def test_descriptors_of_the_caller_arrive(self):
        read, write = os.pipe()
        high = os.dup2(read, 93, inheritable=True)
        direct = self.both(pass_fds=(write, high))
        self.assertIn("93", direct[0])
        for fd in (read, write, high):
            os.close(fd)

    def test_mask_dispositions_umask_nice_limits_privileges_and_folder(self):
        def odd():
            os.umask(0o137)
            os.nice(3)
            os.chdir("/usr")
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGRTMIN + 3])
            for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGUSR2, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
                signal.signal(number, signal.SIG_IGN)
            ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        self.both(preexec_fn=odd, restore_signals=False)

    def test_the_exit_code_survives_a_caller_that_ignores_sigchld(self):
        done = run("sh", "-c", "exit 9", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.returncode, 9)

    def test_strange_arguments(self):
        words = ["", " ", "--", "-x", "a\nb", "é", "*", "$HOME", "x" * 100_000]
        done = run(PYTHON, "-c", "import sys; print(ascii(sys.argv[1:]))", *words)
        self.assertEqual(done.stdout.strip(), ascii(words))


class Folders(unittest.TestCase):
    def test_the_job_folder_is_there_while_it_runs_and_gone_after(self):
        jobs = os.path.join(runtime_folder(), "jobs")
        before = set(os.listdir(jobs)) if os.path.isdir(jobs) else set()
        done = run("ls", jobs)
        self.assertEqual(len(set(done.stdout.split()) - before), 1)
        self.assertEqual(set(os.listdir(jobs)), before)

    def test_an_unusable_folder_is_said_once_and_prevents_nothing(self):
        for folder in ("/proc/berth", "/dev/null/berth"):
            done = run("sh", "-c", "exit 5", env=environment(BERTH_RUNTIME_DIR=folder))
            self.assertEqual(done.returncode, 5)
            self.assertEqual(done.stderr.count("E0514"), 1, done.stderr)

    def test_a_relative_folder_is_refused_with_what_mends_it(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("sh", "-c", "exit 5", cwd=folder, env=environment(BERTH_RUNTIME_DIR="here"))
            self.assertEqual(done.returncode, 5)
            self.assertIn("BERTH_RUNTIME_DIR must begin with a slash (E0514)", done.stderr)
            self.assertIn('hint: export BERTH_RUNTIME_DIR="$PWD"/here', done.stderr)
            self.assertEqual(os.listdir(folder), [])
            # A relative XDG_RUNTIME_DIR is ignored, as its specification says; it is not an error.
            others = environment(BERTH_RUNTIME_DIR=None, XDG_RUNTIME_DIR="there", TMPDIR=folder)
            self.assertEqual(run("true", cwd=folder, env=others).stderr, "")
            self.assertNotIn("there", os.listdir(folder))

    def test_a_folder_that_others_can_write_to_says_so_and_what_mends_it(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            done = run("true", env=environment(BERTH_RUNTIME_DIR=folder))
            self.assertIn(f"{folder}: others can write to it (E0514)", done.stderr)
            hint = re.search("hint: (.*)", done.stderr).group(1)
            subprocess.run(["sh", "-c", hint], check=True)
            self.assertEqual(run("true", env=environment(BERTH_RUNTIME_DIR=folder)).stderr, "")
            os.chmod(folder, 0o1777)  # the mode of a folder like /tmp is not changed
            self.assertIn(f"hint: export BERTH_RUNTIME_DIR={folder}/berth",
                          run("true", env=environment(BERTH_RUNTIME_DIR=folder)).stderr)

    def test_a_folder_that_is_of_no_use_does_not_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            # The path itself is short enough, but a path below it is too long.
            parts = 4092 - len(folder)
            runtime = folder + "/" + "/".join(["x" * 99] * (parts // 100))
            runtime += "/" + "x" * (4092 - len(runtime) - 1)
            os.makedirs(os.path.dirname(runtime))
            done = run("true", env=environment(BERTH_RUNTIME_DIR=runtime))
            self.assertIn("E0514", done.stderr)
            self.assertFalse(os.path.exists(runtime))

    def test_a_folder_of_someone_else_is_not_used(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to make a folder of another user")
        with tempfile.TemporaryDirectory() as folder:
            os.chown(folder, 65534, 65534)
            done = run("true", env=environment(BERTH_RUNTIME_DIR=folder))
            self.assertEqual(done.returncode, 0)
            self.assertIn("it belongs to another user (uid 65534) (E0514)", done.stderr)
            self.assertEqual(os.listdir(folder), [])


main()
