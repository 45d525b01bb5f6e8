#!/usr/bin/env python3
"""Compares the names of the CUDA driver's functions with the guard's tables. If a function's name suggests that it allocates device memory, the guard must
wrap it (preload/cuda/hooks.inc), or a table must list the reason why not (src/vendor/cuda/memory_names.inc).

usage: check_guard.py                        the names of simulator/cuda_functions.txt, from the headers of CUDA 13.5
       check_guard.py --libcuda libcuda.so.1 those that a driver exports; `berth guard check` does the same without a source tree"""
import re

import check_symbols
import checking

KINDS = ("kNone", "kOthers", "kHidden")
# Functions that allocate, free or report memory directly, and not by calling another wrapped function.
MUST_BE_WRAPPED = """cuMemAlloc cuMemAlloc_v2 cuMemAllocPitch cuMemAllocPitch_v2 cuMemAllocManaged cuMemAllocAsync cuMemAllocAsync_ptsz
cuMemAllocFromPoolAsync cuMemAllocFromPoolAsync_ptsz cuMemCreate cuArrayCreate cuArrayCreate_v2 cuArray3DCreate cuArray3DCreate_v2
cuMipmappedArrayCreate cuGraphInstantiate cuGraphInstantiate_v2 cuGraphInstantiateWithFlags cuGraphInstantiateWithParams
cuGraphInstantiateWithParams_ptsz cuGraphUpload cuGraphUpload_ptsz cuGraphLaunch cuGraphLaunch_ptsz
cuMemFree cuMemFree_v2 cuMemFreeAsync cuMemFreeAsync_ptsz cuMemRelease cuMemMap cuMemUnmap cuMemRetainAllocationHandle cuArrayDestroy
cuMipmappedArrayDestroy cuGraphExecDestroy cuDeviceGraphMemTrim cuCtxDestroy cuCtxDestroy_v2 cuDevicePrimaryCtxRelease
cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2 cuMemGetInfo cuMemGetInfo_v2 cuDeviceTotalMem
cuDeviceTotalMem_v2 cuMemPoolCreate cuDeviceGetMemPool cuDeviceGetDefaultMemPool cuMemGetMemPool cuMemGetDefaultMemPool""".split()


def read(root, name):
    return (root / name).read_text()


def parts(root):
    """The words in a function's name that suggest device memory."""
    found = re.search(r"kParts\[\] = \{(.*?)\};", read(root, "src/vendor/cuda/memory_names.hpp"), re.S)
    return re.findall(r'"(\w+)"', found[1])


def problems(names, suspicious, hooks, rows):
    for name in sorted(names):
        if any(part in name for part in suspicious) and (name in hooks) + (name in dict(rows)) != 1:
            yield f"{name} must be in hooks.inc or memory_names.inc, and only in one of them"
    for name, kind in rows:
        if kind not in KINDS or not any(part in name for part in suspicious):
            yield f"memory_names.inc: {name}: no such kind, or a name that is not looked for"
    if [name for name, _ in rows] != sorted({name for name, _ in rows}):
        yield "memory_names.inc is not sorted"


def check(arguments):
    root = arguments.root
    hooks = re.findall(r"^HOOK\((\w+),", read(root, "preload/cuda/hooks.inc"), re.M)
    rows = re.findall(r"^MEMORY_NAME\((\w+), (\w+)\)", read(root, "src/vendor/cuda/memory_names.inc"), re.M)
    known = read(root, "simulator/cuda_functions.txt").split()
    names = known if arguments.libcuda is None else \
        [name for name in check_symbols.exported(arguments.libcuda) if re.match("cu[A-Z]", name)]
    yield from problems(names, parts(root), set(hooks), rows)
    if hooks != sorted(set(hooks)):
        yield "hooks.inc is not sorted"
    for name in sorted(set(MUST_BE_WRAPPED) - set(hooks)):
        yield f"hooks.inc lacks {name}"
    for name in sorted(set(hooks) - set(known)):
        yield f"hooks.inc has {name}, which the driver does not export"


def self_test():
    suspicious = ["Alloc", "Create"]
    assert not list(problems(["cuA", "cuMemAlloc", "cuCtxCreate"], suspicious, {"cuMemAlloc"}, [("cuCtxCreate", "kHidden")]))
    assert list(problems(["cuMemAllocTomorrow"], suspicious, {"cuMemAlloc"}, [])), "an unknown function passed"
    assert list(problems([], suspicious, set(), [("cuMemAlloc", "kNobody")])), "an unknown kind passed"


if __name__ == "__main__":
    checking.main(__doc__, check, self_test, [("--libcuda", {"metavar": "FILE"})])
