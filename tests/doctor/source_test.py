#!/usr/bin/env python3
"""`berth doctor FILE…` as a user calls it: exit codes, errors, hostile files, and its cost. Well-kept files get no findings: a fixed
sample of installed packages; with BERTH_SOAK all of them, and packages of PyPI (well_kept.lock).

usage: source_test.py BERTH [healthy]       (healthy: only the well-kept files)
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zipfile

from packages import wheels

DATA = pathlib.Path(__file__).resolve().parent.parent / "data/source"
INSTALLED = pathlib.Path("/usr/lib/python3/dist-packages")
PACKAGES = ("torch", "sklearn")
SAMPLE = 40  # files of each package, evenly spaced in sorted order
FEWEST = 70  # files of one source


def doctor(berth, *words, code=(0, 1), **more):
    done = subprocess.run([berth, "doctor", *words], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "LC_ALL": "C.UTF-8"}, **more)
    assert done.returncode in code, (words, done.returncode, done.stdout, done.stderr)
    return done


def findings(berth, *files):
    return json.loads(doctor(berth, "--json", *map(str, files)).stdout)["findings"]


def seen_by_a_user(berth):
    done = doctor(berth, "train.py", code=(1,), cwd=DATA)
    assert "train.py:12" in done.stdout and "error SRC02" in done.stdout, done.stdout
    assert "→  berth run --gpus none -- python train.py" in done.stdout, done.stdout
    found = findings(berth, *(DATA / name for name in ("train.py", "job.sbatch", "Dockerfile", "notebook.ipynb")))
    told = [(pathlib.Path(one["file"]).name, one["line"], one["id"]) for one in found]
    assert told == [("train.py", 12, "SRC02"), ("train.py", 31, "SRC05"), ("job.sbatch", 3, "SRC39"),
                    ("Dockerfile", 1, "SRC23"), ("Dockerfile", 5, "SRC16"), ("notebook.ipynb", 9, "SRC06")], told
    assert not findings(berth, DATA / "right.py")
    doctor(berth, "job.sbatch", code=(0,), cwd=DATA)  # a warning is not a failure
    only = json.loads(doctor(berth, "--json", "--only", "src39", str(DATA / "train.py"), str(DATA / "job.sbatch")).stdout)
    assert [one["id"] for one in only["findings"]] == ["SRC39"], only
    # The language changes the words and nothing else.
    chinese = doctor(berth, "--lang", "zh", "train.py", code=(1,), cwd=DATA).stdout
    assert "ValueError，" in chinese, chinese


def articles(berth, folder):
    """Tutorial texts: "=== NAME RULE:LINE …" and the text, as a file and as standard input."""
    parts = re.split(r"^=== (.+)\n", (DATA / "articles.txt").read_text(), flags=re.M)[1:]
    assert len(parts) == 20, len(parts)
    for head, text in zip(parts[::2], parts[1::2]):
        name, *expected = head.split()
        (folder / name).write_text(text)
        document = json.loads(doctor(berth, "--json", name, cwd=folder).stdout)
        found = [f"{one['id']}:{one['line']}" for one in document["findings"]]
        assert found == expected and not document["not_checked"], (name, found, expected, document["not_checked"])
        pasted = json.loads(doctor(berth, "--json", "-", input=text).stdout)["findings"]
        assert [one["line"] for one in pasted] == [one["line"] for one in document["findings"]], (name, pasted)
    # For pasted text, the suggested command names train.py. Text that is not Python is not checked. Text without code is an error.
    done = doctor(berth, "-", code=(1,), input="```python\ntorch.cuda.set_device('cpu')\n```\n")
    assert "-:2" in done.stdout and "berth run --gpus none -- python train.py" in done.stdout, done.stdout
    document = json.loads(doctor(berth, "--json", "-", input="```python\nx = 1\nthis is prose\nx.cuda(\n```\n").stdout)
    assert document["not_checked"] and not document["findings"], document
    assert json.loads(doctor(berth, "--json", "-", input="print(hello world)\n").stdout)["not_checked"]
    for text in ("", "Some words about GPUs.\n\n1. First, import the data.\n2. If it fails: ask.\n", "只有文字，没有代码。\n"):
        done = doctor(berth, "-", code=(2,), input=text)
        assert "(E0860)" in done.stderr and "hint:" in done.stderr, done.stderr
    # A script or notebook on standard input is recognised as such.
    for name, rule in (("train.py", "SRC02"), ("notebook.ipynb", "SRC06")):
        found = json.loads(doctor(berth, "--json", "-", input=(DATA / name).read_text()).stdout)["findings"]
        assert found[0]["id"] == rule, (name, found)


def refused(berth, folder):
    os.mkfifo(folder / "pipe.py")
    with open(folder / "large.py", "wb") as file:
        file.truncate(1 << 30)
    (folder / "picture.png").write_bytes(b"\x89PNG")
    for name in ("missing.py", "pipe.py", "large.py", "picture.png", "."):
        begin = time.monotonic()
        done = doctor(berth, str(folder / name), code=(2,))
        assert "(E0807)" in done.stderr and "hint:" in done.stderr, done.stderr
        assert time.monotonic() - begin < 2, name
    for option in ("--from", "--pid", "--record"):
        assert "(E0808)" in doctor(berth, option, "1", str(DATA / "train.py"), code=(2,)).stderr
    assert "(E0806)" in doctor(berth, "--pid", "none", code=(2,)).stderr


def never_executed(berth, folder):
    made = folder / "made"
    (folder / "json.py").write_text(f"open({str(made)!r}, 'w')\n")
    (folder / "a.py").write_text(f"open({str(made)!r}, 'w')\nimport json\n")
    doctor(berth, "a.py", cwd=folder)
    assert not made.exists(), "the file, or one beside it, was executed"
    # Without an interpreter, unmistakable findings are still reported, and the other rules are not checked.
    done = subprocess.run([berth, "doctor", "--json", str(DATA / "train.py")], capture_output=True, text=True, timeout=60,
                          env={"PATH": str(folder), "LC_ALL": "C.UTF-8"})
    document = json.loads(done.stdout)
    assert [one["id"] for one in document["findings"]] == ["SRC02"] and document["not_checked"], document
    # An interpreter that hangs is killed, with its children.
    (folder / "python3").write_text("#!/bin/sh\nsleep 1000 & sleep 1000\n")
    (folder / "python3").chmod(0o755)
    begin = time.monotonic()
    subprocess.run([berth, "doctor", str(DATA / "train.py")], capture_output=True, timeout=60,
                   env={"PATH": f"{folder}:/usr/bin:/bin"})
    assert 9 < time.monotonic() - begin < 20


def cost(berth, folder):
    """Median of 9 runs in ms, for 1000 lines and for an empty file."""
    body = (DATA / "right.py").read_text()
    text = "".join(f"def part_{i}():\n" + "".join("    " + line + "\n" for line in body.splitlines())
                   for i in range(1 + 1000 // (1 + body.count("\n"))))
    (folder / "long.py").write_text("\n".join(text.splitlines()[:1000]) + "\n    pass\n")
    (folder / "empty.py").write_text("")
    medians = []
    for name in ("long.py", "empty.py"):
        times = []
        for _ in range(9):
            begin = time.monotonic()
            doctor(berth, str(folder / name))
            times.append(time.monotonic() - begin)
        medians.append(1000 * sorted(times)[4])
    print(f"1000 lines {medians[0]:.0f} ms, an empty file {medians[1]:.0f} ms")
    assert medians[0] - medians[1] < 2000, medians  # the goal is 100 ms; more than this means that something is broken


# Context for lines of docs/from-tutorials.md that mislead only in a context: (file, text).
PAGE = "from-tutorials.md"
IN_HANDLER = "import torch\ndef train(batch_size):\n  for tries in range(9):\n    try:\n      return fit(batch_size)\n    except {}\n      {}\n"
AROUND = {
    "SRC05": ("a.py", "import os, torch\nnet().cuda()\n{}\n"),
    "SRC06": ("a.ipynb", '{{"cells": [{{"cell_type": "code", "source": ["{}"]}}]}}'),
    "SRC07": ("Dockerfile", "FROM ubuntu\n{}\n"),
    "SRC12": ("a.py", "import torch\n{}\n"),
    "SRC13": ("a.py", IN_HANDLER.format("torch.OutOfMemoryError:", "{}")),
    "SRC14": ("a.py", IN_HANDLER.format("torch.OutOfMemoryError:", "{}")),
    "SRC15": ("a.py", IN_HANDLER.format("RuntimeError as e:", "{}\n        continue\n      raise")),
    "SRC24": ("a.py", "import timeit\nmodel = net().cuda()\ndef step():\n  model(x)\n{}\n"),
    "SRC25": ("a.py", "from torch import nn\n{}\n"),
    "SRC32": ("a.py", "from torch.nn.utils import prune\n{}\n"),
    "SRC34": ("a.py", "import multiprocessing, torch\ndef work():\n  net().cuda()\nnet().cuda()\n{}\n"),
    "SRC35": ("a.py", "for x in data:\n  loss = f(x)\n  loss.backward()\n  {}\n"),
    "SRC36": ("a.py", "for x in data:\n  loss = f(x)\n  loss.backward()\n  {}\n"),
    "SRC38": ("a.yaml", "kind: Pod\nspec:\n  resources:\n    {}\n"),
    "SRC42": ("a.py", "import torch\nx = torch.ones(3)\n{}\n"),
    "SRC45": ("a.py", "import os, torch\n{}\n"),
    "SRC47": ("Dockerfile", "FROM ubuntu\n{}\n"),
    "SRC49": ("a.py", "import os, torch\n{}\n"),
}


def page_rows(page):
    """(line, rule, command) of each table row that has a rule."""
    return re.findall(r"^\| `([^|]+)` \| [^|]+ \| (SRC\d\d) \| (`[^|]+`) \|$", page, re.M)


def tutorial_page(berth, folder):
    """The doctor finds every misleading line of docs/from-tutorials.md with the rule in its row."""
    docs = DATA.parent.parent.parent / "docs"
    rows = page_rows((docs / PAGE).read_text())
    rules = {rule["id"] for rule in json.loads(doctor(berth, "--json", "--list").stdout)["rules"]}
    assert len(rows) > 30 and len({rule for _, rule, _ in rows}) == len(rows), rows
    assert rows == page_rows((docs / PAGE.replace(".md", ".zh-CN.md")).read_text()), "the two languages have different rows"
    for line, rule, _ in rows:
        assert rule in rules, rule
        name, text = AROUND.get(rule, ("a.py" if "(" in line or " = " in line else "a.sh", "{}\n"))
        (folder / name).write_text(text.format(line))
        found = [one["id"] for one in findings(berth, folder / name)]
        assert rule in found, (rule, text.format(line), found)


def belief_rows(page):
    """(belief, its sources, command) of each row in the table of three columns, which has no rules."""
    cells = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (`[^|]+`) \|$", page, re.M)
    return [(belief, re.findall(r"\]\[([^]]+)\]", truth), command) for belief, truth, command in cells]


def commands_exist(berth, commands):
    """Each command in a row is a verb with existing options, or a name in the Python package."""
    package = (DATA.parent.parent.parent / "python/berth/__init__.py").read_text()
    helps = {}
    for command in commands:
        words = command.strip("`").split(" -- ")[0].split()
        if words[0] != "berth":
            name = re.fullmatch(r"@?berth\.(\w+)\(.*", words[0])
            assert name and name[1] in package, command
            continue
        if words[1] not in helps:
            told = subprocess.run([berth, words[1], "--help"], capture_output=True, text=True)
            assert told.returncode == 0, (command, told.stderr)
            helps[words[1]] = told.stdout
        for option in [word for word in words[2:] if word.startswith("--")]:
            assert option in helps[words[1]], (command, option)


def sources_of_the_page(berth):
    """docs/from-tutorials.md: rows are short, untested claims have a source, commands exist, and both languages have the same rows."""
    docs = DATA.parent.parent.parent / "docs"
    pages = [(docs / name).read_text() for name in (PAGE, PAGE.replace(".md", ".zh-CN.md"))]
    beliefs = belief_rows(pages[0])
    assert len(beliefs) == 9 and all(sources for _, sources, _ in beliefs), beliefs
    assert [row[1:] for row in beliefs] == [row[1:] for row in belief_rows(pages[1])], "the two languages have different rows"
    commands_exist(berth, [row[-1] for row in page_rows(pages[0]) + beliefs])
    of_rules = []
    for page, tried in zip(pages, ("(tried)", "（实测）")):
        targets = dict(re.findall(r"^\[([\w-]+)\]: (https://\S+)$", page, re.M))
        rows = [line for line in page.splitlines() if line.startswith("| ") and line.endswith("` |")]
        of_rules.append([re.findall(r"\]\[([\w-]+)\]", row) for row in rows])
        for row, named in zip(rows, of_rules[-1]):
            assert len(row) <= 200, (len(row), row)
            assert named or tried in row, f"no source: {row}"
            assert set(named) <= set(targets), (row, set(named) - set(targets))
        assert set(targets) == {one for named in of_rules[-1] for one in named}, "a link that no row uses"
    assert of_rules[0] == of_rules[1], "the two languages have different sources"


def evenly(files, most):
    return files if "BERTH_SOAK" in os.environ else files[::max(1, len(files) // most)]


def called_wrong(berth, files):
    """Returns the number of findings in well-kept files, and the findings above "info"."""
    found = []
    for i in range(0, len(files), 40):
        found += findings(berth, *files[i:i + 40])
    return len(found), [one for one in found if one["severity"] != "info"]


def of_installed_packages():
    return [path for package in PACKAGES for path in evenly(sorted((INSTALLED / package).rglob("*.py")), SAMPLE)]


def of_pypi(folder):
    """Files of PyPI libraries around PyTorch, with training scripts. Only files that mention PyTorch are kept."""
    kept = wheels("well_kept.lock") if "BERTH_SOAK" in os.environ else None
    if kept is None:
        return []
    for wheel in sorted(kept.glob("*.whl")):
        zipfile.ZipFile(wheel).extractall(folder / wheel.stem)
    files = [path for path in sorted(folder.rglob("*.py")) if b"torch" in path.read_bytes()]
    scripts = [path for path in files if {"scripts", "recipes", "examples", "commands"} & set(path.parts)]
    return scripts + evenly([path for path in files if path not in set(scripts)], 3 * SAMPLE)


def healthy(berth):
    with tempfile.TemporaryDirectory() as folder:
        by_source = {"installed": of_installed_packages(), "of PyPI": of_pypi(pathlib.Path(folder))}
        if not any(by_source.values()):
            print("skipped: neither of Debian's packages python3-torch and python3-sklearn is installed, and PyPI is out of reach")
            sys.exit(77)
        for name, files in by_source.items():
            if not files:
                continue
            assert len(files) >= FEWEST, f"{len(files)} files {name} prove little"
            told, bad = called_wrong(berth, files)
            print(f"{len(files)} well-kept files {name}: {told} findings, {len(bad)} of them more than information")
            assert not bad, json.dumps(bad, indent=1)


def main():
    berth = os.path.abspath(sys.argv[1])
    if sys.argv[2:] == ["healthy"]:
        return healthy(berth)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        seen_by_a_user(berth)
        articles(berth, folder)
        refused(berth, folder)
        cost(berth, folder)
        tutorial_page(berth, folder)
        sources_of_the_page(berth)
        never_executed(berth, folder)


main()
