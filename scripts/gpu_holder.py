#!/usr/bin/env python3
"""gpu_holder.py MIB: allocates MIB mebibytes of GPU memory and keeps them until it is ended. Uses only the CUDA driver and no framework. Prints "ready", or
why the allocation failed."""
import ctypes
import sys
import time


def call(library, name, *arguments):
    code = getattr(library, name)(*arguments)
    if code != 0:
        print(f"{name} answered {code}", flush=True)
        sys.exit(1)


def main() -> None:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as problem:
        print(f"no CUDA driver: {problem}", flush=True)
        sys.exit(1)
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    call(cuda, "cuInit", 0)
    call(cuda, "cuDeviceGet", ctypes.byref(device), 0)
    call(cuda, "cuCtxCreate_v2", ctypes.byref(context), 0, device)
    size = int(sys.argv[1]) << 20
    call(cuda, "cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
    call(cuda, "cuMemsetD8_v2", memory, ctypes.c_ubyte(1), ctypes.c_size_t(size))
    call(cuda, "cuCtxSynchronize")
    print("ready", flush=True)
    time.sleep(300)


if __name__ == "__main__":
    main()
