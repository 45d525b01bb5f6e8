"""Behaviour that only a real GPU shows: CUDA memory that runs out during training, random numbers, mixed precision.

usage: test_on_gpu.py     (77: no PyTorch with a GPU here; ./dev gpu runs it)
"""
import copy
import pathlib
import sys
import unittest

from skipping import skip

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
try:
    import torch
except ImportError:
    torch = None
if torch is None or not torch.cuda.is_available():
    skip("no PyTorch with a GPU here")

import berth  # noqa: E402

GPU = torch.device("cuda", 0)
LIMIT = 2 << 30


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(256, 8192), torch.nn.ReLU(), torch.nn.Linear(8192, 8192), torch.nn.ReLU(), torch.nn.Linear(8192, 1)).to(GPU)


def loss_fn(model, part):
    return torch.nn.functional.mse_loss(model(part[0]), part[1])


class OnGpu(unittest.TestCase):
    def setUp(self):
        berth.release_memory()
        torch.cuda.set_per_process_memory_fraction(min(1.0, LIMIT / torch.cuda.get_device_properties(0).total_memory), 0)

    def tearDown(self):
        torch.cuda.set_per_process_memory_fraction(1.0, 0)

    def curve(self, batch, **options):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        done = [berth.split_step(model, loss_fn, optimizer, batch, report=False, **options) for _ in range(5)]
        return [one.loss for one in done], done[0], torch.cat([one.detach().flatten() for one in model.parameters()])

    def test_training_goes_on_with_the_same_curve(self):
        torch.manual_seed(2)
        batch = (torch.randn(32768, 256, device=GPU), torch.randn(32768, 1, device=GPU))
        with self.assertRaises(Exception) as caught:
            loss_fn(network(), batch).backward()
        self.assertTrue(berth.is_oom(caught.exception), caught.exception)
        del caught
        berth.release_memory()
        losses, first, weights = self.curve(batch)
        self.assertGreater(first.tries, 1)
        again, _, other = self.curve(batch, parts=first.parts)
        self.assertTrue(berth.compare_outputs(losses, again, rtol=1e-5), (losses, again))
        self.assertTrue(berth.compare_outputs(weights, other, rtol=1e-4, atol=1e-6))

    def test_a_failed_try_keeps_nothing(self):
        before = torch.cuda.memory_allocated()

        @berth.retry(tries=2, first=0.0, report=False)
        def step():
            held.append(torch.cuda.memory_allocated())
            kept = torch.empty(1 << 28, dtype=torch.uint8, device=GPU)
            torch.empty(1 << 40, dtype=torch.uint8, device=GPU)
            return kept
        held = []
        with self.assertRaises(RuntimeError):
            step()
        self.assertEqual(held, [before, before])

    def test_random_numbers_of_the_gpu_are_put_back(self):
        drawn = []

        @berth.retry(first=0.0, report=False)
        def step():
            drawn.append(torch.rand(4, device=GPU).tolist())
            if len(drawn) < 3:
                torch.empty(1 << 42, dtype=torch.uint8, device=GPU)
        step()
        self.assertEqual(drawn[0], drawn[1])
        self.assertEqual(drawn[0], drawn[2])

    def test_the_batch_that_is_found_survives(self):
        def trial(size):
            model = network()
            optimizer = torch.optim.Adam(model.parameters())
            for _ in range(3):
                optimizer.zero_grad()
                loss_fn(model, (torch.randn(size, 256, device=GPU), torch.randn(size, 1, device=GPU))).backward()
                optimizer.step()
        found = berth.find_batch(trial, start=1024, most=65536)
        trial(found)
        trial(found)

    def test_mixed_precision_trains(self):
        batch = (torch.randn(512, 256, device=GPU), torch.randn(512, 1, device=GPU))
        for precision in ("auto", "fp16"):
            model = network()
            optimizer = torch.optim.SGD(model.parameters(), 1e-3)
            mixed = berth.torch.amp(model, optimizer, precision)

            def loss(model, part):
                with mixed.autocast():
                    return torch.nn.functional.mse_loss(model(part[0]).float(), part[1])
            before = copy.deepcopy(model.state_dict())
            stepped = [berth.split_step(model, loss, optimizer, batch, parts=2, scaler=mixed.scaler, clip_norm=1.0).stepped for _ in range(20)]
            self.assertTrue(any(stepped), precision)
            self.assertTrue(all(bool(torch.isfinite(one).all()) for one in model.parameters()))
            self.assertFalse(torch.equal(before["0.weight"], model.state_dict()["0.weight"]))

    def test_memory_is_told_apart(self):
        held = torch.empty(1 << 28, dtype=torch.uint8, device=GPU)
        self.assertTrue(any((row.in_use or 0) >= held.numel() for row in berth.memory_summary()))


if __name__ == "__main__":
    unittest.main()
