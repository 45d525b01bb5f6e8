"""For each function that takes device memory: a program under the guard that has exactly SIZE bytes left can take SIZE bytes and not one
more; prints "name|result-of-fit|free|result-of-one-more|free". Usage: over.py SIZE"""
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


class PoolProperties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("rest", ctypes.c_uint64 * 9)]


class GraphAllocation(ctypes.Structure):
    """CUDA_MEM_ALLOC_NODE_PARAMS; as parameters of any node, 16 bytes with the type come before it."""
    _fields_ = [("pool", PoolProperties), ("access", ctypes.c_void_p), ("accesses", ctypes.c_size_t), ("bytes", ctypes.c_size_t),
                ("address", ctypes.c_uint64)]


class AnyNode(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("none", ctypes.c_int * 3), ("allocation", GraphAllocation), ("rest", ctypes.c_uint64 * 15)]


class Instantiation(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("stream", ctypes.c_void_p), ("node", ctypes.c_void_p), ("result", ctypes.c_int)]


assert (ctypes.sizeof(GraphAllocation), ctypes.sizeof(AnyNode), ctypes.sizeof(Instantiation)) == (120, 256, 32)
UPLOAD, ALLOCATION_NODE = 2, 10


def create(bytes_):
    properties = Properties(1, 0, Location(1, 0))
    pages = -(-bytes_ // PAGE) * PAGE
    return cuda.cuMemCreate(out_handle, size(pages), ctypes.byref(properties), ctypes.c_ulonglong(0))


def by_pool(bytes_):
    return cuda.cuMemAllocFromPoolAsync(out, size(bytes_), pool, None)


def graph_by_node(bytes_):
    node, graph, wanted = (ctypes.c_void_p(), ctypes.c_void_p(), GraphAllocation(PoolProperties(1, 0, Location(1, 0)), bytes=bytes_))
    check(cuda.cuGraphCreate(ctypes.byref(graph), 0))
    check(cuda.cuGraphAddMemAllocNode(ctypes.byref(node), graph, None, size(0), ctypes.byref(wanted)))
    address.value = wanted.address
    return graph


def graph_by_any_node(add, *before_size):
    def made(bytes_):
        node, graph = ctypes.c_void_p(), ctypes.c_void_p()
        wanted = AnyNode(ALLOCATION_NODE, allocation=GraphAllocation(PoolProperties(1, 0, Location(1, 0)), bytes=bytes_))
        check(cuda.cuGraphCreate(ctypes.byref(graph), 0))
        check(add(ctypes.byref(node), graph, None, *before_size, size(0), ctypes.byref(wanted)))
        address.value = wanted.allocation.address
        return graph
    return made


def graph_by_capture(bytes_):
    stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    check(cuda.cuStreamBeginCapture_v2(stream, 0))
    check(cuda.cuMemAllocAsync(out, size(bytes_), stream))
    check(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
    check(cuda.cuStreamDestroy_v2(stream))
    return graph


def launched(make, take=cuda.cuGraphLaunch):
    """Takes memory by a launch or an upload of a graph."""
    def of(bytes_):
        graph, whole = make(bytes_), ctypes.c_void_p()
        check(cuda.cuGraphInstantiateWithFlags(ctypes.byref(whole), graph, ctypes.c_ulonglong(0)))
        result = take(whole, None)
        check(cuda.cuGraphExecDestroy(whole) or cuda.cuGraphDestroy(graph))
        return result
    return of


def uploaded(instantiate):
    """Takes memory when the graph is instantiated."""
    def of(bytes_):
        graph, whole = graph_by_node(bytes_), ctypes.c_void_p()
        result = instantiate(ctypes.byref(whole), graph)
        check((cuda.cuGraphExecDestroy(whole) if result == 0 else 0) or cuda.cuGraphDestroy(graph))
        return result
    return of


def with_parameters(instantiate):
    return lambda out, graph: instantiate(out, graph, ctypes.byref(Instantiation(UPLOAD)))


def trim():
    cuda.cuMemFree_v2(address)
    return cuda.cuDeviceGraphMemTrim(0)


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
    "cuGraphAddMemAllocNode": (launched(graph_by_node), trim),
    "cuGraphAddNode": (launched(graph_by_any_node(cuda.cuGraphAddNode)), trim),
    "cuGraphAddNode_v2": (launched(graph_by_any_node(cuda.cuGraphAddNode_v2, None)), trim),
    "cuGraphAddNode_v3": (launched(graph_by_any_node(cuda.cuGraphAddNode_v3, None)), trim),
    "a captured cuMemAllocAsync": (launched(graph_by_capture), trim),
    "cuGraphLaunch_ptsz": (launched(graph_by_node, cuda.cuGraphLaunch_ptsz), trim),
    "cuGraphUpload": (launched(graph_by_node, cuda.cuGraphUpload), trim),
    "cuGraphUpload_ptsz": (launched(graph_by_node, cuda.cuGraphUpload_ptsz), trim),
    "cuGraphInstantiateWithFlags": (uploaded(lambda out, graph: cuda.cuGraphInstantiateWithFlags(out, graph, ctypes.c_ulonglong(UPLOAD))), trim),
    "cuGraphInstantiateWithParams": (uploaded(with_parameters(cuda.cuGraphInstantiateWithParams)), trim),
    "cuGraphInstantiateWithParams_ptsz": (uploaded(with_parameters(cuda.cuGraphInstantiateWithParams_ptsz)), trim),
}


# What takes no memory of the device.
ON_HOST = {
    "cuMemHostAlloc": lambda n: cuda.cuMemHostAlloc(ctypes.byref(ctypes.c_void_p()), size(n), 0),
    "cuMemAllocHost": lambda n: cuda.cuMemAllocHost(ctypes.byref(ctypes.c_void_p()), n),
    "cuMemAllocHost_v2": lambda n: cuda.cuMemAllocHost_v2(ctypes.byref(ctypes.c_void_p()), size(n)),
}

if __name__ == "__main__":
    begin()
    check(cuda.cuMemGetMemPool(ctypes.byref(pool), ctypes.byref(Location(1, 0)), 1))
    for name, (take, free) in TAKE.items():
        fits = take(SIZE)
        left = info()[0]
        if fits == 0:
            check(free())
        print(name, fits, left, take(SIZE + 1), info()[0], sep="|")
    for name, take in ON_HOST.items():
        print(name, take(SIZE + 1), info()[0], sep="|")
