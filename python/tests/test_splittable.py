"""Tests that a step is refused if it cannot be split, and that an optimizer does not step twice.

usage: test_splittable.py     (77: no PyTorch here)
"""
import collections
import sys
import threading
import unittest
import warnings

from with_torch import torch

import berth
import test_steps

F = torch.nn.functional
loss_of = test_steps.Recovery.loss


class Refused(unittest.TestCase):
    def step(self, model, loss, batch, **options):
        return berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.1), batch, **options)

    def test_batch_normalisation_is_named(self):
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
        batch = (torch.randn(12, 6), torch.randn(12, 1))
        with self.assertRaises(berth.NotSplittable) as caught:
            self.step(model, loss_of, batch, parts=2)
        self.assertIn("1 (BatchNorm1d)", str(caught.exception))
        self.step(model, loss_of, batch)
        model[1].eval()
        self.step(model, loss_of, batch, parts=2)

    def test_a_layer_may_be_called_module(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.module, self.norm = torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8)

            def forward(self, x):
                return self.norm(self.module(x))
        batch = (torch.randn(12, 6), torch.randn(12, 8))
        for model in (Net(), torch.nn.DataParallel(Net())):
            with self.assertRaises(berth.NotSplittable) as caught:
                self.step(model, loss_of, batch, parts=2)
            self.assertIn("norm (BatchNorm1d)", str(caught.exception))

    def test_a_smaller_batch_does_where_parts_do_not(self):
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
        data, failing = (torch.randn(32, 6), torch.randn(32, 1)), test_steps.Failing(loss_of, 8)

        @berth.fit_batch(start=32, report=False)
        def train(batch_size):
            done = self.step(model, failing, tuple(one[:batch_size] for one in data), report=False)
            return batch_size, done.parts
        self.assertEqual(train(), (8, 1))

    def test_layers_that_write_at_each_pass_are_named(self):
        batch = (torch.randn(8, 6), torch.randn(8, 4))
        for layer, word in ((torch.nn.utils.spectral_norm(torch.nn.Linear(6, 4)), "SpectralNorm"),
                            (torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(6, 4)), "SpectralNorm"),
                            (torch.nn.Sequential(torch.nn.Unflatten(1, (2, 3)), torch.nn.InstanceNorm1d(2, track_running_stats=True), torch.nn.Flatten(),
                                                 torch.nn.Linear(6, 4)), "InstanceNorm1d")):
            with self.assertRaises(berth.NotSplittable) as caught:
                self.step(layer, loss_of, batch, parts=2)
            self.assertIn(word, str(caught.exception))
            self.step(layer, loss_of, batch)
        self.step(torch.nn.Sequential(torch.nn.Unflatten(1, (2, 3)), torch.nn.InstanceNorm1d(2), torch.nn.Flatten(), torch.nn.Linear(6, 4)), loss_of,
                  batch, parts=2)

    def test_losses_between_items_are_found(self):
        def pairs(model, part):
            left, right = F.normalize(model(part[0])), F.normalize(model(part[1]))
            return F.cross_entropy(left @ right.T / 0.1, torch.arange(len(left)))

        def info_nce(model, part):
            return pairs(model, part)

        def wrong_count(model, part):
            return F.cross_entropy(model(part[0]), part[1], ignore_index=-100)
        model, items = torch.nn.Linear(6, 8), torch.randn(12, 6)
        labels = torch.tensor([1, -100, -100, -100] + [2] * 8)
        for loss, batch in ((pairs, (items, torch.randn(12, 6))), (info_nce, (items, items)), (wrong_count, (items, labels))):
            with self.assertRaises(berth.NotSplittable, msg=loss.__name__):
                self.step(model, loss, batch, parts=2)
            self.assertTrue(model.training)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                self.step(model, loss, batch, parts=2, in_batch="warn")
            self.assertEqual([one.category for one in said], [berth.SplitWarning])
        self.step(model, wrong_count, (items, labels), parts=2, count=lambda part: (part[1] != -100).sum())

    def test_each_batch_is_looked_at_and_all_of_it(self):
        """The error shows only in the last items, in a later batch, or with another loss function, and must be found there too."""
        def mean(model, part):
            return F.cross_entropy(model(part[0]), part[1], ignore_index=-100)

        def made(pairs):
            return lambda model, part: (model(part[0]) @ model(part[0]).T).logsumexp(1).mean() if pairs else (model(part[0]) ** 2).mean()
        torch.manual_seed(4)
        model, items, labels = torch.nn.Linear(6, 8), torch.randn(16, 6), torch.randint(0, 8, (16,))
        late = labels.clone()
        late[9:15] = -100
        self.step(model, mean, (items, labels), parts=2)
        for parts in (2, 4):
            with self.assertRaises(berth.NotSplittable):
                self.step(model, mean, (items, late), parts=parts)
        self.step(model, mean, (items, late), parts=2, count=lambda part: (part[1] != -100).sum())
        count = len
        self.step(model, made(False), (items,), parts=2, count=lambda part: count(part[0]))
        with self.assertRaises(berth.NotSplittable):
            self.step(model, made(True), (items,), parts=2, count=lambda part: count(part[0]))

        def short(model, part):  # runs out of memory with the whole batch, so that groups of items are compared
            if len(part[0]) > 8:
                raise RuntimeError(test_steps.OOM)
            return mean(model, part)
        with self.assertRaises(berth.NotSplittable):
            self.step(model, short, (items, late), parts=2)

    def test_a_count_is_looked_at_until_parts_count_differently(self):
        """A count of all items is right for a batch without padding, but perhaps not for the next batch."""
        looked = collections.deque()  # a deque, not a list, because Berth recognises the loss in the next step by a weak reference to it

        def mean(model, part):
            looked.append(bool(test_steps.looking))
            return F.cross_entropy(model(part[0]), part[1], ignore_index=-100)

        def all_of_them(part):
            return part[1].numel()

        def right(part):
            return (part[1] != -100).sum()
        torch.manual_seed(4)
        model, items, labels = torch.nn.Linear(6, 8), torch.randn(16, 6), torch.randint(0, 8, (16,))
        padded = labels.clone()
        padded[9:15] = -100
        self.step(model, mean, (items, labels), parts=2, count=all_of_them)
        with self.assertRaises(berth.NotSplittable):
            self.step(model, mean, (items, padded), parts=2, count=all_of_them)
        for batch, passes in ((labels, 3 + 4), (padded, 3 + 4), (labels, 0), (padded, 0)):
            looked.clear()
            self.step(model, mean, (items, batch), parts=2, count=right)
            self.assertEqual(sum(looked), passes)

    def test_weights_of_classes_are_counted(self):
        torch.manual_seed(5)
        model, items, labels = torch.nn.Linear(6, 8), torch.randn(16, 6), torch.randint(0, 8, (16,)).sort().values
        weight = torch.linspace(0.1, 5, 8)

        def weighted(model, part):
            return F.cross_entropy(model(part[0]), part[1], weight=weight)
        with self.assertRaises(berth.NotSplittable):
            self.step(model, weighted, (items, labels), parts=2)
        whole = torch.autograd.grad(weighted(model, (items, labels)), list(model.parameters()))
        berth.split_step(model, weighted, torch.optim.SGD(model.parameters(), 0.0), (items, labels), parts=3, count=lambda part: weight[part[1]].sum())
        self.assertLess(test_steps.relative(test_steps.flat(one.grad for one in model.parameters()), test_steps.flat(whole)), 1e-6)

    def test_bad_requests_are_named(self):
        model, batch = torch.nn.Linear(2, 1), (torch.randn(4, 2), torch.randn(4, 1))
        bad = [((model, loss_of, (one for one in batch)), {}), ((model, loss_of, (torch.zeros(0, 2), torch.zeros(0, 1))), {}),
               ((model, loss_of, (batch[0], batch[1][:2])), {}), ((model, loss_of, batch), {"parts": 0}),
               ((model, loss_of, batch), {"reduction": "max"}), ((model, loss_of, batch), {"over": "x"}),
               ((model, loss_of, batch), {"batch_norm": "x"}), ((model, loss_of, batch), {"count": lambda part: 0}),
               ((model, loss_of, batch), {"count": lambda part: -1}), ((model, lambda model, part: model(part[0]), batch), {}),
               ((model, lambda model, part: 1.0, batch), {})]
        for words, options in bad:
            with self.assertRaises(berth.InvalidRequest, msg=str(options)) as caught:
                self.step(*words, **options)
            self.assertIsInstance(caught.exception, berth.BerthError)
        self.assertRaises(berth.InvalidRequest, berth.split_step, lambda x: x, loss_of, None, batch)
        with self.assertRaises(berth.Unsupported):
            berth.split_step(model, loss_of, torch.optim.LBFGS(model.parameters()), batch)
        for parts in (0, -1, True, 1.5):
            self.assertRaises(berth.InvalidRequest, berth.accumulate, [1, 2], parts)
        self.assertEqual([part.items for part in berth.accumulate(list(range(7)), 3)], [2, 2, 3])
        self.assertEqual(len(berth.accumulate([1, 2], 9)), 2)


class Again(unittest.TestCase):
    """`@retry` around functions that call `optimizer.step()`."""

    def run_out(self, step, first=1):
        calls = []

        @berth.retry(first=0.0, report=False)
        def train():
            calls.append(1)
            step()
            if len(calls) <= first:
                raise RuntimeError(test_steps.OOM)
            return len(calls)
        return train

    def test_an_optimizer_that_has_stepped_does_not_step_again(self):
        model = torch.nn.Linear(2, 1)
        for optimizer in (torch.optim.SGD(model.parameters(), 0.1), torch.optim.Adam(model.parameters())):
            model(torch.ones(1, 2)).sum().backward()
            steps = []

            def step():
                steps.append(1)
                optimizer.step()
            with self.assertRaises(berth.StepInterrupted) as caught:
                self.run_out(step)()
            self.assertEqual((len(steps), caught.exception.id), (1, "E0563"))
            self.assertIs(type(caught.exception.__cause__), RuntimeError)

    def test_nor_where_memory_ran_out_in_its_step(self):
        class Half(torch.optim.Optimizer):
            def __init__(self, parameters):
                super().__init__(parameters, {})

            def step(self, closure=None):
                steps.append(1)
                if closure:
                    closure()
                raise RuntimeError(test_steps.OOM)
        steps, optimizer = [], Half(torch.nn.Linear(2, 1).parameters())
        self.assertRaises(berth.StepInterrupted, berth.retry(optimizer.step, first=0.0, report=False))
        self.assertEqual(len(steps), 1)

        def closure():
            raise RuntimeError(test_steps.OOM)
        self.assertRaises(RuntimeError, berth.retry(lambda: optimizer.step(closure), first=0.0, report=False))
        self.assertEqual(len(steps), 5, "a loss that is computed in the step may be computed again")

    def test_nor_where_its_first_closure_is_through(self):
        for fails in (1, 2):
            model, calls = torch.nn.Linear(2, 1), []
            optimizer = torch.optim.LBFGS(model.parameters())

            def closure():
                calls.append(1)
                if len(calls) == fails:
                    raise RuntimeError(test_steps.OOM)
                optimizer.zero_grad()
                loss = (model(torch.ones(1, 2)) - 3).square().sum()
                loss.backward()
                return loss
            step = berth.retry(lambda: optimizer.step(closure), first=0.0, report=False)
            if fails == 1:
                step()
                self.assertGreater(len(calls), 2)
            else:
                self.assertRaises(berth.StepInterrupted, step)
                self.assertEqual(len(calls), 2)

    def test_what_makes_its_own_begins_anew(self):
        def step():
            model = torch.nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        self.assertEqual(self.run_out(step)(), 2)

    def test_steps_elsewhere_are_none_of_its_own(self):
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model(torch.ones(1, 2)).sum().backward()

        def in_a_thread(function):
            def step():
                other = threading.Thread(target=function)
                other.start()
                other.join()
            return self.run_out(step)
        self.assertEqual(in_a_thread(berth.retry(optimizer.step))(), 2)
        optimizer.step()
        self.assertEqual(self.run_out(lambda: None)(), 2)
        for function in (optimizer.step, lambda: model(torch.ones(1, 2)).sum().backward()):
            with self.assertRaisesRegex(berth.StepInterrupted, "a thread that may be its own"):
                in_a_thread(function)()


if __name__ == "__main__":
    unittest.main()
