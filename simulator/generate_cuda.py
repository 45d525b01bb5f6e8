#!/usr/bin/env python3
"""Generates files from the list of the CUDA driver's functions: stubs for functions that are not simulated, a table of all
functions, and the export list.

usage: generate_cuda.py FUNCTIONS.txt OUT_FOLDER SOURCE.cpp...
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
    modelled = set()
    for source in sources:
        modelled |= set(re.findall(r"^CUDA(?:_ALIAS)?\((cu\w+)", pathlib.Path(source).read_text(), re.M))
    if strange := modelled - set(names):
        print(f"modelled, but not in {listing}: {sorted(strange)}", file=sys.stderr)
        return 1
    out = pathlib.Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    stubs = "".join(f"CUDA({name})() {{ return CUDA_ERROR_NOT_SUPPORTED; }}\n" for name in names if name not in modelled)
    (out / "cuda_stubs.cpp").write_text(
        f'// Generated: functions that are not modelled.\n#include "simulator/cuda_core.hpp"\n\n{stubs}')
    declared = "".join(f'extern "C" void {name}();\n' for name in names)
    table = "".join(f'    {{"{name}", reinterpret_cast<void*>(&{name})}},\n' for name in names)
    (out / "cuda_exports.cpp").write_text(
        '// Generated: every exported function by its name.\n#include "simulator/cuda_exports.hpp"\n\n'
        f"{declared}\nnamespace berth::simulator {{\n\nconst Export kExports[] = {{\n{table}}};\n"
        f"const std::size_t kExportCount = {len(names)};\n\n}}  // namespace berth::simulator\n")
    exported = "".join(f"    {name};\n" for name in names)
    (out / "cuda.map").write_text(f"{{\n  global:\n{exported}  local: *;\n}};\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
