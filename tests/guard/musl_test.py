#!/usr/bin/env python3
"""A program that was made for musl runs with the guard preloaded as it runs without: the guard cannot hold it, but must not stop it."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

GUARD = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""

# dlsym is the guard's own in such a program, so its answers must be musl's.
PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(void) {
  printf("%d\n", dlsym(RTLD_DEFAULT, "strlen") == (void *)strlen);
  printf("%d\n", dlsym(RTLD_DEFAULT, "no_such_function") == 0);
  printf("%s\n", dlerror() ? "error" : "none");
  printf("%d\n", dlsym(RTLD_DEFAULT, "cuInit") != 0);
  return 7;
}
"""


@unittest.skipUnless(shutil.which("musl-gcc"), "musl-gcc is not installed (musl-tools)")
class Musl(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="berth-musl-")
        self.addCleanup(folder.cleanup)
        source, self.program = os.path.join(folder.name, "main.c"), os.path.join(folder.name, "main")
        with open(source, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        subprocess.run(["musl-gcc", "-o", self.program, source], check=True)

    def output(self, **variables):
        return subprocess.run([self.program], capture_output=True, text=True, timeout=60, env={**os.environ, **variables})

    def test_it_runs_as_without_the_guard(self):
        without, guarded = self.output(), self.output(LD_PRELOAD=GUARD, BERTH_GUARD="/nonexistent")
        self.assertEqual(without.stdout.split(), ["1", "1", "error", "0"])
        self.assertEqual(guarded.stdout.split(), ["1", "1", "error", "1"], "the guard was not loaded, or its dlsym is not musl's")
        self.assertEqual((guarded.returncode, guarded.stderr), (without.returncode, without.stderr))


if __name__ == "__main__":
    if not shutil.which("musl-gcc"):
        print("musl-gcc is not installed: apt-get install musl-tools")
        sys.exit(77)
    unittest.main()
