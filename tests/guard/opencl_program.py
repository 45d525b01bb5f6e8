"""A program for OpenCL, written with ctypes, for tests of the guard."""
import ctypes
import sys
import time

cl = ctypes.CDLL("libOpenCL.so.1")
FAILED, OUT_OF_RESOURCES = -4, -5
POINTER, SIZE, INT, UINT, FLAGS = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint, ctypes.c_uint64
for name in ("clCreateContext", "clCreateBuffer", "clCreateSubBuffer", "clCreateBufferWithProperties", "clCreateImage", "clCreateImage2D",
             "clCreatePipe", "clSVMAlloc", "clCreateCommandQueue", "clCreateProgramWithSource", "clCreateKernel", "clCreateUserEvent",
             "clGetExtensionFunctionAddressForPlatform"):
    getattr(cl, name).restype = POINTER
cl.clSVMFree.restype = None


class Image(ctypes.Structure):
    _fields_ = [("type", UINT), ("width", SIZE), ("height", SIZE), ("depth", SIZE), ("array", SIZE), ("row", SIZE), ("slice", SIZE),
                ("mips", UINT), ("samples", UINT), ("parent", POINTER)]


RGBA_FLOAT = (UINT * 2)(0x10B5, 0x10DE)


def check(result):
    if result != 0:
        raise SystemExit(f"OpenCL error {result}")


def number(key):
    value = ctypes.c_uint64()
    check(cl.clGetDeviceInfo(device, UINT(key), SIZE(8), ctypes.byref(value), None))
    return value.value


def totals():
    """CL_DEVICE_GLOBAL_MEM_SIZE and CL_DEVICE_MAX_MEM_ALLOC_SIZE."""
    return number(0x101F), number(0x1010)


def begin():
    global platform, device, context, queue
    platform, device, error = POINTER(), POINTER(), INT()
    check(cl.clGetPlatformIDs(1, ctypes.byref(platform), None))
    check(cl.clGetDeviceIDs(platform, FLAGS(0xFFFFFFFF), 1, ctypes.byref(device), None))
    context = POINTER(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(error)))
    check(error.value)
    queue = POINTER(cl.clCreateCommandQueue(context, device, FLAGS(0), ctypes.byref(error)))
    check(error.value)


def finish(handle, error):
    return error.value, POINTER(handle)


def buffer(size):
    error = INT()
    return finish(cl.clCreateBuffer(context, FLAGS(1), SIZE(size), None, ctypes.byref(error)), error)


def buffer_with_properties(size):
    error = INT()
    return finish(cl.clCreateBufferWithProperties(context, None, FLAGS(1), SIZE(size), None, ctypes.byref(error)), error)


def sub_buffer(parent, size):
    error, part = INT(), (SIZE * 2)(0, size)
    return finish(cl.clCreateSubBuffer(parent, FLAGS(1), UINT(0x1220), part, ctypes.byref(error)), error)


def image(size, parent=None):
    """An image of rows of 1024 elements of 16 bytes."""
    error, what = INT(), Image(type=0x10F1, width=1024, height=max(1, size // 16384), parent=parent)
    return finish(cl.clCreateImage(context, FLAGS(1), RGBA_FLOAT, ctypes.byref(what), None, ctypes.byref(error)), error)


def image_2d(size):
    error = INT()
    return finish(cl.clCreateImage2D(context, FLAGS(1), RGBA_FLOAT, SIZE(1024), SIZE(max(1, size // 16384)), SIZE(0), None,
                                     ctypes.byref(error)), error)


def shared(size):
    """Shared virtual memory has no error code."""
    address = cl.clSVMAlloc(context, FLAGS(1), SIZE(size), UINT(0))
    return (0 if address else FAILED), POINTER(address)


def release(handle):
    check(cl.clReleaseMemObject(handle))


def free_shared(address):
    cl.clSVMFree(context, address)


SOURCE = b"""kernel void square(global const int* in, global int* out) { size_t i = get_global_id(0); out[i] = in[i] * in[i] + (int)i; }"""


def square(count):
    """Runs a kernel on `count` numbers. Returns the results."""
    error, source = INT(), ctypes.c_char_p(SOURCE)
    program = POINTER(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, ctypes.byref(error)))
    check(error.value)
    check(cl.clBuildProgram(program, 0, None, None, None, None))
    kernel = POINTER(cl.clCreateKernel(program, b"square", ctypes.byref(error)))
    check(error.value)
    a, b = buffer(4 * count)[1], buffer(4 * count)[1]
    data = (INT * count)(*range(count))
    check(cl.clEnqueueWriteBuffer(queue, a, 1, SIZE(0), SIZE(4 * count), data, 0, None, None))
    for index, one in enumerate((a, b)):
        check(cl.clSetKernelArg(kernel, index, SIZE(8), ctypes.byref(one)))
    check(cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ctypes.byref(SIZE(count)), None, 0, None, None))
    check(cl.clEnqueueReadBuffer(queue, b, 1, SIZE(0), SIZE(4 * count), data, 0, None, None))
    for one in (a, b):
        release(one)
    return list(data)


if __name__ == "__main__":
    begin()
    if sys.argv[1] == "hold":
        print(buffer(int(sys.argv[2]))[0], flush=True)
        time.sleep(100)
    elif sys.argv[1] == "square":
        print(sum(square(int(sys.argv[2]))))
