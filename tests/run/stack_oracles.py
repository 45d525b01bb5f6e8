"""`berth stacks` names the same Python functions, files and lines as py-spy and pystack, two programs that read stacks in other ways.

usage: stack_oracles.py BERTH      (py-spy and pystack are beside this Python, or in PATH)"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

BERTH = sys.argv.pop(1)
HERE = os.path.dirname(sys.executable)
ORACLES = {name: shutil.which(name, path=HERE + os.pathsep + os.environ.get("PATH", "")) for name in ("py-spy", "pystack")}

# Each program waits in a way of its own, in all its threads, and then says that it is there.
PROGRAMS = {
    "calls": "def inner():\n    wait()\ndef outer():\n    inner()\nouter()\n",
    "a method": "class Model:\n    def forward(self):\n        return self.layer()\n    def layer(self):\n        wait()\nModel().forward()\n",
    "a generator": "def numbers():\n    yield 1\n    wait()\n    yield 2\ndef use():\n    return list(numbers())\nuse()\n",
    "a comprehension": "def load(one):\n    wait()\ndef all_of():\n    return [load(one) for one in range(3)]\nall_of()\n",
    "a function that C calls": "def key(one):\n    wait()\n    return one\ndef order():\n    return sorted([3, 1], key=key)\norder()\n",
    "a lambda": "(lambda one: wait())(1)\n",
    "an error that is handled": "try:\n    raise ValueError('x')\nexcept ValueError:\n    wait()\n",
    "deep recursion": "def down(left):\n    if left == 0:\n        wait()\n    else:\n        down(left - 1)\ndown(60)\n",
    "a lock in a second thread": ("import threading\nlock = threading.Lock()\nlock.acquire()\ndef work():\n    lock.acquire()\n"
                                  "threading.Thread(target=work, daemon=True).start()\ntime.sleep(0.5)\nwait()\n"),
    "a queue in a second thread": ("import queue, threading\ndef feed(q):\n    q.get()\n"
                                   "threading.Thread(target=feed, args=(queue.Queue(),), daemon=True).start()\ntime.sleep(0.5)\nwait()\n"),
}
BEGIN = "import os, sys, time\ndef wait():\n    open(sys.argv[1], 'w').close()\n    time.sleep(600)\n"


def short(name):
    """From Python 3.11 on, some programs say "Thread.run" for "run"."""
    return name.rsplit(".", 1)[-1]


def by_berth(pid):
    done = subprocess.run([BERTH, "stacks", "--json", str(pid)], capture_output=True, text=True, timeout=60)
    process = next(one for one in json.loads(done.stdout)["processes"] if one["pid"] == pid)
    return sorted([(one["file"], one["line"], one["function"]) for one in thread["frames"]] for thread in process["python"])


def by_py_spy(pid):
    done = subprocess.run([ORACLES["py-spy"], "dump", "--json", "--pid", str(pid)], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise unittest.SkipTest("py-spy cannot read it: " + done.stderr)
    return sorted([(one["filename"], one["line"], short(one["name"])) for one in thread["frames"]] for thread in json.loads(done.stdout))


def by_pystack(pid):
    done = subprocess.run([ORACLES["pystack"], "remote", str(pid)], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise unittest.SkipTest("pystack cannot read it: " + done.stderr)
    threads = []
    for line in done.stdout.splitlines():
        if line.startswith("Traceback for thread"):
            threads.append([])
        elif match := re.match(r'    \(Python\) File "(.*)", line (\d+), in (.*)', line):
            threads[-1].insert(0, (match[1], int(match[2]), short(match[3])))
    return sorted(threads)


class Same(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def compare(self, oracle, of_oracle):
        if not ORACLES[oracle]:
            self.skipTest(f"there is no {oracle} here")
        for number, (name, text) in enumerate(PROGRAMS.items()):
            with self.subTest(name):
                script, there = f"{self.folder}/p{number}.py", f"{self.folder}/there{number}"
                with open(script, "w") as file:
                    file.write(BEGIN + text)
                job = subprocess.Popen([BERTH, "run", "--ranks", "1", "--", sys.executable, script, there], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
                try:
                    for _ in range(600):
                        if os.path.exists(there):
                            break
                        time.sleep(0.05)
                    pid = int(subprocess.run(["pgrep", "-f", f"^[^ ]*{os.path.basename(os.path.realpath(sys.executable))[:6]}[^ ]* {script}"],
                                             capture_output=True, text=True).stdout.split()[0])
                    time.sleep(0.2)
                    self.assertEqual(by_berth(pid), of_oracle(pid))
                finally:
                    job.terminate()
                    job.wait()

    def test_py_spy(self):
        self.compare("py-spy", by_py_spy)

    def test_pystack(self):
        self.compare("pystack", by_pystack)


if __name__ == "__main__":
    unittest.main()
