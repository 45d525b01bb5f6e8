"""What docs/from-tutorials.md says, tried with the PyTorch and JAX of this Python. Rows about a GPU's memory, MIG and CUDA are not tried."""
import sys
import unittest

try:
    import torch
except ImportError:
    torch = None
try:
    import jax
except ImportError:
    jax = None


@unittest.skipIf(torch is None, "no PyTorch here")
class PyTorch(unittest.TestCase):
    def test_tensors_of_different_devices_raise_and_do_not_fall_back(self):
        if not torch.cuda.is_available():
            self.skipTest("there is no GPU")  # the device "meta" mixes with others and does not raise
        with self.assertRaises(RuntimeError):
            torch.ones(2) + torch.ones(2, device="cuda")

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


if __name__ == "__main__":
    if torch is None and jax is None:
        print("skipped: neither PyTorch nor JAX is installed in this Python")
        sys.exit(77)
    unittest.main()
