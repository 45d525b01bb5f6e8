#!/usr/bin/env python3
"""Checks that help pages, man page, completion scripts, docs/cli.md and docs/exit-codes.md agree with the verb table. Examples in the table must be valid
commands. Verbs and options must follow the naming rules (docs/writing.md)."""
import json
import re
import shlex
import shutil
import subprocess

import checking

OPTION = re.compile(r"^(-[a-zA-Z],)?--[a-z][a-z0-9-]*$")


def run(berth, *words, stdin=None):
    return subprocess.run([berth, *words], capture_output=True, text=True, input=stdin, env={"LC_ALL": "C.UTF-8"})


def names(options) -> list[str]:
    return [name for option in options for name in option["names"]]


def missing_words(page: str, words, where: str):
    for word in words:
        if word not in page:
            yield f"{where} lacks {word}"


def command_problems(words: list[str], table) -> list[str]:
    """Returns the errors in an example command line `berth …`, compared with the verb table."""
    if len(words) == 1 or words[1].startswith("-"):
        verb = next((v for v in table["verbs"] if v["name"] == ""), {"options": [], "takes_command": False})
        rest = words[1:]
    else:
        verb = next((v for v in table["verbs"] if v["name"] == words[1]), None)
        rest = words[2:]
        if verb is None:
            return [f"there is no verb {words[1]}"]
    options = {name: option for option in verb["options"] + table["common_options"] for name in option["names"]}
    problems, index = [], 0
    while index < len(rest) and rest[index] != "--":
        word, index = rest[index], index + 1
        if not word.startswith("-") or word in ("-", "--version"):
            if verb["takes_command"]:
                return problems
            continue
        option = options.get(word.split("=")[0])
        if option is None:
            problems.append(f"{words[0]} {verb['name']} has no option {word}")
        elif option["value"] and "=" not in word:
            index += 1
    inner = rest[index + 1:]
    if inner and inner[0] == "berth":  # the example is of the form: berth sim … -- berth ls
        problems += command_problems(inner, table)
    return problems


def check_table(table):
    for verb in table["verbs"]:
        for option in verb["options"] + table["common_options"]:
            if not OPTION.match(",".join(option["names"])):
                yield f"berth {verb['name']}: option {option['names']} is not spelled -x,--long-name"
        for example in verb["examples"]:
            command = example["command"]
            if command.startswith("berth"):
                words = shlex.split(command.replace("…", "x"))
                cut = next((i for i, word in enumerate(words) if word in ("|", ">", ">>", "&&", ";")), len(words))
                yield from (f"example {command!r}: {p}" for p in command_problems(words[:cut], table))


def check_pages(berth, table, root):
    verbs = [verb["name"] for verb in table["verbs"] if verb["name"]]
    every = names(table["common_options"])
    man = run(berth, "help", "--man").stdout
    plain_man = man.replace("\\-", "-")
    yield from missing_words(run(berth, "help").stdout, [f"berth {verb}" for verb in verbs], "berth help")
    for verb in table["verbs"]:
        words = names(verb["options"])
        own = run(berth, "help", "--man", *([verb["name"]] if verb["name"] else [])).stdout
        yield from missing_words(own.replace("\\-", "-"), words, f"the man page of berth {verb['name']}")
        if verb["name"]:
            yield from missing_words(plain_man, [f"berth-{verb['name']}(1)"], "the man page")
        if verb["name"]:
            for asked in ((verb["name"], "--help"), ("help", verb["name"])):
                page = run(berth, *asked)
                if page.returncode != 0:
                    yield f"berth {' '.join(asked)}: exit code {page.returncode}"
                yield from missing_words(page.stdout, words + every, f"berth {' '.join(asked)}")
    if shutil.which("mandoc"):
        lint = subprocess.run(["mandoc", "-T", "lint", "-W", "error"], input=man, capture_output=True, text=True)
        yield from (f"the man page: {line}" for line in lint.stdout.splitlines())
    for shell in ("bash", "zsh", "fish"):
        script = run(berth, "help", "--completion", shell).stdout
        wanted = [n for v in table["verbs"] for n in names(v["options"])] + verbs
        yield from missing_words(script, [w.lstrip("-") for w in wanted], f"the {shell} completion")
        if shutil.which(shell):
            parsed = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
            if parsed.returncode != 0:
                yield f"the {shell} completion: {parsed.stderr.strip()}"
    if (root / "docs/cli.md").read_text() != run(berth, "help", "--markdown").stdout:
        yield "docs/cli.md is not what the verb table says: ./dev docs"
    exit_codes = (root / "docs/exit-codes.md").read_text()
    for row in table["exit_codes"]:
        if not re.search(rf"^\| {row['code']} \| {re.escape(row['meaning'])}", exit_codes, re.M):
            yield f"docs/exit-codes.md lacks the row | {row['code']} | {row['meaning']}"


def check(arguments):
    table = json.loads(run(arguments.berth, "help", "--json").stdout)
    yield from check_table(table)
    yield from check_pages(arguments.berth, table, arguments.root)


def self_test():
    option = {"names": ["--gpus"], "value": "N", "help": "", "repeatable": False}
    verb = {"name": "run", "options": [option], "takes_command": True,
            "examples": [{"command": "berth run --gpu 1 -- true", "says": ""}]}
    table = {"verbs": [verb], "common_options": []}
    assert command_problems(["berth", "run", "--gpus", "1", "--", "x", "--y"], table) == []
    assert command_problems(["berth", "walk"], table) and command_problems(["berth", "run", "--gpu", "1"], table)
    assert len(list(check_table(table))) == 1
    assert list(missing_words("a", ["b"], "x"))


if __name__ == "__main__":
    checking.main(__doc__, check, self_test)
