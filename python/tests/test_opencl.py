"""Tests on an OpenCL device, such as PoCL's CPU: an allocation that is too large counts as a lack of memory, and other failures do not.

usage: test_opencl.py     (77: no PyOpenCL, or no device)
"""
import pathlib
import sys
import unittest

from skipping import skip

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
try:
    import pyopencl as cl
    DEVICE = cl.get_platforms()[0].get_devices()[0]
except Exception as why:
    skip(f"no PyOpenCL with a device: {why}")

import berth  # noqa: E402


class OpenCl(unittest.TestCase):
    def setUp(self):
        self.context = cl.Context([DEVICE])
        self.queue = cl.CommandQueue(self.context)

    def test_too_large_a_buffer(self):
        for size in (DEVICE.max_mem_alloc_size + (1 << 30), 1 << 60):
            try:
                cl.Buffer(self.context, cl.mem_flags.READ_WRITE, size)
                self.fail("it was given")
            except cl.Error as problem:
                self.assertTrue(berth.is_oom(problem), problem)

    def test_a_smaller_batch_fits(self):
        @berth.fit_batch(start=1 << 40, report=False)
        def held(batch_size):
            cl.Buffer(self.context, cl.mem_flags.READ_WRITE, batch_size)
            return batch_size
        self.assertLessEqual(held(), DEVICE.max_mem_alloc_size)

    def test_other_failures_are_raised_as_they_are(self):
        # A buffer of zero bytes is not tested, because OpenCL reports the same error code for it as for a buffer that is too large.
        for fails in (lambda: cl.Program(self.context, "__kernel void f( {").build(), lambda: cl.Kernel(cl.Program(self.context, "__kernel void f() {}").build(), "g")):
            with self.assertRaises(Exception) as caught:
                fails()
            self.assertFalse(berth.is_oom(caught.exception), caught.exception)


if __name__ == "__main__":
    unittest.main()
