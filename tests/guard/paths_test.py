#!/usr/bin/env python3
"""Every way to find the driver's functions leads through the guard, and the guard changes no answer: names, versions and flags give the
same result with and without it."""
import ctypes
import json
import os
import re
import subprocess
import sys
import unittest

BERTH, DIRECT = (os.path.abspath(sys.argv.pop(1)) for _ in range(2)) if len(sys.argv) > 2 else ("", "")
HERE = os.path.abspath(__file__)
VERSIONS = os.path.join(os.path.dirname(HERE), "..", "..", "src", "vendor", "cuda", "versions.inc")
GIB = 1 << 30


class DlInfo(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def queries():
    """Every name in every version it came with, the ones before and after, in all flags."""
    with open(VERSIONS) as file:
        rows = re.findall(r"^BERTH_CUDA\((\w+), (\d+),", file.read(), re.M)
    for name, version in rows + [("cuNoSuchFunction", "12000")]:
        for asked in (int(version) - 1, int(version), 13050, 2000):
            for flags in (0, 1, 2):
                yield name, asked, flags


def print_answers():
    """In the simulation: what the driver, or the guard, says to each."""
    cuda, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
    cuda.cuInit(0)
    answers = []
    for name, version, flags in queries():
        function, status = ctypes.c_void_p(), ctypes.c_int(-1)
        result = cuda.cuGetProcAddress_v2(name.encode(), ctypes.byref(function), version, ctypes.c_uint64(flags), ctypes.byref(status))
        info = DlInfo()
        if function.value:
            libc.dladdr(function, ctypes.byref(info))
        # Names of one function that is exported twice: which of them is told, is chance.
        found = re.sub(r"(_v\d)?(_ptsz|_ptds)?$", "", (info.name or b"").decode())
        answers.append([name, version, flags, result, status.value, found, os.path.basename((info.file or b"").decode())])
    print(json.dumps(answers))


def simulated(*command):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "CUDA_"))}
    return subprocess.run([BERTH, "sim", "--machine", "workstation-4090", "--", *command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env={**env, "LANG": "C"}, timeout=100)


class Paths(unittest.TestCase):
    def test_a_program_that_is_linked_to_the_driver(self):
        plain = simulated(DIRECT, str(2 * GIB))
        self.assertEqual(plain.stdout, "0 0 0\n", plain.stderr)
        held = simulated(BERTH, "run", "--memory", "2GiB", "--", DIRECT, str(2 * GIB))
        self.assertEqual(held.stdout, "2 2 0\n", held.stderr)

    def test_every_query_gets_the_same_answer(self):
        plain = simulated(sys.executable, HERE)
        held = simulated(BERTH, "run", "--memory", "2GiB", "--", sys.executable, HERE)
        before, after = json.loads(plain.stdout), json.loads(held.stdout)
        self.assertEqual(len(before), len(after))
        replaced = set()
        for one, other in zip(before, after):
            # Result, status and the function's own name; only the library that it is in may differ.
            self.assertEqual(one[:6], other[:6])
            if one[6] != other[6]:
                replaced.add(other[5])
        self.assertIn("cuMemAlloc", replaced)
        self.assertIn("cuLaunchKernel", replaced)
        self.assertNotIn("cuDeviceGetCount", replaced)


if __name__ == "__main__":
    if BERTH:
        unittest.main(verbosity=2)
    print_answers()
