#!/usr/bin/env python3
"""Checks the rules of docs/writing.md: no line of prose over 160 characters, no table cell over 120, no docstring over 25 lines, no word of the list below,
no comment that begins with "it" or lacks a noun, no commit subject over 72 characters. Paths and links in pages must exist. A file must define the names
that a page attributes to it ("`src/cli/queue.cpp` (`body_of`)"). The table "Which files to change" in CONTRIBUTING.md must name test files, not folders."""
import ast
import io
import pathlib
import re
import subprocess
import tokenize

import checking

LINE, CELL, SUBJECT, DOCSTRING = 160, 120, 72, 25
PAGES = ("*.md", "docs/**/*.md", "examples/*.md", "benchmarks/*.md")
GENERATED = {"docs/cli.md"}
SOURCES = {".hpp", ".cpp", ".h", ".c", ".py", ".sh", ".js", ".cmake", ".txt"}
HELD = ("cmake", "dashboard", "examples", "fuzz", "include", "preload", "python", "scripts", "simulator", "src", "tests")
NOUNS = ("include", "preload", "python", "scripts", "simulator", "src")  # where a comment must not begin with a pronoun
# Commits before this time are not checked.
SUBJECTS_SINCE = "2026-11-24T03:00:00Z"

# Forbidden words, and what to write instead.
WORDS = {
    r"(?<!GiB )of which": "a sentence of its own",  # PyTorch's own message contains "23.64 GiB of which"
    r"whoever|whomever|whosoever": "anyone who, the process that, …",
    r"in (?:its|their|one's) turn": "then, also",
    r"where (?:nobody|nothing)": "if no one, if nothing",
    r"what is there of": "which … exist",
    r"now and then": "sometimes, occasionally",
    r"nursery|nurseries": "fork server",
    r"witness(?:es)?": "signal probe",
    r"reckoning|reckoned|reckons?": "estimate, compute, count",
    r"outsiders?": "foreign process",
    r"crowd": "user load",
    r"upkeep": "execution",
    r"for want of": "because there is no",
    r"anew": "again",
    r"in the place of": "instead of",
    r"let go of": "free, release",
    r"speaks? of": "mentions, is about",
    r"told of": "notified of, reported",
    r"hears? of": "learns of, is notified of",
    r"(?:its|their|and its|and their) like": "similar",
    r"looked after": "maintained, handled",
    r"left in peace": "left alone",
    r"thereof|wherein|whereby|whence|hitherto|henceforth|thereupon": "plain words",
}
# Also forbidden in messages. po/zh_CN/ contains all messages.
MESSAGE_WORDS = {
    r"mend(?:s|ed|ing)?": "fix",
    r"left over": "still set, remaining",
    r"all the same": "anyway",
    r"has no longer": "has removed",
    r"and the like": "and similar",
    r"and what (?:was|is) so": "plain words",
    r"goes? together": "is compatible",
    r"nobody": "no process, no user",
    r"so (?:much|many|little)(?! that\b)": "this many, such a difference",
}
FORBIDDEN = [(re.compile(rf"(?<![\w-])(?:{word})(?![\w-])", re.I), instead) for word, instead in WORDS.items()]
FORBIDDEN_IN_MESSAGES = FORBIDDEN + [(re.compile(rf"(?<![\w-]){word}(?![\w-])", re.I), instead) for word, instead in MESSAGE_WORDS.items()]
# a fast search that shows whether a line-by-line search is needed
ANY_FORBIDDEN = re.compile(rf"(?<![\w-])(?:{'|'.join(WORDS)})(?![\w-])", re.I)
# Matches a full-line comment that begins with "it" or "whether it", and so does not name its subject. "Whether it is known" is allowed.
BEGINS_WITH_IT = re.compile(r"\s*(?:///?|#) (?:(?:whether|what|how|when|why|where) )?(?:it|they|its|their)\b"
                            r"(?! (?:is|was) (?:un)?(?:known|certain|clear))", re.I)
# Matches a sentence that lacks a noun: it ends with a possessive ("the pids are the host's."), or begins with "the same as" or "those of".
LACKS_A_NOUN = re.compile(r"\b\w+'s\.(?= |$)|(?:^|\. )(?:The same (?:as|for|in|with)|Those of|That of)\b[^.]*")
CELL_BORDER = re.compile(r"(?<!\\)\|")
WEB_ADDRESS = re.compile(r"https?://\S+")
# Paths of this repository in backquotes. Paths with a placeholder ("src/vendor/NAME/") and paths of other trees ("include/crt/…") are not
# checked.
PATH = re.compile(r"`((?:cmake|dashboard|data|docs|examples|fuzz|integrations|po|preload|python|scripts|simulator|src|tests|benchmarks|"
                  r"include/berth)/[\w./*-]*)`")
PLACEHOLDER = re.compile(r"[A-Z]{3,}/|/[A-Z]{3,}\b(?!\.md)")
LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)")
# A file with the names that it defines, in the forms that pages use: `file` (`name`, `name`), `file`: `name`, `name` (`file`) and
# `name` in `file`.
SOURCE_PATH = r"`((?:include|preload|python|scripts|simulator|src|tests)/[\w./-]+\.(?:hpp|cpp|h|c|inc|py|txt))`"
NAME = r"`([A-Za-z_]\w+)(?:\(\))?`"
FILE_WITH_NAMES = re.compile(rf"{SOURCE_PATH}(?::\s|\s\()({NAME}(?:,\s{NAME})*)")
NAME_OF_FILE = re.compile(rf"{NAME}\s(?:\(|in\s){SOURCE_PATH}")
# The last column of the table has tests and pages.
CHANGE_TABLE = "| I want to change |"


def word_problems(where, line, forbidden=FORBIDDEN):
    for pattern, instead in forbidden:
        match = pattern.search(line)
        if match:
            yield f"{where}: “{match[0]}”: write {instead}"


def page_problems(name, page):
    in_code = False
    for number, line in enumerate(page.splitlines(), 1):
        where = f"{name}:{number}"
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith("<!--"):
            yield from word_problems(where, line)
            shown = WEB_ADDRESS.sub("", line)
            if line.startswith("|"):
                longest = max(len(cell.strip()) for cell in CELL_BORDER.split(shown))
                if longest > CELL:
                    yield f"{where}: a table cell of {longest} characters, at most {CELL}"
            elif len(shown) > LINE:
                yield f"{where}: a line of {len(shown)} characters, at most {LINE}"


def path_problems(root, name, page):
    for number, line in enumerate(page.splitlines(), 1):
        for path in PATH.findall(line):
            if not PLACEHOLDER.search(path) and next(root.glob(path), None) is None:
                yield f"{name}:{number}: there is no {path}"
        for path in LINK.findall(line):
            if not (root / name).parent.joinpath(path).exists():
                yield f"{name}:{number}: there is no {path}"


def defines(code, name):
    """Whether the source defines or declares the name. A mere use does not count."""
    declared = r"(?:(?:\w+ )*const(?:expr)? .*, |.*[\w>\]&*] +[*&]?(?:\w+::)*)?(?<!return )(?<!else )(?<!co_await )"
    pattern = re.compile(rf"(?!//|# )(?:set\(|{declared}){name}(?![\w.])\s*(?:[({{=;,:\[]|\s|$)")
    return any(pattern.match(line.strip()) for line in code.splitlines())


def name_problems(root, page_name, page):
    pairs = [(file, name) for file, names, *_ in FILE_WITH_NAMES.findall(page) for name in re.findall(NAME, names)]
    pairs += [(file, name) for name, file in NAME_OF_FILE.findall(page)]
    for file, name in pairs:
        path = root / file
        if path.is_file() and not defines(path.read_text(), name):
            yield f"{page_name}: {file} does not define {name}"


def change_table_problems(name, page):
    in_table = False
    for number, line in enumerate(page.splitlines(), 1):
        in_table = line.startswith("|") and (in_table or line.startswith(CHANGE_TABLE))
        if in_table:
            for path in re.findall(r"(?<!reads )`((?:tests|src|python|benchmarks)/[^`]*/)`", line.split("|")[-2]):
                yield f"{name}:{number}: {path} is a folder: name the test file"


def prose_lines(name, code):
    """The numbers of all lines that are in comments and docstrings."""
    if not name.endswith(".py"):
        return {number for number, line in enumerate(code.splitlines(), 1) if line.lstrip().startswith(("//", "#"))}
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        starts_line = not token.line[:token.start[1]].strip()
        if starts_line and (token.type == tokenize.COMMENT or token.type == tokenize.STRING and token.string.endswith('"""')):
            lines |= set(range(token.start[0], token.end[0] + 1))
    return lines


def source_problems(name, code):
    lines = code.splitlines()
    if ANY_FORBIDDEN.search(code):
        for number, line in enumerate(lines, 1):
            yield from word_problems(f"{name}:{number}", line)
    if any(len(line) > LINE for line in lines):
        prose = prose_lines(name, code)
        for number, line in enumerate(lines, 1):
            if number in prose and len(WEB_ADDRESS.sub("", line)) > LINE:
                yield f"{name}:{number}: a line of {len(line)} characters, at most {LINE}"


def pronoun_problems(name, code):
    before = ""
    for number, line in enumerate(code.splitlines(), 1):
        if BEGINS_WITH_IT.match(line) and "//" not in before and "#" not in before:
            yield f"{name}:{number}: the comment begins with a pronoun: name the thing"
        before = line


def comments(name, code):
    """Yields the number of the first line and the text of each comment. Consecutive lines are one comment."""
    mark = re.compile(r"\s*# ?" if name.endswith(".py") else r"\s*///? ?")
    first, texts = 0, []
    for number, line in enumerate([*code.splitlines(), ""], 1):
        match = mark.match(line)
        if match:
            first = first or number
            texts.append(line[match.end():])
        elif texts:
            yield first, " ".join(texts)
            first, texts = 0, []


def noun_problems(name, code):
    for number, text in comments(name, code):
        for match in LACKS_A_NOUN.finditer(text):
            yield f"{name}:{number}: “{match[0].lstrip('. ')}”: name the thing"


def docstring_problems(name, code):
    """Yields docstrings that are too long. Text that does not fit belongs in a page of docs/."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            lines = text.end_lineno - text.lineno + 1
            if lines > DOCSTRING:
                yield f"{name}:{text.lineno}: a docstring of {lines} lines, at most {DOCSTRING}"


def message_problems(name, catalogue):
    for number, line in enumerate(catalogue.splitlines(), 1):
        if line.startswith(("msgid ", "msgid_plural ")):
            yield from word_problems(f"{name}:{number}", line, FORBIDDEN_IN_MESSAGES)


def subject_problems(log):
    """Yields problems in commit subjects. Each line of `log` has the form `commit subject`."""
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > SUBJECT:
            yield f"commit {commit}: a subject of {len(subject)} characters, at most {SUBJECT}: {subject}"


def git_log(root):
    """The subjects of new commits. Empty if the tree is not a git checkout."""
    if not (root / ".git").exists():
        return ""
    done = subprocess.run(["git", "log", "--no-merges", f"--since={SUBJECTS_SINCE}", "--format=%h %s"], cwd=root,
                          capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def check(arguments):
    root = arguments.root
    for pattern in PAGES:
        for path in sorted(root.glob(pattern)):
            name = str(path.relative_to(root))
            if name not in GENERATED:
                yield from page_problems(name, path.read_text())
                yield from path_problems(root, name, path.read_text())
                yield from name_problems(root, name, path.read_text())
                yield from change_table_problems(name, path.read_text())
    for folder in HELD:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SOURCES and path.is_file() and path.resolve() != pathlib.Path(__file__).resolve():
                yield from source_problems(str(path.relative_to(root)), path.read_text())
                if folder in NOUNS and not path.name.endswith("_test.cpp"):
                    yield from pronoun_problems(str(path.relative_to(root)), path.read_text())
                    yield from noun_problems(str(path.relative_to(root)), path.read_text())
                if path.suffix == ".py":
                    yield from docstring_problems(str(path.relative_to(root)), path.read_text())
    for path in sorted((root / "po").rglob("*.po")):
        yield from message_problems(str(path.relative_to(root)), path.read_text())
    yield from subject_problems(git_log(root))


def self_test():
    long_words = "word " * 33
    paths = "`src/vendor/NAME/abi.hpp` `src/*.cpp` [b](../src/a.cpp#top) `src/gone.cpp` [c](gone.md)\n"
    names = "`src/c.cpp` (`first`, `second`), `used` (`src/c.cpp`), `Type` in `src/c.cpp` and `src/c.cpp`: `gone`, `last`\n"
    page = paths + names + (
            f"{long_words}\n```\n{long_words} of which\n```\n| {long_words[:119]} | a |\n| {long_words[:125]} | a |\n"
            f"<https://example.org/{'a' * 160}>\nWhoever reads this\n"
            "| I want to change | files | tests |\n|---|---|---|\n| a | `src/` | `tests/a/`, `docs/` (reads `src/`) |\n")
    files = {"docs/a.md": page, "src/a.cpp": f"// {long_words}\n// of which\nauto text = \"{long_words}\";\n",
             "scripts/a.py": "# of which\nx = nursery_\n", "src/c.cpp": "struct Type {};\nint first(int a) {\n  return used(a);\n}\nconst int used_ = used(1), last = 2;\n",
             "src/b.cpp": "// Whether it is known.\n// It is.\n\n// What they\n// are the\n// host's.\nint a;  // its\n// it\n", "python/a.py": '"""' + "a\n" * 25 + '"""\n', "po/zh_CN/a.po": 'msgid "mend it"\nmsgstr "nobody"\n'}
    with checking.tree(files) as root:
        found = list(check(type("Arguments", (), {"root": root})))
    # The problems: two long lines, a long cell, a long docstring, four words, three paths that do not exist, a comment that begins with a pronoun and
    # ends with a possessive, three names without a definition, a folder of tests.
    assert len(found) == 17, found
    assert len(list(subject_problems(f"abc {'x' * 73}\ndef {'x' * 72}\n"))) == 1


if __name__ == "__main__":
    checking.main(__doc__, check, self_test)
