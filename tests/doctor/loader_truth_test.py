#!/usr/bin/env python3
"""Compares the loader simulation with glibc on generated libraries and folders, with RPATH, RUNPATH, LD_LIBRARY_PATH, LD_PRELOAD and
empty files. The output of LD_TRACE_LOADED_OBJECTS must equal the simulation's.

usage: loader_truth_test.py PROBE [CASES]
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile

FOLDERS = ["d0", "d1", "d2", "d3"]
LIBRARIES = [f"libberth{letter}.so.1" for letter in "abcdef"]
REAL = ["/usr/bin/python3", "/usr/bin/git", "/usr/bin/cmake", "/usr/lib/python3/dist-packages/torch/lib/libtorch_cpu.so"]
LOADER = "/lib64/ld-linux-x86-64.so.2"
ENVIRONMENTS = 6  # number of environments for each layout


def call(*command):
    subprocess.run([str(word) for word in command], check=True)


class Layout:
    """One program with random libraries and random copies of them."""

    def __init__(self, chance, folder, object_file, main_file):
        self.folder = folder
        stubs = folder / "stubs"
        stubs.mkdir(parents=True)
        for name in LIBRARIES:
            call("ld", "-shared", "-o", stubs / name, "-soname", name, object_file)
        for place in FOLDERS:
            (folder / place).mkdir()
        for index, name in enumerate(LIBRARIES):
            for place in chance.sample(FOLDERS, chance.choice([0, 1, 2, 3, 4, 4, 4])):
                needed = [stubs / other for other in LIBRARIES[index + 1:] if chance.random() < 0.4]
                call("ld", "-shared", "--no-as-needed", "-o", folder / place / name, "-soname", name, object_file, *needed,
                     *self.paths(chance))
                if chance.random() < 0.04:
                    (folder / place / name).write_bytes(b"")
        self.program = folder / "d0" / "program"
        needed = [stubs / name for name in LIBRARIES if chance.random() < 0.5] or [stubs / LIBRARIES[0]]
        call("gcc", "-o", self.program, main_file, "-Wl,--no-as-needed,--allow-shlib-undefined", *needed,
             *[f"-Wl,{word}" for word in self.paths(chance)])

    def place(self, chance):
        name = chance.choice(FOLDERS)
        return chance.choice([f"$ORIGIN/../{name}", "${ORIGIN}/../" + name, str(self.folder / name)])

    def paths(self, chance):
        """Randomly none, an RPATH or a RUNPATH."""
        kind = chance.choice(["", "--disable-new-dtags", "--disable-new-dtags", "--enable-new-dtags", "--enable-new-dtags"])
        if not kind:
            return []
        return [kind, "-rpath=" + ":".join(self.place(chance) for _ in range(chance.choice([1, 2, 3])))]

    def environment(self, chance):
        found = {}
        if chance.random() < 0.6:
            found["LD_LIBRARY_PATH"] = ":".join(str(self.folder / name) for name in chance.sample(FOLDERS, chance.choice([1, 2])))
        if chance.random() < 0.3:
            copies = [str(path) for name in FOLDERS for path in sorted((self.folder / name).glob("lib*"))]
            if copies:
                found["LD_PRELOAD"] = chance.choice(copies)
        return found


def loaded(command, environment, ours=True):
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    text = done.stdout
    if done.returncode != 0:  # "PROGRAM: error while loading shared libraries: FILE: file too short"
        problem = (done.stdout + done.stderr).splitlines()[-1].split(": ")
        return {problem[-1]: os.path.realpath(problem[-2])}
    found = {}
    for line in text.splitlines():
        words = line.split(" (0x")[0].strip()
        name, _, path = words.partition(" => ")
        path = path or name
        if ours != ("berth" in os.path.basename(path) or "berth" in name):
            continue
        if not os.path.basename(name).startswith(("linux-vdso", "ld-linux")):
            found[os.path.basename(name)] = path if path == "not found" else os.path.realpath(path)
    return found


def main():
    probe, cases = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 240
    seed = int(os.environ.get("BERTH_SEED", "1"))
    chance = random.Random(seed)
    done = different = not_found = too_short = 0
    with tempfile.TemporaryDirectory() as top:
        top = pathlib.Path(os.path.realpath(top))
        (top / "empty.c").write_text("")
        (top / "main.c").write_text("int main(void) { return 0; }\n")
        call("gcc", "-c", "-fPIC", "-o", top / "empty.o", top / "empty.c")
        for number in range(-(-cases // ENVIRONMENTS)):
            layout = Layout(chance, top / f"case{number}", top / "empty.o", top / "main.c")
            for _ in range(ENVIRONMENTS):
                variables = layout.environment(chance)
                truth = loaded([layout.program], {**variables, "LD_TRACE_LOADED_OBJECTS": "1"})
                said = loaded([probe, str(layout.program), *(f"{name}={value}" for name, value in variables.items())], {})
                done += 1
                not_found += "not found" in truth.values()
                too_short += "file too short" in truth
                if truth != said:
                    different += 1
                    if different < 6:
                        print(f"case {number}, {variables}:\n  glibc      {truth}\n  simulation {said}")
    print(f"{done} cases, {different} different; in {not_found} something was not found, in {too_short} a file was empty")
    for program in REAL:
        if os.path.exists(program) and os.path.exists(LOADER):
            truth = loaded([LOADER, "--list", program], {}, ours=False)
            said = loaded([probe, program], {}, ours=False)
            print(f"{program}: {len(truth)} libraries")
            assert truth and truth == said, f"glibc {truth}\nsimulation {said}"
    assert done >= cases and not_found > 0 and too_short > 0, "the cases are not what they should be"
    assert different == 0


main()
