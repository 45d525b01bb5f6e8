"""Mixed precision for Keras: the installed Keras on TensorFlow, JAX and PyTorch, with fake GPUs and TPUs.

usage: test_keras.py
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import textwrap
import types
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import berth  # noqa: E402
from berth import keras as ours  # noqa: E402

BACKENDS = [name for name in ("tensorflow", "jax", "torch") if importlib.util.find_spec("keras") and importlib.util.find_spec(name)]


class Chosen(unittest.TestCase):
    """Tests which precision is chosen for each device."""

    def test_the_device_decides(self):
        for device, capability, precision in (("tpu", None, "bf16"), ("cpu", None, "fp32"), ("gpu", None, "bf16"), ("gpu", (9, 0), "bf16"),
                                              ("gpu", (8, 0), "bf16"), ("gpu", (7, 5), "fp16"), ("gpu", (6, 1), "fp32")):
            self.assertEqual(ours._best(device, capability)[0], precision, (device, capability))

    def test_tensorflow_is_asked_without_its_runtime(self):
        def tensorflow(gpu=None, tpu=False, rocm=False):
            config = types.SimpleNamespace(
                list_physical_devices=lambda kind: ["TPU:0"] if tpu else [], get_visible_devices=lambda kind: [] if gpu is None else ["GPU:0"],
                list_logical_devices=lambda kind: self.fail("it initialises the runtime"),
                experimental=types.SimpleNamespace(get_device_details=lambda one: gpu))
            return types.SimpleNamespace(config=config, test=types.SimpleNamespace(is_built_with_rocm=lambda: rocm))
        for tf, found in ((tensorflow(), ("cpu", None)), (tensorflow(tpu=True), ("tpu", None)), (tensorflow({"compute_capability": (7, 5)}), ("gpu", (7, 5))),
                          (tensorflow({"device_name": "AMD"}), ("gpu", None)), (tensorflow({"compute_capability": (9, 0)}, rocm=True), ("gpu", None))):
            with mock.patch.dict(sys.modules):
                sys.modules.pop("tensorflow.python.eager.context", None)
                self.assertEqual(ours._of_tensorflow(tf), found)

    def test_jax_is_asked(self):
        for platform, capability, found in (("cpu", None, ("cpu", None)), ("tpu", None, ("tpu", None)), ("gpu", "8.6", ("gpu", (8, 6))),
                                            ("cuda", "12.0", ("gpu", (12, 0))), ("rocm", "gfx90a", ("gpu", None))):
            jax = types.SimpleNamespace(devices=lambda: [types.SimpleNamespace(platform=platform, compute_capability=capability)])
            self.assertEqual(ours._of_jax(jax), found)


@unittest.skipUnless(BACKENDS, "no Keras with TensorFlow, JAX or PyTorch")
class Real(unittest.TestCase):
    def prints(self, backend, code):
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=200,
                              env={**os.environ, "PYTHONPATH": str(HERE.parent), "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu",
                                   "CUDA_VISIBLE_DEVICES": "-1", "LC_ALL": "C.UTF-8"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_models_train_with_it(self):
        code = """
            import sys, berth, berth.keras
            assert not {"keras", "jax", "tensorflow", "torch"} & set(sys.modules)
            from unittest import mock
            print(berth.keras.amp())
            import numpy
            x = numpy.linspace(-1, 1, 64, dtype="float32").reshape(16, 4); y = x.sum(1, keepdims=True)
            def trained(device, precision):
                with mock.patch.object(berth.keras, "_device", lambda backend: device):
                    mixed = berth.keras.amp(precision)
                import keras
                keras.utils.set_random_seed(1)
                model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1, dtype="float32")])
                optimizer = mixed.optimizer(keras.optimizers.Adam(0.01))
                assert mixed.optimizer(optimizer) is optimizer
                model.compile(optimizer, "mse")
                losses = model.fit(x, y, epochs=8, batch_size=8, verbose=0).history["loss"]
                dense = model.layers[0]
                print(keras.config.dtype_policy().name, dense.compute_dtype, dense.variable_dtype, type(model.optimizer).__name__, losses[-1] < losses[0])
                if mixed.precision == "fp16": print(float(model.optimizer.dynamic_scale) > 1)
            trained(("cpu", None), "auto")
            trained(("gpu", (9, 0)), "auto")
            trained(("gpu", (7, 0)), "auto")
            trained(("cpu", None), "fp32")
            for device, precision in ((("cpu", None), "fp16"), (("tpu", None), "fp16"), (("gpu", (7, 5)), "bf16"), (("cpu", None), "fp8")):
                with mock.patch.object(berth.keras, "_device", lambda backend: device):
                    try: berth.keras.amp(precision)
                    except berth.BerthError as problem: print(problem.id, end=" ")
            """
        for backend in BACKENDS:
            with self.subTest(backend):
                self.assertEqual(self.prints(backend, code), [
                    "KerasAmp(precision='fp32', policy='float32', device='cpu', why=\"lower precision is usually slower on a CPU: try 'bf16'\")",
                    "float32 float32 float32 Adam True", "mixed_bfloat16 bfloat16 float32 Adam True",
                    "mixed_float16 float16 float32 LossScaleOptimizer True", "True", "float32 float32 float32 Adam True", "E0570 E0570 E0570 E0003 "])


class Missing(unittest.TestCase):
    def test_what_is_needed_is_said(self):
        for module in (None, types.ModuleType("keras")):  # None: Keras is not installed; a module without a version: Keras 2
            with mock.patch.dict(sys.modules, {"keras": module}), self.assertRaises(berth.Unsupported) as caught:
                berth.keras.amp()
            self.assertEqual((caught.exception.id, caught.exception.hint.startswith("pip install")), ("E0568", True))


if __name__ == "__main__":
    unittest.main()
