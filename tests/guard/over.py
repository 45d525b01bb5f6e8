"""For each function that takes device memory: a program under the guard that has exactly SIZE bytes left can take SIZE bytes and not one
more; prints "name result-of-fit result-of-one-more". Usage: over.py SIZE"""
import ctypes
import sys

from program import begin, check, cuda, info

SIZE = int(sys.argv[1])
PAGE = 2 << 20
address, low, handle, array, pitch, low_pitch = (ctypes.c_uint64(), ctypes.c_uint32(), ctypes.c_uint64(), ctypes.c_void_p(),
                                                 ctypes.c_size_t(), ctypes.c_uint())
pool = ctypes.c_void_p()
out, out_low, out_handle, out_array = (ctypes.byref(one) for one in (address, low, handle, array))


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("rest", ctypes.c_uint64 * 2)]


class Plane(ctypes.Structure):
    _fields_ = [("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("format", ctypes.c_uint), ("channels", ctypes.c_uint)]


class Cube(ctypes.Structure):
    _fields_ = [("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t), ("format", ctypes.c_uint),
                ("channels", ctypes.c_uint), ("flags", ctypes.c_uint)]


class OldPlane(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in ("width", "height", "format", "channels")]


class OldCube(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in ("width", "height", "depth", "format", "channels", "flags")]


def size(bytes_):
    return ctypes.c_size_t(bytes_)


def create(bytes_):
    properties = Properties(1, 0, Location(1, 0))
    pages = -(-bytes_ // PAGE) * PAGE
    return cuda.cuMemCreate(out_handle, size(pages), ctypes.byref(properties), ctypes.c_ulonglong(0))


def by_pool(bytes_):
    return cuda.cuMemAllocFromPoolAsync(out, size(bytes_), pool, None)


# What takes so many bytes, and what frees them.
TAKE = {
    "cuMemAlloc_v2": (lambda n: cuda.cuMemAlloc_v2(out, size(n)), lambda: cuda.cuMemFree_v2(address)),
    "cuMemAlloc": (lambda n: cuda.cuMemAlloc(out_low, n), lambda: cuda.cuMemFree(low)),
    "cuMemAllocManaged": (lambda n: cuda.cuMemAllocManaged(out, size(n), 1), lambda: cuda.cuMemFree_v2(address)),
    "cuMemAllocPitch_v2": (lambda n: cuda.cuMemAllocPitch_v2(out, ctypes.byref(pitch), size(512), size(-(-n // 512)), 4),
                           lambda: cuda.cuMemFree_v2(address)),
    "cuMemAllocPitch": (lambda n: cuda.cuMemAllocPitch(out_low, ctypes.byref(low_pitch), 512, -(-n // 512), 4), lambda: cuda.cuMemFree(low)),
    "cuMemAllocAsync": (lambda n: cuda.cuMemAllocAsync(out, size(n), None), lambda: cuda.cuMemFreeAsync(address, None)),
    "cuMemAllocAsync_ptsz": (lambda n: cuda.cuMemAllocAsync_ptsz(out, size(n), None), lambda: cuda.cuMemFreeAsync_ptsz(address, None)),
    "cuMemAllocFromPoolAsync": (by_pool, lambda: cuda.cuMemFree_v2(address)),
    "cuMemAllocFromPoolAsync_ptsz": (lambda n: cuda.cuMemAllocFromPoolAsync_ptsz(out, size(n), pool, None),
                                     lambda: cuda.cuMemFreeAsync(address, None)),
    "cuMemCreate": (create, lambda: cuda.cuMemRelease(handle)),
    "cuArrayCreate_v2": (lambda n: cuda.cuArrayCreate_v2(out_array, ctypes.byref(Plane(n, 0, 1, 1))), lambda: cuda.cuArrayDestroy(array)),
    "cuArrayCreate": (lambda n: cuda.cuArrayCreate(out_array, ctypes.byref(OldPlane(n, 0, 1, 1))), lambda: cuda.cuArrayDestroy(array)),
    "cuArray3DCreate_v2": (lambda n: cuda.cuArray3DCreate_v2(out_array, ctypes.byref(Cube(n, 0, 0, 1, 1, 0))),
                           lambda: cuda.cuArrayDestroy(array)),
    "cuArray3DCreate": (lambda n: cuda.cuArray3DCreate(out_array, ctypes.byref(OldCube(n, 0, 0, 1, 1, 0))),
                        lambda: cuda.cuArrayDestroy(array)),
    "cuMipmappedArrayCreate": (lambda n: cuda.cuMipmappedArrayCreate(out_array, ctypes.byref(Cube(n, 0, 0, 1, 1, 0)), 1),
                               lambda: cuda.cuMipmappedArrayDestroy(array)),
}

if __name__ == "__main__":
    begin()
    check(cuda.cuMemGetMemPool(ctypes.byref(pool), ctypes.byref(Location(1, 0)), 1))
    for name, (take, free) in TAKE.items():
        fits = take(SIZE)
        left = info()[0]
        if fits == 0:
            check(free())
        print(name, fits, left, take(SIZE + 1), info()[0])
