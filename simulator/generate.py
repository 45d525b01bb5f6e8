#!/usr/bin/env python3
"""Generates files from the list of NVML's functions: numbers, stubs for functions that are not simulated, and the export list.

usage: generate.py FUNCTIONS.txt OUT_FOLDER SOURCE.cpp...
"""
import pathlib
import re
import sys


def main() -> int:
    listing, folder, *sources = sys.argv[1:]
    names = pathlib.Path(listing).read_text().split()
    if names != sorted(set(names)):
        print(f"{listing}: names must be sorted and each there once", file=sys.stderr)
        return 1
    modelled = {"nvmlErrorString"}
    for source in sources:
        modelled |= set(re.findall(r"(?:NVML|PROCESS_LIST)\((nvml\w+)", pathlib.Path(source).read_text()))
    if strange := modelled - set(names):
        print(f"modelled, but not in {listing}: {sorted(strange)}", file=sys.stderr)
        return 1
    out = pathlib.Path(folder)
    (out / "simulator").mkdir(parents=True, exist_ok=True)
    enum = "".join(f"  f_{name},\n" for name in names)
    (out / "simulator" / "nvml_names.hpp").write_text(
        "// Generated from nvml_functions.txt.\n#pragma once\n\n#include <cstdint>\n\nnamespace berth::simulator {\n"
        f"enum Function : std::uint32_t {{\n{enum}  kFunctions\n}};\n}}  // namespace berth::simulator\n")
    stubs = "".join(f"NVML({name})() {{ return not_modelled(f_{name}); }}\n" for name in names if name not in modelled)
    (out / "nvml_stubs.cpp").write_text(
        f'// Generated: functions that are not modelled.\n#include "simulator/nvml_core.hpp"\n\nusing namespace berth::simulator;\n\n{stubs}')
    exported = "".join(f"    {name};\n" for name in names)
    (out / "nvml.map").write_text(f"{{\n  global:\n{exported}  local: *;\n}};\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
