"""A program for the CUDA driver API, written with ctypes as users do, for tests of the guard."""
import ctypes
import sys
import time

cuda = ctypes.CDLL("libcuda.so.1")
OUT_OF_MEMORY = 2


def check(result):
    if result != 0:
        raise SystemExit(f"CUDA error {result}")


def begin():
    check(cuda.cuInit(0))
    context = ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))


def allocate(size):
    address = ctypes.c_uint64()
    return cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)), address


def info():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value, total.value


def kernel(name):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuModuleLoadData(ctypes.byref(module), b"image"))
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
    return function


def graph_of(function, count):
    """A graph of `count` kernels, captured from a stream."""
    stream, graph, whole = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    check(cuda.cuStreamBeginCapture_v2(stream, 0))
    for _ in range(count):
        check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, None, None))
    check(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
    check(cuda.cuGraphInstantiateWithFlags(ctypes.byref(whole), graph, ctypes.c_ulonglong(0)))
    return whole, stream


def work_by_graph(graph, stream, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        check(cuda.cuGraphLaunch(graph, stream))
    check(cuda.cuCtxSynchronize())


def work(function, seconds):
    """Launches kernels for this many seconds. Returns how many."""
    launched, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(4):
            check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None))
        launched += 4
    check(cuda.cuCtxSynchronize())
    return launched


def one_byte_over(size):
    result, address = allocate(size)
    over = allocate(1)[0]
    free, total = info()
    print(result, over, free, total, allocate(size + 1)[0])
    check(cuda.cuMemFree_v2(address))
    print(allocate(size)[0])


def main():
    begin()
    if sys.argv[1] == "quota":
        one_byte_over(int(sys.argv[2]))
    elif sys.argv[1] == "work":
        print(work(kernel(sys.argv[2]), float(sys.argv[3])))
    elif sys.argv[1] == "graphs":
        work_by_graph(*graph_of(kernel(sys.argv[2]), 5), float(sys.argv[3]))
    elif sys.argv[1] == "hold":
        check(allocate(int(sys.argv[2]))[0])
        print("holding", flush=True)
        time.sleep(60)


if __name__ == "__main__":
    main()
