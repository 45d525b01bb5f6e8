"""A retried step starts from the same state as the first try: gradients are restored, nothing steps twice, a failed try leaves nothing behind.

usage: test_again.py     (77: no PyTorch here)
"""
import asyncio
import contextlib
import copy
import gc
import unittest
import weakref

from with_torch import torch

import berth

F = torch.nn.functional
OOM = "CUDA out of memory. Tried to allocate 2.00 GiB"


class Fails(torch.autograd.Function):
    """Runs out of memory in the backward pass, `times` times."""

    times = 0

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if Fails.times > 0:
            Fails.times -= 1
            raise RuntimeError(OOM)
        return gradient


class Gradients(unittest.TestCase):
    def setUp(self):
        Fails.times = 0
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        self.batch = torch.randn(16, 8), torch.randn(16, 2)
        self.loss().backward()
        self.whole = [one.grad.clone() for one in self.model.parameters()]
        self.model.zero_grad(set_to_none=True)

    def loss(self):
        return F.mse_loss(self.model[2](Fails.apply(self.model[:2](self.batch[0]))), self.batch[1])

    def retried(self, step, times=1, **options):
        Fails.times = times
        return berth.retry(step, first=0.0, report=False, **options)()

    def check(self, times=1):
        for one, whole in zip(self.model.parameters(), self.whole):
            self.assertTrue(torch.allclose(one.grad, times * whole))

    def test_a_sparse_gradient_that_holds_nothing_is_zero(self):
        embedding = torch.nn.Embedding(10, 4, sparse=True)
        calls = []

        @berth.retry(first=0.0, report=False)
        def step():
            embedding.zero_grad(set_to_none=False)
            embedding(torch.tensor([1])).sum().backward()
            calls.append(1)
            if len(calls) == 2:
                raise RuntimeError(OOM)
        step()
        step()
        self.assertEqual(len(calls), 3)
        self.assertTrue(torch.equal(embedding.weight.grad.to_dense()[1], torch.ones(4)))

    def test_running_statistics_of_a_failed_try_are_put_back(self):
        """retry() finds a model that is an argument, a name in the function or in a function that it calls, an attribute of the method's object, or an
        attribute of such an attribute."""
        class Trainer:
            def __init__(self, model):
                self.model = model

            def step(self):
                return forward(self.model)

            @berth.retry(first=0.0, report=False)
            def decorated(self):
                return forward(self.model)

        class Experiment:
            def __init__(self, trainer):
                self.trainer, self.itself = trainer, self

            def run(self):
                return self.trainer.step()
        calls, x = [], torch.randn(16, 4)

        def forward(model):
            calls.append(1)
            model(x)
            if len(calls) < 4:
                raise RuntimeError(OOM)

        def by_name():
            forward(model)

        def by_two_names():
            by_name()

        async def awaited(model):
            forward(model)
        again = berth.retry(first=0.0, report=False)
        ways = (lambda: again(forward)(model), again(by_name), again(by_two_names), again(Trainer(None).step), lambda: trainer.decorated(),
                lambda: again(lambda models: forward(models[0]))([model]), lambda: asyncio.run(again(awaited)(model)),
                lambda: again(Experiment(trainer).run)())
        for way in ways:
            model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
            expected = copy.deepcopy(model)
            expected(x)
            trainer = Trainer(model)
            getattr(getattr(way, "__wrapped__", None), "__self__", trainer).model = model
            calls.clear()
            way()
            self.assertEqual(len(calls), 4)
            for one, other in zip(model.buffers(), expected.buffers()):
                self.assertTrue(torch.equal(one, other), way)

    def test_gradients_of_a_failed_try_do_not_add_up(self):
        optimizer = torch.optim.SGD(self.model.parameters(), 0.0)

        def step():
            self.loss().backward()

        def recreated():
            optimizer.zero_grad(set_to_none=False)
            step()

        def from_nothing():
            optimizer.zero_grad(set_to_none=True)
            step()
        for begins in (lambda: optimizer.zero_grad(set_to_none=True), lambda: optimizer.zero_grad(set_to_none=False)):
            for one in (step, recreated, from_nothing):
                for times in (0, 1, 3):
                    begins()
                    self.retried(one, times)
                    self.check()

    def test_nor_where_memory_runs_out_after_the_pass_or_in_the_second_of_two(self):
        failed = []

        def step():
            self.loss().backward()
            if not failed:
                failed.append(1)
                raise RuntimeError(OOM)
            self.loss().backward()
            if len(failed) < 2:
                failed.append(1)
                raise RuntimeError(OOM)
        self.retried(step, 0)
        self.assertEqual(len(failed), 2)
        self.check(2)

    def test_what_was_added_to_other_gradients_is_no_step_to_try_again(self):
        self.loss().backward()
        with self.assertRaises(berth.StepInterrupted) as caught:
            self.retried(lambda: self.loss().backward())
        self.assertEqual(caught.exception.id, "E0563")
        self.assertIn("zero_grad()", caught.exception.hint)
        failed = []

        def forward():  # fails before it adds a gradient, so it can be retried
            if not failed:
                failed.append(1)
                raise RuntimeError(OOM)
            self.loss().backward()
        self.model.zero_grad(set_to_none=True)
        self.loss().backward()
        self.retried(forward, 0)
        self.check(2)

    def test_gradients_that_are_no_more_than_tiny_are_not_taken_for_zeros(self):
        for one in self.model.parameters():
            one.grad = torch.full_like(one, 1e-38)
        self.assertRaises(berth.StepInterrupted, self.retried, lambda: self.loss().backward())

    def test_what_a_pass_puts_in_the_place_of_gradients_is_put_back(self):
        """With create_graph, PyTorch stores the sum of old and new gradients in a new tensor, and does not change the old tensor."""
        self.loss().backward()
        self.retried(lambda: self.loss().backward(create_graph=True))
        self.check(2)

    def test_sparse_gradients_too(self):
        table = torch.nn.Embedding(20, 4, sparse=True)

        def step():
            Fails.apply(table(torch.tensor([1, 2]))).sum().backward()
            if len(calls) < 2:
                calls.append(1)
                raise RuntimeError(OOM)
        calls = []
        self.retried(step, 0)
        self.assertEqual(float(table.weight.grad.to_dense().sum()), 8.0)
        calls.clear()
        self.assertRaises(berth.StepInterrupted, self.retried, step, 0)

    def test_a_last_try_leaves_none_either(self):
        self.assertRaises(RuntimeError, self.retried, lambda: self.loss().backward(), 9, tries=2)
        self.assertTrue(all(one.grad is None for one in self.model.parameters()))

    def test_other_forms_of_a_backward_pass(self):
        weight = torch.nn.Parameter(torch.ones(2))
        for step in (lambda: torch.autograd.backward([Fails.apply(self.model[0](self.batch[0])).sum(), weight.sum()]),
                     lambda: torch.autograd.backward(one for one in (Fails.apply(weight * 1).sum(), weight.sum())),
                     lambda: Fails.apply(weight * 1).sum().backward(inputs=[weight])):
            weight.grad = None
            Fails.times = 0
            step()
            expected, weight.grad = weight.grad, None
            self.retried(step)
            self.assertTrue(torch.equal(weight.grad, expected))

    def test_recomputed_activations_too(self):
        from torch.utils.checkpoint import checkpoint
        for reentrant in (True, False):
            self.model.zero_grad(set_to_none=True)

            def step():
                x = self.batch[0].clone().requires_grad_()
                h = checkpoint(self.model[:2], Fails.apply(x), use_reentrant=reentrant)
                F.mse_loss(checkpoint(self.model[2], h, use_reentrant=reentrant), self.batch[1]).backward()
            self.retried(step)
            self.check()


class Schedulers(unittest.TestCase):
    def test_a_learning_rate_does_not_decay_twice(self):
        schedulers = torch.optim.lr_scheduler
        makes = [lambda optimizer: schedulers.StepLR(optimizer, 1), lambda optimizer: schedulers.ReduceLROnPlateau(optimizer, patience=0),
                 lambda optimizer: schedulers.OneCycleLR(optimizer, 1.0, 10), lambda optimizer: schedulers.CosineAnnealingWarmRestarts(optimizer, 5),
                 lambda optimizer: schedulers.SequentialLR(optimizer, [schedulers.ConstantLR(optimizer), schedulers.ConstantLR(optimizer)], [5])]
        for make in makes:
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], 0.1)
            scheduler, steps = make(optimizer), []

            @berth.retry(first=0.0, report=False)
            def step():
                steps.append(1)
                optimizer.step()
                scheduler.step(*([1.0] if isinstance(scheduler, schedulers.ReduceLROnPlateau) else []))
                if len(steps) < 2:
                    raise MemoryError
            optimizer.step = lambda: None
            with self.assertRaises(berth.StepInterrupted) as caught:
                step()
            self.assertIn(f"after {type(scheduler).__name__}", str(caught.exception))
            self.assertEqual(len(steps), 1)

    def test_one_of_its_own_begins_anew(self):
        tries = []

        @berth.retry(first=0.0, report=False)
        def step():
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], 0.1)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            optimizer.step()
            scheduler.step()
            tries.append(optimizer.param_groups[0]["lr"])
            if len(tries) < 2:
                raise MemoryError
        step()
        self.assertEqual(tries, [tries[0]] * 2)


class Own(unittest.TestCase):
    """Code that changes parameters without an optimizer or scheduler of PyTorch, after a backward pass has reached the parameters."""

    def retried(self, model_of, step):
        tries = []

        @berth.retry(first=0.0, report=False)
        def train():
            model = model_of()
            tries.append(1)
            model(torch.ones(1, 2)).sum().backward()
            step(model)
            if len(tries) < 2:
                raise RuntimeError(OOM)
        train()
        return len(tries)

    @staticmethod
    def by_hand(model):
        with torch.no_grad():
            for one in model.parameters():
                one -= 0.1 * one.grad

    @staticmethod
    def by_one_that_is_gone(model):
        torch.optim.SGD(model.parameters(), 0.1).step()

    def test_parameters_are_not_written_twice(self):
        for step in (self.by_hand, self.by_one_that_is_gone):
            model = torch.nn.Linear(2, 1)
            with self.assertRaises(berth.StepInterrupted, msg=step.__name__):
                self.retried(lambda: model, step)
            self.assertEqual(self.retried(lambda: torch.nn.Linear(2, 1), step), 2, "a try with its own model starts again")
            self.assertEqual(self.retried(lambda: model, lambda model: None), 2)


class Kept(unittest.TestCase):
    """Objects of a failed try are freed before the next try begins. Arguments of the call are freed after the call."""

    def test_the_variables_of_a_step_that_failed_are_let_go_of(self):
        alive = []

        class Trainer:
            def step(self):
                tensor = torch.ones(2)
                held.append([one() is not None for one in alive])
                alive.append(weakref.ref(tensor))
                if len(alive) < 2:
                    raise RuntimeError(OOM)
        held = []
        berth.retry(Trainer().step, first=0.0, report=False)()
        self.assertEqual(held, [[], [False]])


    def test_what_a_call_was_given_is_let_go_of_without_the_collector(self):
        """Training loops often turn the garbage collector off. A batch in a reference cycle would then never be freed."""
        class Batch(list):
            pass

        def lacks(size, most):
            if size > most:
                raise RuntimeError(OOM)

        def retried(batch, most):
            tries = []
            berth.retry(lambda batch: (tries.append(1), lacks(2 - (len(tries) > 1 and most), 1)), tries=2, first=0.0, report=False)(batch)

        async def coroutine(batch, most):
            tries = []

            async def step(batch):
                tries.append(1)
                lacks(2 - (len(tries) > 1 and most), 1)
            await berth.retry(step, tries=2, first=0.0, report=False)(batch)

        def awaited(batch, most):  # without an event loop, because the loop would keep references itself
            running = coroutine(batch, most)
            with contextlib.suppress(StopIteration):
                while True:
                    running.send(None)

        def fitted(batch, most):
            berth.fit_batch(lambda batch_size, batch: lacks(batch_size, most), start=8, report=False)(batch)

        def found(batch, most):
            berth.find_batch(lambda size: lacks(size + 0 * len(batch), most), start=8)

        def split(batch, most):
            model = torch.nn.Linear(4, 1)

            def loss(model, part):
                lacks(len(part), most)
                return model(torch.stack(part)).mean()
            berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.1), batch, report=False, in_batch="allow")

        def broken(batch, most):
            berth.retry(lambda batch: [].pop(), first=0.0)(batch)
        gc.collect()
        gc.disable()
        try:
            for call in (retried, awaited, fitted, found, split, broken):
                for most in (3, 0):
                    batch = Batch(torch.randn(4) for _ in range(8))
                    alive = weakref.ref(batch)
                    with contextlib.suppress(RuntimeError, MemoryError, IndexError):
                        call(batch, most)
                    del batch
                    self.assertIsNone(alive(), (call.__name__, most))
        finally:
            gc.enable()


class Tasks(unittest.TestCase):
    def test_what_another_task_steps_is_none_of_its_own(self):
        weight = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], 0.1)

        async def both(inside):
            tries, begun, done = [], asyncio.Event(), asyncio.Event()

            async def other():
                await begun.wait()
                weight.sum().backward()
                optimizer.step()
                done.set()

            @berth.retry(first=0.0, report=False)
            async def mine():
                tries.append(1)
                begun.set()
                if inside:
                    await asyncio.create_task(other())
                await done.wait()
                if len(tries) < 2:
                    raise MemoryError
            weight.grad = None
            await asyncio.gather(mine(), *([] if inside else [other()]))
            return len(tries), weight.grad is not None
        self.assertEqual(asyncio.run(both(False)), (2, True))
        self.assertRaises(berth.StepInterrupted, asyncio.run, both(True))


if __name__ == "__main__":
    unittest.main()
