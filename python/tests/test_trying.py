"""Continuing after a lack of memory: retries, smaller batches, parts of batches. No framework is needed.

usage: test_trying.py
"""
import asyncio
import collections
import contextlib
import dataclasses
import functools
import gc
import io
import math
import os
import pathlib
import random
import signal
import sys
import threading
import types
import unittest
import weakref
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import berth  # noqa: E402


class Again(unittest.TestCase):
    def failing(self, times, text="CUDA out of memory. Tried to allocate 1 GiB", **options):
        """A step that fails `times` times. Returns what each try drew and which objects it kept."""
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
        self.assertTrue(all(one.get("freed") for one in tries), "the memory of a failed try is freed before the next")

    def test_what_the_members_of_a_group_held_is_let_go_of(self):
        held = []

        class Tensor:
            def __del__(self):
                held.append("freed")

        def member():
            tensor = Tensor()
            raise MemoryError(str(tensor is None))
        group = type("ExceptionGroup", (Exception,), {"__module__": "exceptiongroup"})
        tries = []

        @berth.retry(first=0.0, report=False)
        def step():
            tries.append(list(held))
            if len(tries) < 2:
                try:
                    member()
                except MemoryError as problem:
                    both = group("both")
                    both.exceptions = (problem,)
                raise both from None
        step()
        self.assertEqual(tries, [[], ["freed"]])

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
            self.assertIn("(MemoryError)", said.getvalue(), "an error without a text is named by its type")

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

    def test_what_has_only_begun_is_refused(self):
        class Generates:
            def __call__(self):
                yield 1

        class Awaits:
            async def __call__(self):
                tries.append(1)
                if len(tries) < 2:
                    raise MemoryError
                return "done"

        async def coroutine():
            return 1
        self.assertRaises(berth.InvalidRequest, berth.retry, Generates())
        for bad in (lambda: (one for one in "ab"), lambda: coroutine(), lambda: Generates()()):
            with self.assertRaises(berth.InvalidRequest) as caught:
                berth.retry(bad)()
            self.assertEqual(caught.exception.id, "E0569")
        tries = []
        self.assertEqual(asyncio.run(berth.retry(Awaits(), first=0.0, report=False)()), "done")

    def test_ctrl_c_between_two_tries_ends_it(self):
        tries = []

        @berth.retry(first=20.0, report=False)
        def step():
            tries.append(1)
            raise MemoryError
        # Set Python's own handler, because a framework in an earlier test of this process may have replaced it.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
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


class Array:
    """A fake array with what splitting needs: a shape, a type, and slices along the first axis."""

    def __init__(self, *shape, dtype="float32"):
        self.shape, self.dtype = shape, dtype

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, which):
        return Array(len(range(*which.indices(len(self)))), *self.shape[1:], dtype=self.dtype)

    def __eq__(self, other):
        return (self.shape, self.dtype) == (other.shape, other.dtype)

    def __repr__(self):
        return f"Array{self.shape}"


class Batches(unittest.TestCase):
    def test_the_search_ends_soon_and_near_the_largest(self):
        chance = random.Random(3)
        for most in [64, 1000, 8192] * 20 + [17] * 10:
            start, largest, sizes = chance.randint(1, most), chance.randint(1, most), []
            if most == 17:
                start, largest = chance.choice([1, 17]), chance.choice([15, 16])

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

    def test_the_smallest_size_near_the_best_speed(self):
        clock = [0.0]

        def found(seconds_of, largest=10**6, **limits):
            def trial(size):
                clock[0] += seconds_of(size)
                if size > largest:
                    raise MemoryError
            with mock.patch("berth.batches.time", types.SimpleNamespace(perf_counter=lambda: clock[0])):
                return berth.find_batch(trial, goal="speed", **limits)
        # A trial takes 64 + size seconds. The throughput of 926 items is 95 % of that of 4096 items.
        self.assertTrue(700 <= found(lambda size: 64 + size, most=4096) <= 1000)
        # Above 100 items, the throughput does not increase.
        self.assertTrue(90 <= found(lambda size: 1 if size <= 100 else size / 100) <= 128)
        # Sizes above 50 run out of memory.
        self.assertTrue(40 <= found(lambda size: 1, largest=50, most=64) <= 50)
        self.assertEqual(found(lambda size: 1, most=1), 1)
        self.assertEqual(found(lambda size: 1 + 100 * size, least=8), 8)
        self.assertRaises(berth.DoesNotFit, found, lambda size: 1, largest=0)
        self.assertRaises(berth.InvalidRequest, berth.find_batch, print, goal="fast")

    def test_the_least_size_is_tried_before_it_is_said_not_to_fit(self):
        for least, start, most, largest in ((1000, 1100, 4000, 1005), (1000, 1100, 4000, 999), (100, 110, 120, 101), (100, 100, 100, 100), (1, 8, 8, 0),
                                            (1000, 1001, 4000, 1000), (50, 90, 100, 50)):
            sizes = []

            def trial(size):
                sizes.append(size)
                if size > largest:
                    raise MemoryError
            if largest < least:
                self.assertRaises(berth.DoesNotFit, berth.find_batch, trial, least=least, start=start, most=most)
                self.assertIn(least, sizes)
            else:
                found = berth.find_batch(trial, least=least, start=start, most=most)
                self.assertTrue(0.95 * largest <= found <= largest, (found, largest))
            self.assertLessEqual(len(sizes), math.log2(most - least + 1) + 3, sizes)

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

    @staticmethod
    def fits(size, most=40):
        if size > most:
            raise RuntimeError("CUDA error: out of memory")
        return size

    def test_code_for_accelerate_moves_over(self):
        size = 100

        def reduce():  # accelerate calls its function without an argument, so this function keeps the size itself
            nonlocal size
            size -= 30
            return size

        @berth.fit_batch(starting_batch_size=100, reduce_batch_size_fn=reduce)
        def train(batch_size, model):
            return self.fits(batch_size), model
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(train("model"), (40, "model"))
            self.assertEqual(berth.fit_batch(lambda size: self.fits(size), 64, lambda size: size - 5)(), 39)
            self.assertEqual(berth.fit_batch(lambda size: self.fits(size), 50)(), 25)
        for wrong in (lambda size: size, lambda size: size / 2, lambda: True, lambda size: None):
            with self.assertRaises(berth.InvalidRequest) as caught:
                berth.fit_batch(self.fits, 64, wrong)()
            self.assertIn("reduce_batch_size_fn", str(caught.exception))

    def test_the_size_is_given_where_it_belongs(self):
        fit, fits = functools.partial(berth.fit_batch, start=128, report=False), self.fits

        class Trainer:
            @fit
            def train(self, batch_size, epochs=1):
                return type(self).__name__, fits(batch_size), epochs

            @classmethod
            @fit
            def of_the_class(cls, size):
                return cls.__name__, fits(size)

            @staticmethod
            @fit
            def of_none(size):
                return fits(size)
        self.assertEqual(Trainer().train(epochs=3), ("Trainer", 32, 3))
        self.assertEqual(Trainer().train(4), ("Trainer", 32, 4))
        self.assertEqual((Trainer().of_the_class(), Trainer.of_none()), (("Trainer", 32), 32))
        self.assertEqual(fit(lambda model, batch_size, k=1: (model, fits(batch_size), k))("m", k=2), ("m", 32, 2))
        self.assertEqual(fit(lambda model, batch_size: (model, fits(batch_size)))(model="m"), ("m", 32))
        self.assertEqual(fit(lambda model, *, batch_size: (model, fits(batch_size)))("m"), ("m", 32))
        self.assertEqual(fit(functools.partial(lambda batch_size, model: (model, fits(batch_size)), model="m"))(), ("m", 32))
        for call in (lambda: Trainer().train(batch_size=2), lambda: Trainer().train(3, 4), lambda: fit(classmethod(lambda cls, size: size)),
                     lambda: fit(lambda self: 1), lambda: fit(lambda **named: 1)):
            self.assertRaises(berth.InvalidRequest, call)

    def test_a_retry_of_berth_run_starts_with_a_smaller_size(self):
        sizes, said = [], io.StringIO()
        with mock.patch.dict(os.environ, BERTH_BATCH_SCALE="0.25"), contextlib.redirect_stderr(said):
            berth.fit_batch(sizes.append, start=64)()
            berth.fit_batch(sizes.append, start=64, least=32, report=False)()
        self.assertEqual(sizes, [16, 32])
        self.assertIn("starts with a batch of 16 instead of 64, because BERTH_BATCH_SCALE is set", said.getvalue())
        for wrong in ("half", "0", "2", "nan"):
            with mock.patch.dict(os.environ, BERTH_BATCH_SCALE=wrong), self.assertRaises(berth.InvalidRequest):
                berth.fit_batch(sizes.append, start=64)

    def test_each_object_has_its_own_size(self):
        class Trainer:
            def __init__(self, most):
                self.most, self.sizes = most, []

            @berth.fit_batch(start=128, report=False)
            def train(self, batch_size):
                self.sizes.append(batch_size)
                return Batches.fits(batch_size, self.most)
        small, large = Trainer(20), Trainer(200)
        self.assertEqual([small.train(), large.train(), small.train(), large.train(), Trainer(50).train()], [16, 128, 16, 128, 32])
        self.assertEqual((small.sizes, large.sizes), ([128, 64, 32, 16, 16], [128, 128]))
        kept, small = weakref.ref(small), None
        gc.collect()
        self.assertIsNone(kept(), "it is not kept alive")

    def test_a_size_of_the_functions_own_is_not_taken_for_one_that_fitted(self):
        class Trainer:
            batch_size = 7

            def __init__(self):
                self.batch_size = 7

            def __call__(self, size):
                return size
        again = berth.fit_batch(Trainer(), start=64)
        self.assertIsNone(again.batch_size)
        self.assertEqual((again(), again.batch_size), (64, 64))

    def test_what_is_no_function_is_said(self):
        for call, hint in ((lambda: berth.fit_batch(64), "berth.fit_batch(start=…)"), (lambda: berth.retry(3), "berth.retry(tries=…)"),
                           (lambda: berth.find_batch(5), "berth.find_batch(trial=…)")):
            with self.assertRaises(berth.InvalidRequest) as caught:
                call()
            self.assertEqual(caught.exception.hint, hint)
        for wrong in ({"first": -1}, {"jitter": "much"}, {"jitter": 5}, {"most": float("nan")}):
            self.assertRaises(berth.InvalidRequest, berth.retry(**wrong), print)

    def test_what_has_only_begun_is_refused(self):
        async def coroutine(batch_size):
            return batch_size
        for bad in (lambda size: self.generator(size), lambda size: coroutine(size)):
            with self.assertRaises(berth.InvalidRequest) as caught:
                berth.fit_batch(bad)()
            self.assertEqual(caught.exception.id, "E0569")

    def test_what_never_fits_and_what_is_wrong_is_said(self):
        @berth.fit_batch(start=8, least=2, report=False)
        def train(batch_size):
            raise RuntimeError("CUDA out of memory. Tried to allocate 1 GiB")
        with self.assertRaises(berth.DoesNotFit) as caught:
            train()
        self.assertIn("even with a batch of 2", str(caught.exception))
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

    def test_what_holds_a_batch_stays_what_it_is(self):
        class Encoding(collections.UserDict):  # a dict type like transformers' BatchEncoding
            def __init__(self, data=None, encodings=None):
                super().__init__(data)
                self._encodings = encodings

            def __getattr__(self, name):
                if name == "data":
                    raise AttributeError(name)
                return self.data[name]
        batch = Encoding({"input_ids": [[1], [2, 3], [4]], "labels": [0, 1, 0]}, ["a", "b", "c"])
        parts = list(berth.chunked(batch, 2))
        self.assertEqual([type(one) for one in parts], [Encoding, Encoding])
        self.assertEqual([(one.input_ids, one.labels, one._encodings) for one in parts], [([[1], [2, 3]], [0, 1], ["a", "b"]), ([[4]], [0], ["c"])])
        self.assertEqual(batch._encodings, ["a", "b", "c"])

        @dataclasses.dataclass(frozen=True)
        class Batch:
            x: list
            y: list
            train: bool = True
        self.assertEqual(list(berth.chunked(Batch([1, 2, 3], "abc", False), 2)), [Batch([1, 2], "abc", False), Batch([3], "abc", False)])
        ordered, made = collections.OrderedDict(x=[1, 2]), collections.defaultdict(list, x=[1, 2])
        self.assertEqual([type(part) for one in (ordered, made) for part in berth.chunked(one, 1)], [type(ordered)] * 2 + [type(made)] * 2)
        self.assertEqual(next(berth.chunked(made, 1)).default_factory, list)
        self.assertRaises(berth.InvalidRequest, berth.chunked, Batch([1, 2], [1]), 1)
        self.assertRaises(berth.InvalidRequest, berth.chunked, Batch, 1)

    def test_items_of_unequal_sizes_are_items(self):
        images, targets = [Array(3, 20, 20), Array(3, 30, 9), Array(3, 9, 9)], [{"boxes": Array(2, 4)}, {"boxes": Array(1, 4)}, {"boxes": Array(5, 4)}]
        for batch, parts in (
                ((images, targets), [(images[:2], targets[:2]), (images[2:], targets[2:])]),
                ((tuple(images), tuple(targets)), [(tuple(images[:2]), tuple(targets[:2])), (tuple(images[2:]), tuple(targets[2:]))]),
                ({"images": images, "targets": targets}, [{"images": images[:2], "targets": targets[:2]}, {"images": images[2:], "targets": targets[2:]}]),
                ({"images": images}, [{"images": images[:2]}, {"images": images[2:]}]),
                ([Array(5), Array(7), Array(6)], [[Array(5), Array(7)], [Array(6)]]),
                ([Array(48, 64, 3), Array(32, 48, 3)], [[Array(48, 64, 3), Array(32, 48, 3)]]),
                ([Array(3, 32, 32)] * 5, [[Array(3, 32, 32)] * 2, [Array(3, 32, 32)] * 2, [Array(3, 32, 32)]])):
            self.assertEqual(list(berth.chunked(batch, 2)), parts)

    def test_images_in_a_dict_are_items_however_many_they_are(self):
        for images in range(1, 6):
            for channels in (1, 3, 4):
                some = [Array(channels, 8, 8)] * images
                for batch in ({"images": some}, {"images": some, "y": list(range(images))}, (some, [{"boxes": Array(2, 4)}] * images)):
                    parts = list(berth.chunked(batch, 1))
                    self.assertEqual([part["images"] if isinstance(part, dict) else part[0] for part in parts], [[Array(channels, 8, 8)]] * images)

    def test_what_may_be_items_or_fields_is_refused_where_nothing_tells(self):
        clouds = [Array(100, 3)] * 4
        for batch in ({"clouds": clouds}, {"clouds": clouds, "mode": "train"}, {"bands": [Array(8, 4, 4)] * 4}):
            with self.assertRaises(berth.InvalidRequest) as caught:
                berth.chunked(batch, 2)
            self.assertIn("it is not clear whether an item is a tensor or a row", str(caught.exception))
        self.assertEqual(next(berth.chunked({"clouds": clouds, "y": Array(4)}, 2)), {"clouds": clouds[:2], "y": Array(2)})
        self.assertEqual(next(berth.chunked({"views": clouds, "y": Array(100)}, 2)), {"views": [Array(2, 3)] * 4, "y": Array(2)})

    def test_a_text_among_fields_belongs_to_all_items(self):
        for items in range(1, 8):
            for mode in ("train", b"train"):
                parts = list(berth.chunked({"x": list(range(items)), "mode": mode}, 2))
                self.assertEqual({part["mode"] for part in parts}, {mode})
        self.assertEqual(list(berth.chunked("abc", 2)), ["ab", "c"])

    def test_fields_side_by_side_are_fields(self):
        for batch, first in (
                ([Array(8, 3, 4, 4), Array(8)], [Array(2, 3, 4, 4), Array(2)]), ([Array(12, 6), Array(12, 1)], [Array(2, 6), Array(2, 1)]),
                (((Array(2, 5), Array(2, 5)), Array(2)), ((Array(2, 5), Array(2, 5)), Array(2))),
                ({"views": [Array(8, 3), Array(8, 5)], "y": Array(8)}, {"views": [Array(2, 3), Array(2, 5)], "y": Array(2)}),
                ([Array(4, 10, 8), Array(4, 12, 8)], [Array(2, 10, 8), Array(2, 12, 8)])):
            self.assertEqual(next(berth.chunked(batch, 2)), first)
        class Table(collections.UserDict):  # a type like TensorDict: a dict of fields that itself supports slices
            shape = (5,)

            def __getitem__(self, which):
                return [which] if isinstance(which, slice) else self.data[which]
        self.assertEqual(list(berth.chunked(Table(x=[1, 2]), 3)), [[slice(0, 3)], [slice(3, 6)]])
        for bad in ((Array(4, 2), Array(2, 1)), {"x": Array(3), "y": [1, 2]}, [Array(4, 2), Array(3, dtype="int64")]):
            self.assertRaises(berth.InvalidRequest, berth.chunked, bad, 2)


if __name__ == "__main__":
    unittest.main()
