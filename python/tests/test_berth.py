"""The package on simulated machines, by the Python that runs this: no framework is needed, none is imported.

usage: test_berth.py BERTH LIBRARY
"""
import ast
import asyncio
import builtins
import collections
import contextlib
import functools
import importlib
import io
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from on_a_machine import OnAMachine, main, wait_until  # noqa: E402

import berth  # noqa: E402
from berth import oom  # noqa: E402


def raised(row):
    """An exception of that type, as its framework would have it."""
    module, _, name = row["type"].rpartition(".")
    if module == "builtins":
        kind = getattr(builtins, name)
    else:
        bases = tuple(getattr(builtins, base) for base in row.get("bases", ["Exception"]))
        kind = type(name, bases, {"__module__": module})
    problem = kind(row["text"]) if row["text"] else kind()
    if "code" in row:
        problem.code = row["code"]
    return problem


class Texts(unittest.TestCase):
    rows = json.loads((HERE / "oom_texts.json").read_text())

    def test_every_recorded_text_is_known(self):
        for row in self.rows["oom"]:
            self.assertTrue(berth.is_oom(raised(row)), row)

    def test_what_only_looks_like_it_is_not(self):
        self.assertGreaterEqual(len(self.rows["not_oom"]), 50)
        for row in self.rows["not_oom"]:
            self.assertFalse(berth.is_oom(raised(row)), row)

    def test_causes_and_contexts_and_groups_are_walked(self):
        inner = raised(self.rows["oom"][0])
        try:
            try:
                raise inner
            except RuntimeError:
                raise ValueError("the model failed")
        except ValueError as outer:
            self.assertTrue(berth.is_oom(outer))
        try:
            raise KeyError("x") from inner
        except KeyError as outer:
            self.assertTrue(berth.is_oom(outer))
        try:
            try:
                raise inner
            except RuntimeError:
                raise ValueError("on purpose") from None
        except ValueError as outer:
            self.assertFalse(berth.is_oom(outer))
        if hasattr(builtins, "ExceptionGroup"):
            self.assertTrue(berth.is_oom(ExceptionGroup("both", [KeyError("x"), inner])))
        loop = ValueError("a")
        loop.__context__ = loop2 = ValueError("b")
        loop2.__context__ = loop
        self.assertFalse(berth.is_oom(loop))
        self.assertFalse(berth.is_oom(None))

    def test_a_lost_context_is_told(self):
        self.assertTrue(oom.is_sticky(RuntimeError("CUDA error: an illegal memory access was encountered")))
        self.assertTrue(oom.is_sticky(RuntimeError("CUDA error: device-side assert triggered")))
        for row in self.rows["oom"]:
            self.assertFalse(oom.is_sticky(raised(row)), row)
        launch = type("LaunchError", (Exception,), {"__module__": "pycuda._driver"})
        self.assertTrue(oom.is_sticky(launch("cuCtxSynchronize failed: unspecified launch failure")))
        about = ValueError("bad header: misaligned address 0x3 in file")
        self.assertFalse(oom.is_sticky(about))
        self.assertRaises(ValueError, berth.retry(first=0.0)(lambda: (_ for _ in ()).throw(about)))

    def test_nothing_is_imported(self):
        code = ("import sys; import berth; berth.is_oom(RuntimeError('CUDA out of memory. Tried to allocate')); berth.sizes\n"
                "print(sorted({'torch', 'jax', 'tensorflow', 'cupy', 'numpy', 'ctypes'} & set(sys.modules)))")
        done = subprocess.run([sys.executable, "-c", code.replace("; berth.sizes", "")], env={**os.environ, "PYTHONPATH": str(HERE.parent)},
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "[]\n")


class Again(unittest.TestCase):
    def failing(self, times, text="CUDA out of memory. Tried to allocate 1 GiB", **options):
        """A step that fails so often; what each try drew and held."""
        tries, alive = [], []

        class Tensor:
            def __init__(self):
                alive.append(self)

            def __del__(self):
                tries[-1]["freed"] = True

        @berth.retry(first=0.0, report=False, **options)
        def step(value):
            tensor = Tensor()
            alive.clear()
            tries.append({"drew": random.random()})
            if len(tries) <= times:
                raise RuntimeError(text)
            return value, tensor is not None
        return step, tries

    def test_a_later_try_is_as_the_first(self):
        random.seed(7)
        expected = random.random()
        random.seed(7)
        step, tries = self.failing(2)
        self.assertEqual(step("x"), ("x", True))
        self.assertEqual([one["drew"] for one in tries], [expected] * 3)
        self.assertTrue(all(one.get("freed") for one in tries), "what a failed try held is let go of before the next")

    def test_it_gives_up_with_the_error_itself(self):
        step, tries = self.failing(9, tries=3)
        with self.assertRaises(RuntimeError) as caught:
            step("x")
        self.assertTrue(berth.is_oom(caught.exception))
        self.assertEqual(len(tries), 3)

    def test_what_is_no_lack_of_memory_is_not_tried_again(self):
        for text, kind in (("shapes do not fit", RuntimeError), ("CUDA error: device-side assert triggered", berth.ContextLost)):
            step, tries = self.failing(1, text)
            self.assertRaises(kind, step, "x")
            self.assertEqual(len(tries), 1)

    def test_what_has_no_name_is_tried_again(self):
        class Step:
            def __call__(self, size):
                tries.append(size)
                if len(tries) < 2:
                    raise MemoryError
                return size
        for step in (Step(), functools.partial(Step().__call__)):
            tries, said = [], io.StringIO()
            with contextlib.redirect_stderr(said):
                self.assertEqual(berth.retry(functools.partial(step, 4), first=0.0)(), 4)
                tries.clear()
                self.assertEqual(berth.fit_batch(step, start=4)(), 2)
            self.assertIn("Step" if isinstance(step, Step) else "__call__", said.getvalue())

    def test_what_has_ended_is_not_tried_again(self):
        for kind in (berth.StepInterrupted, berth.DoesNotFit, berth.RankFailed):
            def wrapped():
                tries.append(1)
                try:
                    raise MemoryError
                except MemoryError as why:
                    raise kind("it ends here") from why

            for around in (berth.retry(first=0.0, report=False), berth.fit_batch(start=8, report=False)):
                tries = []
                self.assertRaises(kind, around(lambda *size: wrapped()))
                self.assertEqual(len(tries), 1)

    def test_what_cannot_begin_anew_is_refused(self):
        def generator():
            yield 1
        self.assertRaises(berth.InvalidRequest, berth.retry, generator)
        self.assertRaises(berth.InvalidRequest, berth.retry(tries=0), print)
        interrupted = berth.retry(first=0.0)(lambda: signal.raise_signal(signal.SIGINT))
        self.assertRaises(KeyboardInterrupt, interrupted)

    def test_ctrl_c_between_two_tries_ends_it(self):
        tries = []

        @berth.retry(first=20.0, report=False)
        def step():
            tries.append(1)
            raise MemoryError
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        self.assertRaises(KeyboardInterrupt, step)
        self.assertEqual(len(tries), 1)

    def test_coroutines_wait_without_holding_up_others(self):
        tries = []

        @berth.retry(first=0.01, report=False)
        async def step():
            tries.append(1)
            if len(tries) < 3:
                raise MemoryError
            return "done"
        self.assertEqual(asyncio.run(step()), "done")


class Batches(unittest.TestCase):
    def test_the_search_ends_soon_and_near_the_largest(self):
        chance = random.Random(3)
        for _ in range(60):
            most = chance.choice([64, 1000, 8192])
            start, largest, sizes = chance.randint(1, most), chance.randint(1, most), []

            def trial(size):
                sizes.append(size)
                if size > largest:
                    raise RuntimeError("CUDA error: out of memory")
            found = berth.find_batch(trial, start=start, most=most)
            self.assertLessEqual(found, largest)
            self.assertGreaterEqual(found, 0.95 * largest)
            self.assertLessEqual(len(sizes), math.log2(most) + 3, (start, largest, sizes))
        with self.assertRaises(berth.DoesNotFit) as caught:
            berth.find_batch(lambda size: (_ for _ in ()).throw(MemoryError()), start=16)
        self.assertIsInstance(caught.exception, MemoryError)
        self.assertIs(type(caught.exception.__cause__), MemoryError)
        for wrong in ({"start": 0}, {"start": 10, "most": 5}, {"margin": 1.5}, {"least": True}):
            self.assertRaises(berth.InvalidRequest, berth.find_batch, print, **wrong)

    def test_a_function_gets_smaller_batches_until_it_fits(self):
        sizes = []

        @berth.fit_batch(starting_batch_size=100, policy="x0.9", report=False)
        def train(batch_size, model, *, epochs):
            sizes.append(batch_size)
            if batch_size > 80:
                raise RuntimeError("CUDA out of memory. Tried to allocate 1 GiB")
            return batch_size, model, epochs
        self.assertEqual(train("model", epochs=3), (72, "model", 3))
        self.assertEqual(sizes, [100, 90, 81, 72])
        self.assertEqual(train("model", epochs=1)[0], 72)
        self.assertEqual(len(sizes), 5)
        self.assertRaises(berth.InvalidRequest, train, 64, "model", epochs=3)

    def test_what_never_fits_and_what_is_wrong_is_said(self):
        @berth.fit_batch(start=8, least=2, report=False)
        def train(batch_size):
            raise RuntimeError("CUDA out of memory. Tried to allocate 1 GiB")
        with self.assertRaises(berth.DoesNotFit) as caught:
            train()
        self.assertIn("a batch of 2 as well", str(caught.exception))
        self.assertTrue(berth.is_oom(caught.exception))
        self.assertIsInstance(caught.exception.__cause__, RuntimeError)

        @berth.fit_batch(report=False)
        def wrong(batch_size):
            raise KeyError(batch_size)
        self.assertRaises(KeyError, wrong)
        for bad in (lambda: None, self.generator):
            self.assertRaises(berth.InvalidRequest, berth.fit_batch, bad)
        async def coroutine(batch_size):
            return batch_size
        for bad in (self.generator, functools.partial(self.generator), coroutine, lambda size: self.generator(size), lambda size: coroutine(size)):
            with self.assertRaises(berth.InvalidRequest) as caught:
                berth.find_batch(bad)
            self.assertEqual(caught.exception.id, "E0569")
        for options in ({"start": 0}, {"start": 1.5}, {"policy": "none"}, {"least": 0}):
            self.assertRaises(berth.InvalidRequest, berth.fit_batch(**options), lambda batch_size: None)

    @staticmethod
    def generator(batch_size):
        yield batch_size

    def test_batches_are_split_without_losing_any_item(self):
        for length in range(7):
            for size in range(1, 9):
                parts = list(berth.chunked(list(range(length)), size))
                self.assertEqual(sum(parts, []), list(range(length)))
                self.assertTrue(all(len(part) == size for part in parts[:-1]))
        self.assertEqual(list(berth.chunked({"x": [1, 2, 3], "mask": None, "training": True, "rate": 0.5}, 2)),
                         [{"x": [1, 2], "mask": None, "training": True, "rate": 0.5}, {"x": [3], "mask": None, "training": True, "rate": 0.5}])
        self.assertEqual(list(berth.chunked((["a", "b"], [1, 2], None), 1)), [(["a"], [1], None), (["b"], [2], None)])
        Pair = collections.namedtuple("Pair", "x y")
        self.assertEqual(list(berth.chunked(Pair([1, 2], [3, 4]), 1)), [Pair([1], [3]), Pair([2], [4])])
        self.assertEqual(list(berth.chunked((1, 2, 3), 2)), [(1, 2), (3,)])
        self.assertEqual(list(berth.chunked([[1, 2], [3]], 1)), [[[1, 2]], [[3]]])
        for bad in ((x for x in "ab"), {"x": [1], "y": [1, 2]}, ([1], [1, 2]), 3):
            self.assertRaises(berth.InvalidRequest, berth.chunked, bad, 2)
        self.assertRaises(berth.InvalidRequest, berth.chunked, [1], 0)


class OneGpu(OnAMachine):
    machine = "workstation-4090"

    def test_the_examples_are_true(self):
        for name in ("machine", "leases", "sizes", "oom", "retrying", "batches", "accumulating", "sampling"):
            code = f"""
                import doctest, importlib
                found = doctest.testmod(importlib.import_module('berth.{name}'), optionflags=0)
                print(found.failed, found.attempted > 0)
                """
            self.assertEqual(self.prints(code), "0 True\n", name)

    def test_devices_are_those_of_berth_ls(self):
        said = self.prints("import json; print(json.dumps([dict(one.data) for one in berth.devices()]))")
        shown = json.loads(self.run_berth("ls", "--json").stdout)["devices"]
        self.assertEqual([one["uuid"] for one in json.loads(said)], [one["uuid"] for one in shown])
        self.assertIn("NVIDIA GeForce RTX 4090", self.prints("print(berth.snapshot())"))
        self.assertIn("<td style='text-align:left'>NVIDIA GeForce RTX 4090</td>", self.prints("print(berth.devices()._repr_html_())"))

    def test_a_lease_sets_what_berth_run_sets_and_puts_it_back(self):
        code = """
            before = dict(os.environ)
            with berth.lease(gpus=1, name='mine') as lease:
                print(lease.job, os.environ['CUDA_VISIBLE_DEVICES'], os.environ['BERTH_JOB'], lease.devices[0]['name'])
            print(os.environ == before)
            """
        self.assertEqual(self.prints(code), "1 0 1 NVIDIA GeForce RTX 4090\nTrue\n")
        self.assertEqual(self.states(), {1: "done"})
        self.prints("with berth.lease(gpus=0) as lease: print(lease.devices == [], os.environ['CUDA_VISIBLE_DEVICES'] == '-1')")

    def test_what_is_refused_says_why_and_leaves_nothing(self):
        code = """
            for wish in ({'gpus': 9}, {'gpus': -1}, {'gpus': True}, {'memory': '8'}, {'memory': 0}, {'memory': '1GiB', 'share': '300%'},
                         {'share': 0.5}, {'devices': ['7']}, {'cpus': 0}):
                try:
                    with berth.lease(**wish): print('no')
                except berth.BerthError as problem:
                    print(type(problem).__name__, problem.id)
            """
        self.assertEqual(self.prints(code).split("\n")[:-1], ["NoDevice E0411", "InvalidRequest E0104", "InvalidRequest E0104", "InvalidRequest E0101",
                         "InvalidRequest E0011", "InvalidRequest E0102", "InvalidRequest E0013", "NotFound E0413", "InvalidRequest E0104"])

    def test_leases_inside_leases_and_jobs_are_the_outer_ones(self):
        code = """
            with berth.lease(gpus=1) as outer:
                with berth.lease(gpus=1) as inner:
                    print(inner.job == outer.job, os.environ['CUDA_VISIBLE_DEVICES'])
                print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['BERTH_JOB'] == str(outer.job))
                try:
                    with berth.lease(gpus=2): pass
                except berth.Refused as problem:
                    print(problem.id)
                try:
                    with outer: pass
                except berth.InvalidRequest:
                    print('in use')
            """
        self.assertEqual(self.prints(code), "True 0\n0 True\nE0421\nin use\n")

    def test_a_framework_that_is_not_there_is_named(self):
        code = """
            sys.modules['torch'] = sys.modules['cupy'] = None
            for gpus, framework in ((1, 'torch'), (1, 'cupy'), (0, 'cupy')):
                with berth.lease(gpus=gpus) as lease:
                    try:
                        lease.device(framework)
                    except berth.BerthError as problem:
                        print(problem.id)
            """
        self.assertEqual(self.prints(code), "E0568\nE0568\nE0551\n")

    def test_leases_that_overlap_are_refused_or_put_back_in_any_order(self):
        code = """
            import asyncio, threading
            before = dict(os.environ)
            first, second = berth.lease(gpus=1), berth.lease(gpus=1)
            first.__enter__(); second.__enter__(); first.__exit__(None, None, None)
            print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['BERTH_JOB'] == str(second.job))
            second.__exit__(None, None, None)
            print(os.environ == before)
            def other():
                try:
                    with berth.lease(gpus=1): pass
                except berth.Refused as problem:
                    print(problem.id)
            with berth.lease(gpus=1):
                thread = threading.Thread(target=other); thread.start(); thread.join()
                try:
                    with berth.lease(devices=['7']): pass
                except berth.BerthError as problem:
                    print(type(problem).__name__)
            async def task():
                async with berth.lease(gpus=1): await asyncio.sleep(0.1)
            async def all_of_them():
                return await asyncio.gather(*(task() for _ in range(3)), return_exceptions=True)
            print([getattr(one, 'id', None) for one in asyncio.run(all_of_them())], os.environ == before)
            with berth.lease(gpus=1): pass
            """
        said = self.prints(code).split("\n")
        self.assertEqual(said[:3] + said[4:5], ["0 True", "True", "E0573", "[None, 'E0573', 'E0573'] True"], said)
        self.assertIn(said[3], ("Refused", "NotFound"))
        self.assertEqual(set(self.states().values()), {"done"})

    def test_who_does_not_get_it_in_time_is_told_who_has_it(self):
        holder = self.start("run", "--gpus", "1", "--", "sh", "-c", "echo has it; read line")
        holder.stdout.readline()
        code = """
            try:
                with berth.lease(gpus=1, wait=0.3): pass
            except berth.Refused as problem:
                print(problem.id, 'job 1' in str(problem))
            """
        self.assertEqual(self.prints(code), "E0412 True\n")
        done = self.python("with berth.lease(gpus=1, wait=2): pass")
        self.assertIn("berth: waiting: 0 of 1 GPUs are free", done.stderr)
        self.assertEqual([state for job, state in self.states().items() if job != 1], ["cancelled", "cancelled"])

    def test_ctrl_c_while_it_waits_leaves_no_lease(self):
        holder = self.start("run", "--gpus", "1", "--", "sh", "-c", "echo has it; read line")
        holder.stdout.readline()
        waiter = subprocess.Popen([sys.executable, "-c", "import berth\nwith berth.lease(gpus=1): pass"], env=self.variables,
                                  stderr=subprocess.PIPE, text=True)
        self.assertTrue(wait_until(lambda: self.states().get(2) == "waiting"))
        waiter.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", waiter.communicate(timeout=20)[1])
        self.assertEqual(self.states()[2], "cancelled")

    def test_a_forked_child_does_not_give_back_what_is_its_parents(self):
        code = """
            with berth.lease(gpus=1) as lease:
                if os.fork() == 0:
                    raise SystemExit(0)  # leaves the block, in the child
                os.wait()
                import json, subprocess
                jobs = json.loads(subprocess.run([os.environ['BERTH_PROGRAM'], 'jobs', '--json'], capture_output=True).stdout)['jobs']
                print([one['state'] for one in jobs], os.environ['CUDA_VISIBLE_DEVICES'])
            """
        self.assertEqual(self.prints(code), "['running'] 0\n")

    def test_a_process_that_dies_gives_its_lease_back(self):
        self.assertEqual(self.python("lease = berth.lease(gpus=1).__enter__(); os.kill(os.getpid(), 9)").returncode, -9)
        self.assertTrue(wait_until(lambda: self.states() == {1: "lost"}))

    def test_a_framework_that_was_there_first_is_too_early(self):
        fake = """
            import types
            torch = types.ModuleType('torch'); torch.cuda = types.SimpleNamespace(is_initialized=lambda: True); sys.modules['torch'] = torch
            for use in (lambda: berth.lease(gpus=1).__enter__(), berth.disable_gpu):
                try:
                    use()
                except berth.TooLate as problem:
                    print('PyTorch' in str(problem), problem.id, bool(problem.hint))
            """
        self.assertEqual(self.prints(fake), "True E0572 True\nTrue E0572 True\n")

    def test_gpus_can_be_hidden(self):
        self.assertEqual(self.prints("berth.disable_gpu(); print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['JAX_PLATFORMS'])"), "-1 cpu\n")

    def test_the_environment_is_that_of_berth_env(self):
        said = json.loads(self.run_berth("env", "--gpus", "1", "--json").stdout)["settings"]
        expected = {one["name"]: one["value"] for one in said if one["action"] != "keep"}
        self.assertEqual(json.loads(self.prints("import json; print(json.dumps(berth.env(gpus=1)))")), expected)

    def test_the_doctor_examines_this_interpreter(self):
        code = "found = berth.doctor(static=True); print(found.data['schema'], isinstance(found.ok, bool), isinstance(found.verdict, str))"
        self.assertEqual(self.prints(code), "1 True True\n")


class Speed(unittest.TestCase):
    """No times are asserted; benchmarks/ has them."""

    def test_type_checkers_see_every_name(self):
        tree = ast.parse(pathlib.Path(berth.__file__).read_text())
        block = next(node for node in tree.body if isinstance(node, ast.If))
        seen = {(node.module, one.name) for node in block.body for one in node.names}
        self.assertEqual(seen - {(None, "torch")}, {(module, name) for module, names in berth._WHERE.items() for name in names})

    def test_names_are_looked_up_once(self):
        self.assertIs(berth.is_oom, importlib.import_module("berth.oom").is_oom)
        self.assertEqual(sorted(set(berth.__all__) - set(dir(berth))), [])
        with self.assertRaises(AttributeError):
            berth.nothing


if __name__ == "__main__":
    main()
