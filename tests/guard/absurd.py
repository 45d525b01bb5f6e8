"""Calls every function that the guard wraps with null pointers and absurd numbers, and prints the results. The test runs it with and
without the guard; the results must be equal. Usage: absurd.py HOOKS.inc"""
import ctypes
import re
import sys

NUMBERS = (0, 1, (1 << 31) - 1, (1 << 63) + 1, (1 << 64) - 1)


def hooks(path):
    with open(path) as file:
        for name, types in re.findall(r"^HOOK\((\w+), \((.*)\)\)$", file.read(), re.M):
            yield name, [one.strip() for one in types.split(",")] if types else []


def is_pointer(kind):
    return "*" in kind or kind in ("CUcontext", "CUevent", "CUstream", "CUgraph", "CUgraphExec", "CUfunction", "CUarray",
                                   "CUmipmappedArray", "CUmemoryPool")


def main():
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    for initialized in (False, True):
        if initialized:
            cuda.cuInit(0)
            cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
        for name, kinds in hooks(sys.argv[1]):
            for number in NUMBERS:
                # These functions would copy from or to the address, which would crash the program with or without the guard.
                if name.startswith(("cuMemcpy", "cuMemset")) and number != 0:
                    continue
                room = ctypes.create_string_buffer(256)
                for with_room in (False, True):
                    values = [ctypes.c_void_p(ctypes.addressof(room) if with_room and "*" in kind else None) if is_pointer(kind)
                              else ctypes.c_uint64(number) for kind in kinds]
                    print(name, number, with_room, flush=True, end=" ")
                    print(getattr(cuda, name)(*values), flush=True)


if __name__ == "__main__":
    main()
