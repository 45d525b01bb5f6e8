"""The real JAX and TensorFlow: the errors they raise and the variables they read. Frameworks that are not installed are skipped.

usage: test_frameworks.py     (77: none of them is here)
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

from skipping import skip

HERE = pathlib.Path(__file__).resolve().parent
HAS = {name: importlib.util.find_spec(name) is not None for name in ("jax", "tensorflow")}
if not any(HAS.values()):
    skip("neither JAX nor TensorFlow is installed; ./dev test --frameworks gets them")


class Real(unittest.TestCase):
    def prints(self, code, **more):
        done = subprocess.run([sys.executable, "-c", "import sys, os, berth\n" + textwrap.dedent(code)], capture_output=True, text=True, timeout=110,
                              env={**os.environ, "PYTHONPATH": str(HERE.parent), "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", **more})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @unittest.skipUnless(HAS["jax"], "no JAX")
    def test_jax(self):
        code = """
            import jax, jax.numpy as jnp
            for fails in (lambda: jnp.zeros((1 << 20, 1 << 20)).block_until_ready(), lambda: jnp.zeros((2, 3)) @ jnp.zeros((2, 3)),
                          lambda: jax.devices('no such')):
                try: fails()
                except Exception as problem: print(berth.is_oom(problem))
            @berth.fit_batch(start=1 << 42, report=False)
            def held(size):  # what would fit is not taken: this machine has other tests
                return jnp.zeros((size if size > 1 << 40 else 8,), dtype='int8').block_until_ready().size
            print(held(), held.batch_size == 1 << 40, [row.name for row in berth.memory_summary()][-1])
            print([part['x'].shape for part in berth.chunked({'x': jnp.zeros((6, 2)), 'y': [1] * 6}, 4)])
            from berth.frameworks import device_of
            print(device_of('jax', ()).platform)
            """ + self.sees_none("'jax'", "platform")
        self.assertEqual(self.prints(code), "True\nFalse\nFalse\n8 True host\n[(4, 2), (2, 2)]\ncpu\n['JAX sees none'] cpu\n")

    @staticmethod
    def sees_none(framework, shown):
        """Code for a lease with a GPU and a framework that only has the CPU."""
        return f"""
            import re, warnings
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter('always')
                device = device_of({framework}, ('nvidia',))
            print([found[0] for one in said if (found := re.search(r'\\w+ sees none', str(one.message)))], device.{shown})
            """

    @unittest.skipUnless(HAS["jax"], "no JAX")
    def test_jax_reads_the_name_that_it_is_told(self):
        code = """
            from berth import limiting
            name = limiting._fraction_name()
            os.environ[name] = '0.5'
            from jaxlib import xla_client
            options = getattr(xla_client, 'generate_pjrt_gpu_plugin_options', None)
            print(name, 'not asked' if options is None else options().get('memory_fraction', 'no such option'))
            """
        name, value = self.prints(code).split(maxsplit=1)
        self.assertIn("MEM_FRACTION", name)
        self.assertIn(value.strip(), ("0.5", "not asked"))

    @unittest.skipUnless(HAS["tensorflow"], "no TensorFlow")
    def test_a_full_disk_is_the_same_class_to_tensorflow_and_no_lack_of_memory(self):
        code = """
            import tensorflow as tf
            def written():
                with tf.io.gfile.GFile('/dev/full', 'w') as file: file.write('x' * 1_000_000)
            for fails in (lambda: tf.io.write_file('/dev/full', 'x' * 1_000_000), written):
                try: fails()
                except tf.errors.ResourceExhaustedError as problem: print(berth.is_oom(problem))
            """
        self.assertEqual(self.prints(code), "False\nFalse\n")

    @unittest.skipUnless(HAS["tensorflow"], "no TensorFlow")
    def test_tensorflow(self):
        code = """
            import tensorflow as tf
            for fails in (lambda: tf.zeros([1 << 20, 1 << 20]), lambda: tf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3]))):
                try: fails()
                except Exception as problem: print(berth.is_oom(problem))
            berth.reproducible(3); one = tf.random.normal([4]).numpy().tolist()
            berth.reproducible(3); print(one == tf.random.normal([4]).numpy().tolist(), bool(berth.compare_outputs(tf.ones([3]), tf.ones([3]))))
            from berth.frameworks import device_of, initialised
            with device_of('tf', ()): print(tf.ones([1]).device.endswith('CPU:0'))
            """ + self.sees_none("'tf'", "_device_name")
        self.assertEqual(self.prints(code), "True\nFalse\nTrue True\nTrue\n['TensorFlow sees none'] /CPU:0\n")

    @unittest.skipUnless(HAS["tensorflow"], "no TensorFlow")
    def test_gpus_are_hidden_from_tensorflow_and_left_to_others(self):
        """A fake GPU is in TensorFlow's own list."""
        code = """
            import tensorflow as tf
            from tensorflow.python.eager import context
            made, gpu = context.context(), context.PhysicalDevice('/physical_device:GPU:0', 'GPU')
            made._initialize_physical_devices()
            for some in (made._physical_devices, made._visible_device_list): some.append(gpu)
            before = dict(os.environ)
            print(tf.config.get_visible_devices('GPU') == [gpu])
            berth.disable_gpu('tensorflow')
            print(tf.config.get_visible_devices('GPU'), dict(os.environ) == before, tf.ones([1]).device.endswith('CPU:0'))
            made._visible_device_list.append(gpu)
            try: berth.disable_gpu('tensorflow')
            except berth.TooLate as problem: print(problem.id)
            """
        self.assertEqual(self.prints(code), "True\n[] True True\nE0572\n")

    @unittest.skipUnless(HAS["jax"], "no JAX")
    def test_gpus_are_hidden_from_jax_and_left_to_others(self):
        for begins in ("", "import jax"):  # JAX reads the variable when it is imported
            code = f"""
            {begins}
            berth.disable_gpu('jax')
            import jax
            print(jax.devices()[0].platform, 'CUDA_VISIBLE_DEVICES' in os.environ)
            """
            self.assertEqual(self.prints(code, JAX_PLATFORMS="cuda"), "cpu False\n")

    def test_importing_berth_loads_none(self):
        self.assertEqual(self.prints("berth.is_oom(ValueError()); berth.retry(print); print({'jax', 'tensorflow', 'numpy'} & set(sys.modules))"), "set()\n")


if __name__ == "__main__":
    unittest.main()
