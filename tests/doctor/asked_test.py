#!/usr/bin/env python3
"""`berth doctor` with --deep, --error and a command, as a user calls it. Modules in a folder play frameworks that work, fail, crash, hang
or leave children behind; the GPUs are simulated.

usage: asked_test.py BERTH"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from asked_fakes import make_venv


def run(*words, code=(0, 1), wait=60, text=None, **variables):
    done = subprocess.run(words, capture_output=True, text=True, timeout=wait, input=text,
                          env={**os.environ, "LC_ALL": "C.UTF-8", **variables})
    assert done.returncode in code, (words, done.returncode, done.stdout, done.stderr)
    return done


def deep(berth, venv, *words, **variables):
    begin = time.monotonic()
    done = run(berth, "sim", "--machine", "lab-4x3090", "--", berth, "doctor", "--json", "--deep", "--venv", str(venv),
               *words, **variables)
    document = json.loads(done.stdout)
    document["took"] = time.monotonic() - begin
    return document


def left_behind():
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if b"sleep\x004711" in (folder / "cmdline").read_bytes():
                found.append(folder.name)
        except OSError:
            pass
    return found


def probes(berth, folder):
    venv = make_venv(folder / "venv", "torch", "cupy")
    document = deep(berth, venv)
    assert [(one["framework"], one["state"]) for one in document["probe"]] == [("torch", "ran"), ("cupy", "ran")], document
    assert document["probe"][0]["devices"][1]["index"] == 1
    assert "\x1b" not in json.dumps(document, ensure_ascii=False)
    assert "PRB01" in document["checked"] and not [f for f in document["findings"] if f["id"] == "PRB01"]

    document = deep(berth, venv, FAKE_TORCH="fail")
    found = [one for one in document["findings"] if one["id"] == "PRB01"]
    assert [one["title"] for one in found] == ["torch 9.9 cannot run a kernel on its GPU 1"], document
    assert "no kernel image" in " ".join(found[0]["evidence"]) and "has no code for this GPU" in " ".join(found[0]["evidence"])
    assert [one["ran"] for one in document["probe"][0]["devices"]] == [True, False]

    for how, state, words in (("crash", "crashed", "Segmentation fault); Fatal: it breaks here"), ("import", "not_imported", "libcudart"),
                              ("none", "failed", "No CUDA GPUs are available"), ("cpu", "cpu_build", "")):
        one = deep(berth, venv, FAKE_TORCH=how)["probe"][0]
        assert one["state"] == state and words in (one["message"] or ""), (how, one)
    for how in ("noise", "children"):
        assert deep(berth, venv, FAKE_TORCH=how)["probe"][0]["state"] == "ran"
    assert not left_behind()

    # A framework that hangs delays the others only briefly. It is killed after 15 s.
    document = deep(berth, venv, FAKE_TORCH="hang")
    assert [one["state"] for one in document["probe"]] == ["no_answer", "ran"] and document["took"] < 16, document
    document = deep(berth, venv, FAKE_TORCH="hang", FAKE_CUPY="hang")
    assert document["took"] < 18 and {one["state"] for one in document["probe"]} == {"no_answer"}, document
    assert "hangs" in [one for one in document["findings"] if one["id"] == "PRB01"][0]["title"]

    # A module in the current folder does not belong to the target.
    (folder / "here").mkdir()
    (folder / "here/cupy.py").write_text("raise SystemExit('wrong')\n")
    done = subprocess.run([berth, "doctor", "--deep", "--json", "--venv", str(venv)], cwd=folder / "here", timeout=60,
                          capture_output=True, text=True)
    assert [one["state"] for one in json.loads(done.stdout)["probe"]] == ["ran", "ran"], done.stdout

    # Without --deep no probe runs, and no output mentions it.
    document = json.loads(run(berth, "doctor", "--json", "--venv", str(venv), FAKE_TORCH="crash").stdout)
    assert document["probe"] is None
    assert "PRB01" not in json.dumps(document)

    # A bundle holds the answers.
    bundle = folder / "bundle"
    run(berth, "doctor", "--deep", "--venv", str(venv), "--record", str(bundle), FAKE_TORCH="fail")
    again = json.loads(run(berth, "doctor", "--json", "--from", str(bundle)).stdout)
    assert again["probe"][0]["state"] == "failed", again["probe"]


def debian_torch(berth):
    if not pathlib.Path("/usr/lib/python3/dist-packages/torch/version.py").exists():
        print("not looked at: Debian's PyTorch is not installed")
        return
    done = run(berth, "doctor", "--deep", "--python", "/usr/bin/python3")
    assert "torch" in done.stdout and "built for the CPU, so no kernel was run" in done.stdout, done.stdout


def stuck_driver(berth):
    begin = time.monotonic()
    run(berth, "sim", "--machine", "lab-4x3090", "--fault", "hung:0", "--", berth, "doctor", "--json")
    took = time.monotonic() - begin
    print(f"a GPU whose driver hangs: {took:.1f} s")
    assert took < 10, took  # the goal is 3 s on an idle machine


def errors(berth, folder):
    text = "Traceback:\n\x1b[1mFailed to initialize NVML: Driver/library version mismatch\x1b[0m\r\n"
    sick = json.loads(run(berth, "sim", "--machine", "lab-4x3090", "--fault", "mismatch", "--", berth, "doctor", "--json",
                          "--error", "-", text=text).stdout)
    assert sick["error"][0]["message"] == "driver-mismatch" and sick["error"][0]["line"] == 2, sick["error"]
    assert sick["error"][0]["shown_by"] == ["DRV05"] and sick["findings"][0]["id"] == "DRV05", sick
    (folder / "log").write_text("Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0\n")
    before = json.loads(run(berth, "doctor", "--json", "--static").stdout)
    after = json.loads(run(berth, "doctor", "--json", "--static", "--error", str(folder / "log")).stdout)
    assert [one["id"] for one in after["findings"]][0] == "ERR01" and "line 1: " in after["findings"][0]["evidence"][0], after
    assert {one["id"] for one in after["findings"]} - {one["id"] for one in before["findings"]} == {"ERR01"}, "the text made a finding"
    assert before["error"] is None and after["error"][0]["message"] == "old-library"
    shown = run(berth, "doctor", "--static", "--error", str(folder / "log")).stdout
    assert shown.startswith("the pasted error: ") and "do this   " in shown and "line 1: " in shown, shown
    assert "contains no error message" in run(berth, "doctor", "--static", "--error", "-", text="all is well\n").stdout
    assert "错误文本" in run(berth, "doctor", "--lang", "zh", "--static", "--error", "-", text="x").stdout
    os.mkfifo(folder / "nobody-writes")
    for path in (str(folder / "missing"), str(folder), "/dev/zero"):
        assert "(E0820)" in run(berth, "doctor", "--error", path, code=(2,)).stderr
    told = run(berth, "doctor", "--error", str(folder / "nobody-writes"), code=(2,)).stderr
    assert "no process has opened this pipe for writing (E0820)" in told, told
    # The error of a CPU-only PyTorch is explained, with a GPU or without.
    site = make_venv(folder / "cpu") / "lib" / ("python%d.%d" % sys.version_info[:2]) / "site-packages"
    (site / "torch").mkdir(parents=True)
    (site / "torch/version.py").write_text("__version__ = '2.6.0+cpu'\ncuda = None\n")
    told = run(berth, "doctor", "--static", "--venv", str(folder / "cpu"), "--error", "-", text="AssertionError: Torch not compiled with CUDA enabled\n")
    if not os.path.exists("/proc/driver/nvidia"):
        assert f"this applies here: torch 2.6.0+cpu, {site}/torch/version.py: cuda = None" in " ".join(told.stdout.split()), told.stdout
    for line, name in (("nvrtc: error: failed to open libnvrtc-builtins.so.12.4.", "missing-library"),
                       ("ptxas fatal   : Value sm_120 is not defined for option gpu-name", "ptxas")):
        known = json.loads(run(berth, "doctor", "--json", "--static", "--error", "-", text=line + "\n").stdout)["error"]
        assert [one["message"] for one in known] == [name], (line, known)
    with open(folder / "large", "wb") as file:
        file.truncate(3 << 30)
        file.seek(0, 2)
        file.write(b"\ninvalid device ordinal\n")
    begin = time.monotonic()
    large = json.loads(run(berth, "doctor", "--json", "--static", "--error", str(folder / "large")).stdout)
    assert large["error"][0]["message"] == "bad-ordinal" and time.monotonic() - begin < 10
    (folder / "fork.py").write_text("import torch\n")
    file = json.loads(run(berth, "doctor", "--json", "--error", "-", str(folder / "fork.py"),
                          text="RuntimeError: Cannot re-initialize CUDA in forked subprocess.").stdout)
    assert file["error"][0]["rules"] == ["SRC34", "ENV22"], file


def commands(berth, folder):
    venv = make_venv(folder / "other", "cupy")
    (folder / "train.py").write_text("import torch\ntorch.cuda.set_device('cpu')\n")
    (folder / "job.sh").write_text(f"#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=-1\nsource {venv}/bin/activate\npython $1\n")
    document = json.loads(run(berth, "doctor", "--json", "--", "env", "A=1", "bash", str(folder / "job.sh"),
                              str(folder / "train.py"), code=(1,)).stdout)
    seen = document["command"]
    assert seen["python"] == f"{venv}/bin/python" and seen["environment"]["CUDA_VISIBLE_DEVICES"] == "-1", seen
    assert seen["files"] == [str(folder / "job.sh"), str(folder / "train.py")], seen
    assert "SRC02" in [one["id"] for one in document["findings"]], document["findings"]
    hidden = json.loads(run(berth, "sim", "--machine", "lab-4x3090", "--", berth, "doctor", "--json", "--", "env",
                            "CUDA_VISIBLE_DEVICES=-1", str(venv / "bin/python"), "-c", "1", code=(1,)).stdout)
    assert "ENV01" in [one["id"] for one in hidden["findings"]], hidden["findings"]
    shown = run(berth, "doctor", "--", str(venv / "bin/python"), str(folder / "train.py"), code=(1,)).stdout
    assert "program   " in shown and "set_device('cpu')" in shown, shown
    assert "(E0823)" in run(berth, "doctor", "--", "no-such-command", code=(2,)).stderr
    assert "cannot execute /tmp: Is a directory (E0823)" in run(berth, "doctor", "--", "/tmp", code=(2,)).stderr
    shown = run(berth, "doctor", "--static", "--", "env", "-i", str(venv / "bin/python"), A_ONE="1", A_TWO="2").stdout
    assert "of the current variables" in shown and "A_ONE" not in shown, shown
    for words, error in ((("python3", "trian.py"), "(E0822)"), (("python3", "-m", "no_such_module"), "(E0822)"),
                         ((str(folder / "train.py"),), "(E0823)"), (("conda", "run", "-n", "no", "python"), "(E0809)")):
        assert error in run(berth, "doctor", "--", *words, code=(2,)).stderr, words
    assert "(E0516)" in run(berth, "doctor", "--", code=(2,)).stderr
    for words in (["a.py", "--", "ls"], ["--from", ".", "--", "ls"], ["--deep", "--static"]):
        assert "(E0821)" in run(berth, "doctor", *words, code=(2,)).stderr, words

    # A program whose library is missing. It is a copy of `ls` with another name in its list of libraries.
    broken = folder / "broken"
    bytes_ = pathlib.Path("/bin/ls").read_bytes() if pathlib.Path("/bin/ls").exists() else b""
    if b"libc.so.6\0" in bytes_:
        broken.write_bytes(bytes_.replace(b"libc.so.6\0", b"libq.so.6\0", 1))
        broken.chmod(0o755)
        found = json.loads(run(berth, "doctor", "--json", "--", str(broken), code=(1,)).stdout)["findings"]
        assert found[0]["id"] == "CMD01" and "libq.so.6" in found[0]["title"], found


def files(berth, folder):
    """The target's own interpreter parses the files."""
    (folder / "new.py").write_text("import torch\ntorch.cuda.set_device('cpu')\n")
    (folder / "strange").mkdir()
    (folder / "strange/bin").mkdir()
    (folder / "strange/lib").mkdir()
    program = folder / "strange/bin/python"
    program.write_text("#!/bin/sh\necho '{\"problem\": \"syntax\", \"line\": 2}'\n")
    program.chmod(0o755)
    for words in (["--venv", str(folder / "strange")], ["--python", str(program)]):
        document = json.loads(run(berth, "doctor", "--json", *words, str(folder / "new.py")).stdout)
        assert str(program) in document["not_checked"][0]["why"], document
    document = json.loads(run(berth, "doctor", "--json", str(folder / "new.py"), VIRTUAL_ENV=str(folder / "strange")).stdout)
    assert document["not_checked"], document
    # If that interpreter fails, python3 parses them.
    program.write_text("#!/bin/sh\nexit 3\n")
    document = json.loads(run(berth, "doctor", "--json", "--python", str(program), str(folder / "new.py"), code=(1,)).stdout)
    assert [one["id"] for one in document["findings"]] == ["SRC02"], document
    for words, hint in ((("--python", "/nowhere/python"), "command -v python3"), (("--python", "/etc/passwd"), "is not executable"),
                        (("--python", str(folder / "strange")), "berth doctor --venv "), (("--venv", str(folder / "no")), "python3 -m venv "),
                        (("--conda", "trian"), "did you mean train?   conda env list")):
        (folder / "miniconda3/envs/train/conda-meta").mkdir(parents=True, exist_ok=True)
        told = run(berth, "doctor", *words, code=(2,), HOME=str(folder)).stderr
        assert "(E0809)" in told and hint in told, told
    assert "(E0809)" in run(berth, "doctor", "--python", "/nowhere/python", str(folder / "new.py"), code=(2,)).stderr
    assert "(E0801)" in run(berth, "doctor", "--from", "/nowhere", code=(2,)).stderr
    for words in (("--python", "x", "--venv", "y"), ("--venv", "x", "--pid", "1"), ("--from", "x", "--pid", "1"), ("--conda", "x", "--venv", "y")):
        assert "(E0821)" in run(berth, "doctor", *words, code=(2,)).stderr, words


def which_python(berth, folder):
    """The output says whose packages were examined. A Python that no longer exists is not reported as healthy."""
    venv = make_venv(folder / "looked")
    version = "%d.%d.0" % sys.version_info[:2]
    document = json.loads(run(berth, "doctor", "--json", "--static", "--venv", str(venv)).stdout)
    assert document["python"] == {"path": f"{venv}/bin/python", "version": version}, document["python"]
    assert f"examined   {venv}/bin/python ({version})" in run(berth, "doctor", "--static", "--venv", str(venv)).stdout
    assert json.loads(run(berth, "doctor", "--json", str(folder / "new.py")).stdout)["python"] is None
    assert "no Python was found in PATH" in run(berth, "doctor", "--static", PATH="/nonexistent", VIRTUAL_ENV="", CONDA_PREFIX="").stdout or \
        pathlib.Path("/usr/lib/python3").exists()
    told = run(berth, "doctor", "--explain", "fw02", code=(0,)).stdout
    assert "looks at   " in told and "to fix it   " in told and "refuted by   " in told, told
    assert "berth run … -- python train.py" in run(berth, "doctor", "--explain", "src05", code=(0,)).stdout
    (venv / "bin/python").unlink()
    (venv / "bin/python").symlink_to("/nowhere/python3.9")
    assert "(E0809)" in run(berth, "doctor", "--venv", str(venv), code=(2,)).stderr
    for gone in (str(venv), str(folder / "nothing")):
        found = json.loads(run(berth, "doctor", "--json", "--static", VIRTUAL_ENV=gone, code=(1,)).stdout)["findings"]
        assert "ENV23" in [one["id"] for one in found], found


def main():
    berth = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(os.path.realpath(folder))
        probes(berth, folder)
        debian_torch(berth)
        stuck_driver(berth)
        errors(berth, folder)
        commands(berth, folder)
        files(berth, folder)
        which_python(berth, folder)


main()
