"""Tests that a loss is refused if the losses of parts add up, but their gradients do not, and that the gradients of a step do not include earlier ones.

usage: test_gradients_of_parts.py     (77: no PyTorch here)
"""
import copy
import unittest
import warnings

from with_torch import torch

import berth
import test_steps

nn, F = torch.nn, torch.nn.functional
OOM = "CUDA out of memory. Tried to allocate 2.00 GiB"


def net(wide=8, out=4):
    return nn.Sequential(nn.Linear(6, wide), nn.Tanh(), nn.Linear(wide, out))


class Policy(nn.Module):
    """A model with a policy head and a value head, which share the layers below."""

    def __init__(self):
        super().__init__()
        self.trunk, self.policy, self.value = nn.Linear(6, 8), nn.Linear(8, 4), nn.Linear(8, 1)

    def forward(self, x):
        hidden = self.trunk(x).tanh()
        return self.policy(hidden), self.value(hidden).squeeze(1)


def ratio(logits, part):
    """The ratio of the new policy's probability to the old one's. In the first step after sampling, it is 1."""
    log = logits.log_softmax(1).gather(1, part["action"][:, None]).squeeze(1)
    return (log - log.detach()).exp()


def normalised(model, part):
    advantage = (part["reward"] - part["reward"].mean()) / (part["reward"].std() + 1e-8)
    return -(ratio(model(part["x"]), part) * advantage).mean()


def ppo(model, part):
    logits, value = model(part["x"])
    advantage = part["reward"] - value.detach()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    return -(ratio(logits, part) * advantage).mean() + 0.5 * (value - part["reward"]).square().mean()


def by_its_own_value(model, part):
    loss = F.mse_loss(model(part["x"]), part["y"])
    return loss / loss.detach()


class Router(nn.Module):
    """A router that chooses experts. Its load balance depends on the batch, but a term of the opposite sign hides that in the loss's value.
    """

    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(6, 3), nn.ModuleList(nn.Linear(6, 4) for _ in range(3))

    def forward(self, x):
        share = self.router(x).softmax(1)
        said = sum(share[:, at, None] * expert(x) for at, expert in enumerate(self.experts))
        balance = 3 * (share.mean(0) * torch.eye(3)[share.argmax(1)].mean(0)).sum()
        return said, balance


def balanced(model, part):
    said, balance = model(part["x"])
    return F.mse_loss(said, part["y"]) + 0.05 * (balance - balance.detach())


class Refused(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)
        self.batch = {"x": torch.randn(64, 6), "y": torch.randn(64, 4), "action": torch.randint(0, 4, (64,)), "reward": torch.randn(64) * 3 + 1}

    def step(self, model, loss, batch=None, **options):
        return berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.0), batch or self.batch, **{"parts": 4, "report": False, **options})

    def test_a_gradient_that_is_not_the_sum_of_its_parts_is_refused(self):
        for loss, make in ((normalised, net), (ppo, Policy), (by_its_own_value, net), (balanced, Router)):
            for count in (None, lambda part: len(part["x"])):
                model = make()
                with self.assertRaises(berth.NotSplittable, msg=loss.__name__) as caught:
                    self.step(model, loss, count=count)
                self.assertEqual(caught.exception.id, "E0561")
                self.assertTrue(all(one.grad is None for one in model.parameters()))
                with self.assertWarns(berth.SplitWarning):
                    self.step(model, loss, count=count, in_batch="warn")

    def test_groups_that_parts_hold_whole_are_accepted_although_their_loss_is_nothing_but_rounding(self):
        def grouped(model, part):
            """A loss like GRPO's: the advantages of each group of four samples are normalised, so that they add up to zero."""
            reward = part["reward"].reshape(-1, 4)
            advantage = (reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-4)
            return -(ratio(model(part["x"].reshape(-1, 6)), {"action": part["action"].reshape(-1)}) * advantage.reshape(-1)).mean()

        def by_name(model, part):
            """The same loss, but it finds the groups by their names. So the loss function does not notice a group that was cut."""
            mine = (part["group"][:, None] == part["group"]).float()
            mean = mine @ part["reward"] / mine.sum(1)
            spread = (mine @ (part["reward"] - mean).square() / mine.sum(1)).sqrt()
            return -(ratio(model(part["x"]), part) * (part["reward"] - mean) / (spread + 1e-4)).mean()
        rows = {name: self.batch[name].unflatten(0, (-1, 4)) for name in ("x", "action", "reward")}
        for count in (None, lambda part: len(part["x"])):
            model = net()
            grouped(model, rows).backward()
            expected = [one.grad.clone() for one in model.parameters()]
            for batch, parts in ((self.batch, 2), (self.batch, 4), (self.batch, 8), (self.batch, 16), (rows, 4), (rows, 3), (rows, 16)):
                with self.subTest(parts=parts), warnings.catch_warnings():
                    warnings.simplefilter("error")
                    for _ in range(2):
                        done = self.step(model, grouped, batch, parts=parts, count=count)
                    self.assertEqual(done.parts, parts)
                    for one, other in zip(model.parameters(), expected):
                        torch.testing.assert_close(one.grad, other, rtol=1e-4, atol=1e-6)
            with self.assertRaisesRegex(berth.NotSplittable, "unflatten"):
                self.step(net(), by_name, {**self.batch, "group": torch.arange(64) // 4}, count=count)

    def test_a_scale_that_is_still_too_large_hides_nothing(self):
        class Scaler:
            """Behaves like torch's GradScaler in its first steps, when the scale is too large."""

            def scale(self, loss):
                return loss * 1e38

            def unscale_(self, optimizer):
                pass

            def step(self, optimizer):
                pass

            def update(self):
                pass

            def get_scale(self):
                return 1e38
        for count in (None, lambda part: len(part["x"])):
            with self.assertRaises(berth.NotSplittable):
                self.step(Policy(), ppo, count=count, scaler=Scaler())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.step(net(), lambda model, part: F.mse_loss(model(part["x"]), part["y"]), scaler=Scaler())

    def test_gradients_that_are_not_finite_are_compared_in_the_next_step(self):
        model, grows = Policy(), [True]
        state = copy.deepcopy(model.state_dict())

        def loss(model, part):
            found = ppo(model, part)
            if grows[0]:
                found.register_hook(lambda gradient: gradient * float("inf"))
            return found

        def count(part):
            return len(part["x"])
        self.step(model, loss, count=count)
        grows[0] = False
        model.load_state_dict(state)  # the step made the weights NaN
        with self.assertRaises(berth.NotSplittable):
            self.step(model, loss, count=count)

    def test_a_count_that_forgets_the_shift_is_refused_and_named(self):
        """A model that predicts the next token: the first label of each row does not count."""
        def shifted(model, part):
            said = model(part["x"])[:, :-1].flatten(0, 1)
            return F.cross_entropy(said, part["labels"][:, 1:].flatten(), ignore_index=-100)
        labels = torch.randint(0, 4, (8, 9))
        for at in range(8):
            labels[at, 2 + at:] = -100
        labels[0, 0] = -100
        batch, model = {"x": torch.randn(8, 9, 6), "labels": labels}, net()
        with self.assertRaises(berth.NotSplittable) as caught:
            self.step(model, shifted, batch, count=lambda part: (part["labels"] != -100).sum())
        self.assertIn("`count` does not return", str(caught.exception))
        self.assertIn("[:, 1:]", caught.exception.hint)
        self.step(model, shifted, batch, count=lambda part: (part["labels"][:, 1:] != -100).sum())

    def test_and_where_memory_is_short_too(self):
        def short(model, part):
            if len(part["x"]) > 16:
                raise RuntimeError(OOM)
            return normalised(model, part)
        with self.assertRaises(berth.NotSplittable):
            self.step(net(), short, parts=None)

    def test_losses_of_items_are_not(self):
        def policy(model, part):
            return -(ratio(model(part["x"]), part) * part["reward"]).mean()

        def clipped(model, part):
            change = ratio(model(part["x"]), part) * 1.3
            return -torch.min(change * part["reward"], change.clamp(0.8, 1.2) * part["reward"]).mean()

        def dropped(model, part):
            return (F.dropout(model(part["x"]), 0.2, model.training) - part["y"]).square().mean()
        for loss in (policy, clipped, dropped, lambda model, part: (model(part["x"]) - part["y"]).abs().mean()):
            for kind in (torch.float32, torch.float64, torch.bfloat16):
                batch = {key: one.to(kind) if one.is_floating_point() else one for key, one in self.batch.items()}
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    for parts in (2, 5, 64):
                        self.step(net().to(kind), loss, batch, parts=parts)

    def test_bf16_with_padding_and_no_count_is_refused(self):
        for seed in range(12):
            torch.manual_seed(seed)
            model = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 50)).to(torch.bfloat16)
            words = torch.randint(1, 50, (16, 12))
            labels = words.roll(-1, 1).clone()
            for at in range(16):
                labels[at, 1 + (at * 11) // 16:] = -100
            batch = {"x": words, "labels": labels}
            for as_float in (True, False):
                def loss(model, part):
                    said = model(part["x"]).flatten(0, 1)
                    return F.cross_entropy(said.float() if as_float else said, part["labels"].flatten(), ignore_index=-100)
                with self.assertRaises(berth.NotSplittable):
                    self.step(model, loss, batch)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    self.step(model, loss, batch, count=lambda part: (part["labels"] != -100).sum())

    def test_deep_models_of_low_precision_are_split(self):
        for seed in range(6):
            torch.manual_seed(seed)
            for kind in (torch.bfloat16, torch.float32):
                model = nn.Sequential(*[layer for _ in range(12) for layer in (nn.Linear(6, 6), nn.LayerNorm(6), nn.GELU())], nn.Linear(6, 4)).to(kind)
                batch = {key: one.to(kind) if one.is_floating_point() else one for key, one in self.batch.items()}

                def loss(model, part):
                    return F.mse_loss(model(part["x"]).float(), part["y"].float())

                def autocast(model, part):
                    with torch.autocast("cpu", dtype=torch.bfloat16):
                        return loss(model, part)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    for one in (loss, autocast) if kind is torch.float32 and hasattr(torch, "compile") else (loss,):
                        self.step(model, one, batch)

    def test_gradients_that_were_there_are_kept_by_the_comparison(self):
        model, beside = net(), nn.Linear(4, 4)
        for one in beside.parameters():
            one.grad = torch.ones_like(one)
        batch = self.batch
        whole = torch.autograd.grad(F.mse_loss(beside(model(batch["x"])), batch["y"]), list(beside.parameters()))
        self.step(model, lambda model, part: F.mse_loss(beside(model(part["x"])), part["y"]))
        for one, gradient in zip(beside.parameters(), whole):
            self.assertLess(test_steps.relative(one.grad, gradient + 1), 1e-6)

    def test_a_count_ends_the_comparison(self):
        """The comparison also ends if there is no padding. The first batch with padding is compared again."""
        passes = []

        def loss(model, part):
            passes.append(bool(test_steps.looking))
            return F.cross_entropy(model(part["x"]), part["action"], ignore_index=-100)

        def count(part):
            return (part["action"] != -100).sum()
        model, compared = net(), []
        for _ in range(33):
            passes.clear()
            self.step(model, loss, count=count)
            self.assertEqual(passes.count(False), 4)
            compared.append(sum(passes) > 0)
        self.assertEqual([at for at, one in enumerate(compared) if one], [0, 2, 4, 8, 16, 32])
        self.batch["action"][5:9] = -100
        for begun in (True, False):
            passes.clear()
            self.step(model, loss, count=count)
            self.assertEqual(sum(passes) > 0, begun)


class OfThisStepAlone(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.model, self.critic = net(), nn.Linear(4, 1)
        self.batch = {"x": torch.randn(16, 6), "y": torch.randn(16, 1)}

    def loss(self, model, part):
        return F.mse_loss(self.critic(model(part["x"])), part["y"])

    def test_a_failed_try_leaves_no_gradients_beside_the_model(self):
        whole = torch.autograd.grad(self.loss(self.model, self.batch), list(self.critic.parameters()))
        for before in (None, 2.0):
            calls = []
            for one in self.critic.parameters():
                one.grad = None if before is None else torch.full_like(one, before)

            def failing(model, part):
                if not test_steps.looking:
                    calls.append(1)
                    if len(calls) == 2:  # fail in the second part, after the first part has added its gradients
                        raise RuntimeError(OOM)
                return self.loss(model, part)
            berth.split_step(self.model, failing, torch.optim.SGD(self.model.parameters(), 0.0), self.batch, parts=2, report=False)
            self.assertEqual(len(calls), 2 + 4)
            for one, gradient in zip(self.critic.parameters(), whole):
                self.assertLess(test_steps.relative(one.grad, gradient + (before or 0.0)), 1e-6)

    def test_a_sum_is_a_sum(self):
        def total(model, part):
            return F.mse_loss(self.critic(model(part["x"])), part["y"], reduction="sum")
        whole = torch.autograd.grad(total(self.model, self.batch), list(self.model.parameters()))
        for parts in (1, 3, 4):
            done = berth.split_step(self.model, total, torch.optim.SGD(self.model.parameters(), 0.0), self.batch, parts=parts, reduction="sum")
            self.assertLess(test_steps.relative(test_steps.flat(one.grad for one in self.model.parameters()), test_steps.flat(whole)), 1e-6)
            self.assertAlmostEqual(done.loss, total(self.model, self.batch).item(), places=4)

    def test_several_optimizers_step_once_each(self):
        def pair(model, critic):
            return [torch.optim.SGD(model.parameters(), 0.1), torch.optim.Adam(critic.parameters(), 0.01)]
        model, critic = copy.deepcopy(self.model), copy.deepcopy(self.critic)
        some = pair(model, critic)
        F.mse_loss(critic(model(self.batch["x"])), self.batch["y"]).backward()
        for one in some:
            one.step()
        berth.split_step(self.model, self.loss, pair(self.model, self.critic), self.batch, parts=3, clip_norm=1e6)
        for one, other in ((self.model, model), (self.critic, critic)):
            self.assertLess(test_steps.relative(test_steps.flat(one.parameters()), test_steps.flat(other.parameters())), 1e-6)
        self.assertRaises(berth.InvalidRequest, berth.split_step, self.model, self.loss, [], self.batch)

    def test_outputs_of_the_parts_are_given_where_asked_for(self):
        def loss(model, part):
            said = model(part["x"])
            return F.mse_loss(self.critic(said), part["y"]), {"said": said}
        optimizer = torch.optim.SGD(self.model.parameters(), 0.0)
        for parts in (1, 3):
            done = berth.split_step(self.model, loss, optimizer, self.batch, parts=parts, outputs=True)
            said = torch.cat([one["said"] for one in done.outputs])
            self.assertTrue(torch.allclose(said, self.model(self.batch["x"]), atol=1e-6))
            self.assertFalse(said.requires_grad)
        self.assertIsNone(berth.split_step(self.model, self.loss, optimizer, self.batch).outputs)
        self.assertRaises(berth.InvalidRequest, berth.split_step, self.model, self.loss, optimizer, self.batch, outputs=True)

    def test_one_row_for_all_items_is_in_every_part(self):
        batch = {"x": torch.randn(4, 3, 6), "position": torch.arange(3)[None]}
        self.assertEqual([{key: tuple(one.shape) for key, one in part.items()} for part in berth.chunked(batch, 3)],
                         [{"x": (3, 3, 6), "position": (1, 3)}, {"x": (1, 3, 6), "position": (1, 3)}])
        one = {"x": torch.randn(1, 3, 6), "position": torch.arange(3)[None]}
        self.assertEqual([part["position"].shape for part in berth.chunked(one, 2)], [(1, 3)])
        with self.assertRaises(berth.InvalidRequest):
            list(berth.chunked({"x": torch.randn(4, 2), "y": torch.randn(3, 2)}, 2))

    def test_parts_grow_again_after_memory_was_short_for_a_time(self):
        short, optimizer = [True], torch.optim.SGD(self.model.parameters(), 0.0)

        def loss(model, part):
            if short[0] and len(part["x"]) > 4:
                raise RuntimeError(OOM)
            return self.loss(model, part)

        def parts(steps):
            return [berth.split_step(self.model, loss, optimizer, self.batch, in_batch="allow", report=False).parts for _ in range(steps)]
        self.assertEqual(parts(20), [4] * 20)
        short[0] = False
        self.assertEqual(min(parts(100)), 1)


if __name__ == "__main__":
    unittest.main()
