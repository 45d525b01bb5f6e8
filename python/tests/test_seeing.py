"""memory_summary, profile, metrics and reproducible, on a simulated machine. Some parts need PyTorch or prometheus_client.

usage: test_seeing.py BERTH LIBRARY
"""
import importlib.util
import math
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from on_a_machine import OnAMachine, main  # noqa: E402

import berth  # noqa: E402

HAS_NUMPY, HAS_TORCH, HAS_PROMETHEUS = (importlib.util.find_spec(name) is not None for name in ("numpy", "torch", "prometheus_client"))

FAKE_CUDA = """
import types
class Cuda:
    def __getattr__(self, name): raise AttributeError(name)
    is_available = staticmethod(lambda: True); is_initialized = staticmethod(lambda: True); device_count = staticmethod(lambda: 1)
    get_device_properties = staticmethod(lambda at: types.SimpleNamespace())
    memory_stats = staticmethod(lambda at: {'inactive_split_bytes.all.current': 1 << 30})
    memory_allocated = staticmethod(lambda at: 3 << 30); memory_reserved = staticmethod(lambda at: 5 << 30)
torch = types.ModuleType('torch'); torch.cuda = Cuda(); sys.modules['torch'] = torch
"""


class Same(unittest.TestCase):
    @unittest.skipUnless(HAS_NUMPY, "no NumPy")
    def test_whole_numbers_are_exact_and_what_is_no_number_is_named(self):
        import numpy
        pairs = [([2 ** 53], [2 ** 53 + 1]), (2 ** 70, 2 ** 70 + 1)]
        pairs += [(numpy.array([2 ** 60], one), numpy.array([2 ** 60 + 1], other)) for one in ("int64", "uint64") for other in ("int64", "uint64")]
        for one, other in pairs:
            self.assertFalse(berth.compare_outputs(one, other), (one, other))
            self.assertTrue(berth.compare_outputs(one, one))
            self.assertTrue(berth.compare_outputs(one, other, atol=1))
        self.assertTrue(berth.compare_outputs(2 ** 70, 2.0 ** 70))
        for bad in ({1}, object(), numpy.array(["a"])):
            self.assertRaises(berth.InvalidRequest, berth.compare_outputs, bad, bad)
        for wrong in ({"atol": -1}, {"rtol": -1e-9}, {"atol": float("nan")}):
            self.assertRaises(berth.InvalidRequest, berth.compare_outputs, 1.0, 2.0, **wrong)

    @unittest.skipUnless(HAS_NUMPY, "no NumPy")
    def test_outputs_are_compared_by_their_types(self):
        import numpy
        one = {"a": [numpy.linspace(0, 1, 9, dtype="float32"), 3], "b": (True, "text", None)}
        other = {"a": [one["a"][0] * (1 + 1e-7), 3], "b": (True, "text", None)}
        self.assertTrue(berth.compare_outputs(one, other))
        said = berth.compare_outputs(one, {**other, "a": [one["a"][0] + 0.5, 3]})
        self.assertEqual((bool(said), said.where, round(said.absolute, 6)), (False, "['a'][0]", 0.5))
        for bad, word in (({"a": one["a"]}, "keys"), ({**one, "a": [3]}, "lengths"), ({**one, "b": (True, "other", None)}, "'text' and 'other'"),
                          ({**one, "a": [numpy.zeros(8), 3]}, "shapes")):
            said = berth.compare_outputs(one, bad)
            self.assertFalse(said)
            self.assertIn(word, said.why)
        nan = numpy.array([1.0, math.nan, math.inf])
        self.assertTrue(berth.compare_outputs(nan, nan))
        self.assertFalse(berth.compare_outputs(nan, nan, nan_equal=False))
        self.assertFalse(berth.compare_outputs(nan, numpy.array([1.0, 2.0, math.inf])))
        self.assertFalse(berth.compare_outputs(numpy.array([1, 2]), numpy.array([1, 3])))
        self.assertFalse(berth.compare_outputs(math.inf, -math.inf))
        self.assertTrue(berth.compare_outputs(numpy.float16(1), numpy.float16(1.001)))
        self.assertFalse(berth.compare_outputs(1.0, 1.001))
        self.assertTrue(berth.compare_outputs(1.0, 1.001, rtol=0.01))

    @unittest.skipUnless(HAS_TORCH, "no PyTorch")
    def test_tensors_are_compared(self):
        import torch
        one = torch.randn(9, requires_grad=True)
        self.assertTrue(berth.compare_outputs(one, one.detach() * (1 + 1e-7)))
        self.assertTrue(berth.compare_outputs(one.bfloat16(), one.bfloat16() * 1.01))
        self.assertFalse(berth.compare_outputs(one, one * 1.01))

    @unittest.skipUnless(HAS_NUMPY, "no numpy")
    def test_results_of_different_kinds_are_different(self):
        for one, other in (({"a": 1}, [1]), ([1], {"a": 1}), ({"a": 1}, 1), ({"a": {"b": 1}}, {"a": [1]}), (10 ** 400, 10 ** 400 + 1), (10 ** 400, 1.0),
                           ([10 ** 400], [-10 ** 400])):
            self.assertFalse(berth.compare_outputs(one, other), (one, other))
        self.assertIn("the types of ['a']: dict and list", repr(berth.compare_outputs({"a": {"b": 1}}, {"a": [1]})))
        self.assertTrue(berth.compare_outputs(10 ** 400, 10 ** 400))

    @unittest.skipUnless(HAS_TORCH, "no PyTorch")
    def test_a_tensor_without_numbers_is_named(self):
        import torch
        with self.assertRaisesRegex(berth.InvalidRequest, "meta"):
            berth.compare_outputs(torch.zeros(2, device="meta"), torch.zeros(2))

    def test_seeds_have_a_range(self):
        if HAS_NUMPY:
            import numpy
            self.assertEqual(berth.reproducible(numpy.int64(7))[0].value, "7")
        for seed in (-1, True, 1.5, 1 << 32, "1", None):
            with self.assertRaises(berth.InvalidRequest) as caught:
                berth.reproducible(seed)
            self.assertIn(f"seed: {seed!r} is not a whole number", str(caught.exception))


class OnOne(OnAMachine):
    machine = "workstation-4090"

    def test_the_examples_are_true(self):
        for name in ("memory", "metrics", "profiling", "limiting", *(("reproducing",) if HAS_NUMPY else ())):
            code = f"""
                import doctest, importlib
                found = doctest.testmod(importlib.import_module('berth.{name}'), optionflags=0)
                print(found.failed, found.attempted > 0)
                """
            self.assertEqual(self.prints(code), "0 True\n", name)

    def test_memory_is_told_apart(self):
        code = FAKE_CUDA + "row = berth.memory_summary()[0]\n" \
            "print(row.in_use >> 30, row.held >> 30, row.fragmentation, row.own, row.others > 0, row.used > 0, row.total > 1 << 34)\n" \
            "print(repr(berth.memory_summary()).splitlines()[0].split()[0], '<table>' in berth.memory_summary()._repr_html_())"
        self.assertEqual(self.prints(code), "3 5 0.2 0 True True True\ndevice True\n")
        self.assertEqual(self.prints("print([row.name for row in berth.memory_summary()])", BERTH_LIBRARY="/nowhere"), "['host']\n")

    def test_a_device_with_an_unreadable_process_list_is_not_unused(self):
        code = """
            from berth import _library
            given = _library.document
            def document(kind):
                seen = given(kind)
                if kind == 'ls':
                    seen['devices'][0].update(users=None, process_count=None, processes_unknown='no permission')
                else:
                    seen['processes'] = []
                return seen
            _library.document = document
            row = berth.memory_summary()[0]
            print(row.own, row.others, berth.devices()[0].users, repr(berth.devices()).splitlines()[1].split()[-1])
            """
        self.assertEqual(self.prints(code), "None None None ?\n")

    def test_no_driver_is_loaded_for_it(self):
        code = """
            import types
            torch = types.ModuleType('torch'); sys.modules['torch'] = torch
            def loads(): raise AssertionError('to ask whether there is a device loads the driver')
            torch.cuda = types.SimpleNamespace(is_available=loads, device_count=loads, is_initialized=lambda: False)
            berth.release_memory()
            print([row.name for row in berth.memory_summary()][-1])
            """
        self.assertEqual(self.prints(code), "host\n")

    def test_one_limit_for_all_frameworks(self):
        code = """
            from berth import limiting
            for name, known in (('XLA_CLIENT_MEM_FRACTION', (2, 1)), ('XLA_PYTHON_CLIENT_MEM_FRACTION', (1, 13))):
                limiting._fraction_name = lambda: name
                limiting._version = lambda package: known
                found = berth.limit_memory('6GiB')
                print(name in found, found[name], found['TF_FORCE_GPU_ALLOW_GROWTH'], found.get('PYTORCH_ALLOC_CONF'), found.get('PYTORCH_CUDA_ALLOC_CONF'))
                for one in found: del os.environ[one]
            os.environ.update(XLA_PYTHON_CLIENT_MEM_FRACTION='.5', PYTORCH_CUDA_ALLOC_CONF='backend:native')
            print(sorted(berth.limit_memory('6GiB')))
            print(os.environ['CUPY_GPU_MEMORY_LIMIT'], sorted(berth.limit_memory('3GiB')), os.environ['CUPY_GPU_MEMORY_LIMIT'])
            os.environ['CUPY_GPU_MEMORY_LIMIT'] = '7'; print(sorted(berth.limit_memory('6GiB')), os.environ['CUPY_GPU_MEMORY_LIMIT'])
            for bad in ('48GiB', '1MiB', 0, '8'):
                try: berth.limit_memory(bad)
                except berth.InvalidRequest as problem: print(problem.id)
            import types
            said = []
            torch = types.ModuleType('torch'); sys.modules['torch'] = torch
            torch.cuda = types.SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 1, set_per_process_memory_fraction=lambda *how: said.append(how))
            berth.limit_memory('6GiB', total='24GiB'); print(said)
            del sys.modules['torch']
            cupy = types.ModuleType('cupy'); cupy.get_default_memory_pool = lambda: types.SimpleNamespace(total_bytes=lambda: 1)
            sys.modules['cupy'] = cupy; sys.modules['cupy.cuda.memory'] = cupy
            try: berth.limit_memory('6GiB')
            except berth.TooLate as problem: print('CuPy' in str(problem))
            """
        self.assertEqual(self.prints(code).split("\n"), ["True 0.25 true expandable_segments:True expandable_segments:True", "True 0.25 true None None",
                         "['CUPY_GPU_MEMORY_LIMIT', 'TF_FORCE_GPU_ALLOW_GROWTH']",
                         "6442450944 ['CUPY_GPU_MEMORY_LIMIT', 'TF_FORCE_GPU_ALLOW_GROWTH'] 3221225472", "['TF_FORCE_GPU_ALLOW_GROWTH'] 7", "E0420", "E0104", "E0011", "E0101", "[(0.25, 0)]", "True", ""])

    def test_seeds_repeat(self):
        code = """
            import random
            def drawn():
                found = [random.random()]
                for name in ('numpy', 'torch'):
                    if name in sys.modules: found.append(float(getattr(sys.modules[name], 'random' if name == 'numpy' else 'nn') and
                                                              (sys.modules['numpy'].random.rand() if name == 'numpy' else sys.modules['torch'].rand(1))))
                return found
            IMPORT
            said = berth.reproducible(3); one = drawn()
            berth.reproducible(3); print(drawn() == one, 'what it costs' in repr(said))
            """.replace("IMPORT", "import torch, numpy" if HAS_TORCH else "pass")
        self.assertEqual(self.prints(code), "True True\n")

    def test_a_profile_is_a_trace_and_ten_lines(self):
        work = "import torch\nmodel = torch.nn.Linear(64, 64)\ndef work():\n    for _ in range(30): model(torch.randn(32, 64)).sum().backward()\n" \
            if HAS_TORCH else "def work(): sum(range(1000000))\n"
        code = work + """
import json, time, tempfile
place = tempfile.TemporaryDirectory(); os.chdir(place.name)
try:
    with berth.profile('trace.json', every=0.05) as seen:
        work(); time.sleep(1); raise KeyError('x')
except KeyError: pass
events = json.load(open('trace.json'))['traceEvents']
names = {one['name'] for one in events}
counters = [one for one in events if one['ph'] == 'C']
block = next(one for one in events if one['name'] == 'berth.profile')
print('GPU 0 utilization_percent' in names, 'process resident_bytes' in names, len({one['ts'] for one in counters}) >= 3)
print(all(block['ts'] - 1e4 <= one['ts'] <= block['ts'] + block['dur'] + 1e4 for one in counters))
os.chdir('/')
assert repr(seen) == seen.summary
print(len(seen.summary.splitlines()) <= 10, 'GPU 0 NVIDIA GeForce RTX 4090: busy' in seen.summary, ('operators' in seen.summary) == ('torch' in sys.modules))
"""
        done = self.python(code)
        self.assertEqual((done.returncode, done.stdout), (0, "True True True\nTrue\nTrue True True\n"), done.stderr)
        self.assertLessEqual(len(done.stderr[done.stderr.index("ui.perfetto.dev"):].splitlines()), 10, "PyTorch warns above them")
        code = """
            for bad in ({'path': '/nowhere/trace.json'}, {'every': 0}):
                try: berth.profile(**bad)
                except berth.InvalidRequest: print('no')
            """
        self.assertEqual(self.prints(code), "no\nno\n")

    @unittest.skipUnless(HAS_TORCH, "no PyTorch")
    def test_a_profile_that_is_refused_is_in_nobodys_way(self):
        code = """
            import torch, tempfile, unittest.mock
            place = tempfile.TemporaryDirectory()
            def one():
                with berth.profile(place.name + '/a.json', report=False) as seen: torch.ones(3)
                print('operators' in seen.summary)
            with torch.profiler.profile():
                try: one()
                except berth.InvalidRequest as problem: print('another profile' in str(problem), problem.hint)
            one()
            with unittest.mock.patch.object(torch.profiler.profile, '__enter__', side_effect=RuntimeError('of Kineto')):
                try: one()
                except berth.InvalidRequest as problem: print('of Kineto' in str(problem))
            with berth.profile(place.name + '/b.json', report=False):
                try: one()
                except berth.InvalidRequest as problem: print('another profile' in str(problem))
            one()
            """
        done = self.python(code)  # not prints(), because PyTorch may print warnings on standard error
        self.assertEqual((done.returncode, done.stdout), (0, "True use one block for both\n" + "True\n" * 4), done.stderr)

    def test_a_trace_that_cannot_be_written_takes_no_error_away(self):
        code = """
            import tempfile, warnings
            for own in (None, ValueError('mine'), KeyboardInterrupt()):
                place = tempfile.mkdtemp()
                try:
                    with warnings.catch_warnings(record=True) as said:
                        warnings.simplefilter('always')
                        with berth.profile(place + '/x.json', report=False) as seen:
                            os.rmdir(place)
                            if own: raise own
                except BaseException as problem:
                    print(problem is own, getattr(problem, 'id', None), [str(one.message).split(':')[0] for one in said], 'no trace: ' in seen.summary)
            """
        warned = "['the trace could not be written']"
        self.assertEqual(self.prints(code), f"False E0008 [] True\nTrue None {warned} True\nTrue None {warned} True\n")

    def test_metrics_have_the_names_and_units_of_the_exporter(self):
        table = pathlib.Path(__file__).parents[2] / "src/watch/metric_table.cpp"
        if not table.exists():
            self.skipTest("the sources are not here")
        factors = {"kPercent": 0.01, "kMilli": 0.001, "1": 1.0}
        rows = re.findall(r'{"(\w+)",\s*"(berth_device_\w+)",\s*"\w*",\s*\w+,\s*(\w+),', table.read_text())
        exporters = {key: (name, factors[factor]) for key, name, factor in rows if factor in factors}
        from berth.metrics import EXPORTED
        from berth.readings import NAMES
        self.assertEqual(set(EXPORTED), set(NAMES))
        self.assertEqual({key: exporters[key] for key in EXPORTED}, EXPORTED)

    @unittest.skipUnless(HAS_PROMETHEUS, "no prometheus_client")
    def test_prometheus_reads(self):
        code = """
            import urllib.request
            with berth.export_metrics(0) as metrics:
                metrics['loss'] = 0.25; metrics.set('rate', 3, phase='train'); metrics.set('epoch', 2, name='a', value='b')
                said = urllib.request.urlopen(f'http://127.0.0.1:{metrics.port}/metrics').read().decode()
                for bad in (lambda: metrics.set('a b', 1), lambda: metrics.set('loss', 'x'), lambda: metrics.set('loss', 1, other='x'), lambda: metrics.set(5, 1),
                            lambda: metrics.set('berth_process_resident_bytes', 1), lambda: metrics.set('berth_device_power_watts', 1),
                            lambda: berth.export_metrics(0, address=5)):
                    try: bad()
                    except berth.InvalidRequest: print('no')
                try: berth.export_metrics(metrics.port)
                except berth.BerthError as problem: print(problem.id)
            print('loss 0.25' in said, 'rate{phase="train"} 3.0' in said, 'epoch{name="a",value="b"} 2.0' in said)
            print(said.count('# TYPE berth_process_resident_bytes'), 'berth_process_resident_bytes ' in said)
            print('berth_device_memory_total_bytes{device="0",uuid="GPU-' in said)
            print('name="NVIDIA GeForce RTX 4090",uuid="' in said.replace('berth_device_info{device="0",', ''), said.count('\\nberth_device_info{'))
            """
        self.assertEqual(self.prints(code), "no\n" * 7 + "E0916\nTrue True True\n1 True\nTrue\nTrue 1\n")

    def test_bad_requests(self):
        code = """
            for bad in (lambda: berth.export_metrics(70000), lambda: berth.export_metrics('9400'), lambda: berth.tensorboard(None)):
                try: bad()
                except berth.InvalidRequest: print('no')
            sys.modules['prometheus_client'] = None
            try: berth.export_metrics(0)
            except berth.Unsupported as problem: print(problem.id, problem.hint)
            """
        self.assertEqual(self.prints(code), "no\nno\nno\nE0568 pip install prometheus-client\n")


if __name__ == "__main__":
    main()
