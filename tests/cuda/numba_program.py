"""Programs of cuda.core and Numba in a job with SIZE bytes of memory: a buffer and an array of SIZE bytes fit, larger ones do not, and a
kernel that Numba compiles is launched. Usage: numba_program.py SIZE"""
import sys
import warnings

import numpy
from cuda.core import Device
from numba import cuda

SIZE = int(sys.argv[1])


@cuda.jit
def add_one(numbers):
    place = cuda.grid(1)
    if place < numbers.size:
        numbers[place] += 1


def refused(call):
    try:
        call()
    except Exception as error:  # the libraries have errors of their own
        return "OUT_OF_MEMORY" in str(error)
    return False


def with_cuda_core():
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    buffer = device.allocate(SIZE, stream=stream)
    print("cuda.core", buffer.size, refused(lambda: device.allocate(512, stream=stream)))
    buffer.close(stream)
    stream.sync()


def with_numba():
    warnings.simplefilter("ignore")
    whole = cuda.device_array(SIZE, dtype=numpy.uint8)
    print("numba", whole.size, refused(lambda: cuda.device_array(1, dtype=numpy.uint8)))
    add_one[4, 256](whole)
    cuda.synchronize()
    del whole
    cuda.current_context().deallocations.clear()
    print("left", cuda.current_context().get_memory_info().free)


if __name__ == "__main__":
    with_cuda_core()
    with_numba()
