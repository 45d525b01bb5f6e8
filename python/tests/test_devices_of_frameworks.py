"""Tests which framework device belongs to a lease, and how GPUs are hidden from only one framework. Uses fake frameworks.

usage: test_devices_of_frameworks.py
"""
import os
import pathlib
import sys
import types
import unittest
import warnings
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import berth  # noqa: E402
from berth.frameworks import device_of  # noqa: E402


def torch_with(*backends):
    """A fake PyTorch that has these back ends and sees a device of each."""
    torch = types.ModuleType("torch")
    torch.device = lambda name: name
    torch.backends = types.SimpleNamespace(mps=types.SimpleNamespace(is_available=lambda: "mps" in backends))
    torch.cuda = types.SimpleNamespace(is_available=lambda: "cuda" in backends, is_initialized=bool)
    if "xpu" in backends:  # older versions have none
        torch.xpu = types.SimpleNamespace(is_available=lambda: True)
    return torch


def xla_with(kind, newer=True):
    torch_xla, runtime, model = (types.ModuleType(name) for name in ("torch_xla", "torch_xla.runtime", "torch_xla.core.xla_model"))
    runtime.device_type = lambda: kind
    model.xla_device = lambda: "xla:0"
    if newer:
        torch_xla.device = lambda: "xla:0"
    return {"torch_xla": torch_xla, "torch_xla.runtime": runtime, "torch_xla.core": types.ModuleType("torch_xla.core"), "torch_xla.core.xla_model": model}


class OfALease(unittest.TestCase):
    def given(self, framework, vendors, modules, warned=False):
        with mock.patch.dict(sys.modules, modules), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            device = device_of(framework, vendors)
        self.assertEqual(bool(said), warned, (framework, vendors, [str(one.message) for one in said]))
        return device

    def test_pytorch(self):
        no_xla = {"torch_xla": None}
        everything = {"torch": torch_with("cuda", "xpu", "mps"), **xla_with("TPU")}
        for vendors, device in (((), "cpu"), (("nvidia",), "cuda"), (("amd",), "cuda"), (("intel",), "xpu"), (("google",), "xla:0"), (("other",), "cuda")):
            self.assertEqual(self.given("torch", vendors, everything), device, vendors)
        self.assertEqual(self.given("torch", ["google"], {"torch": torch_with(), **xla_with("TPU", newer=False)}), "xla:0")
        # A vendor that is not in the table gets the first device that exists, in the order cuda, xpu, mps, xla.
        for backends, device in ((("xpu", "mps"), "xpu"), (("mps",), "mps"), ((), "xla:0")):
            self.assertEqual(self.given("torch", ["other"], {"torch": torch_with(*backends), **xla_with("NEURON")}), device)
        # A lease of one vendor never gets another vendor's device.
        for vendor, backends in (("nvidia", ("xpu", "mps")), ("intel", ("cuda",)), ("google", ("cuda", "xpu"))):
            self.assertEqual(self.given("torch", [vendor], {"torch": torch_with(*backends), **no_xla}, warned=True), "cpu")
        self.assertEqual(self.given("torch", ["google"], {"torch": torch_with(), **xla_with("CPU")}, warned=True), "cpu")

    def test_jax(self):
        def jax_with(**platforms):
            def devices(name):
                if name not in platforms:
                    raise RuntimeError(f"Unknown backend {name}")
                return platforms[name]
            jax = types.ModuleType("jax")
            jax.devices = devices
            return {"jax": jax}
        everything = jax_with(gpu=["cuda:0"], xpu=["xpu:0"], tpu=["tpu:0"], cpu=["cpu:0"])
        for vendors, device in (((), "cpu:0"), (("nvidia",), "cuda:0"), (("amd",), "cuda:0"), (("intel",), "xpu:0"), (("google",), "tpu:0")):
            self.assertEqual(self.given("jax", vendors, everything), device)
        self.assertEqual(self.given("jax", ["google"], jax_with(gpu=["cuda:0"], cpu=["cpu:0"]), warned=True), "cpu:0")
        self.assertEqual(self.given("jax", ["other"], jax_with(tpu=["tpu:0"], cpu=["cpu:0"])), "tpu:0")


class Hidden(unittest.TestCase):
    def test_from_tensorflow_alone(self):
        calls, late = [], [False]

        def hide(devices, kind):
            if late[0]:
                raise RuntimeError("Visible devices cannot be modified after being initialized")
            calls.append((devices, kind))
        tensorflow = types.ModuleType("tensorflow")
        tensorflow.config = types.SimpleNamespace(set_visible_devices=hide)
        with mock.patch.dict(sys.modules, {"tensorflow": tensorflow}), mock.patch.dict(os.environ):
            before = dict(os.environ)
            berth.disable_gpu("tensorflow")
            self.assertEqual((calls, dict(os.environ)), ([([], "GPU"), ([], "TPU")], before))
            late[0] = True
            with self.assertRaises(berth.TooLate) as caught:
                berth.disable_gpu("tensorflow")
            self.assertIn("TensorFlow", str(caught.exception))

    def test_from_jax_alone(self):
        jax, said = types.ModuleType("jax"), []
        jax.config = types.SimpleNamespace(update=lambda name, value: said.append((name, value)))
        with mock.patch.dict(os.environ), mock.patch.dict(sys.modules):
            for name in ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES"):
                os.environ.pop(name, None)
            for name in [name for name in sys.modules if name == "jax" or name.startswith("jax.")]:
                del sys.modules[name]
            berth.disable_gpu("jax")
            self.assertEqual((os.environ["JAX_PLATFORMS"], "CUDA_VISIBLE_DEVICES" in os.environ, "jax" in sys.modules), ("cpu", False, False))
            sys.modules["jax"] = jax  # a JAX that has already read the variable
            berth.disable_gpu("jax")
            self.assertEqual(said, [("jax_platforms", "cpu")])
            sys.modules["jax._src.xla_bridge"] = types.SimpleNamespace(_backends={"cpu": 1, "cuda": 2})
            self.assertRaises(berth.TooLate, berth.disable_gpu, "jax")

    def test_what_has_no_switch_of_its_own_is_said(self):
        for name in ("torch", "cupy"):
            with self.assertRaises(berth.Unsupported) as caught:
                berth.disable_gpu(name)
            self.assertEqual((caught.exception.id, "berth.run" in caught.exception.hint), ("E0574", True))
        self.assertRaises(berth.InvalidRequest, berth.disable_gpu, "no such")


if __name__ == "__main__":
    unittest.main()
