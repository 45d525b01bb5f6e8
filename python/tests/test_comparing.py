"""Tests the comparison of losses: with losses that are equal or differ only in training mode. The comparison must not change the model's state.

usage: test_comparing.py     (77: no PyTorch here)
"""
import copy
import random
import unittest
import warnings

from with_torch import torch

import berth
import test_steps

nn, F = torch.nn, torch.nn.functional


class OwnNorm(nn.Module):
    """A normalisation layer as in the book d2l.ai: in training (if gradients are enabled) it uses the batch's statistics, and keeps running ones in plain
    attributes."""

    def __init__(self, wide):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(wide)), nn.Parameter(torch.zeros(wide))
        self.mean, self.var = torch.zeros(wide), torch.ones(wide)

    def forward(self, x):
        if not torch.is_grad_enabled():
            return self.gamma * (x - self.mean) / torch.sqrt(self.var + 1e-5) + self.beta
        mean, var = x.mean(0), x.var(0, unbiased=False)
        self.mean, self.var = 0.9 * self.mean + 0.1 * mean.detach(), 0.9 * self.var + 0.1 * var.detach()
        return self.gamma * (x - mean) / torch.sqrt(var + 1e-5) + self.beta


class Buffered(nn.Module):
    def __init__(self, large=False):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1 << 19 if large else 8))

    def forward(self, x):
        if not self.training:
            return x - self.seen[:8]
        mean = x.mean(0)
        self.seen[:8].mul_(0.9).add_(0.1 * mean.detach())
        return x - mean


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.passes += 1
        return x


class Cached(nn.Module):
    """A module with a buffer that the first forward pass fills, like that of rotary embeddings."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", None)
        self.register_buffer("table", torch.zeros(0))
        self.seen = 0

    def forward(self, x):
        self.seen += 1
        self.last = x
        if not len(self.table):
            self.table = torch.ones(8)
        return x * self.table


class Training(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.batch = torch.randn(16, 8), torch.randn(16, 2)

    def model(self, layer):
        return nn.Sequential(nn.Linear(8, 8), layer, nn.Linear(8, 2))

    def step(self, model, loss=test_steps.Recovery.loss, batch=None, **options):
        return berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.0), batch or self.batch, **{"parts": 4, **options})

    def refused(self, *args, **options):
        with self.assertRaises(berth.NotSplittable) as caught:
            self.step(*args, **options)
        return str(caught.exception)

    def test_noise_for_each_item_is_no_reason_to_refuse(self):
        model = torch.nn.Sequential(torch.nn.Linear(7, 16), torch.nn.SiLU(), torch.nn.Linear(16, 6))

        def loss(model, x):
            time, noise = torch.rand(len(x), 1), torch.randn_like(x)
            return torch.nn.functional.mse_loss(model(torch.cat([x + time * noise, time], 1)), noise)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.1), torch.randn(64, 6), parts=4)
        self.assertEqual([one.category.__name__ for one in said], ["SplitWarning"])
        self.assertIn("draws random numbers per item", str(said[0].message))

    def test_a_batch_normalisation_of_ones_own_is_found(self):
        for layer in (OwnNorm(8), Buffered(), Buffered(large=True), nn.Sequential(nn.Dropout(0.5), OwnNorm(8))):
            model = self.model(layer)
            before, held = copy.deepcopy(model.state_dict()), dict(vars(model[1]))
            self.refused(model)
            self.assertTrue(all(torch.equal(one, before[name]) for name, one in model.state_dict().items()))
            self.assertTrue(all(one is held[name] for name, one in vars(model[1]).items()), "what the check wrote is gone")
            self.assertTrue(model.training and model[1].training)
        self.assertIn("in training", self.refused(self.model(OwnNorm(8))))
        for layer in (OwnNorm(8), Buffered()):
            with self.assertWarns(berth.SplitWarning):
                self.step(self.model(layer), in_batch="warn", batch_norm="allow")

    def test_what_pairs_items_in_training_is_found(self):
        def mixed(model, part):
            x, y = part
            if model.training:
                x, y = 0.5 * (x + x.flip(0)), 0.5 * (y + y.flip(0))
            return F.mse_loss(model(x), y)
        self.assertIn("in training", self.refused(self.model(nn.Tanh()), mixed))
        self.refused(self.model(nn.Dropout(0.5)), mixed)

    def test_a_loss_that_only_training_has_is_looked_at(self):
        class Detector(nn.Module):
            def __init__(self):
                super().__init__()
                self.line = nn.Linear(8, 2)

            def forward(self, x, y):
                said = self.line(x)
                return {"loss": F.mse_loss(said, y) + self.more * (said.mean(0) ** 2).sum()} if self.training else said
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for more in (0.0, 3.0):
                model = Detector()
                model.more = more
                if more:
                    self.refused(model, lambda model, part: model(*part)["loss"])
                else:
                    self.step(model, lambda model, part: model(*part)["loss"])

    def test_what_each_pass_writes_is_named(self):
        self.assertIn("1.passes", self.refused(self.model(Counting())))
        with self.assertWarns(berth.SplitWarning):
            self.step(self.model(Counting()), batch_norm="warn")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.step(self.model(Counting()), batch_norm="allow")
            for parts in (2, 4):
                model = self.model(Cached())
                self.assertEqual(self.step(model, parts=parts).parts, parts)
                self.assertEqual(model[1].seen, parts, "the check's passes are not counted")

    def test_random_numbers_do_not_stand_against_it(self):
        own = torch.Generator().manual_seed(1)
        noises = (lambda x: F.dropout(x, 0.5, model.training), lambda x: x + torch.randn(x.shape, generator=own),
                  lambda x: x * random.random(), lambda x: x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for noise in noises:
                model = self.model(nn.Dropout(0.3))
                before = random.getstate(), torch.get_rng_state()
                self.step(model, lambda model, part: F.mse_loss(model(noise(part[0]) if model.training else part[0]), part[1]), parts=1)
                random.setstate(before[0])
                torch.set_rng_state(before[1])
                self.step(model, lambda model, part: F.mse_loss(model(noise(part[0]) if model.training else part[0]), part[1]), parts=2)

    def test_a_gradient_in_the_loss_is_looked_at_too(self):
        def penalty(model, part):
            x = part[0].clone().requires_grad_()
            said = model(x)
            slope, = torch.autograd.grad(said.sum(), x, create_graph=True)
            return F.mse_loss(said, part[1]) + slope.pow(2).sum(1).mean()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.step(self.model(nn.Tanh()), penalty)
        self.refused(self.model(nn.Tanh()), lambda model, part: penalty(model, part).sqrt())

    def test_what_is_no_lack_of_memory_is_raised_and_not_warned_of(self):
        def wrong(model, part):
            raise KeyError("labels")
        bad = [(KeyError, wrong, {}), (berth.InvalidRequest, test_steps.Recovery.loss, {"count": lambda part: -1}),
               (berth.InvalidRequest, lambda model, part: {"loss": model(part[0]).mean()}, {}),
               (berth.InvalidRequest, lambda model, part: F.mse_loss(model(part[0]), part[1], reduction="none"), {})]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for kind, loss, options in bad:
                self.assertRaises(kind, self.step, self.model(nn.Tanh()), loss, **options)
            with self.assertRaises(berth.InvalidRequest) as caught:
                self.step(self.model(nn.Tanh()), reduction="none")
        self.assertIn("not one of mean, sum", str(caught.exception))


class Hooks(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.batch = torch.randn(16, 8), torch.randn(16, 2)
        self.model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))

    def step(self, loss=test_steps.Recovery.loss, rate=0.0, **options):
        return berth.split_step(self.model, loss, torch.optim.SGD(self.model.parameters(), rate), self.batch, report=False, **options)

    def test_hooks_on_parameters_see_the_whole_once(self):
        calls = []

        def clipped(gradient):
            calls.append(torch.is_grad_enabled())
            return gradient.clamp(-0.01, 0.01)
        for one in self.model.parameters():
            one.register_hook(clipped)
        self.model[0].weight.register_hook(lambda gradient: None)
        test_steps.Recovery.loss(self.model, self.batch).backward()
        whole = [one.grad.clone() for one in self.model.parameters()]
        calls.clear()
        for options in ({"parts": 4}, {"parts": 1}, {"loss": test_steps.Failing(test_steps.Recovery.loss, 4)}):
            self.step(**options)
            for one, expected in zip(self.model.parameters(), whole):
                self.assertLess(test_steps.relative(one.grad, expected), 1e-6)
            self.assertEqual(calls, [False] * 4)
            calls.clear()
        self.model.zero_grad()
        test_steps.Recovery.loss(self.model, self.batch).backward()
        self.assertEqual(len(calls), 4, "they are there again")

    @unittest.skipUnless(hasattr(torch.Tensor, "register_post_accumulate_grad_hook"), "PyTorch 2.1")
    def test_an_optimizer_in_the_backward_pass_steps_once(self):
        other, steps = copy.deepcopy(self.model), []
        optimizers = {one: torch.optim.SGD([one], 0.1) for one in self.model.parameters()}

        def step(parameter):
            steps.append(1)
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()
        for one in self.model.parameters():
            one.register_post_accumulate_grad_hook(step)
        test_steps.Recovery.loss(other, self.batch).backward()
        torch.optim.SGD(other.parameters(), 0.1).step()
        self.step(test_steps.Failing(test_steps.Recovery.loss, 4))
        self.assertEqual(len(steps), 4)
        self.assertLess(test_steps.relative(test_steps.flat(self.model.parameters()), test_steps.flat(other.parameters())), 1e-6)

    def test_a_loop_of_ones_own_is_warned_of_what_sees_the_parts(self):
        def said(model, parts=4):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                berth.accumulate(self.batch, parts, model=model)
            return [(one.category, str(one.message)) for one in caught]
        self.assertEqual(said(self.model) + said(nn.Sequential(nn.BatchNorm1d(8).eval())) + said(nn.BatchNorm1d(8), parts=1), [])
        (kind, words), = said(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)))
        self.assertIs(kind, berth.SplitWarning)
        self.assertIn("1 (BatchNorm1d)", words)
        self.model[2].register_full_backward_hook(lambda *_: None)
        self.model[0].weight.register_hook(lambda gradient: None)
        layers, parameters = said(self.model)
        self.assertIn("2 (", layers[1])
        self.assertIn("0.weight", parameters[1])

    def test_backward_hooks_of_layers_are_named(self):
        def normalised(module, inputs, outputs):
            return tuple(F.normalize(one, dim=0) for one in inputs)
        self.model[2].register_full_backward_hook(normalised)
        with self.assertRaises(berth.NotSplittable) as caught:
            self.step(parts=2)
        self.assertIn("2 (", str(caught.exception))
        self.assertIn("normalised", str(caught.exception))
        with self.assertWarns(berth.SplitWarning):
            self.step(parts=2, in_batch="warn")
        self.step(parts=1)


class Alike(unittest.TestCase):
    """With a head of all-zero weights, every item has the same loss. So the losses do not show which items they average."""

    class Words(nn.Module):
        def __init__(self, zeros=True):
            super().__init__()
            self.table, self.head = nn.Embedding(50, 16), nn.Linear(16, 50, bias=False)
            if zeros:
                nn.init.zeros_(self.head.weight)

        def forward(self, x):
            return self.head(self.table(x))

    def setUp(self):
        torch.manual_seed(0)
        x = torch.randint(1, 50, (8, 12))
        y = x.clone()
        for at in range(8):
            y[at, :at] = -100
            x[at, 12 - at // 2:] = 0
            y[at, 12 - at // 2:] = -100
        self.batch = {"x": x, "y": y}

    @staticmethod
    def loss(model, part):
        return F.cross_entropy(model(part["x"]).flatten(0, 1), part["y"].flatten(), ignore_index=-100)

    def step(self, model, count):
        return berth.split_step(model, self.loss, torch.optim.SGD(model.parameters(), 0.0), self.batch, parts=4, count=count)

    def test_a_wrong_count_is_refused_in_the_first_step(self):
        for zeros in (True, False):
            for count in (None, lambda part: (part["x"] != 0).sum(), lambda part: len(part["x"])):
                model = self.Words(zeros)
                before = copy.deepcopy(model.state_dict())
                self.assertRaises(berth.NotSplittable, self.step, model, count)
                self.assertTrue(all(torch.equal(one, before[name]) for name, one in model.state_dict().items()), "zeros are zeros again")

    def test_a_right_one_is_not(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = self.Words()
            whole = torch.autograd.grad(self.loss(model, self.batch), [model.head.weight])
            self.step(model, lambda part: (part["y"] != -100).sum())
            self.assertLess(test_steps.relative(model.head.weight.grad, whole[0]), 1e-6)

    def test_losses_that_are_alike_are_told_apart_by_their_gradients(self):
        model = self.Words(zeros=False)
        with torch.no_grad():
            model.head.weight.mul_(1e-12)
        self.assertRaises(berth.NotSplittable, self.step, model, lambda part: (part["x"] != 0).sum())

    def test_what_was_not_seen_is_said_and_looked_at_again(self):
        """Equal items have equal losses and gradients, so the comparison shows nothing, and must be repeated in the next step."""
        model, same = torch.nn.Linear(4, 1), torch.ones(8, 4)

        def step():
            berth.split_step(model, lambda model, x: (model(x) - 1).square().mean(), torch.optim.SGD(model.parameters(), 0.0), same, parts=4, count=len)
        for _ in range(2):
            with self.assertWarns(berth.SplitWarning):
                step()


if __name__ == "__main__":
    unittest.main()
