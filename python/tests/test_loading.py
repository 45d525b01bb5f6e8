"""Batches by tokens and memory; and the choice of a DataLoader's options, with a real dataset if PyTorch is installed.

usage: test_loading.py
"""
import io
import contextlib
import multiprocessing
import os
import pathlib
import random
import sys
import time
import types
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import berth  # noqa: E402
from berth import loading  # noqa: E402

try:
    import torch
except ImportError:
    torch = None


class Sampler(unittest.TestCase):
    def test_every_item_is_in_one_batch_that_fits(self):
        for seed in range(100):
            chance = random.Random(seed)
            lengths = [chance.randint(1, 60) for _ in range(chance.randint(0, 200))]
            tokens, most = chance.randint(60, 400), chance.choice([None, 5])
            sampler = berth.DynamicBatchSampler(lengths, max_tokens=tokens, max_items=most, shuffle=chance.random() < 0.5, seed=seed)
            batches = list(sampler)
            self.assertEqual(len(sampler), len(batches))
            self.assertEqual(sorted(at for one in batches for at in one), list(range(len(lengths))))
            for one in batches:
                self.assertLessEqual(len(one) * max(lengths[at] for at in one), tokens)
                self.assertLessEqual(len(one), most or 1 << 30)
            self.assertEqual(batches, list(sampler), "the same again in the same epoch")
            self.assertLess(sampler.padding, 0.5)

    def test_ranks_have_as_many_batches_and_all_items(self):
        lengths = [random.Random(1).randint(1, 30) for _ in range(101)]
        for epoch in (0, 1):
            samplers = [berth.DynamicBatchSampler(lengths, max_tokens=64, rank=rank, ranks=3) for rank in range(3)]
            for one in samplers:
                one.set_epoch(epoch)
            batches = [list(one) for one in samplers]
            self.assertEqual(len({len(one) for one in batches}), 1)
            self.assertEqual({at for some in batches for one in some for at in one}, set(range(101)))
            other = batches
        one = berth.DynamicBatchSampler(lengths, max_tokens=64, rank=0, ranks=3)
        self.assertNotEqual(list(one), other[0], "another epoch has other batches")

    def test_by_a_model_of_memory(self):
        def memory(items, longest):
            return items * longest * longest * 4
        sampler = berth.DynamicBatchSampler([10, 20, 100, 30] * 9, memory=memory, budget="100KiB")
        for one in sampler:
            self.assertLessEqual(memory(len(one), max([10, 20, 100, 30][at % 4] for at in one)), 100 << 10)
        self.assertGreater(max(map(len, sampler)), 5)

    def test_bad_requests(self):
        for options in ({}, {"max_tokens": 0}, {"max_tokens": 9, "memory": max, "budget": 1}, {"memory": max}, {"max_tokens": 9, "ranks": 0},
                        {"max_tokens": 9, "rank": 2, "ranks": 2}, {"max_tokens": 9, "too_long": "x"}, {"max_tokens": 2}, {"max_tokens": 9, "max_items": 0},
                        {"memory": max, "budget": "8"}):
            with self.assertRaises(berth.InvalidRequest, msg=str(options)):
                berth.DynamicBatchSampler([3, 4], **options)
        self.assertEqual(berth.DynamicBatchSampler([3, 40], max_tokens=9, too_long="skip").skipped, [1])
        self.assertRaises(berth.InvalidRequest, berth.DynamicBatchSampler, 7, max_tokens=3)
        self.assertEqual(list(berth.DynamicBatchSampler([], max_tokens=3, ranks=2)), [])


class Cores(unittest.TestCase):
    def test_quota_and_affinity_are_seen(self):
        self.assertEqual(loading.usable_cores()[0] >= 1, True)
        host = {"host": {"cores_quota": 1.5, "cores_usable": 1}}
        with mock.patch.object(loading._library, "document", return_value=host), mock.patch.object(os, "sched_getaffinity", return_value=set(range(8))):
            self.assertEqual(loading.usable_cores(), (1, "a quota of 1.5 cores"))

    def test_prefetch_follows_shared_memory(self):
        for free, size, expected in ((None, 1 << 20, 2), (1 << 30, 1 << 10, 4), (1 << 30, 1 << 22, 2), (64 << 20, 16 << 20, 1)):
            options = loading.LoaderOptions(num_workers=4)
            said = loading._with_prefetch(options, size, free)
            self.assertEqual(options["prefetch_factor"], expected)
            self.assertEqual("--shm-size" in said, free == 64 << 20)
        self.assertEqual(loading._chosen({0: 10.0, 1: 10.2, 2: 20.0, 4: 20.5}, None), 2)
        self.assertEqual(loading._chosen({0: 10.0, 1: 10.2, 2: 20.0, 4: 20.5}, 0.2), 0)


class Failing:
    def __len__(self):
        return 9

    def __getitem__(self, at):
        if at or torch.utils.data.get_worker_info():
            raise RuntimeError("of the dataset's own")
        return torch.zeros(1)


@unittest.skipIf(torch is None, "no PyTorch")
class Loader(unittest.TestCase):
    class Slow:
        def __len__(self):
            return 37

        def __getitem__(self, at):
            time.sleep(0.004)
            return torch.zeros(10)

    @contextlib.contextmanager
    def with_cores(self, count):
        with mock.patch.object(os, "sched_getaffinity", return_value=set(range(count))), \
                mock.patch.object(loading._library, "document", side_effect=berth.BerthError("not here")):
            yield

    def test_what_waits_gets_workers_and_what_is_ready_none(self):
        with contextlib.redirect_stderr(io.StringIO()) as said, self.with_cores(4):
            slow = berth.dataloader_options(self.Slow(), batch_size=4, seconds=0.2)
            quick = berth.dataloader_options(torch.utils.data.TensorDataset(torch.zeros(100, 4)), batch_size=4, seconds=0.05)
        self.assertGreaterEqual(slow["num_workers"], 2)
        self.assertEqual(quick["num_workers"], 0)
        self.assertIn("the common rule (cores − 1) gives 3", said.getvalue())
        self.assertNotIn("batch_size", slow)
        loader = torch.utils.data.DataLoader(self.Slow(), batch_size=4, **slow)
        self.assertEqual(sum(len(one) for one in loader), 37)

    def test_what_is_drawn_afterwards_does_not_go_by_the_clock(self):
        class Augmented:
            def __len__(self):
                return 9

            def __getitem__(self, at):
                return torch.rand(3) + random.random() + (sys.modules["numpy"].random.rand() if "numpy" in sys.modules else 0)

        def drawn():
            return [torch.rand(1).item(), random.random(), sys.modules["numpy"].random.rand() if "numpy" in sys.modules else 0]
        berth.reproducible(1)
        without = drawn()
        berth.reproducible(1)
        berth.dataloader_options(Augmented(), batch_size=4, seconds=0.01, most=1, report=False)
        self.assertEqual(drawn(), without)

    def test_items_that_take_long_are_tried_one_by_one(self):
        loaded = multiprocessing.Value("i", 0)

        class Slower(self.Slow):
            def __getitem__(self, at):
                with loaded.get_lock():
                    loaded.value += 1
                return super().__getitem__(at)
        with self.with_cores(2):
            said = berth.dataloader_options(Slower(), batch_size=64, seconds=0.001, report=False)
        self.assertIn("batches/s of 64", said.report)
        # The trials with 0, 1 and 2 workers load few items, because items are slow. If each of the three trials loaded one batch of 64,
        # that would be 192 items.
        self.assertLess(loaded.value, 40)

    def test_a_dataset_that_no_worker_can_be_given_has_none(self):
        class Local(self.Slow):
            pass
        before = multiprocessing.get_start_method()
        multiprocessing.set_start_method("spawn", force=True)
        try:
            with self.with_cores(2):
                said = berth.dataloader_options(Local(), batch_size=4, seconds=0.01, report=False)
        finally:
            multiprocessing.set_start_method(before, force=True)
        self.assertEqual(said["num_workers"], 0)
        self.assertRegex(said.report, "no worker can be started: .*pickle.*Local")
        with self.with_cores(2), self.assertRaises(RuntimeError):  # an error that the dataset raises is not changed
            berth.dataloader_options(Failing(), batch_size=4, seconds=0.01, report=False)

    def test_what_is_tried_in_smaller_batches_is_told_of_whole_ones(self):
        class Items:
            def __len__(self):
                return 64

            def __getitem__(self, at):
                return torch.zeros(5)
        trials = loading._Trials(torch, Items(), 8, None, 0.01)
        trials.tried = 2
        clock = types.SimpleNamespace(perf_counter=iter((0.0, 0.0, 1.0, 1.0)).__next__)  # one batch of 2 in a second
        with mock.patch.object(loading, "time", clock):
            self.assertEqual(trials.rate(0), 0.25)
        self.assertEqual(trials.bytes, 8 * 5 * 4)

    def test_no_driver_is_called_for_it(self):
        asked = []
        with mock.patch.object(torch.cuda, "is_available", lambda: asked.append(os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK"))), self.with_cores(1):
            berth.dataloader_options([1, 2], seconds=0.001, report=False)
        self.assertEqual((asked, "PYTORCH_NVML_BASED_CUDA_CHECK" in os.environ), (["1"], False))

    def test_bad_requests(self):
        class Streamed(torch.utils.data.IterableDataset):
            def __len__(self):
                return 3

            def __iter__(self):
                return iter((1, 2, 3))
        for dataset, size in ((iter([1]), 4), ([], 4), ([1], 0), (Streamed(), 1), ({"a": 1}, 1), ({1, 2}, 1)):
            self.assertRaises(berth.InvalidRequest, berth.dataloader_options, dataset, batch_size=size)


if __name__ == "__main__":
    unittest.main()
