#!/usr/bin/env python3
"""A home folder on an unreachable server, played by a FUSE mount that accepts requests and never answers: a process that accesses it
sleeps and cannot be killed.

usage: dead_mount_test.py BERTH
"""
import ctypes
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading

BERTH = sys.argv[1]
SKIPPED = 77


def mount_dead(folder):
    """Mounts a FUSE file system. Returns the descriptor of its requests. Raises OSError if the kernel does not allow it."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    if libc.mount(b"gone", folder.encode(), b"fuse.gone", 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    return device


def take_and_never_answer(device):
    """Answers only FUSE_INIT, because without that the kernel sends no other request."""
    initialize = 26
    while True:
        try:
            asked = os.read(device, 1 << 20)
        except OSError:
            return
        _, operation, number = struct.unpack_from("IIQ", asked)
        if operation == initialize:
            os.write(device, struct.pack("IiQ", 80, 0, number) + struct.pack("IIIIHHIIHH32x", 7, 26, 0, 0, 0, 0, 4096, 1, 0, 0))


def run(*words, **environment):
    try:
        return subprocess.run([BERTH, "doctor", "--json", *words], capture_output=True, text=True, timeout=20, cwd="/",
                              env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **environment})
    except subprocess.TimeoutExpired:
        sys.exit(f"berth doctor {' '.join(words)} waits for a server that is gone")


def doctor(*words, **environment):
    done = run(*words, **environment)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def main():
    if os.environ.get("BERTH_OWN_MOUNTS") != "yes":
        words = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, *sys.argv]
        try:
            sys.exit(subprocess.run(words, env={**os.environ, "BERTH_OWN_MOUNTS": "yes"}, timeout=110).returncode)
        except FileNotFoundError:
            print("skipped: there is no unshare")
            sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as top:
        home = top + "/home"
        os.mkdir(home)
        os.symlink(home, top + "/link")
        try:
            device = mount_dead(home)
        except OSError as error:
            print(f"skipped: no file system can be mounted here ({error})")
            sys.exit(SKIPPED)
        threading.Thread(target=take_and_never_answer, args=(device,), daemon=True).start()
        try:
            check(home, top)
        finally:
            # From now on the kernel answers all requests with an error, also those of the thread above.
            subprocess.run(["umount", "-f", home], check=False)
            os.close(device)
            subprocess.run(["umount", "-l", home], check=False)


def check(home, top):
    for where in (home, top + "/link"):
        for words in (["--static"], []):
            document = doctor(*words, HOME=where, PATH=f"{where}/bin:/usr/bin:/bin", PYTHONPATH=where + "/lib")
            unchecked = {one["id"]: one["why"] for one in document["not_checked"]}
            assert "RT14" in unchecked, unchecked
            assert where in unchecked["RT14"] and "time" in unchecked["RT14"].lower(), unchecked["RT14"]
    # Rules that do not depend on the home folder are still checked.
    assert "DRV01" in document["checked"] + [one["id"] for one in document["findings"]], document
    # The requested path is in that folder.
    for words in ([home + "/train.py"], ["--static", "--venv", home + "/venv"], ["--from", home + "/bundle"], ["--record", home + "/new"],
                  ["--error", home + "/log"]):
        said = run(*words, HOME="/").stderr
        assert home in said and "time" in said.lower(), said
    sleeper = subprocess.Popen(["/bin/sleep", "100"], env={"HOME": home, "PATH": home + "/bin:/bin"})
    try:
        assert doctor("--static", "--pid", str(sleeper.pid), HOME="/")["not_checked"]
    finally:
        sleeper.kill()
        sleeper.wait()
    assert pathlib.Path("/proc/self/mountinfo").read_text().count("fuse.gone") == 1


if __name__ == "__main__":
    main()
