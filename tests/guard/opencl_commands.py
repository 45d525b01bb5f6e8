"""A program for OpenCL that sends one command of each kind, for tests of turns. It prints each command's name, its result, and how many
turns the guard asked for meanwhile (0 without the guard), then what the commands left in memory."""
import ctypes
import glob
import os
import struct
import zlib

import opencl_program as cl
from opencl_work import ITEMS, Work

C, SIZE, POINTER, by = cl.cl, cl.SIZE, cl.POINTER, ctypes.byref
for name in ("clEnqueueMapBuffer", "clEnqueueMapImage"):
    getattr(C, name).restype = POINTER
READ_AND_WRITE = cl.FLAGS(3)


def asked():
    """The calls that asked for a turn: the sum of turns::Place::sent."""
    folder = os.environ.get("BERTH_GUARD")
    if folder is None:
        return 0
    path, = glob.glob(folder + "/turns-*")
    with open(path, "rb") as file:
        data = file.read()
    places, = struct.unpack_from("I", data, 12)
    return sum(struct.unpack_from("Q", data, 128 + 64 * place + 48)[0] for place in range(places))


def show(name, call):
    before = asked()
    result = call()
    print(name, result, asked() - before, flush=True)


def extension(name, result, *parameters):
    address = C.clGetExtensionFunctionAddressForPlatform(cl.platform, name.encode())
    return ctypes.CFUNCTYPE(result, *parameters)(address) if address else None


def map_and_unmap(work):
    error, where, image = cl.INT(), POINTER(), cl.image(65536)[1]
    origin, size, pitches = (SIZE * 3)(0, 0, 0), (SIZE * 3)(16, 2, 1), (SIZE * 2)()

    def buffer():
        where.value = C.clEnqueueMapBuffer(cl.queue, work.buffer, 1, READ_AND_WRITE, SIZE(0), SIZE(4 * ITEMS), 0, None, None, by(error))
        ctypes.memset(where, 5, 100)
        return error.value

    def picture():
        where.value = C.clEnqueueMapImage(cl.queue, image, 1, READ_AND_WRITE, origin, size, by(pitches), by(pitches, 8), 0, None, None,
                                          by(error))
        return error.value
    for kind, mapped, call in (("a buffer", work.buffer, buffer), ("an image", image, picture)):
        show(f"map {kind}:", call)
        show(f"unmap {kind}:", lambda: C.clEnqueueUnmapMemObject(cl.queue, mapped, where, 0, None, None))
    show("migrate:", lambda: C.clEnqueueMigrateMemObjects(cl.queue, 1, by(work.buffer), cl.FLAGS(0), 0, None, None))


def shared_memory():
    memory, text = cl.shared(65536)[1], ctypes.create_string_buffer(b"text", 4096)
    show("map shared memory:", lambda: C.clEnqueueSVMMap(cl.queue, 1, READ_AND_WRITE, memory, SIZE(65536), 0, None, None))
    show("unmap shared memory:", lambda: C.clEnqueueSVMUnmap(cl.queue, memory, 0, None, None))
    show("fill shared memory:", lambda: C.clEnqueueSVMMemFill(cl.queue, memory, by(cl.UINT(7)), SIZE(4), SIZE(8192), 0, None, None))
    show("copy shared memory:", lambda: C.clEnqueueSVMMemcpy(cl.queue, 1, memory, text, SIZE(4096), 0, None, None))
    copy = extension("clEnqueueMemcpyINTEL", cl.INT, POINTER, cl.UINT, POINTER, POINTER, SIZE, cl.UINT, POINTER, POINTER)
    if copy is not None:
        show("copy Intel's shared memory:", lambda: copy(cl.queue, 1, memory, text, 4096, 0, None, None))
    show("migrate shared memory:", lambda: C.clEnqueueSVMMigrateMem(cl.queue, 1, by(memory), None, cl.FLAGS(0), 0, None, None))
    cl.check(C.clFinish(cl.queue))
    print(zlib.crc32(ctypes.string_at(memory, 8192)))


def native_kernel():
    calls = []
    function = ctypes.CFUNCTYPE(None, POINTER)(lambda data: calls.append(1))
    show("native kernel:", lambda: C.clEnqueueNativeKernel(cl.queue, function, None, SIZE(0), 0, None, None, 0, None, None))
    cl.check(C.clFinish(cl.queue))
    print(len(calls))


def command_buffer(work):
    make = extension("clCreateCommandBufferKHR", POINTER, cl.UINT, POINTER, POINTER, POINTER)
    if make is None:
        return print("no command buffers")
    finish = extension("clFinalizeCommandBufferKHR", cl.INT, POINTER)
    send = extension("clEnqueueCommandBufferKHR", cl.INT, cl.UINT, POINTER, POINTER, cl.UINT, POINTER, POINTER)
    add = extension("clCommandNDRangeKernelKHR", cl.INT, POINTER, POINTER, POINTER, POINTER, cl.UINT, POINTER, POINTER, POINTER, cl.UINT,
                    POINTER, POINTER, POINTER)
    error, global_size, local_size = cl.INT(), SIZE(ITEMS), SIZE(64)
    commands = POINTER(make(1, ctypes.addressof(cl.queue), None, ctypes.addressof(error)))
    cl.check(error.value)
    for _ in range(5):
        cl.check(add(commands, None, None, work.kernel, 1, None, ctypes.addressof(global_size), ctypes.addressof(local_size), 0, None, None,
                     None))
    cl.check(finish(commands))
    show("command buffer:", lambda: send(0, None, commands, 0, None, None))
    cl.check(C.clFinish(cl.queue))
    show("command buffer on a queue:", lambda: send(1, ctypes.addressof(cl.queue), commands, 0, None, None))
    cl.check(C.clFinish(cl.queue))
    print(make(0, None, None, ctypes.addressof(error)), error.value, send(0, None, None, 0, None, None) != 0)


if __name__ == "__main__":
    one = Work(300)
    map_and_unmap(one)
    shared_memory()
    native_kernel()
    command_buffer(one)
    print(one.result())
