"""Tests streams, asynchronous copies, pinned memory and the memory pool of berth.kernel, on a real OpenCL device such as PoCL's CPU. For CUDA, tests only
the calls, on a simulated machine.

usage: test_streams.py [BERTH]
"""
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import berth  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None

SLOW = """
KERNEL void slow(GLOBAL int* x, int n) {
    int s = x[0];
    for (int i = 0; i < n; ++i) s = s * 3 + (s >> 3) + 1;
    x[0] = s == 12345 ? 7 : x[0] + 1;
}
KERNEL void add(GLOBAL int* x, GLOBAL const int* y, int n) { int i = GLOBAL_ID(0); if (i < n) x[i] += y[i]; }
"""
MANY = 30_000_000  # iterations, which take about ten milliseconds


def device_here():
    try:
        return berth.empty(1, backend="opencl").device
    except berth.NoDevice as why:
        print(f"no OpenCL device: {why}", file=sys.stderr)
        return None


@unittest.skipUnless(device_here(), "no OpenCL device is here")
class OnOpenCl(unittest.TestCase):
    def setUp(self):
        self.slow, self.add = (berth.kernel(SLOW, name, backend="opencl") for name in ("slow", "add"))
        self.stream = berth.Stream("opencl")

    def ints(self, *values):
        return berth.asarray(list(values), "int32", backend="opencl")

    def test_work_on_the_same_array_runs_in_the_order_of_the_calls(self):
        other = berth.Stream("opencl")
        x, y = self.ints(0), self.ints(10)
        for stream in (None, self.stream, other, None, self.stream):
            self.slow(x, MANY // 10, size=1, group=1, stream=stream)
        self.add(y, x, 1, size=1, group=1, stream=other)
        self.assertEqual((y.tolist(), x.tolist()), ([15], [5]))

    def test_the_array_that_a_stream_changed_is_read_by_the_same_kernel_without_a_stream(self):
        x = self.ints(0)
        for number in range(1, 7):
            self.slow(x, MANY // 20, size=1, group=1, stream=self.stream if number % 2 else None)
        self.assertEqual(x.tolist(), [6])

    def test_memory_of_the_pool_is_safe_although_a_stream_still_uses_it(self):
        for number in range(10):
            self.slow(self.ints(0), MANY // 10, size=1, group=1, stream=self.stream)
            gc.collect()
            x = self.ints(number)  # the allocator returns the block that was just freed
            self.assertEqual(x.tolist(), [number])

    def test_a_stream_waits_for_the_event_of_another_one(self):
        other = berth.Stream("opencl")
        x, y = self.ints(0), self.ints(0)
        first = self.slow(x, MANY, size=1, group=1, stream=self.stream)
        second = self.add(y, self.ints(1), 1, size=1, group=1, stream=other.wait_for(first))
        second.wait()
        self.assertTrue(first.done)
        self.assertIs(other.wait(), other)

    def test_copies_with_pinned_memory_do_not_wait(self):
        there, back = (berth.pinned(3, "int32", backend="opencl") for _ in range(2))
        self.assertIs(there.copy_from([1, 2, 3]), there)
        x, y = berth.empty(3, "int32", backend="opencl"), self.ints(10, 20, 30)
        x.start_copy_from(there, stream=self.stream)
        self.add(x, y, 3, size=3, stream=self.stream)
        event = x.start_copy_to(back, stream=self.stream)
        self.assertGreaterEqual(event.wait().seconds, 0)
        self.assertEqual(back.tolist(), [11, 22, 33])
        x.start_copy_from(there)  # a copy without a stream runs after the kernels that were launched before
        self.assertEqual(x.tolist(), [1, 2, 3])
        x.start_copy_from(there, stream=self.stream)
        del there, x  # delete them while the copy is still using their memory
        gc.collect()
        self.stream.wait()

    def test_an_array_of_cuda_is_on_another_device(self):
        class Foreign:
            __cuda_array_interface__ = {"shape": (1,), "typestr": "<f4", "data": (4096, False), "version": 3}
        for use in (lambda: berth.asarray(Foreign(), backend="opencl"), lambda: self.slow(Foreign(), 1, size=1)):
            with self.assertRaises(berth.InvalidRequest) as caught:
                use()
            self.assertEqual(caught.exception.id, "E0583")

    def test_what_no_copy_can_take(self):
        x = self.ints(1, 2)
        for bad, error in (([1, 2], "E0582"), (berth.pinned(3, "int32", backend="opencl"), "E0582"), (berth.pinned(2, backend="opencl"), "E0582")):
            for start in (x.start_copy_from, x.start_copy_to):
                with self.assertRaises(berth.InvalidRequest) as caught:
                    start(bad)
                self.assertEqual(caught.exception.id, error)
                self.assertIn("berth.pinned((2,), 'int32')", str(caught.exception))
        with self.assertRaises(berth.InvalidRequest):
            self.slow(x, 1, size=1, stream=7)

    @unittest.skipUnless(numpy and hasattr(numpy, "from_dlpack"), "no NumPy with from_dlpack")
    def test_numpy_sees_pinned_memory_and_an_array_that_a_stream_changes(self):
        host = berth.pinned((2, 2), "float64", backend="opencl")
        view = host.numpy()
        view[:] = [[1, 2], [3, 4]]
        self.assertEqual((host.tolist(), len(host), view.shape), ([1, 2, 3, 4], 2, (2, 2)))
        x = self.ints(5)
        try:
            shared = numpy.from_dlpack(x)
        except BufferError:
            return  # a GPU
        self.slow(x, 10, size=1, group=1, stream=self.stream)  # a kernel that is still running, for which the shared NumPy array must wait
        self.assertEqual(shared.tolist(), [6])
        x.start_copy_from(berth.pinned(1, "int32", backend="opencl").copy_from([9]), stream=self.stream)
        self.assertEqual(shared.tolist(), [9])

    def test_the_pool_counts_its_memory(self):
        berth.trim_pool("opencl")
        before = berth.memory_pool("opencl")
        self.assertEqual(before.free_bytes, 0)
        x = berth.empty(1000, "uint8", backend="opencl")
        used = berth.memory_pool("opencl")
        self.assertEqual((used.used_bytes - before.used_bytes, used.allocations - before.allocations, used.reuses), (1024, 1, before.reuses))
        del x
        self.assertEqual(berth.memory_pool("opencl")[:2], (before.used_bytes, 1024))
        y = berth.empty(700, "uint8", backend="opencl")
        again = berth.memory_pool("opencl")
        self.assertEqual((again.allocations, again.reuses - before.reuses, again.free_bytes), (used.allocations, 1, 0))
        del y
        large = berth.empty(3 << 20, "uint8", backend="opencl")
        self.assertEqual(berth.memory_pool("opencl").used_bytes - before.used_bytes, 3 << 20)
        del large
        berth.trim_pool("opencl")
        self.assertEqual(berth.memory_pool("opencl")[:2], (before.used_bytes, 0))


class OnCuda(unittest.TestCase):
    """Checks the sequence of CUDA calls on the simulated driver, which runs no kernels."""

    berth = ""

    def test_streams_copies_sharing_and_the_pool(self):
        if not self.berth:
            self.skipTest("no program was named")
        code = """
            stream, other = berth.Stream("cuda"), berth.Stream()
            f = berth.kernel("KERNEL void f(GLOBAL float* x, int n) {}")
            host, back = berth.pinned(3).copy_from([1, 2, 3]), berth.pinned(3)
            x = berth.empty(3)
            x.start_copy_from(host, stream=stream)
            event = f(x, 3, size=3, stream=other.wait_for(f(x, 3, size=3, stream=stream)))
            x.start_copy_to(back, stream=other)
            other.wait()
            print(back.tolist(), event.done, event.seconds >= 0)
            print(x.tolist(), f(x, 3, size=3).wait().done)
            seen = x.__cuda_array_interface__
            print(seen["shape"], seen["typestr"], seen["data"][0] > 0, x.__dlpack_device__())

            class Foreign:  # as CuPy has it
                __cuda_array_interface__ = seen
            class Tensor:  # as PyTorch has it
                def __dlpack_device__(self): return (2, 0)
                def __dlpack__(self, stream=None): return x.__dlpack__()
            for one in (Foreign(), Tensor()):
                y = berth.asarray(one)
                print(y.tolist(), y.dtype, y.__cuda_array_interface__["data"] != seen["data"])
            Tensor.__dlpack_device__ = lambda self: (2, 1)
            for words in ((Tensor(),), (Tensor(), None, "cuda")):
                try: berth.asarray(*words)
                except berth.InvalidRequest as why: print(why.id)
            Foreign.__cuda_array_interface__ = {**seen, "strides": (8,)}
            try: berth.asarray(Foreign())
            except berth.InvalidRequest as why: print(why.id)
            before = berth.memory_pool()
            del y
            print(berth.memory_pool().free_bytes - before.free_bytes, berth.memory_pool().allocations)
            berth.trim_pool()
            print(berth.memory_pool().free_bytes)
            """
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{folder}/nvrtc.so", HERE.parent.parent / "tests/library/fake_nvrtc.c"], check=True)
            done = subprocess.run([self.berth, "sim", "--machine", "workstation-4090", "--", sys.executable, "-c", "import berth\n" + textwrap.dedent(code)],
                                  capture_output=True, text=True, timeout=100, env={
                                      **os.environ, "LC_ALL": "C.UTF-8", "PYTHONPATH": str(HERE.parent), "BERTH_NVRTC_LIBRARY": f"{folder}/nvrtc.so"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [
            "[1.0, 2.0, 3.0] True True", "[1.0, 2.0, 3.0] True", "(3,) <f4 True (2, 0)", "[1.0, 2.0, 3.0] float32 True", "[1.0, 2.0, 3.0] float32 True",
            "E0583", "E0583", "E0582", "256 3", "0"])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        OnCuda.berth = os.path.abspath(sys.argv.pop(1))
    unittest.main()
