"""Tests the statements of docs/from-tutorials.md with the frameworks that are installed. Skips tests that need a GPU if there is none. Checks some
statements by NVIDIA's documentation: texts of cuda-bindings and headers of nvidia-cuda-runtime, which PyTorch for CUDA installs."""
import importlib
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import textwrap
import unittest

try:
    import torch
except ImportError:
    torch = None
try:
    import jax
except ImportError:
    jax = None


def present(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


HAS_TENSORFLOW = present("tensorflow")


@unittest.skipIf(torch is None, "no PyTorch here")
class PyTorch(unittest.TestCase):
    def test_tensors_of_different_devices_raise_and_do_not_fall_back(self):
        if not torch.cuda.is_available():
            self.skipTest("there is no GPU")
        with self.assertRaises(RuntimeError):
            torch.ones(2) + torch.ones(2, device="cuda")

    def test_without_a_gpu_pytorch_s_own_rule_for_devices_raises(self):
        """PyTorch's fake tensors have the same rules for devices as real tensors, and can be on a device that this machine does not have."""
        try:
            from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
        except ImportError:
            self.skipTest("this PyTorch has no fake tensors")
        mode = FakeTensorMode()
        here, there = (FakeTensor(mode, torch.ones(2, 2, device="meta"), torch.device(device)) for device in ("cpu", "cuda:0"))
        with mode:
            self.assertEqual((there + there).device.type, "cuda")
            for mixed in (lambda: here + there, lambda: here @ there):
                with self.assertRaisesRegex(Exception, "same device|different devices|common device"):
                    mixed()

    def test_freed_memory_is_kept_and_live_tensors_stay_where_they_are(self):
        if not torch.cuda.is_available():
            self.skipTest("there is no GPU")
        freed, live = (torch.ones(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(2))
        place, reserved = live.data_ptr(), torch.cuda.memory_reserved()
        del freed
        self.assertEqual(torch.cuda.memory_reserved(), reserved)
        torch.cuda.empty_cache()
        self.assertEqual(live.data_ptr(), place)

    def test_no_function_compacts_memory(self):
        names = {name.lower() for module in (torch.cuda, torch.cuda.memory) for name in dir(module)}
        self.assertIn("empty_cache", names)
        self.assertFalse([name for name in names if "compact" in name or "defrag" in name])

    def test_free_memory_is_the_device_s(self):
        if not torch.cuda.is_available():
            self.skipTest("there is no GPU")
        torch.ones(1, device="cuda")
        before = torch.cuda.mem_get_info()[0]
        code = "import torch; held = torch.ones(512 << 20, dtype=torch.uint8, device='cuda'); torch.cuda.synchronize(); print(); input()"
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            other.stdout.readline()
            during = torch.cuda.mem_get_info()[0]
            other.communicate("\n")
        self.assertLessEqual(during, before - (512 << 20))

    def test_there_is_a_batch_sampler_and_no_dynamic_one(self):
        import torch.utils.data as data
        self.assertFalse([name for name in dir(data) if "dynamicbatch" in name.lower()])
        sizes = [len(batch) for batch in data.BatchSampler(range(10), batch_size=4, drop_last=False)]
        self.assertEqual(sizes, [4, 4, 2])

    def test_a_compiled_function_stays_on_the_device_of_its_tensors(self):
        if not hasattr(torch, "compile") or sys.version_info >= (3, 15):
            self.skipTest("this PyTorch does not compile with this Python")
        try:
            compiled = torch.compile(lambda x: x * 2, backend="eager")
        except RuntimeError as refused:
            self.skipTest(str(refused))
        for device in ("cpu", "meta"):
            self.assertEqual(compiled(torch.ones(2, device=device)).device.type, device)

    def test_the_current_device_raises_without_a_gpu(self):
        if torch.cuda.is_available():
            self.skipTest("there is a GPU")
        with self.assertRaises((RuntimeError, AssertionError)):
            torch.cuda.current_device()

    def test_the_cpu_is_no_device_to_set(self):
        with self.assertRaises((ValueError, AssertionError)):
            torch.cuda.set_device("cpu")

    def test_a_move_without_an_assignment_is_lost(self):
        x = torch.ones(2)
        x.to("meta")
        self.assertEqual(x.device.type, "cpu")

    def test_pruning_keeps_the_weights_and_adds_a_mask(self):
        from torch.nn.utils import prune
        layer = torch.nn.Linear(4, 4)
        before = layer.weight.detach().clone()
        prune.l1_unstructured(layer, "weight", 0.5)
        self.assertTrue(torch.equal(layer.weight_orig, before))
        self.assertEqual(layer.weight_mask.shape, before.shape)


@unittest.skipIf(jax is None, "no JAX here")
class Jax(unittest.TestCase):
    def test_an_array_without_a_device_is_put_on_the_default_one(self):
        self.assertEqual(jax.numpy.ones(2).devices(), {jax.devices()[0]})


@unittest.skipUnless(HAS_TENSORFLOW, "no TensorFlow here")
class TensorFlow(unittest.TestCase):
    def test_memory_grows_on_demand_only_where_it_is_asked_for(self):
        """Runs in its own process, where TensorFlow's list of devices contains a fake GPU."""
        code = """
            from unittest import mock
            import tensorflow as tf
            from tensorflow.python.eager import context
            names = ["/physical_device:CPU:0", "/physical_device:GPU:0"]
            with mock.patch.object(context.pywrap_tfe, "TF_ListPhysicalDevices", lambda: [name.encode() for name in names]), \\
                 mock.patch.object(context.pywrap_tfe, "TF_ListPluggablePhysicalDevices", lambda: []):
                [gpu] = tf.config.list_physical_devices("GPU")
            growth = lambda: (bool(tf.config.experimental.get_memory_growth(gpu)), context.context().config.gpu_options.allow_growth)
            print(growth())
            tf.config.experimental.set_memory_growth(gpu, True)
            print(growth())
            """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=200)
        self.assertEqual(done.stdout, "(False, False)\n(True, True)\n", done.stderr)


class Nvidia(unittest.TestCase):
    """Statements of NVIDIA in the packages that come with PyTorch for CUDA."""

    def words(self, module, function):
        if not present("cuda.bindings"):
            self.skipTest("cuda-bindings is not installed")
        try:
            found = importlib.import_module(f"cuda.bindings.{module}")
        except ImportError as problem:
            self.skipTest(str(problem))
        return " ".join(getattr(found, function).__doc__.split())

    def test_free_memory_is_the_device_s_and_other_processes_change_it(self):
        words = self.words("runtime", "cudaMemGetInfo")
        self.assertIn("memory on the device that is free according to the OS", words)
        self.assertIn("allocation/free done by a different process", words)

    def test_the_mode_of_mig_changes_on_an_idle_gpu_only(self):
        words = self.words("nvml", "device_set_mig_mode")
        self.assertIn("because the device isn't idle", words)
        self.assertIn("NVML_ERROR_IN_USE", words)

    def test_dynamic_parallelism_begins_with_compute_capability_3_5(self):
        headers = [file.locate() for one in importlib.metadata.distributions() if (one.metadata["Name"] or "").startswith("nvidia-cuda-runtime")
                   for file in one.files or () if file.name == "cuda_device_runtime_api.h"]
        if not headers:
            self.skipTest("nvidia-cuda-runtime is not installed")
        from_on = {int(number) for number in re.findall(r"__CUDA_ARCH__ >= (\d+)", headers[0].read_text())}
        self.assertEqual(min(from_on), 350)


if __name__ == "__main__":
    if torch is None and jax is None and not HAS_TENSORFLOW:
        print("skipped: neither PyTorch, JAX nor TensorFlow is installed in this Python")
        sys.exit(77)
    unittest.main()
