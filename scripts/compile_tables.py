#!/usr/bin/env python3
"""Turns tables of data/ into C++ tables in the same order, so that `berth` contains them.

usage: compile_tables.py KIND OUT.cpp data/NAME.toml      (KIND: xids, error_texts, source_rules or shareable)
"""
import sys
import tomllib


def literal(value) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if isinstance(value, str) else str(value)


def table(row: str, name: str, function: str, rows: list) -> str:
    """The C++ code of an array of `row` with this name, and of the function that returns it."""
    lines = "".join(f"    {literal(one)},\n" if isinstance(one, str) else f"    {{{', '.join(map(literal, one))}}},\n" for one in rows)
    return (f"static constexpr std::array<{row}, {len(rows)}> {name}{{{{\n{lines}}}}};\n"
            f"std::span<const {row}> {function}() {{ return {name}; }}\n")


def xids(data: dict) -> tuple:
    rows = sorted(data["xid"], key=lambda row: row["code"])
    for row in rows:
        if row["vendor_bucket"] == "unstated":  # the source gives no advice for this code
            row["action"] = ""
    keys = ("code", "short", "cause", "class", "severity", "action")
    return "doctor", ["doctor/knowledge/knowledge.hpp"], table("Xid", "kXids", "known_xids", [[row[key] for key in keys] for row in rows])


def error_texts(data: dict) -> tuple:
    texts = [(one["name"], text, one["strength"], " ".join(one["rules"]), one["means"]) for one in data["message"] for text in one["texts"]]
    steps = [(one["name"], one.get("command", ""), one["says"]) for one in data["step"]]
    return ("doctor", ["doctor/error/error_text.hpp", "doctor/error/next_steps.hpp"],
            table("Signature", "kSignatures", "signatures", texts) + table("NextStep", "kSteps", "known_steps", steps))


class Severity:
    """A severity, which is written as a C++ enumerator instead of a quoted string."""
    def __init__(self, name: str):
        self.name = name

    def __str__(self) -> str:
        return f"model::Severity::k{self.name.capitalize()}"


def source_rules(data: dict) -> tuple:
    rows = [(one["mark"], one["rule"], Severity(one["severity"]), one["seen"], one["title"], one.get("command", ""), one.get("says", ""),
             one["kinds"]) for one in data["source"]]
    return "doctor::source", ["doctor/source/source.hpp"], table("Row", "kSourceRules", "rows", rows)


def shareable(data: dict) -> tuple:
    return ("doctor::share", ["doctor/record/share.hpp"],
            "".join(table("std::string_view", f"k{name}", name, words) for name, words in data.items()))


def main() -> int:
    kind, target, source = sys.argv[1:]
    with open(source, "rb") as file:
        room, headers, tables = {"xids": xids, "error_texts": error_texts, "source_rules": source_rules, "shareable": shareable}[kind](tomllib.load(file))
    with open(target, "w") as out:
        out.write(f"// Generated from {source.rsplit('/', 2)[-2]}/{source.rsplit('/', 1)[-1]} by scripts/compile_tables.py.\n#include <array>\n\n")
        out.write("".join(f'#include "{one}"\n' for one in headers))
        out.write(f"\nnamespace berth::{room} {{\n{tables}}}  // namespace berth::{room}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
