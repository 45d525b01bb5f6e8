#!/usr/bin/env python3
"""Checks that every sentence for people is translated: text(), tr(), text_n() and msgid() in the sources and the verb table have an entry
in po/zh_CN/*.po with the same placeholders. No entry may be fuzzy or unused, and no sentence may have two translations. Punctuation
between Chinese words must be full-width. For the Python package, text(), table titles and exception messages must be in python/berth/chinese.py.

usage: check_messages.py [--root DIR] [--berth PROGRAM] [--missing]     (--missing prints entries to translate)
"""
import argparse
import ast
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

try:
    import polib
except ImportError:
    print("skipped: python3-polib is not installed for this Python")
    sys.exit(77)

LITERAL = r'(?:"(?:[^"\\\n]|\\.)*"\s*)+'
CALL = re.compile(r"\b(?:text|tr|msgid)\(\s*(" + LITERAL + r")\s*[,)]")
CALL_N = re.compile(r"\btext_n\(\s*(" + LITERAL + r"),\s*(" + LITERAL + r"),")
ANY_LITERAL = re.compile(LITERAL)
COMMENT = re.compile(r"^\s*//.*$", re.M)
MACHINE_TEXT = re.compile(r'^(?:summary|note) = "([^"]*)"$', re.M)  # the description inside a machine file
KEYS = ("short", "cause", "action", "what", "means", "title", "says")  # keys with texts in the tables of data/
PLACEHOLDER = re.compile(r"\{[^{}]*\}")
EXCEPTIONS = ("BerthError", "InvalidRequest", "NotFound", "NoDevice", "Refused", "BrokerUnavailable", "NotPermitted", "Unsupported", "TooLate",
              "DoesNotFit", "RankFailed", "ContextLost", "NotSplittable", "StepInterrupted")
NAMES_OF_THEIR_OWN = ("cuInit", "libcuda.so.1", ".nv_fatbin")  # names that users may search for, so they are not translated
HALF_WIDTH = re.compile(r'[一-鿿](?:[,;:!?.](?![\w/])|[,;:!?.](?=[一-鿿])| ?\(|["\'])|[)"\'][一-鿿]')
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


def value_of(literals: str) -> str:
    """The value of adjacent C++ string literals."""
    parts = re.findall(r'"((?:[^"\\\n]|\\.)*)"', literals)
    return re.sub(r"\\(.)", lambda m: ESCAPES.get(m.group(1), m.group(0)), "".join(parts))


def sources(root: pathlib.Path):
    for folder in ("src", "simulator"):
        for path in sorted((root / folder).rglob("*.[ch]pp")):
            if not path.name.endswith("_test.cpp"):
                yield path


def rows_of(value):
    """Yields all tables in a document, at any depth."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from rows_of(one)


def used_messages(root: pathlib.Path) -> tuple[dict, set]:
    """Returns the messages as {msgid: (singular or None, place)}, and the set of all string literals."""
    wanted, literals = {}, set()
    for path in sources(root):
        code = COMMENT.sub("", path.read_text())
        where = str(path.relative_to(root))
        for match in CALL.finditer(code):
            wanted.setdefault(value_of(match.group(1)), (None, where))
        for match in CALL_N.finditer(code):
            wanted.setdefault(value_of(match.group(2)), (value_of(match.group(1)), where))
        literals.update(value_of(match.group(0)) for match in ANY_LITERAL.finditer(code))
    for path in sorted((root / "simulator/machines").glob("*.toml")):
        for match in MACHINE_TEXT.finditer(path.read_text()):
            wanted.setdefault(match.group(1), (None, str(path.relative_to(root))))
    for path in sorted((root / "data").glob("*.toml")):
        for row in rows_of(tomllib.loads(path.read_text())):
            for key in KEYS:
                if isinstance(row.get(key), str) and row[key]:
                    wanted.setdefault(row[key], (None, str(path.relative_to(root))))
    return wanted, literals


def table_messages(berth: str) -> dict:
    table = json.loads(subprocess.run([berth, "help", "--json"], check=True, capture_output=True, text=True).stdout)
    words = [row["meaning"] for row in table["exit_codes"]] + [option["help"] for option in table["common_options"]]
    for verb in table["verbs"]:
        words += [verb["summary"]] + [option["help"] for option in verb["options"]]
        words += [example["says"] for example in verb["examples"]]
    return {word: (None, "the verb table") for word in words if word}


def placeholders(sentence: str) -> collections.Counter:
    plain = sentence.replace("{{", "").replace("}}", "")
    found = PLACEHOLDER.findall(plain)
    # fmt numbers "{}" placeholders from 0. A translation may use explicit numbers, such as "{1}", to change their order.
    return collections.Counter(re.sub(r"^\{\d+", "{", p) for p in found)


def check(root: pathlib.Path, berth: str | None) -> tuple[list, list]:
    wanted, literals = used_messages(root)
    if berth:
        wanted.update(table_messages(berth))
    problems, known = [], {}
    for path in sorted((root / "po/zh_CN").glob("*.po")):
        where = path.relative_to(root)
        for entry in polib.pofile(str(path)):
            key = entry.msgid_plural or entry.msgid
            value = entry.msgstr_plural.get(0, "") if entry.msgid_plural else entry.msgstr
            at = f"{where}:{entry.linenum}"
            other = value and known.setdefault(key, value)
            if entry.fuzzy or entry.obsolete:
                problems.append(f"{at}: fuzzy or obsolete: {key!r}")
            elif not value:
                problems.append(f"{at}: without translation: {key!r}")
            elif placeholders(key) != placeholders(value):
                problems.append(f"{at}: other placeholders than {key!r}: {value!r}")
            elif HALF_WIDTH.search(value):
                problems.append(f"{at}: half-width punctuation: {value!r}")
            elif other != value:
                problems.append(f"{at}: another translation elsewhere: {key!r}")
            if key not in wanted and key not in literals:
                problems.append(f"{at}: not used: {key!r}")
    missing = [(key, *wanted[key]) for key in wanted if key and key not in known]
    return problems, missing


def python_catalogue(path: pathlib.Path) -> tuple[dict, list]:
    """The catalogue as {English: Chinese}, and the entries that occur twice."""
    table = next(node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Dict))
    keys = [ast.literal_eval(key) for key in table.keys]
    return dict(zip(keys, map(ast.literal_eval, table.values))), [key for key, times in collections.Counter(keys).items() if times > 1]


def python_messages(tree: ast.Module):
    """Yields (line, sentence, whether it is in text()) for a module, including exception messages and titles of tables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "").endswith("_TITLES"):
            yield from ((node.lineno, one.value, True) for one in node.value.elts if one.value)
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", "")
        if name == "text" and node.args:
            one = node.args[0]
            if isinstance(one, ast.Constant) and placeholders(one.value).total() != len(node.args) - 1:
                yield node.lineno, f"{one.value} with {len(node.args) - 1} values", False
            yield node.lineno, one.value if isinstance(one, ast.Constant) else None, isinstance(one, ast.Constant) or isinstance(one, ast.Name)
        said = [*node.args[:1], *node.args[2:3], *(more.value for more in node.keywords if more.arg == "hint")] if name in EXCEPTIONS else []
        for one in said:
            words = one.value if isinstance(one, ast.Constant) else "".join(part.value for part in one.values if isinstance(part, ast.Constant)) \
                if isinstance(one, ast.JoinedStr) else ""
            if isinstance(words, str) and (one is node.args[0] or not (set("(=") & set(words) or words.startswith(("pip ", "berth ")))) and len(re.findall(r"(?<![\w.=])[a-z]{2,}(?![\w.=(])", words)) > 3:
                yield node.lineno, words, False


def check_python(root: pathlib.Path) -> list:
    folder, problems, used = root / "python/berth", [], set()
    catalogue, twice = python_catalogue(folder / "chinese.py")
    problems += [f"python/berth/chinese.py: twice: {key!r}" for key in twice]
    for path in sorted(folder.rglob("*.py")):
        for line, sentence, translated in python_messages(ast.parse(path.read_text())):
            where = f"{path.relative_to(root)}:{line}"
            if not translated:
                problems.append(f"{where}: not in text(), or with other values than braces: {sentence!r}")
            elif sentence is not None:
                used.add(sentence)
                if not catalogue.get(sentence):
                    problems.append(f"{where}: not in python/berth/chinese.py: {sentence!r}")
                elif placeholders(sentence) != placeholders(catalogue[sentence]):
                    problems.append(f"python/berth/chinese.py: other placeholders than {sentence!r}: {catalogue[sentence]!r}")
                elif HALF_WIDTH.search(catalogue[sentence]):
                    problems.append(f"python/berth/chinese.py: half-width punctuation: {catalogue[sentence]!r}")
    return problems + [f"python/berth/chinese.py: not used: {key!r}" for key in catalogue if key not in used]


def self_test() -> None:
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "src").mkdir()
        (root / "po/zh_CN").mkdir(parents=True)
        (root / "src/a.cpp").write_text('f(text("one {}", x)); g(tr("two "\n  "halves"));\n')
        good = 'msgid "one {}"\nmsgstr "一 {}"\n\nmsgid "two halves"\nmsgstr "两半"\n'
        for entries, expected in ((good, (0, 0)), ("", (0, 2)), (good.replace("一 {}", "一"), (1, 0)),
                                  (good.replace("两半", "两,半"), (1, 0)), (good.replace("两半", "两半 (半)"), (1, 0)), (good.replace("两半", "两：半，3.5"), (0, 0)),
                                  (good + '\nmsgid "x"\nmsgstr "y"\n', (1, 0))):
            (root / "po/zh_CN/a.po").write_text(header + entries)
            found = tuple(map(len, check(root, None)))
            assert found == expected, (entries, found)
        (root / "python/berth").mkdir(parents=True)
        (root / "python/berth/a.py").write_text('raise BerthError(text("one {!r}", 1))\n_TITLES = ("two",)\n')
        good = 'MESSAGES = {"one {!r}": "一 {!r}", "two": "二"}\n'
        for entries, expected in ((good, 0), (good.replace("一 {!r}", "一"), 1), (good.replace("二", "二, 二"), 1), (good.replace('"two"', '"three"'), 2), (good.replace("}\n", ', "two": "二"}'), 1)):
            (root / "python/berth/chinese.py").write_text(entries)
            assert len(check_python(root)) == expected, (entries, check_python(root))
        (root / "python/berth/chinese.py").write_text(good)
        (root / "python/berth/b.py").write_text('raise BerthError("this was not said in Chinese", hint=f"and this as well is not {x}")\n')
        assert len(check_python(root)) == 2, check_python(root)
        (root / "python/berth/b.py").write_text('text("one {!r}"); text("two", 2)\n')
        assert len(check_python(root)) == 2, check_python(root)


def check_ends(root):
    """Checks that no translation is used through .data(). A translation is a view into the catalogue without a terminating zero, so a C
    string at this address would be too long."""
    ends = re.compile(r"\btr\((?:[^()]|\([^()]*\))*\)\s*\.data\(\)")
    return [f"{path.relative_to(root)}: a message ends where .data() does not: std::string(tr(…))"
            for path in sorted((root / "src").rglob("*.[ch]pp")) if ends.search(path.read_text())]


def check_facts(root):
    """Checks that each name which `Unreadable` reports has a text for people: in a list of facts or in rules/unread_words.cpp."""
    doctor = root / "src/doctor"
    known = set(re.findall(r'\{"([^"]+)", msgid', (doctor / "rules/unread_words.cpp").read_text()))
    for path in (doctor / "facts").glob("*.hpp"):
        known |= set(re.findall(r"\bFACT\([^()]+, (\w+), msgid", path.read_text()))
    called = set()
    for path in (doctor / "read").glob("*.cpp"):
        if not path.name.endswith("_test.cpp"):
            called |= {key for key in re.findall(r'Unreadable\{"([a-zA-Z_.]+)"', path.read_text()) if key not in NAMES_OF_THEIR_OWN}
    return [f"src/doctor/rules/unread_words.cpp: no words for {key!r}" for key in sorted(called - known)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent, type=pathlib.Path)
    parser.add_argument("--berth")
    parser.add_argument("--missing", action="store_true")
    arguments = parser.parse_args()
    self_test()
    problems, missing = check(arguments.root, arguments.berth)
    if arguments.missing:
        for key, singular, where in missing:
            entry = polib.POEntry(msgid=singular or key, occurrences=[(where, "")])
            if singular:
                entry.msgid_plural, entry.msgstr_plural = key, {0: ""}
            print(entry)
        return 0
    problems += check_python(arguments.root) + check_ends(arguments.root) + check_facts(arguments.root)
    problems += [f"{where}: not in po/zh_CN: {key!r}" for key, _, where in missing]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
