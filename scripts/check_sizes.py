#!/usr/bin/env python3
"""Checks the length of files and functions. A header has at most 300 lines, a C++ source 1000, a script 600, a function 70. If a header is longer than 250
lines, a source than 500, or a function than 60, check whether it contains two separate topics."""
import ast
import re

import checking

BUDGETS = {".hpp": 300, ".h": 300, ".cpp": 1000, ".c": 1000, ".py": 600}
FUNCTION = 70
FOLDERS = ("src", "simulator", "tests", "scripts", "benchmarks", "fuzz", "examples", "python")
OPENS = re.compile(r"^(\s*)(?!namespace|struct|class|enum|union|extern|public|private|constexpr std::array|static const)"
                   r"[^#/\s].*\)[^;=]*\{$|^(\s*)\) .*\{$")


def cpp_functions(lines):
    """Yields (first line, length) of every function, found by clang-format's indentation. A body that opens at the end of a line ends with the first
    "}" that has the indentation of the function's head."""
    index = 0
    while index < len(lines):
        match = OPENS.match(lines[index])
        if not match:
            index += 1
            continue
        indent = match.group(1) if match.group(1) is not None else match.group(2)
        if len(indent) > 2:  # the last line of a function head of several lines; its first line has less indentation
            head = index
            while head > 0 and len(lines[head]) - len(lines[head].lstrip()) > 2:
                head -= 1
            indent = lines[head][:len(lines[head]) - len(lines[head].lstrip())]
        end = next((i for i in range(index + 1, len(lines)) if lines[i].startswith(indent + "}")), index)
        yield index + 1, end - index + 1
        index = end + 1


def python_functions(code):
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def check(arguments):
    root = arguments.root
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            budget = BUDGETS.get(path.suffix)
            if not budget or not path.is_file():
                continue
            code = path.read_text()
            lines = code.splitlines()
            name = path.relative_to(root)
            if len(lines) > budget:
                yield f"{name}: {len(lines)} lines, budget {budget}"
            functions = python_functions(code) if path.suffix == ".py" else cpp_functions(lines)
            for line, length in functions:
                if length > FUNCTION:
                    yield f"{name}:{line}: a function of {length} lines, budget {FUNCTION}"


def self_test():
    long_cpp = "int f(int a,\n      int b) {\n" + "  a();\n" * 70 + "}\n\nvoid g() {\n  h();\n}\n"
    long_py = "def f():\n" + "    g()\n" * 70
    with checking.tree({"src/a.cpp": long_cpp, "scripts/b.py": long_py, "src/c.hpp": "\n" * 301}) as root:
        found = list(check(type("Arguments", (), {"root": root})))
    assert len(found) == 3, found


if __name__ == "__main__":
    checking.main(__doc__, check, self_test)
