"""A program for OpenCL that works for some seconds, for tests of shares.

usage: opencl_work.py FOLDER COUNT SECONDS

It starts when COUNT programs have come to the folder. It prints how many kernels ran, and how many seconds that took."""
import ctypes
import os
import sys
import time
import zlib

import opencl_program as cl

ITEMS = 4096
SOURCE = b"""kernel void churn(global uint* x, uint rounds) {
  size_t i = get_global_id(0);
  uint v = x[i];
  for (uint r = 0; r < rounds; ++r) v = v * 1664525u + 1013904223u + (uint)i;
  x[i] = v;
}"""


class Work:
    """Kernels that change one buffer, each after the other."""

    def __init__(self, rounds=100):
        cl.begin()
        error, source = cl.INT(), ctypes.c_char_p(SOURCE)
        program = cl.POINTER(cl.cl.clCreateProgramWithSource(cl.context, 1, ctypes.byref(source), None, ctypes.byref(error)))
        cl.check(cl.cl.clBuildProgram(program, 0, None, None, None, None))
        self.kernel = cl.POINTER(cl.cl.clCreateKernel(program, b"churn", ctypes.byref(error)))
        cl.check(error.value)
        self.buffer = cl.buffer(4 * ITEMS)[1]
        self.data = (cl.UINT * ITEMS)(*range(ITEMS))
        cl.check(cl.cl.clEnqueueWriteBuffer(cl.queue, self.buffer, 1, cl.SIZE(0), cl.SIZE(4 * ITEMS), self.data, 0, None, None))
        cl.check(cl.cl.clSetKernelArg(self.kernel, 0, cl.SIZE(8), ctypes.byref(self.buffer)))
        self.set_rounds(rounds)

    def set_rounds(self, rounds):
        cl.check(cl.cl.clSetKernelArg(self.kernel, 1, cl.SIZE(4), ctypes.byref(cl.UINT(rounds))))

    def launch(self, wait_for=None, event=None):
        waits = None if wait_for is None else ctypes.byref(wait_for)
        return cl.cl.clEnqueueNDRangeKernel(cl.queue, self.kernel, 1, None, ctypes.byref(cl.SIZE(ITEMS)), ctypes.byref(cl.SIZE(64)),
                                            0 if wait_for is None else 1, waits, None if event is None else ctypes.byref(event))

    def result(self):
        cl.check(cl.cl.clEnqueueReadBuffer(cl.queue, self.buffer, 1, cl.SIZE(0), cl.SIZE(4 * ITEMS), self.data, 0, None, None))
        return zlib.crc32(bytes(self.data))


def work_until(work, end):
    """Launches kernels until then, and waits for every 10th. Returns how many."""
    count = 0
    while time.monotonic() < end:
        for _ in range(10):
            cl.check(work.launch())
        count += 10
        cl.check(cl.cl.clFinish(cl.queue))
    return count


def meet(folder, count):
    """Waits until this many programs are here, so that they begin together."""
    open(os.path.join(folder, f"ready-{os.getpid()}"), "w").close()
    while sum(name.startswith("ready-") for name in os.listdir(folder)) < count:
        time.sleep(0.002)


if __name__ == "__main__":
    work = Work()
    cl.check(work.launch())
    cl.check(cl.cl.clFinish(cl.queue))
    meet(sys.argv[1], int(sys.argv[2]))
    begin = time.monotonic()
    print(work_until(work, begin + float(sys.argv[3])), time.monotonic() - begin, flush=True)
