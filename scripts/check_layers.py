#!/usr/bin/env python3
"""Checks includes against the rooms table in docs/architecture.md: a file may include only the rooms that its own may use. The table is in
floor order, and a room may use only rooms above it in the table, so there are no cycles. Heavy third-party headers may appear only in
source files, to limit compile time. Every unit test must be in a CMakeLists.txt. The modules of python/berth import each other without cycles
(an import within a function does not count)."""
import ast
import re

import checking

ROW = re.compile(r"^\|\s*(\d)\s*\|\s*`([\w/]+)`[^|]*\|[^|]*\|([^|]*)\|\s*$", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
HEAVY = ("CLI/", "toml++/", "sqlite3")
JSON = "base/json.hpp"  # the only file that includes nlohmann/json, so it is as slow to compile as the headers in HEAVY


def allowed_rooms(page: str) -> dict[str, set[str]]:
    """The rooms that each room may use, from the table. In the table, "floors below" and "all below" mean every room of a lower floor."""
    rows = [(int(floor), room, uses) for floor, room, uses in ROW.findall(page)]
    table = {}
    for floor, room, uses in rows:
        rooms = set(re.findall(r"`([\w/]+)`", uses))
        if "below" in uses:
            rooms |= {other for low, other, _ in rows if low < floor}
        table[room] = rooms | {room}
    return table


def order_problems(page: str):
    table, above, last = allowed_rooms(page), set(), 0
    for floor, room, _ in ROW.findall(page):
        if int(floor) < last:
            yield f"docs/architecture.md: `{room}` on floor {floor} comes after floor {last}"
        for other in sorted(table[room] - above - {room}):
            yield f"docs/architecture.md: `{room}` uses `{other}`, which is not above it in the table"
        above.add(room)
        last = int(floor)


def room_of(path: str, table) -> str | None:
    """The room of a file such as "vendor/nvml/abi.hpp": the longest room name in the table with which the file's folder begins."""
    rooms = [room for room in table if path.startswith(room + "/")]
    return max(rooms, key=len, default=None)


def problems_of(path, inner: str, code: str, table):
    room = room_of(inner, table)
    if room is None:
        yield f"{path}: in no room of docs/architecture.md"
        return
    allowed = table[room]
    if "test" in path.stem and "/" in room:  # a test in a/b may use everything that any room in a/ may use
        allowed = set().union(*(uses for other, uses in table.items() if other.startswith(room.split("/")[0] + "/")))
    for quote, name in INCLUDE.findall(code):
        if quote == "<":
            if path.suffix == ".hpp" and name.startswith(HEAVY):
                yield f"{path}: <{name}> belongs into a source file"
            if name.startswith("nlohmann/") and not str(path).endswith(JSON):
                yield f'{path}: include "{JSON}" instead of <{name}>'
            continue
        if path.suffix == ".hpp" and name == JSON:
            yield f'{path}: "{JSON}" belongs into a source file'
        other = room_of(name, table)
        if other is None:
            yield f'{path}: "{name}" is in no room (write the full path from src/)'
        elif other not in allowed:
            yield f'{path}: room {room} may not use {other} ("{name}")'


def unbuilt_tests(root):
    """A test that no CMakeLists.txt names would never run."""
    for path in sorted(root.glob("src/**/*_test.cpp")):
        lists = [folder / "CMakeLists.txt" for folder in path.parents if folder.is_relative_to(root)]
        if not any(path.name in one.read_text() for one in lists if one.is_file()):
            yield f"{path.relative_to(root)}: in no CMakeLists.txt, so it is never built"


def imports_of(name: str, code: str, names: set[str]) -> set[str]:
    """The modules of the package that a module imports when it is loaded. `name` is like "integrations.keras", without "berth."."""
    found = set()
    folder = name.split(".")[:-1]
    for node in ast.parse(code).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            parts = folder[:len(folder) - node.level + 1] + (node.module or "").split(".")
            inner = ".".join(part for part in parts if part)
            found |= {inner} | {f"{inner}.{one.name}".lstrip(".") for one in node.names}
    return found & names


def import_cycles(package):
    files = {".".join(path.relative_to(package).with_suffix("").parts): path for path in sorted(package.rglob("*.py"))}
    uses = {name: imports_of(name, path.read_text(), set(files)) for name, path in files.items()}
    done = set()

    def walk(name, above):
        if name in above:
            yield f"python/berth: import cycle {' → '.join([*above[above.index(name):], name])}"
        elif name not in done:
            for other in sorted(uses[name]):
                yield from walk(other, [*above, name])
            done.add(name)
    for name in files:
        yield from walk(name, [])


def check(arguments):
    root = arguments.root
    page = (root / "docs/architecture.md").read_text()
    table = allowed_rooms(page)
    yield from order_problems(page)
    yield from unbuilt_tests(root)
    yield from import_cycles(root / "python/berth")
    if "base" not in table or "cli" not in table:
        yield "docs/architecture.md: the rooms table is not there, or cannot be read"
    for top, prefix in (("src", ""), ("simulator", "simulator/"), ("preload", "preload/")):
        for path in sorted((root / top).rglob("*.[ch]pp")):
            inner = prefix + str(path.relative_to(root / top))
            yield from problems_of(path.relative_to(root), inner, path.read_text(), table)


def self_test():
    page = "| 0 | `base` | x | – |\n| 1 | `model` | x | floors below |\n| 6 | `cli` | x | all below |\n"
    bad = {"docs/architecture.md": page, "src/base/a.hpp": '#include "model/b.hpp"\n#include <CLI/CLI.hpp>\n',
           "src/model/b.hpp": '#include "base/a.hpp"\n', "src/model/c.cpp": '#include "b.hpp"\n#include <nlohmann/json.hpp>\n',
           "src/model/d.hpp": '#include "base/json.hpp"\n', "src/odd/d.cpp": "", "src/base/CMakeLists.txt": "a_test.cpp",
           "src/base/a_test.cpp": "", "src/base/b_test.cpp": "",
           "python/berth/a.py": "from .in_.b import x\nfrom . import c\n", "python/berth/in_/b.py": "from .. import a\n",
           "python/berth/c.py": "def late():\n    from .a import x\n"}
    with checking.tree(bad) as root:
        found = list(check(type("Arguments", (), {"root": root})))
    assert len(found) == 8, found
    circle = "| 0 | `a` | x | `b` |\n| 1 | `b` | x | `a` |\n| 0 | `c` | x | – |\n"
    assert len(list(order_problems(circle))) == 2, list(order_problems(circle))


if __name__ == "__main__":
    checking.main(__doc__, check, self_test)
