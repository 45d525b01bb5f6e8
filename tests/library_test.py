#!/usr/bin/env python3
"""libberth from a C program: compiled with the header as C99 and as C++, linked only to the library, on a simulated machine with one GPU.

usage: library_test.py BERTH LIBRARY
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "broker"))
from machine import Machine  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = ""


class Library(Machine):
    machine = "workstation-4090"

    def build(self, *flags, compiler="cc", source=ROOT / "tests/library/consumer.c"):
        program = self.folder / "consumer"
        subprocess.run([compiler, *flags, "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{ROOT}/include", "-o", program,
                        source, LIBRARY, f"-Wl,-rpath,{os.path.dirname(LIBRARY)}"], check=True)
        return program

    def use(self, program, *words, **more):
        return subprocess.run([program, *words], env={**self.variables, "LC_ALL": "C.UTF-8", **more}, capture_output=True, text=True,
                              timeout=60)

    def test_a_c_program_gets_what_berth_run_gets(self):
        done = self.use(self.build("-std=gnu99"), self.berth)
        self.assertEqual(done.returncode, 0, done.stderr)
        machine, lease, why = map(json.loads, done.stdout.splitlines())
        gpu = machine["devices"][0]
        self.assertEqual(lease["job"]["devices"][0]["uuid"], gpu["uuid"])
        self.assertEqual(lease["environment"]["devices"][0]["uuid"], gpu["uuid"])
        settings = {one["name"]: one["value"] for one in lease["environment"]["settings"]}
        said = json.loads(self.run_berth("env", "--gpus", "1", "--json").stdout)
        self.assertEqual(settings, {one["name"]: one["value"] for one in said["settings"]})
        self.assertIn("GPU 0: job 1", why["message"])
        jobs = {one["id"]: one for one in self.call("GET", "/v1/jobs?all")["jobs"]}
        self.assertEqual([(jobs[1]["state"], jobs[1]["command"]), (jobs[2]["state"], jobs[2]["name"])], [("done", []), ("failed", "second")])

    def test_the_header_is_for_cpp_too(self):
        program = self.folder / "program.cpp"
        program.write_text("#include <berth/berth.h>\nint main() { return berth_abi() - BERTH_ABI; }\n")
        done = self.use(self.build(compiler="c++", source=program))
        self.assertEqual(done.returncode, 0)

    def test_without_the_program_it_says_so(self):
        done = self.use(self.build("-std=gnu99"), "/nowhere/berth")
        self.assertEqual(done.returncode, 1)
        self.assertIn("E0550", done.stderr)

    def test_in_a_job_the_lease_is_the_jobs(self):
        # The outer job has the only GPU, so a request for another lease would wait forever.
        code = ("import ctypes, json, sys; library = ctypes.CDLL(sys.argv[1]); lease, said = ctypes.c_void_p(), ctypes.c_char_p()\n"
                "assert library.berth_lease_ask(b'{\"request\":{\"gpus\":1}}', ctypes.byref(lease)) == 0\n"
                "assert library.berth_lease_wait(lease, 0, ctypes.byref(said)) == 0; print(json.loads(said.value)['job']['id'])\n"
                "assert library.berth_lease_ask(b'{\"request\":{\"gpus\":2}}', ctypes.byref(lease)) == 6")
        done = self.run_berth("run", "--gpus", "1", "--", sys.executable, "-c", code, LIBRARY)
        self.assertEqual((done.returncode, done.stdout), (0, "1\n"), done.stderr)


if __name__ == "__main__":
    LIBRARY = os.path.abspath(sys.argv.pop(2))
    Machine.berth = os.path.abspath(sys.argv.pop(1))
    unittest.main()
