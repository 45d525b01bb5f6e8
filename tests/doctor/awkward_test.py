#!/usr/bin/env python3
"""`berth doctor` with realistic unusual input: relative paths, blanks, ~, a moved environment, a folder instead of a file, Windows files,
notebooks with IPython syntax, another process, a root without /sys and /proc. The message must be true and the hint must help.

usage: awkward_test.py BERTH"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from asked_fakes import make_venv

WRONG = 'import torch\ntorch.cuda.set_device("cpu")\n'


def run(berth, folder, *words, code=(0, 1), **variables):
    done = subprocess.run([berth, "doctor", *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "LC_ALL": "C.UTF-8", **variables})
    assert done.returncode in code, (words, done.returncode, done.stdout, done.stderr)
    return done


def document(berth, folder, *words, **more):
    return json.loads(run(berth, folder, "--json", *words, **more).stdout)


def places_of_a_python(berth, folder):
    make_venv(folder / "old name")
    (folder / "old name").rename(folder / "my env")
    os.symlink("my env", folder / "link")
    python = str(folder / "my env/bin/python")
    for words in (("--venv", "my env"), ("--venv", "./my env/"), ("--python", "my env/bin/python"), ("--venv=~/my env",)):
        seen = document(berth, folder, "--static", *words, HOME=str(folder))["python"]["path"]
        assert os.path.realpath(os.path.dirname(seen)) == os.path.realpath(os.path.dirname(python)), (words, seen)
    assert document(berth, folder, "--static", "--venv", "link")["python"]["path"] == str(folder / "link/bin/python")
    # A name without a folder is searched in PATH.
    assert document(berth, folder, "--static", "--python", "python", PATH=str(folder / "my env/bin"))["python"]["path"] == python
    # A path inside an environment leads to a hint with that environment, and not to one that creates another.
    for word in ("my env/bin", "my env/bin/python", "my env/lib"):
        told = run(berth, folder, "--venv", word, code=(2,)).stderr
        assert f"hint: berth doctor --venv '{folder}/my env'" in told, told
    told = run(berth, folder, "--venv=~/none", code=(2,), HOME=str(folder)).stderr
    assert f"python3 -m venv {folder}/none" in told, told


def nothing_is_deleted(berth, folder):
    """An empty name, as from an unset variable in "$VENV", is refused. No hint would delete a folder's contents."""
    for option in ("--venv", "--python", "--conda", "--from", "--record", "--error", "--only", "--explain"):
        told = run(berth, folder, option, "", code=(2,)).stderr
        assert f"{option} " in told and "is empty" in told and "(E0825)" in told and "-m venv" not in told, told
    assert "(E0825)" in run(berth, folder, "", code=(2,)).stderr
    assert run(berth, folder, "--only", "HW01,,HW02,").returncode == 0
    make_venv(folder / "gone")
    for name in os.listdir(folder / "gone/bin"):
        os.unlink(folder / "gone/bin" / name)
    os.symlink("/nowhere/python3.9", folder / "gone/bin/python")
    (folder / "gone/precious.txt").write_text("mine")
    for where, word, new in ((folder, "gone", "gone-new"), (folder, "gone/", "gone-new"), (folder / "gone", ".", f"{folder}/gone-new")):
        told = run(berth, where, "--venv", word, code=(2,)).stderr
        assert f"hint: python3 -m venv {new}\n" in told, told
    (folder / "gone-new").mkdir()
    assert "hint: python3 -m venv gone-new2\n" in run(berth, folder, "--venv", "gone", code=(2,)).stderr


def no_python(berth, folder):
    empty, closed = folder / "empty", folder / "none"
    empty.mkdir()
    looked = lambda **variables: next(line for line in run(berth, folder, "--static", **variables).stdout.splitlines()
                                      if line.startswith("examined"))
    alone = {"VIRTUAL_ENV": "", "CONDA_PREFIX": ""}
    assert "no Python was found in PATH" in looked(PATH=str(empty), **alone) or os.path.exists("/usr/lib/python3")
    # No folder in PATH can be read, so it is not known whether there is a Python.
    if not os.path.exists("/usr/lib/python3"):
        assert "cannot find out whether there is a Python" in looked(PATH=str(closed), **alone)
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        out = run(berth, folder, "--static", "--pid", sleeper.pid).stdout
        assert "/sleep is not a Python interpreter" in out, out
    finally:
        sleeper.kill()
        sleeper.wait()


def files(berth, folder):
    wrong = {"crlf.py": WRONG.replace("\n", "\r\n").encode(), "bom.py": b"\xef\xbb\xbf" + WRONG.encode(), "a b.py": WRONG.encode()}
    for name, data in wrong.items():
        (folder / name).write_bytes(data)
        found = document(berth, folder, name)["findings"]
        assert [(one["id"], one["line"]) for one in found] == [("SRC02", 2)], (name, found)
    (folder / "Dockerfile").write_bytes(b"\xef\xbb\xbfFROM nvidia/cuda:11.3.1-base\r\n")
    assert [one["line"] for one in document(berth, folder, "Dockerfile")["findings"]] == [1]
    (folder / "requirements.txt").write_text("tensorflow-gpu==2.9\r\n", encoding="utf-16")
    assert [one["id"] for one in document(berth, folder, "requirements.txt")["findings"]] == ["SRC16"]
    (folder / "requirements").mkdir()
    for name in ("requirements-dev.in", "constraints.in", "requirements/base.txt"):
        (folder / name).write_text("tensorflow-gpu==2.9\n")
        assert [one["id"] for one in document(berth, folder, name)["findings"]] == ["SRC16"], name
    (folder / "wide.py").write_text(WRONG, encoding="utf-16")
    (folder / "empty.ipynb").write_text("")
    (folder / "old.ipynb").write_text('{"nbformat": 3, "worksheets": []}')
    (folder / "code").mkdir()
    for name, why, hint in (("wide.py", "UTF-16", ""), ("empty.ipynb", "it is empty", ""), ("old.ipynb", "format 4", "jupyter nbconvert"),
                            ("code", "it is a folder", "berth doctor code/*.py"), ("my env", "it is a folder", "--venv 'my env'")):
        told = run(berth, folder, name, code=(2,)).stderr
        assert why in told and hint in told and "(E0807)" in told, told
    # A rule that cannot be checked is an error; it is not ignored.
    for words in (("--only", "HW01,SRC02"), ("--only", "SRC02,HW01", "crlf.py")):
        assert "(E0824)" in run(berth, folder, *words, code=(2,)).stderr
    for word in ("0x10", "-1", "self", "1 "):
        assert "(E0806)" in run(berth, folder, "--pid", word, code=(2,)).stderr, word
    (folder / "plain").write_text("")
    assert "plain: Not a directory" in run(berth, folder, "--record", "plain", code=(2,)).stderr


def bundles(berth, folder):
    run(berth, folder, "--static", "--record", "recorded")
    told = run(berth, folder, "--from", "recorded", "--venv", "/nowhere", code=(2,)).stderr
    assert "-m venv" not in told, "nobody makes an environment on a recorded machine"
    bare = folder / "bare/root"
    for place in ("usr/lib", "etc", "proc"):
        (bare / place).mkdir(parents=True)
    found = document(berth, folder, "--from", "bare")
    assert "it was not checked whether there is a GPU" in found["verdict"], found["verdict"]
    missing = {one["id"]: one["why"] for one in found["not_checked"]}
    assert missing["HW01"] == "/sys is empty or not mounted here" and "HW01" not in found["checked"], missing
    assert "/proc is empty or not mounted here" in missing.values()
    assert not [one for one in found["checked"] if one.startswith(("HW", "DRV", "AMD"))], found["checked"]


def another_process(berth, folder):
    venv = make_venv(folder / "of it", "torch")
    program = subprocess.Popen(["of it/bin/python", "-c", "import time; print(1, flush=True); time.sleep(60)"], cwd=folder,
                               stdout=subprocess.PIPE, env={**os.environ, "FAKE_TORCH": "fail", "PYTHONDONTWRITEBYTECODE": "1"})
    try:
        program.stdout.readline()
        seen = document(berth, folder, "--static", "--pid", program.pid)
        assert seen["python"]["path"] == str(venv / "bin/python"), seen["python"]
        # The probe runs with the interpreter and the variables of that process.
        tried = subprocess.run([berth, "sim", "--machine", "lab-4x3090", "--", berth, "doctor", "--json", "--deep", "--pid", str(program.pid)],
                               capture_output=True, text=True, timeout=60, cwd="/")
        found = json.loads(tried.stdout)
        assert [(one["framework"], one["state"]) for one in found["probe"] or []] == [("torch", "failed")], (found["probe"], tried.stderr)
    finally:
        program.kill()
        program.wait()
    if os.geteuid() != 0:
        return
    # A Python of another user is not run.
    program = subprocess.Popen(["sleep", "60"], user=65534, group=65534, extra_groups=[], cwd="/")
    try:
        found = document(berth, folder, "--deep", "--pid", program.pid)
        why = {one["id"]: one["why"] for one in found["not_checked"]}
        assert "another user" in why["PRB01"], why
    finally:
        program.kill()
        program.wait()


def main():
    berth = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        places_of_a_python(berth, folder)
        nothing_is_deleted(berth, folder)
        no_python(berth, folder)
        files(berth, folder)
        bundles(berth, folder)
        another_process(berth, folder)


main()
