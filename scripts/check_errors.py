#!/usr/bin/env python3
"""Every error id in the sources has one row in docs/errors.md, and the page has no other rows and is sorted. An id has the same kind
(ErrorCode) everywhere, so that a search for the id finds one meaning."""
import re

import checking

COMMENT = re.compile(r"^\s*//.*$", re.M)
USED = re.compile(r'"(E\d{4})"')
CODE = re.compile(r'ErrorCode::(k\w+),\s*"(E\d{4})"')
ROW = re.compile(r"^\|\s*`?(E\d{4})`?\s*\|([^|]+)\|([^|]+)\|", re.M)


def sort_rows(page):
    """Sorts the rows and removes duplicates. Needed after merging two branches that both added rows."""
    lines = page.read_text().splitlines()
    rows = sorted({line for line in lines if line.startswith("| E")})
    page.write_text("\n".join([line for line in lines if not line.startswith("| E")] + rows) + "\n")


def check(arguments):
    root = arguments.root
    if arguments.fix:
        sort_rows(root / "docs/errors.md")
    used, kinds = {}, {}
    for folder in ("src", "simulator", "include"):
        for path in sorted((root / folder).rglob("*.[ch]pp")):
            if path.name.endswith("_test.cpp"):
                continue
            code = COMMENT.sub("", path.read_text())
            # The last message of main() contains its id within a sentence: "(E0001)".
            for identifier in USED.findall(code) + re.findall(r"\((E\d{4})\)", code):
                used.setdefault(identifier, path.relative_to(root))
            for kind, identifier in CODE.findall(code):
                kinds.setdefault(identifier, {}).setdefault(kind, path.relative_to(root))
    for path in sorted((root / "python/berth").rglob("*.py")):
        for identifier in USED.findall(path.read_text()):
            used.setdefault(identifier, path.relative_to(root))
    rows = [row[0] for row in ROW.findall((root / "docs/errors.md").read_text())]
    for identifier, where in sorted(used.items()):
        if identifier not in rows:
            yield f"{where}: {identifier} has no row in docs/errors.md"
    for identifier in sorted(set(rows)):
        if rows.count(identifier) > 1:
            yield f"docs/errors.md: {identifier} has {rows.count(identifier)} rows"
        if identifier not in used:
            yield f"docs/errors.md: nothing uses {identifier}"
    if rows != sorted(rows):
        yield "docs/errors.md: not sorted by identifier"
    for identifier, by_kind in sorted(kinds.items()):
        if len(by_kind) > 1:
            yield f"{identifier} has several kinds: " + ", ".join(f"{k} in {w}" for k, w in sorted(by_kind.items()))


def self_test():
    bad = {"docs/errors.md": "| E0002 | a | b |\n| E0001 | a | b |\n| E0001 | a | b |\n",
           "src/a.cpp": 'x{ErrorCode::kNotFound, "E0001"}; y{ErrorCode::kRefused, "E0001"}; "E0009"'}
    with checking.tree(bad) as root:
        found = list(check(type("Arguments", (), {"root": root, "fix": False})))
    assert len(found) == 5, found  # E0009 is missing, E0001 occurs twice, E0002 is unused, the rows are unsorted, an id has two kinds


if __name__ == "__main__":
    checking.main(__doc__, check, self_test, [("--fix", {"action": "store_true", "help": "sort the rows"})])
