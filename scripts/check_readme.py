#!/usr/bin/env python3
"""Checks the examples in README.md, README.zh-CN.md and docs/: every `berth …` and `./dev …` is a valid call, every named file exists,
and every block after <!-- shows: COMMAND --> equals the command's output, except for numbers. After a change of output: check_readme.py
--berth build/dev/berth --update"""
import difflib
import json
import os
import pathlib
import re
import shlex
import subprocess

import checking
from check_verbs import command_problems

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
SHOWS = re.compile(r"<!-- shows: (.+?) -->\n```text\n(.*?)```", re.S)
INLINE = re.compile(r"`((?:berth|\./dev)(?: [^`\n]*)?)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")
ALIKE = 0.75
PAGES = ("README.md", "README.zh-CN.md", "CONTRIBUTING.md", "benchmarks/README.md")


def commands_in(page: str):
    """Yields the command lines in shell blocks and in the text that start with berth or ./dev."""
    for language, block in FENCE.findall(page):
        if language in ("", "sh", "shell", "console", "bash"):
            for line in block.replace("\\\n", " ").splitlines():
                line = line.removeprefix("$ ").strip()
                if line.startswith(("berth", "./dev")):
                    yield line
    yield from INLINE.findall(FENCE.sub("", page))


def words_of(line: str) -> list[str]:
    """The words of the first command of a line, without its comment."""
    line = re.split(r"\s{3,}", line)[0]  # text after three or more spaces is a description, not a part of the command
    words = shlex.split(line.replace("…", "x"), comments=True)
    cut = next((i for i, word in enumerate(words) if word in ("|", ">", ">>", "2>", "&&", ";", "&", "<")), len(words))
    return words[:cut]


def page_problems(name, page, table, verbs_of_dev, root):
    for line in commands_in(page):
        words = words_of(line)
        if words[0] == "./dev":
            if len(words) > 1 and words[1] not in verbs_of_dev:
                yield f"{name}: {line!r}: there is no ./dev {words[1]}"
        elif words[0] == "berth":
            yield from (f"{name}: {line!r}: {problem}" for problem in command_problems(words, table))
    for target in LINK.findall(page):
        if not ((root / name).parent / target).exists():
            yield f"{name}: {target} is not there"


def printed(command: str, berth: pathlib.Path, language: str, root) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("CUDA", "LC_", "LANG", "BERTH"))}
    environment |= {"PATH": f"{berth.parent}:{os.environ['PATH']}", "LC_ALL": language, "COLUMNS": "100"}
    done = subprocess.run(["sh", "-c", command], cwd=root, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip("\n") + "\n"


def shape(text: str) -> list[str]:
    return [re.sub(r"\s+", " ", re.sub(r"[\d.]+", "0", line)).strip() for line in text.splitlines()]


def cannot_run_here(command: str) -> bool:
    """Whether the command cannot run here. The training job needs Debian's PyTorch, and the README shows its output on a machine without
    a GPU."""
    if "train_digits" not in command:
        return False
    torch = subprocess.run(["/usr/bin/python3", "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"])
    return torch.returncode != 0 or any(os.path.exists(node) for node in ("/dev/nvidiactl", "/dev/kfd", "/dev/dri"))


def shown_problems(name, page, output_of):
    for command, block in SHOWS.findall(page):
        if cannot_run_here(command):
            continue
        now = output_of(command)
        alike = difflib.SequenceMatcher(None, " ".join(shape(block)), " ".join(shape(now)), autojunk=False).ratio()
        if alike < ALIKE:
            yield f"{name}: `{command}` prints something else now (alike: {alike:.2f}); check_readme.py --update\n{now}"


def check(arguments):
    root, berth = arguments.root, pathlib.Path(arguments.berth).resolve()
    table = json.loads(subprocess.run([berth, "help", "--json"], check=True, capture_output=True, text=True).stdout)
    usage = subprocess.run([root / "dev", "help"], check=True, capture_output=True, text=True).stdout
    verbs_of_dev = set(re.findall(r"^  (\w+)", usage, re.M))
    pages = [root / name for name in PAGES] + sorted(root.glob("docs/**/*.md"))
    for path in filter(pathlib.Path.exists, pages):
        name, page = str(path.relative_to(root)), path.read_text()
        language = "zh_CN.UTF-8" if ".zh-CN" in name else "C.UTF-8"

        def output_of(command):
            return printed(command, berth, language, root)

        if arguments.update:
            page = SHOWS.sub(lambda m: f"<!-- shows: {m[1]} -->\n```text\n{output_of(m[1])}```", page)
            path.write_text(page)
        yield from page_problems(name, page, table, verbs_of_dev, root)
        yield from shown_problems(name, page, output_of)
    shown = [[command for command, _ in SHOWS.findall((root / name).read_text())] for name in PAGES[:2]]
    if shown[0] != shown[1]:
        yield "README.md and README.zh-CN.md show different commands"


def self_test():
    table = {"verbs": [{"name": "ls", "options": [], "takes_command": False, "examples": []}], "common_options": []}
    page = "```sh\nberth ls --colour\n./dev cook\n```\n`berth lo` [x](gone.md)\n"
    with checking.tree({"README.md": page}) as root:
        found = list(page_problems("README.md", page, table, {"test"}, root))
    assert len(found) == 4, found
    block = "<!-- shows: berth ls -->\n```text\none GPU 12 %\n```\n"
    assert not list(shown_problems("a", block, lambda command: "one GPU 7 %\n"))
    assert list(shown_problems("a", block, lambda command: "error: no such thing\n"))


if __name__ == "__main__":
    checking.main(__doc__, check, self_test, [("--update", {"action": "store_true"})])
