"""Steps in parts give the same result as steps with the whole batch: gradients, optimizer, random numbers.

usage: test_steps.py     (77: no PyTorch here)
"""
import copy
import importlib.util
import random
import sys
import unittest
import warnings

from with_torch import torch

import berth
from berth import splittable

OOM = "CUDA out of memory. Tried to allocate 2.00 GiB"
F = torch.nn.functional
torch.set_num_threads(1)


def sequence_model(chance):
    """A model for tokens, and sequences of unequal lengths, padded with label -100."""
    width, words = chance.choice([8, 16, 24]), 50
    model = torch.nn.Sequential(torch.nn.Embedding(words, width), *[layer for _ in range(chance.randint(1, 3)) for layer in
                                (torch.nn.Linear(width, width), chance.choice([torch.nn.GELU(), torch.nn.Tanh()]), torch.nn.LayerNorm(width))],
                                torch.nn.Linear(width, words))
    size, longest = chance.randint(2, 17), chance.randint(3, 20)
    labels = torch.randint(0, words, (size, longest))
    for at in range(size):
        labels[at, chance.randint(0, longest):] = -100
    labels[0, 0] = 1
    batch = {"x": torch.randint(0, words, (size, longest)), "labels": labels}

    def loss(model, part):
        return F.cross_entropy(model(part["x"]).flatten(0, 1), part["labels"].flatten(), ignore_index=-100)
    return model, loss, batch, lambda part: (part["labels"] != -100).sum()


def plain_model(chance):
    wide = chance.choice([5, 12, 31])
    model = torch.nn.Sequential(torch.nn.Linear(wide, 16), chance.choice([torch.nn.ReLU(), torch.nn.SiLU()]), torch.nn.GroupNorm(4, 16),
                                torch.nn.Linear(16, 3))
    size = chance.randint(1, 40)
    batch = (torch.randn(size, wide), torch.randn(size, 3))
    return model, lambda model, part: F.mse_loss(model(part[0]), part[1]), batch, None


def optimizers(model, chance):
    make = chance.choice([lambda some: torch.optim.SGD(some, 0.1, momentum=0.9), lambda some: torch.optim.Adam(some, 1e-2),
                          lambda some: torch.optim.AdamW(some, 1e-2)])
    return make(model.parameters())


def flat(tensors):
    return torch.cat([one.detach().flatten().double() for one in tensors])


def relative(one, other):
    return float((one - other).norm() / other.norm().clamp_min(1e-30))


def rounding(model, loss, batch):
    """The error of the whole batch's gradients in fp32 compared with fp64. A step in parts cannot be more exact."""
    exact = copy.deepcopy(model).double()
    exact.zero_grad()
    fields = batch.items() if isinstance(batch, dict) else enumerate(batch)
    double = {key: one.double() if one.is_floating_point() else one for key, one in fields}
    loss(exact, double).backward()
    return relative(flat(one.grad for one in model.parameters()), flat(one.grad for one in exact.parameters()))


class Gradients(unittest.TestCase):
    def test_parts_add_up_to_the_whole_over_200_models(self):
        worst, worst_state = 0.0, 0.0
        for seed in range(200):
            chance = random.Random(seed)
            torch.manual_seed(seed)
            model, loss, batch, count = chance.choice([sequence_model, plain_model])(chance)
            other = copy.deepcopy(model)
            whole, split = optimizers(model, random.Random(seed)), optimizers(other, random.Random(seed))
            clip = chance.choice([None, 0.1])
            for _ in range(2):
                whole.zero_grad()
                value = loss(model, batch)
                value.backward()
                own = rounding(model, loss, batch)
                if clip:
                    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
                random_before = torch.get_rng_state()
                done = berth.split_step(other, loss, split, batch, parts=chance.randint(1, 7), count=count, clip_norm=clip)
                self.assertTrue(torch.equal(random_before, torch.get_rng_state()))
                found = relative(flat(one.grad for one in other.parameters()), flat(one.grad for one in model.parameters()))
                self.assertLess(found, 1e-6 + 4 * own)
                worst = max(worst, found)
                self.assertAlmostEqual(done.loss, value.item(), places=5)
                if clip:
                    self.assertAlmostEqual(done.norm, float(norm), delta=1e-5 * float(norm))
                whole.step()
                # Compare the optimizer states. After that, both models get the same state, so that rounding of the first step does not affect the
                # second.
                one, two = (optimizer.state_dict()["state"] for optimizer in (split, whole))
                for key in two:
                    for name, held in two[key].items():
                        if torch.is_tensor(held) and held.dim():
                            found = relative(flat([one[key][name]]), flat([held]))
                            self.assertLess(found, 4e-6 + 16 * own, "Adam holds squares, whose rounding is twice as large")
                            worst_state = max(worst_state, found)
                        else:
                            self.assertEqual(one[key][name], held)
                other.load_state_dict(model.state_dict())
                split.load_state_dict(copy.deepcopy(whole.state_dict()))
        print(f"largest difference of gradients {worst:.2e}, of optimizer state {worst_state:.2e}", file=sys.stderr)

    def test_a_loop_of_ones_own(self):
        for reduction in ("mean", "sum"):
            torch.manual_seed(1)
            model, loss, batch, count = sequence_model(random.Random(5))
            F.cross_entropy(model(batch["x"]).flatten(0, 1), batch["labels"].flatten(), reduction=reduction).backward()
            whole = flat(one.grad for one in model.parameters())
            model.zero_grad()
            for part in berth.accumulate(batch, 3, count=count):
                with part:
                    if part.items:
                        said = F.cross_entropy(model(part.data["x"]).flatten(0, 1), part.data["labels"].flatten(), reduction=reduction)
                        part.share(said, reduction).backward()
            self.assertLess(relative(flat(one.grad for one in model.parameters()), whole), 1e-6)

    def test_a_part_of_padding_alone_adds_nothing(self):
        model = torch.nn.Linear(3, 1)
        x, mask = torch.randn(6, 3), torch.tensor([1.0, 1, 0, 0, 1, 0])

        def mean(part):
            return (model(part["x"]).squeeze(1) * part["mask"]).sum() / part["mask"].sum()
        whole = torch.autograd.grad(mean({"x": x, "mask": mask}), list(model.parameters()))
        parts = berth.accumulate({"x": x, "mask": mask}, 3, count=lambda part: part["mask"].sum())
        for part in parts:
            with part:
                part.share(mean(part.data)).backward()
        self.assertEqual([(part.items, part.at, part.of, part.last) for part in parts], [(2, 0, 2, False), (1, 1, 2, True)])
        self.assertLess(relative(flat(one.grad for one in model.parameters()), flat(whole)), 1e-6)

    def test_what_belongs_to_all_items_is_in_every_part(self):
        model = torch.nn.Linear(3, 1)
        batch = (torch.randn(5, 3), None, [1.0, 2.0, 3.0, 4.0, 5.0], torch.tensor(2.0))

        def loss(model, part):
            self.assertIsNone(part[1])
            return (model(part[0]).squeeze(1) * torch.tensor(part[2]) * part[3]).mean()
        whole = loss(model, batch)
        self.assertAlmostEqual(berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.0), batch, parts=3).loss, whole.item(), places=5)

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "no transformers")
    def test_a_batch_of_transformers(self):
        from transformers.tokenization_utils_base import BatchEncoding
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Embedding(50, 8), torch.nn.Linear(8, 50))
        batch = BatchEncoding({"input_ids": torch.randint(0, 50, (7, 5)), "labels": torch.randint(0, 50, (7, 5))})
        seen = []

        def loss(model, part):
            seen.append((type(part), len(part.to("cpu").input_ids)))
            return F.cross_entropy(model(part.input_ids).flatten(0, 1), part["labels"].flatten())
        whole = torch.autograd.grad(loss(model, batch), list(model.parameters()))
        seen.clear()
        berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.0), batch, parts=3, in_batch="allow")
        self.assertEqual(seen, [(BatchEncoding, 2), (BatchEncoding, 2), (BatchEncoding, 3)])
        self.assertLess(relative(flat(one.grad for one in model.parameters()), flat(whole)), 1e-6)

    def test_images_of_unequal_sizes(self):
        torch.manual_seed(1)
        model, sizes = torch.nn.Conv2d(3, 2, 3), [(20, 20), (30, 20), (9, 9), (12, 30), (7, 8)]
        images, targets = [torch.randn(3, *size) for size in sizes], [{"label": torch.tensor(at % 2)} for at in range(5)]

        def loss(model, part):
            said = torch.stack([model(image).mean((1, 2)) for image in part[0]])
            return F.cross_entropy(said, torch.stack([one["label"] for one in part[1]]))
        for batch in ((images, targets), (tuple(images), tuple(targets)), [images, targets]):
            whole = torch.autograd.grad(loss(model, batch), list(model.parameters()))
            done = berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.0), tuple(batch), parts=3)
            self.assertEqual((done.parts, done.items), (3, 5))
            self.assertLess(relative(flat(one.grad for one in model.parameters()), flat(whole)), 1e-6)

    def test_autocast_may_be_around_it(self):
        torch.manual_seed(1)
        model, batch = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)), (torch.randn(12, 6), torch.randn(12, 1))

        def loss(model, part):
            return F.mse_loss(model(part[0]).float(), part[1])
        other = copy.deepcopy(model)
        for _ in range(2):  # the second step starts from the weights of the first one
            with torch.autocast("cpu", dtype=torch.bfloat16):
                optimizer = torch.optim.SGD(other.parameters(), 0.1)
                optimizer.zero_grad()
                loss(other, batch).backward()
            optimizer.step()
        whole = flat(other.parameters())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for _ in range(2):
                berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.1), batch, parts=3)
        self.assertTrue(all(one.grad is not None for one in model.parameters()))
        self.assertLess(relative(flat(model.parameters()), whole), 1e-2)

    def test_the_scaler_and_clipping_are_used_once(self):
        class Scaler:
            def __init__(self):
                self.calls = []

            def scale(self, loss):
                self.calls.append("scale")
                return loss * 8

            def unscale_(self, optimizer):
                self.calls.append("unscale")
                for group in optimizer.param_groups:
                    for one in group["params"]:
                        one.grad /= 8

            def step(self, optimizer):
                self.calls.append("step")
                optimizer.step()

            def update(self):
                self.calls.append("update")

            def get_scale(self):
                return 8.0
        torch.manual_seed(1)
        model, loss, batch, _ = plain_model(random.Random(2))
        other, scaler = copy.deepcopy(model), Scaler()
        one = berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.1), batch, parts=3, clip_norm=0.1)
        two = berth.split_step(other, loss, torch.optim.SGD(other.parameters(), 0.1), batch, parts=3, clip_norm=0.1, scaler=scaler)
        self.assertEqual(scaler.calls[-6:], ["scale"] * 3 + ["unscale", "step", "update"])
        self.assertEqual(set(scaler.calls[:-6]), {"scale"}, "by the comparison of gradients, whose size does not count")
        self.assertAlmostEqual(one.norm, two.norm, places=5)
        self.assertLess(relative(flat(other.parameters()), flat(model.parameters())), 1e-6)

    @unittest.skipUnless(hasattr(torch.amp, "GradScaler"), "PyTorch before 2.3 has a scaler for CUDA alone")
    def test_a_scaler_that_is_enabled(self):
        torch.manual_seed(1)
        model, loss, batch, _ = plain_model(random.Random(2))
        other, scaler = copy.deepcopy(model), torch.amp.GradScaler("cpu", init_scale=1024.0)
        one = berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.1), batch, parts=3, clip_norm=0.1)
        two = berth.split_step(other, loss, torch.optim.SGD(other.parameters(), 0.1), batch, parts=3, clip_norm=0.1, scaler=scaler)
        self.assertTrue(two.stepped)
        self.assertAlmostEqual(one.norm, two.norm, places=5)
        self.assertLess(relative(flat(other.parameters()), flat(model.parameters())), 1e-6)
        before, scaler = flat(other.parameters()), torch.amp.GradScaler("cpu", init_scale=2.0 ** 127)
        three = berth.split_step(other, lambda model, part: 1e6 * loss(model, part), torch.optim.SGD(other.parameters(), 0.1), batch, parts=3, scaler=scaler)
        self.assertFalse(three.stepped)
        self.assertEqual(scaler.get_scale(), 2.0 ** 126)
        self.assertTrue(torch.equal(flat(other.parameters()), before))


looking = []  # has entries while Berth compares a loss or its gradients with those of parts


def noted(before):
    def compared(*args):
        looking.append(1)
        try:
            return before(*args)
        finally:
            looking.pop()
    return compared


splittable.compared, splittable.compared_gradients = noted(splittable.compared), noted(splittable.compared_gradients)


class Failing:
    """A loss that draws random numbers, writes buffers, and then runs out of memory above a size."""

    def __init__(self, loss, most):
        self.loss, self.most, self.sizes = loss, most, []

    def __call__(self, model, part):
        size = len(part[0])
        if not looking:
            self.sizes.append(size)
        said = self.loss(model, part)
        if size > self.most:
            raise RuntimeError(OOM)
        return said


class Recovery(unittest.TestCase):
    def model(self):
        torch.manual_seed(2)
        return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.4), torch.nn.Linear(8, 1)), (torch.randn(12, 6), torch.randn(12, 1))

    @staticmethod
    def loss(model, part):
        return F.mse_loss(model(part[0]), part[1])

    def test_a_step_after_a_failure_is_as_if_it_had_begun_with_those_parts(self):
        model, batch = self.model()
        other = copy.deepcopy(model)
        torch.manual_seed(9)
        expected = berth.split_step(other, self.loss, torch.optim.Adam(other.parameters()), batch, parts=4)
        after = torch.get_rng_state()
        torch.manual_seed(9)
        failing, steps = Failing(self.loss, 3), []
        optimizer = torch.optim.Adam(model.parameters())
        step, optimizer.step = optimizer.step, lambda: (steps.append(1), step())
        done = berth.split_step(model, failing, optimizer, batch, report=False)
        self.assertEqual((done.parts, done.tries, len(steps)), (4, 3, 1))
        self.assertEqual(done.loss, expected.loss)
        self.assertTrue(torch.equal(after, torch.get_rng_state()))
        self.assertTrue(torch.equal(flat(model.parameters()), flat(other.parameters())))
        failing.sizes.clear()
        self.assertEqual(berth.split_step(model, failing, optimizer, batch, report=False).tries, 1, "the size that fitted is kept")
        self.assertEqual(failing.sizes, [3] * 4)

    def test_parts_get_smaller_only_where_memory_runs_out(self):
        chance, model, failing = random.Random(0), torch.nn.Linear(6, 1), Failing(self.loss, 40)
        optimizer, largest = torch.optim.SGD(model.parameters(), 0.0), []
        for items in (64, *(chance.randint(10, 80) for _ in range(100)), 64, 33, 64, 80):
            done = berth.split_step(model, failing, optimizer, (torch.randn(items, 6), torch.randn(items, 1)), in_batch="allow", report=False)
            largest.append((items, done.parts))
        self.assertTrue(all(-(-items // 40) <= parts <= -(-items // 32) for items, parts in largest), largest)
        given = torch.nn.Linear(6, 1)
        for parts, made in ((64, 64), (None, 1)):
            done = berth.split_step(given, self.loss, torch.optim.SGD(given.parameters(), 0.0), (torch.randn(64, 6), torch.randn(64, 1)), parts=parts)
            self.assertEqual(done.parts, made)

    def test_gradients_of_others_parameters_are_of_this_step_alone(self):
        """The parameters of another optimizer keep their earlier gradients. The gradients of this step are added, but not those of a failed try."""
        class Fails(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                raise RuntimeError(OOM)

        def loss(model, part, most):
            return F.mse_loss(model[2](torch.tanh(model[0](part[0] if len(part[0]) <= most else Fails.apply(part[0].requires_grad_())))), part[1])
        model, batch = self.model()
        whole = torch.autograd.grad(loss(model, batch, 12), list(model.parameters()))
        for before in (None, 1.0):
            for most in (12, 4, 0):
                model.zero_grad(set_to_none=True)
                if before:
                    model[0].weight.grad = torch.ones_like(model[0].weight)
                optimizer = torch.optim.SGD(model[2].parameters(), 0.0)
                if most:
                    berth.split_step(model, lambda model, part: loss(model, part, most), optimizer, batch, report=False)
                    expected = whole[0] + (before or 0.0)
                    self.assertLess(relative(flat([model[0].weight.grad]), flat([expected])), 1e-6)
                else:
                    self.assertRaises(berth.DoesNotFit, berth.split_step, model, lambda model, part: loss(model, part, 0), optimizer, batch, report=False)
                    self.assertIsNone(model[0].bias.grad)
                    self.assertEqual(model[0].weight.grad is None, before is None)
                    if before:
                        self.assertTrue(torch.equal(model[0].weight.grad, torch.ones_like(model[0].weight)))

    def test_one_item_that_does_not_fit_is_said(self):
        model, batch = self.model()
        before = flat(model.parameters()).clone()
        with self.assertRaises(berth.DoesNotFit) as caught:
            berth.split_step(model, Failing(self.loss, 0), torch.optim.Adam(model.parameters()), batch, report=False)
        self.assertEqual(caught.exception.id, "E0562")
        self.assertIs(type(caught.exception.__cause__), RuntimeError)
        self.assertTrue(torch.equal(before, flat(model.parameters())))
        self.assertTrue(all(one.grad is None for one in model.parameters()))

    def fails_to_step(self, model):
        """Returns an optimizer whose step runs out of memory, and a list that gets an entry for each step."""
        optimizer, steps = torch.optim.Adam(model.parameters()), []

        def step():
            steps.append(1)
            raise RuntimeError(OOM)
        optimizer.step = step
        return optimizer, steps

    def test_a_step_that_was_begun_is_never_made_again(self):
        model, batch = self.model()
        optimizer, steps = self.fails_to_step(model)
        with self.assertRaises(berth.StepInterrupted) as caught:
            berth.split_step(model, self.loss, optimizer, batch)
        self.assertEqual((len(steps), caught.exception.id), (1, "E0563"))

    def test_nor_is_it_by_what_is_around_it(self):
        model, batch = self.model()
        optimizer, steps = self.fails_to_step(model)
        for around in (berth.retry(first=0.0, report=False), berth.fit_batch(start=8, report=False)):
            steps.clear()
            with self.assertRaises(berth.StepInterrupted):
                around(lambda size=12: berth.split_step(model, self.loss, optimizer, tuple(one[:size] for one in batch)))()
            self.assertEqual(len(steps), 1)

    def test_other_errors_leave_no_half_gradients(self):
        model, batch = self.model()
        for problem, kind in ((KeyError("x"), KeyError), (KeyboardInterrupt(), KeyboardInterrupt),
                              (RuntimeError("CUDA error: device-side assert triggered"), berth.ContextLost)):
            calls = []

            def loss(model, part):
                calls.append(1)
                if len(calls) == 2:
                    raise problem
                return self.loss(model, part)
            with self.assertRaises(kind):
                berth.split_step(model, loss, torch.optim.Adam(model.parameters()), batch, parts=3, in_batch="allow")
            self.assertEqual(len(calls), 2)
            self.assertTrue(all(one.grad is None for one in model.parameters()))

    def test_buffers_made_in_inference_mode_are_left_alone(self):
        model = torch.nn.Linear(4, 1)
        with torch.inference_mode():
            model.register_buffer("table", torch.ones(600, 600))
            model.register_buffer("scale", torch.ones(1))
        optimizer, failing = torch.optim.SGD(model.parameters(), 0.1), [RuntimeError(OOM)]

        def loss(model, part):
            if failing:
                raise failing.pop()
            return (model(part) * float(model.scale)).pow(2).mean()
        self.assertEqual(berth.split_step(model, loss, optimizer, torch.randn(8, 4), report=False).parts, 2)

    def test_buffers_are_put_back(self):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
        other, batch = copy.deepcopy(model), (torch.randn(12, 6), torch.randn(12, 1))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            done = berth.split_step(model, Failing(self.loss, 6), torch.optim.SGD(model.parameters(), 0.1), batch, batch_norm="warn", report=False)
        self.assertIn("1 (BatchNorm1d)", str(said[0].message))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            berth.split_step(other, self.loss, torch.optim.SGD(other.parameters(), 0.1), batch, parts=2, batch_norm="warn")
        self.assertEqual(done.parts, 2)
        for one, two in zip(model.buffers(), other.buffers()):
            self.assertTrue(torch.equal(one, two))

        class Writes(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("memory", torch.zeros(1 << 19))
                self.line = torch.nn.Linear(6, 1)

            def forward(self, x):
                self.memory.add_(1)
                return self.line(x)
        model = Writes()
        with self.assertRaises(berth.StepInterrupted) as caught:
            berth.split_step(model, Failing(self.loss, 6), torch.optim.SGD(model.parameters(), 0.1), batch, report=False)
        self.assertIn("memory", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
