"""Tests invalid arguments: wrong types, wrong sizes, swapped arguments. The error must name the argument, and the function must do nothing.

usage: test_requests.py     (77: no PyTorch here)
"""
import collections
import os
import tempfile
import unittest

from with_torch import torch

import berth

F = torch.nn.functional
NAN = float("nan")


def mean(model, part):
    return F.mse_loss(model(part[0]), part[1])


class Requests(unittest.TestCase):
    def refused(self, calls):
        for call, word in calls:
            with self.assertRaises(berth.InvalidRequest, msg=word) as caught:
                call()
            self.assertIn(word, str(caught.exception))

    def test_of_a_step(self):
        model = torch.nn.Linear(4, 1)
        optimizer, batch = torch.optim.SGD(model.parameters(), 0.1), (torch.randn(8, 4), torch.randn(8, 1))
        before = [one.clone() for one in model.parameters()]

        def step(loss=mean, optimizer=optimizer, batch=batch, model=model, **options):
            return lambda: berth.split_step(model, loss, optimizer, batch, **options)
        self.refused([
            (step(loss=None), "loss_fn"), (step(loss=torch.nn.MSELoss()), "loss_fn"), (step(loss=optimizer, optimizer=mean), "loss_fn"),
            (step(optimizer=None), "optimizer"), (step(optimizer=[optimizer, mean]), "optimizer"), (step(optimizer=[]), "optimizer"), (step(count=8), "count"),
            (step(count=lambda part: None), "count"), (step(count=lambda part: part[1]), "count"), (step(scaler=True), "scaler"),
            (step(clip_norm=-1), "clip_norm"), (step(clip_norm=0), "clip_norm"), (step(clip_norm="1"), "clip_norm"), (step(clip_norm=NAN), "clip_norm"),
            (step(batch=torch.utils.data.DataLoader([1, 2])), "DataLoader"), (step(batch={1, 2}), "set"), (step(batch=None), "NoneType"),
            (step(loss=lambda model, part: mean(model, part).detach()), "no gradients"), (torch.no_grad()(step()), "no gradients"),
            (step(model=torch.nn.Linear(4, 1).requires_grad_(False)), "no gradients"),
            (step(loss=lambda model, part: collections.namedtuple("Output", "loss logits")(mean(model, part), None)), "model(**part).loss")])
        self.assertTrue(all(map(torch.equal, before, model.parameters())))

    def test_of_batches(self):
        self.refused([
            (lambda: berth.chunked({1, 2, 3}, 2), "set"), (lambda: berth.chunked({"a": 1}.keys(), 2), "dict_keys"),
            (lambda: list(berth.chunked(collections.deque([1, 2, 3]), 2)), "deque"), (lambda: berth.fit_batch(print, 4, least=8), "least 8"),
            (lambda: berth.find_batch(print, margin="5%"), "margin"), (lambda: berth.find_batch(print, margin=NAN), "margin"),
            (lambda: berth.is_oom("CUDA out of memory"), "str"), (lambda: berth.is_oom(MemoryError), "type"), (lambda: berth.is_oom(3), "int"),
            (lambda: berth.is_sticky("x"), "str")])

    def test_of_loading(self):
        data = torch.utils.data.TensorDataset(torch.zeros(4, 1))

        def options(dataset=data, **more):
            return lambda: berth.dataloader_options(dataset, **{"batch_size": 2, "report": False, **more})

        def sampler(lengths=(1, 2), **more):
            return lambda: list(berth.DynamicBatchSampler(lengths, **more))
        self.refused([
            (options(most=-1), "most"), (options(seconds="1"), "seconds"), (options(seconds=-1), "seconds"), (options(step_seconds="1"), "step_seconds"),
            (options(torch.utils.data.DataLoader(data)), "DataLoader"), (sampler("abc", max_tokens=3), "lengths"), (sampler([1, -2], max_tokens=3), "-2"),
            (sampler([float("inf")], max_tokens=3), "lengths"), (sampler([3.9], max_tokens=5), "3.9"), (sampler([NAN], max_tokens=5), "lengths"),
            (sampler([1, None], max_tokens=3), "lengths"), (sampler(memory=3, budget="1GiB"), "memory"), (sampler(max_tokens=3, rank="0"), "rank"),
            (sampler(memory=lambda items, longest: None, budget="1GiB"), "memory"), (sampler(memory=lambda items, longest: 1, budget="8"), "budget")])

    def test_of_what_is_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            self.refused([
                (lambda: berth.profile(folder), "is a folder"), (lambda: berth.profile(None), "path"), (lambda: berth.profile(folder + "/t.json", every="1"), "every"),
                (lambda: berth.compare_outputs(1, 1, rtol="x"), "rtol"), (lambda: berth.doctor(3), "doctor"),
                (lambda: berth.tensorboard(type("Writer", (), {"add_scalar": print})(), every="x"), "every")])
            self.assertEqual(os.listdir(folder), [])

    def test_one_profile_at_a_time(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                with berth.profile(folder + "/one.json", report=False):
                    self.refused([(berth.profile(folder + "/two.json", report=False).__enter__, "another profile")])
            self.assertEqual(os.listdir(folder), ["one.json"])

    def test_a_trace_is_where_it_was_asked_for_and_others_may_read_it(self):
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            os.chdir(folder)
            try:
                with berth.profile("trace.json", report=False):
                    os.chdir(other)
            finally:
                os.chdir(before)
            self.assertEqual((os.listdir(folder), os.listdir(other)), (["trace.json"], []))
            mask = os.umask(0)
            os.umask(mask)
            self.assertEqual(os.stat(folder + "/trace.json").st_mode & 0o777, 0o666 & ~mask)

    def test_of_precision_and_switches(self):
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        mixed = berth.torch.amp(model, optimizer)
        self.refused([
            (lambda: berth.torch.amp(None, optimizer), "model"), (lambda: berth.torch.amp(model, None), "optimizer"), (lambda: mixed.step(-1), "clip_norm"),
            (lambda: berth.torch.tune(lambda: 1, repeat="3"), "repeat"), (lambda: berth.torch.tune(lambda: 1, win=0), "win")])

    def test_all_kinds_of_tensors_are_compared(self):
        for one in (torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr(), torch.quantize_per_tensor(torch.eye(2), 0.5, 0, torch.qint8)):
            self.assertTrue(berth.compare_outputs(one, torch.eye(2)))
            self.assertFalse(berth.compare_outputs(one, torch.ones(2, 2)))


if __name__ == "__main__":
    unittest.main()
