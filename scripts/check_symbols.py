#!/usr/bin/env python3
"""Checks the symbols of the built programs and libraries.

`berth`, libberth and the simulated libnvidia-ml.so.1 need only glibc. libberth exports only the functions in its header. The simulated libnvidia-ml.so.1
exports exactly the functions of NVIDIA's library (data/nvml_functions.txt). So a program that loads one of them gets no unexpected symbols. The guard
exports the driver's functions and dlsym, and the guard's OpenCL layer exports two functions. The guard and this layer need no glibc newer than 2.17."""
import re
import shutil
import subprocess

import checking

GLIBC = re.compile(r"^(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|ld-linux-.*\.so\.[12])$")


def output(*command) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(binary) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", "-W", str(binary)))


def exported(library) -> set[str]:
    rows = output("nm", "-D", "--defined-only", str(library)).splitlines()
    return {row.split()[-1].split("@")[0] for row in rows if row.split()[-2] in "TWVDBRi"}


def names_in(path) -> set[str]:
    return {line.split()[0] for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")}


def foreign_libraries(binary):
    for library in needed(binary):
        if not GLIBC.match(library):
            yield f"{binary} needs {library}: only glibc may be needed"


def newer_than(version: str, library):
    """The versions of glibc that the library needs and that are newer than `version`."""
    asked = set(re.findall(r"GLIBC_([0-9.]+)", output("readelf", "-V", "-W", str(library))))
    parts = lambda text: [int(part) for part in text.split(".")]
    return sorted(one for one in asked if parts(one) > parts(version))


def too_new(guard):
    for version in newer_than("2.17", guard):
        yield f"{guard} asks for glibc {version}: programs of an older one could not load it"


def guard_problems(guard):
    for name in sorted(exported(guard)):
        if name != "dlsym" and not name.startswith(("cu", "nvmlDeviceGet")):
            yield f"{guard} exports {name}: it may stand before the driver's functions and dlsym alone"
    yield from too_new(guard)


def layer_problems(layer):
    if exported(layer) != {"clGetLayerInfo", "clInitLayer"}:
        yield f"{layer} exports {', '.join(sorted(exported(layer)))}: a layer has clGetLayerInfo and clInitLayer"
    yield from too_new(layer)


def check(arguments):
    if arguments.guard:
        yield from guard_problems(arguments.guard)
    if arguments.layer:
        yield from layer_problems(arguments.layer)
    for binary in filter(None, [arguments.berth, arguments.simulator, arguments.library, arguments.guard, arguments.layer]):
        yield from foreign_libraries(binary)
    if arguments.library:
        header = (arguments.root / "include/berth/berth.h").read_text()
        declared = set(re.findall(r"^BERTH_API .*?(berth_\w+)\(", header, re.M))
        for name in sorted(declared ^ exported(arguments.library)):
            yield f"{name} is either in include/berth/berth.h or exported by {arguments.library}, not both"
    if arguments.simulator:
        here, there = exported(arguments.simulator), names_in(arguments.functions)
        for name in sorted(there - here):
            yield f"{arguments.simulator} does not export {name}"
        for name in sorted(here - there):
            yield f"{arguments.simulator} exports {name}, which the driver's library does not"


def self_test():
    assert not GLIBC.match("libstdc++.so.6") and GLIBC.match("ld-linux-x86-64.so.2")
    assert any("libc.so.6" in library for library in needed(shutil.which("ls"))), "needed() sees nothing"
    with checking.tree({"a.c": "int visible(void) { return 1; }\n"}) as root:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", root / "a.so", root / "a.c", "-lm", "-Wl,--no-as-needed",
                        "-lstdc++"], check=True, cwd=root)
        assert list(foreign_libraries(root / "a.so")), "a foreign library passed"
        assert exported(root / "a.so") == {"visible"}
        assert any("visible" in problem for problem in guard_problems(root / "a.so")), "a foreign export passed"
        assert any("visible" in problem for problem in layer_problems(root / "a.so")), "a foreign export of a layer passed"
        assert newer_than("2.1", root / "a.so") and not newer_than("99", root / "a.so")


if __name__ == "__main__":
    for tool in ("readelf", "nm", "cc"):
        if shutil.which(tool) is None:
            checking.skip(f"{tool} is not installed")
    checking.main(__doc__, check, self_test,
                  [("--simulator", {}), ("--guard", {}), ("--layer", {}), ("--library", {}), ("--functions", {"type": checking.pathlib.Path})])
