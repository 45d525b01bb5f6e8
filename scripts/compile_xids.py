#!/usr/bin/env python3
"""Turns data/xid.toml into one C++ table sorted by code, so that `berth` contains the catalogue.

usage: compile_xids.py OUT.cpp data/xid.toml
"""
import sys
import tomllib


def literal(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> int:
    target, source = sys.argv[1:]
    with open(source, "rb") as file:
        rows = sorted(tomllib.load(file)["xid"], key=lambda row: row["code"])
    with open(target, "w") as out:
        out.write("// Generated from data/xid.toml by scripts/compile_xids.py.\n")
        out.write('#include <array>\n\n#include "doctor/knowledge/knowledge.hpp"\n\nnamespace berth::doctor {\n')
        out.write(f"static constexpr std::array<Xid, {len(rows)}> kXids{{{{\n")
        for row in rows:
            if row["vendor_bucket"] == "unstated":  # the source gives no advice for this code
                row["action"] = ""
            words = ", ".join(literal(row[key]) for key in ("short", "cause", "class", "severity", "action"))
            out.write(f"    {{{row['code']}, {words}}},\n")
        out.write("}};\nstd::span<const Xid> known_xids() { return kXids; }\n}  // namespace berth::doctor\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
