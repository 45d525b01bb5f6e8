#!/usr/bin/env python3
"""Turns data/error_texts.toml into one C++ table in the same order, so that `berth` contains the known messages.

usage: compile_error_texts.py OUT.cpp data/error_texts.toml
"""
import sys
import tomllib


def literal(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> int:
    target, source = sys.argv[1:]
    with open(source, "rb") as file:
        messages = tomllib.load(file)["message"]
    rows = [(one["name"], text, one["strength"], " ".join(one["rules"]), one["means"]) for one in messages for text in one["texts"]]
    with open(target, "w") as out:
        out.write("// Generated from data/error_texts.toml by scripts/compile_error_texts.py.\n")
        out.write('#include <array>\n\n#include "doctor/error/error_text.hpp"\n\nnamespace berth::doctor {\n')
        out.write(f"static constexpr std::array<Signature, {len(rows)}> kSignatures{{{{\n")
        for name, text, strength, rules, means in rows:
            out.write(f"    {{{literal(name)}, {literal(text)}, {strength}, {literal(rules)}, {literal(means)}}},\n")
        out.write("}};\nstd::span<const Signature> signatures() { return kSignatures; }\n}  // namespace berth::doctor\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
