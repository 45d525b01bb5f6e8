"""Tests berth.kernel on a real OpenCL device, such as PoCL's CPU, and the code that needs no device.

usage: test_kernels.py [BERTH]     (with it: the calls of CUDA, on a simulated machine)
"""
import array
import contextlib
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import berth  # noqa: E402
from berth import _dlpack, kernel_source  # noqa: E402
from on_a_machine import Machine  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

AXPY = """// KERNEL void not_this(int x)
KERNEL void axpy(GLOBAL const float* x, GLOBAL float* y, float a, int n) {
    int i = GLOBAL_ID(0);
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
TRANSPOSE = """
DEVICE int at(int row, int column, int columns) { return row * columns + column; }
KERNEL void transpose(GLOBAL const int* in, GLOBAL int* out, int rows, int columns) {
    LOCAL int tile[8][9];
    int x = GLOBAL_ID(0), y = GLOBAL_ID(1);
    if (x < columns && y < rows) tile[LOCAL_ID(1)][LOCAL_ID(0)] = in[at(y, x, columns)];
    BARRIER();
    x = GROUP_ID(1) * LOCAL_SIZE(1) + LOCAL_ID(0);
    y = GROUP_ID(0) * LOCAL_SIZE(0) + LOCAL_ID(1);
    if (x < rows && y < columns) out[at(y, x, rows)] = tile[LOCAL_ID(0)][LOCAL_ID(1)];
}
"""


def device_here():
    try:
        return berth.empty(1).device
    except berth.NoDevice as why:
        print(f"no OpenCL device: {why}", file=sys.stderr)
        return None


LIBRARY = ""
DEVICE = device_here()
IS_SHARED = bool(DEVICE) and berth.empty(1)._memory.address is not None  # true if the device shares memory with the host, as a CPU does
on_a_device = unittest.skipUnless(DEVICE, "no OpenCL device is here")


@contextlib.contextmanager
def quiet():
    """Hides the process's standard error, because PoCL writes the number of compiler errors there."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def elsewhere(code, **variables):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "PYTHONPATH": str(HERE.parent), **variables})


class Elsewhere:
    """A fake array of another library, on a GPU."""

    def __dlpack_device__(self):
        return (2, 1)

    def __dlpack__(self, **_):
        raise AssertionError("its memory cannot be read here")


class Sources(unittest.TestCase):
    def test_parameters_are_read_from_the_source(self):
        found = kernel_source.kernels_of(AXPY)
        self.assertEqual([(one.name, one.dtype, one.is_array) for one in found.pop("axpy")],
                         [("x", "float32", True), ("y", "float32", True), ("a", "float32", False), ("n", "int32", False)])
        self.assertEqual(found, {})
        many = kernel_source.kernels_of("KERNEL void f(void) {}\nKERNEL\nvoid g(GLOBAL unsigned long *restrict x, /* , */ uchar c) {}")
        self.assertEqual({name: [one.dtype for one in parameters] for name, parameters in many.items()}, {"f": [], "g": ["uint64", "uint8"]})

    def test_parameters_that_no_kernel_can_take(self):
        for bad in ("float* x", "GLOBAL float x", "GLOBAL float** x", "size_t n", "struct s x", "float", "LOCAL float* x", "bool b"):
            with self.assertRaises(berth.InvalidRequest, msg=bad) as caught:
                kernel_source.kernels_of(f"KERNEL void f({bad}) {{}}")
            self.assertIn("kernel f", str(caught.exception))

    def test_the_words_of_every_compiler(self):
        for log, line in (("kernel:2:3: error: real", 2), ("error: kernel:2:3: real\n1 error", 2), ("kernel(2): error: real\n", 2),
                          ("kernel:1:1: warning: error: no\n  kernel:2:1: fatal error: real", 2), ("kernel(2): catastrophic error: real", 2),
                          ("kernel:99:3: error: real", 99), ("real", None), ("my_kernel:2:3: error: real", None)):
            said = kernel_source.compile_error("a\nb = c;\n", log)
            self.assertEqual(said.line, line, log)
            self.assertIn("real", str(said))
            self.assertEqual(said.log, log)
            self.assertEqual("b = c;" in str(said), line == 2)
        self.assertIn("does not say why", str(kernel_source.compile_error("a", "")))


class Alone(unittest.TestCase):
    def test_the_package_loads_neither_numpy_nor_opencl(self):
        done = elsewhere("import sys, berth\nberth.kernel\n"
                         "assert not {'numpy', 'torch'} & set(sys.modules)\nassert 'OpenCL' not in open('/proc/self/maps').read()")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_without_opencl_the_error_says_what_to_install(self):
        for library in ("/nonexistent/libOpenCL.so.1", "libc.so.6"):
            done = elsewhere("import berth\ntry: berth.empty(3)\nexcept berth.NoDevice as why: print(why)", BERTH_OPENCL_LIBRARY=library)
            self.assertIn("E0581", done.stdout, done.stderr)
            self.assertIn("pocl-opencl-icd", done.stdout)

    def test_a_backend_that_does_not_exist(self):
        with self.assertRaises(berth.InvalidRequest):
            berth.empty(3, backend="metal")


@on_a_device
class Kernels(unittest.TestCase):
    def test_a_kernel_computes(self):
        axpy = berth.kernel(AXPY)
        x, y = berth.asarray([1, 2, 3]), berth.asarray([10, 20, 30])
        event = axpy(x, y, 0.5, 3, size=3)
        self.assertIs(event.wait(), event)
        self.assertTrue(event.done)
        self.assertEqual(y.tolist(), [10.5, 21.0, 31.5])
        self.assertGreater(event.seconds, 0)
        self.assertLess(event.seconds, 10)

    @unittest.skipUnless(numpy, "no NumPy")
    def test_results_have_the_bits_of_numpy(self):
        random = numpy.random.default_rng(0)
        x, y = (random.standard_normal(100_003).astype("float32") for _ in range(2))
        ours = berth.asarray(y)
        berth.kernel(AXPY)(berth.asarray(x), ours, 0.1, len(x), size=len(x))
        self.assertEqual(ours.numpy().tobytes(), (numpy.float32(0.1) * x + y).tobytes())

    def test_two_axes_local_memory_and_barriers(self):
        rows, columns = 37, 21
        given, out = berth.asarray(range(rows * columns), "int32"), berth.empty((columns, rows), "int32")
        berth.kernel(TRANSPOSE)(given, out, rows, columns, size=(columns, rows), group=(8, 8)).wait()
        self.assertEqual(out.tolist(), [row * columns + column for column in range(columns) for row in range(rows)])

    def test_every_type(self):
        for word, (dtype, _) in kernel_source._TYPES.items():
            try:
                add = berth.kernel(f"KERNEL void add(GLOBAL {word}* x, {word} y) {{ if (GLOBAL_ID(0) < 2) x[GLOBAL_ID(0)] += y; }}")
            except berth.KernelCompileError:
                self.assertEqual(word, "double")  # some devices do not support double
                continue
            x = berth.asarray([1, 2], dtype)
            add(x, 3, size=2)
            self.assertEqual(x.tolist(), [4, 5], word)

    def test_a_kernel_that_does_not_compile(self):
        with quiet(), self.assertRaises(berth.KernelCompileError) as caught:
            berth.kernel(AXPY.replace("x[i]", "z[i]"))
        self.assertEqual(caught.exception.line, 4)
        said = str(caught.exception).splitlines()
        self.assertRegex(said[0], "line 4: .*\\bz\\b.*E0580")
        self.assertEqual(said[1][4:], "    if (i < n) y[i] = a * z[i] + y[i];")
        if len(said) > 2:  # NVRTC reports no column, so there is no mark
            self.assertEqual(said[1][said[2].index("^")], "z")
        self.assertRegex(caught.exception.log, "undeclared|undefined")
        self.assertFalse(berth.is_oom(caught.exception))

    def test_which_kernel(self):
        two = "KERNEL void f() {}\nKERNEL void g() {}"
        self.assertEqual(berth.kernel(two, "g").name, "g")
        berth.kernel(two, "f")(size=1).wait()
        for source, name in ((two, None), (two, "h"), ("void f() {}", None), (7, None), ("KERNEL void f() {}\0", None)):
            with self.assertRaises(berth.InvalidRequest):
                berth.kernel(source, name)

    def test_wrong_arguments(self):
        axpy = berth.kernel(AXPY)
        x, y = berth.asarray([1.0]), berth.asarray([2.0])
        for arguments, says in (((x, y, 1), "takes 4 arguments, not 3"), ((x, y, 1, 1, 1), "not 5"), ((x, y, "a", 1), "argument a: it takes float, not a str"),
                                ((x, y, 1, 1 << 31), "argument n: it takes int, not 2147483648"), ((x, y, 1, 1.5), "not a float"),
                                ((x, y, True, 1), "not a bool"), ((x, y, None, 1), "not a NoneType"), ((x, y, 10**400, 1), "not a int"),
                                ((1, y, 1, 1), "argument x: it takes float*, not a int"), (([1.0], y, 1, 1), "not a list"),
                                ((berth.asarray([1], "int32"), y, 1, 1), "not an array of int32"), ((Elsewhere(), y, 1, 1), "on another device: CUDA 1"),
                                ((x, y, x, 1), "argument a")):
            with self.assertRaises(berth.InvalidRequest) as caught:
                axpy(*arguments, size=1)
            self.assertIn(says, str(caught.exception))
            self.assertTrue(caught.exception.hint)
        for size, group in ((0, None), (-1, None), (1.5, None), ("x", None), ((1, 1, 1, 1), None), ((1, 1), 4), (1, 1 << 30), (1, 0), (1 << 70, None), ((), None)):
            with self.assertRaises(berth.InvalidRequest, msg=(size, group)):
                axpy(x, y, 1, 1, size=size, group=group)
        axpy(x, y, 1, 1, size=1).wait()
        self.assertEqual(y.tolist(), [3.0])

    def test_a_kernel_keeps_no_array_of_an_earlier_launch(self):
        put = berth.kernel("KERNEL void put(GLOBAL int* x, int a) { if (GLOBAL_ID(0) == 0) x[0] = a; }")
        for i in range(300):  # freed memory may be allocated again at the same address
            x = berth.empty(1, "int32")
            put(x, i, size=1)
            self.assertEqual(x.tolist(), [i])

    def test_every_launch_gets_its_own_number(self):
        put = berth.kernel("KERNEL void put(GLOBAL float* x, float a) { if (GLOBAL_ID(0) == 0) x[0] = 1 / a; }")
        x = berth.empty(1)
        for a in (1.0, 1.0, 2, 0.0, -0.0, 0.0, float("inf"), 1.0):
            put(x, a, size=1)
            self.assertEqual(x.tolist(), [1 / a if a else float("inf") * (-1 if str(a) == "-0.0" else 1)])

    def test_an_array_that_is_dropped_while_a_kernel_uses_it(self):
        slow = berth.kernel("KERNEL void slow(GLOBAL float* x, int n) { float s = 0; for (int i = 0; i < n; ++i) s = s * 0.5f + x[i % 64]; x[GLOBAL_ID(0)] = s; }")
        for _ in range(20):
            slow(berth.asarray([1.0] * 256), 200_000, size=256)
            gc.collect()
        berth.asarray([0.0]).tolist()

    def test_memory_of_an_array_is_used_again(self):
        put = berth.kernel("KERNEL void put(GLOBAL int* x, int a) { x[GLOBAL_ID(0)] = a; }", backend="opencl")
        seen = set()
        for i in range(20):
            x = berth.empty(100 + i, "int32", backend="opencl")
            seen.add(x._memory.handle)
            put(x, i, size=100, group=1)
            self.assertEqual(x.tolist()[:100], [i] * 100)
            cycle = [x]  # the list contains itself, so only the garbage collector frees it
            cycle.append(cycle)
            del x, cycle
            gc.collect()
        self.assertLess(len(seen), 20)

    def test_a_list_of_sizes_may_change_between_launches(self):
        put = berth.kernel("KERNEL void put(GLOBAL int* x) { x[GLOBAL_ID(0)] = 1; }")
        x, size = berth.asarray(array.array("i", [0, 0, 0, 0])), [1]
        put(x, size=size, group=1)
        size[0] = 3
        put(x, size=size, group=1)
        self.assertEqual(x.tolist(), [1, 1, 1, 0])

    def test_one_call_of_libberth_launches_and_without_libberth_several_of_opencl(self):
        code = ("import berth; f = berth.kernel('KERNEL void put(GLOBAL int* x) { x[GLOBAL_ID(0)] = 7; }', backend='opencl')\n"
                "x = berth.empty(2, 'int32', backend='opencl'); f(x, size=2, group=1).wait(); print(x.tolist(), f._function._go.__name__)")
        for library, name in ((LIBRARY, "berth_opencl_launch_run"), ("/no/such", "_launch_by_ctypes")):
            if library:
                done = elsewhere(code, BERTH_LIBRARY=library)
                self.assertEqual((done.stdout, done.stderr), (f"[7, 7] {name}\n", ""))

    def test_threads_share_a_kernel(self):
        put = berth.kernel("KERNEL void put(GLOBAL int* x, int a) { if (GLOBAL_ID(0) == 0) x[0] = a; }")
        wrong = []

        def work(number):
            x = berth.empty(1, "int32")
            for i in range(100):
                put(x, 1000 * number + i, size=1)
                if x.tolist() != [1000 * number + i]:
                    wrong.append((number, i))
        crew = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for one in crew:
            one.start()
        for one in crew:
            one.join()
        self.assertEqual(wrong, [])

    def test_a_forked_child_is_refused_and_not_stuck(self):
        put = berth.kernel("KERNEL void put(GLOBAL int* x) { x[GLOBAL_ID(0)] = 1; }")
        x = berth.empty(256, "int32")
        child = os.fork()
        if child == 0:
            try:
                put(x, size=1)
            except berth.BerthError as why:
                os._exit(0 if why.id == "E0585" else 1)
            os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_a_forked_child_can_be_the_first_to_use_the_device(self):
        script = """if True:
            import os, sys
            from berth import kernels
            child = os.fork()
            if child == 0:
                x = kernels.empty(256, "int32")
                kernels.kernel("KERNEL void put(GLOBAL int* x) { x[GLOBAL_ID(0)] = 1; }")(x, size=256)
                os._exit(0 if x.tolist() == [1] * 256 else 3)
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"""
        done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(HERE.parent)}, capture_output=True, text=True,
                              timeout=110)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_launch_takes_microseconds(self):
        nothing = berth.kernel("KERNEL void nothing(GLOBAL float* x, int n) {}")
        x = berth.empty(1)
        least = 1.0
        for _ in range(10):
            before = time.thread_time()
            for _ in range(200):
                nothing(x, 1, size=1)
            least = min(least, (time.thread_time() - before) / 200)
            x.tolist()
        self.assertLess(least, 200e-6)


@on_a_device
class Arrays(unittest.TestCase):
    def test_from_lists_buffers_and_bytes(self):
        self.assertEqual(berth.asarray([1, 2]).dtype, "float32")
        self.assertEqual(berth.asarray((1, -2), "int8").tolist(), [1, -2])
        self.assertEqual(berth.asarray(array.array("q", [1 << 40])).tolist(), [1 << 40])
        self.assertEqual(berth.asarray(b"ab").tolist(), [97, 98])
        self.assertEqual(berth.asarray([]).tolist(), [])
        self.assertEqual(berth.empty((2, 0)).shape, (2, 0))
        x = berth.asarray([1.0])
        self.assertIs(berth.asarray(x), x)
        self.assertIs(berth.asarray(x, "float32"), x)
        with self.assertRaises(berth.InvalidRequest):
            berth.asarray(x, "int32")
        self.assertEqual((len(x), x.size, x.nbytes, "float32 (1,)" in repr(x)), (1, 1, 4, True))

    def test_what_is_no_array(self):
        for bad, dtype in ((None, None), ("text", None), ([1, "a"], None), ([1 << 40], "int32"), ([1.5], "int32"), ([[1]], None), ([1], "complex64"),
                           (array.array("i", [1]), "float32"), (Elsewhere(), None), (array.array("u", "a"), None)):
            with self.assertRaises(berth.BerthError, msg=(bad, dtype)):
                berth.asarray(bad, dtype)
        with self.assertRaises(berth.InvalidRequest) as caught:
            berth.asarray(Elsewhere())
        self.assertEqual(caught.exception.id, "E0583")
        for shape in (-1, 1.5, "3", (1, -1)):
            with self.assertRaises(berth.InvalidRequest):
                berth.empty(shape)
        with self.assertRaises(berth.InvalidRequest):
            berth.asarray([1, 2]).copy_from([1, 2, 3])

    def test_too_large_is_a_lack_of_memory(self):
        for shape in (1 << 50, (1 << 40, 1 << 40)):
            with self.assertRaises(berth.DeviceOutOfMemory) as caught:
                berth.empty(shape)
            self.assertTrue(berth.is_oom(caught.exception))

    @unittest.skipUnless(numpy, "no NumPy")
    def test_numpy_both_ways(self):
        for dtype in _dlpack.DTYPES:
            given = numpy.arange(6, dtype=dtype).reshape(2, 3)
            ours = berth.asarray(given)
            self.assertEqual((ours.shape, ours.dtype), ((2, 3), dtype))
            numpy.testing.assert_array_equal(ours.numpy(), given)
            if IS_SHARED and hasattr(numpy, "from_dlpack"):
                numpy.testing.assert_array_equal(numpy.from_dlpack(ours), given)
        self.assertEqual(berth.asarray(numpy.float64(3)).shape, ())
        self.assertEqual(berth.asarray(numpy.float64(3)).numpy(), 3)
        frozen = numpy.ones(3)
        frozen.flags.writeable = False
        self.assertEqual(berth.asarray(frozen).tolist(), [1, 1, 1])
        for bad in (numpy.ones((4, 4))[:, ::2], numpy.ones((2, 3)).T, numpy.ones(3, ">f4"), numpy.ones(3, "complex64"), numpy.ones(3, bool), numpy.ones(3, "float16")):
            with self.assertRaises(berth.BerthError):
                berth.asarray(bad)
        n = berth.kernel("KERNEL void put(GLOBAL int* x, int n) { if (GLOBAL_ID(0) < n) x[GLOBAL_ID(0)] = n; }")
        x = berth.empty(2, numpy.int32)
        n(x, numpy.int64(2), size=numpy.int64(2)).wait()
        self.assertEqual(x.tolist(), [2, 2])

    @unittest.skipUnless(IS_SHARED and numpy and hasattr(numpy, "from_dlpack"), "no NumPy with from_dlpack, or a GPU")
    def test_a_view_shows_what_later_kernels_write_and_outlives_the_array(self):
        x = berth.asarray([1, 2, 3])
        view = numpy.from_dlpack(x)
        berth.kernel(AXPY)(x, x, 1.0, 3, size=3).wait()
        self.assertEqual(view.tolist(), [2, 4, 6])
        x.copy_from([7, 8, 9])
        self.assertEqual(view.tolist(), [7, 8, 9])
        del x
        gc.collect()
        self.assertEqual(view.tolist(), [7, 8, 9])
        self.assertEqual(len(_dlpack._exported), 1)
        del view
        gc.collect()
        self.assertEqual(_dlpack._exported, {})
        berth.asarray([1.0]).__dlpack__()  # nobody takes the tensor from this capsule
        gc.collect()
        self.assertEqual(_dlpack._exported, {})

    @unittest.skipUnless(IS_SHARED and torch, "no PyTorch, or a GPU")
    def test_pytorch_both_ways(self):
        given = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        ours = berth.asarray(given)
        self.assertEqual(ours.shape, (2, 3))
        back = torch.from_dlpack(ours)
        self.assertTrue(torch.equal(back, given))
        back += 1  # `back` shares the memory of `ours`
        self.assertEqual(ours.tolist(), [1, 2, 3, 4, 5, 6])
        del ours, back
        gc.collect()
        self.assertEqual(_dlpack._exported, {})
        for bad in (given.T, given.requires_grad_(), torch.ones(3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.complex64)):
            with self.assertRaises(berth.BerthError):
                berth.asarray(bad)


NVRTC = HERE.parent.parent / "tests/library/fake_nvrtc.c"


class Cuda(unittest.TestCase):
    """Checks the sequence of CUDA calls on the simulated driver, which runs no kernels."""

    berth = ""

    def on(self, machine, code):
        berth = self.berth or Machine.berth
        if not berth:
            self.skipTest("no program was named")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{folder}/nvrtc.so", NVRTC], check=True)
            return subprocess.run([berth, "sim", "--machine", machine, "--", sys.executable, "-c", f"AXPY = {AXPY!r}\nimport berth\n" + textwrap.dedent(code)],
                                  capture_output=True, text=True, timeout=100, env={
                                      **os.environ, "LC_ALL": "C.UTF-8", "PYTHONPATH": str(HERE.parent), "BERTH_NVRTC_LIBRARY": f"{folder}/nvrtc.so"})

    def test_from_the_source_to_the_time(self):
        done = self.on("workstation-4090", """
            axpy = berth.kernel(AXPY)
            x, y = berth.asarray([1, 2, 3]), berth.empty(3).copy_from([4, 5, 6])
            event = axpy(x, y, 0.5, 3, size=3)
            print(y.device, y.tolist(), event.wait().done, event.seconds >= 0)
            try: berth.kernel(AXPY.replace("x[i]", "z[i]"))
            except berth.KernelCompileError as why: print(why)
            try: berth.empty(1 << 50)
            except berth.DeviceOutOfMemory as why: print(why.id, berth.is_oom(why))
            print(y.__dlpack_device__())
            for bad in ((x, y, 0.5), (x, [1.0], 1.0, 1)):
                try: axpy(*bad, size=3)
                except berth.InvalidRequest: print("refused")
            try: axpy(x, y, 1.0, 3, size=3, group=2048)
            except berth.InvalidRequest: print("too large a group")
            """)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [
            "NVIDIA GeForce RTX 4090 (CUDA) [4.0, 5.0, 6.0] True True", "the kernel does not compile: line 4: identifier \"z\" is undefined (E0580)",
            "        if (i < n) y[i] = a * z[i] + y[i];", "E0584 True", "(2, 0)", "refused", "refused", "too large a group"])

    def test_a_gpu_that_is_newer_than_the_compiler_gets_ptx(self):
        done = self.on("dgx-h100-8", "from berth import kernels\nk = berth.kernel(AXPY, backend='cuda')\nprint(kernels._cuda()._architecture())")
        self.assertEqual(done.stdout, "compute_89\n", done.stderr)

    def test_hidden_gpus_are_not_used(self):
        done = self.on("workstation-4090", """
            import os
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
            try: berth.empty(1, backend="cuda")
            except berth.BerthError as why: print(why.id in ("E0581", "E0585"))
            """)
        self.assertEqual(done.stdout, "True\n", done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        Cuda.berth = os.path.abspath(sys.argv.pop(1))
    if len(sys.argv) > 1 and os.path.exists(sys.argv[1]):
        LIBRARY = os.path.abspath(sys.argv.pop(1))
    unittest.main()
