#!/usr/bin/env python3
"""Turns po/zh_CN/*.po into one C++ table sorted by msgid, so that `berth` contains its own catalogue. The table has no pointers, because
thousands of them would need relocation at each start of the program, in any language.

usage: compile_messages.py OUT.cpp IN.po...
"""
import sys

import polib


def literal(text: str) -> str:
    out = []
    for byte in text.encode():
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif 32 <= byte < 127 and char != "?":  # escape '?', because "??" may begin a trigraph in C++
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def main() -> int:
    target, *sources = sys.argv[1:]
    pairs = {}
    for source in sources:
        for entry in polib.pofile(source):
            if entry.obsolete or entry.fuzzy:
                continue
            key, value = (entry.msgid_plural, entry.msgstr_plural[0]) if entry.msgid_plural else (entry.msgid, entry.msgstr)
            if pairs.setdefault(key, value) != value:
                print(f"{source}:{entry.linenum}: '{key}' has another translation elsewhere", file=sys.stderr)
                return 1
    rows = sorted((k.encode(), k, v) for k, v in pairs.items() if v)
    with open(target, "w") as out:
        out.write("// Generated from po/zh_CN by scripts/compile_messages.py.\n")
        out.write('#include <array>\n\n#include "base/text.hpp"\n\nnamespace berth {\n')
        out.write("Catalogue chinese_messages();\nstatic constexpr char kBytes[] =\n")
        for _, msgid, translation in rows:
            out.write(f"    {literal(msgid)} {literal(translation)}\n")
        out.write(f";\nstatic constexpr std::array<Message, {len(rows)}> kMessages{{{{\n")
        at = 0
        for key, _, translation in rows:
            out.write(f"    {{{at}, {len(key)}, {len(translation.encode())}}},\n")
            at += len(key) + len(translation.encode())
        out.write("}};\nCatalogue chinese_messages() { return {kBytes, kMessages}; }\n}  // namespace berth\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
