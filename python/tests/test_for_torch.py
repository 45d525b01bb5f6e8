"""Tests berth.torch with the installed PyTorch: precision, ranks, speed settings, smaller models.

usage: test_for_torch.py     (77: no PyTorch here)
"""
import importlib.util
import contextlib
import doctest
import importlib
import importlib.util
import io
import os
import subprocess
import sys
import types
import unittest
import warnings
from unittest import mock

from with_torch import HERE, torch

import berth
from berth.torch import precision

torch.set_num_threads(1)


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))


class Examples(unittest.TestCase):
    def test_they_are_true(self):
        for name in ("precision", "tuning", "shrinking"):
            found = doctest.testmod(importlib.import_module("berth.torch." + name))
            self.assertEqual((found.failed, found.attempted > 0), (0, True), name)

    def test_pytorch_is_loaded_with_it_and_not_before(self):
        code = "import sys, berth; print('torch' in sys.modules); berth.torch; berth.torch.amp; print(berth.torch.__name__)"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(HERE.parent)}, capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("False\nberth.torch\n", ""))


class Precision(unittest.TestCase):
    def test_bf16_trains_and_agrees_with_fp32(self):
        data, labels = torch.randn(32, 64), torch.randn(32, 8)
        losses = {}
        for name in ("fp32", "bf16"):
            model = network()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            mixed = berth.torch.amp(model, optimizer, name)
            for _ in range(20):
                with mixed.autocast():
                    loss = torch.nn.functional.mse_loss(model(data).float(), labels)
                mixed.backward(loss)
                norm = mixed.step(clip_norm=1.0)
            losses[name] = loss.item()
            self.assertGreater(norm, 0)
            self.assertTrue(all(one.dtype == torch.float32 for one in model.parameters()))
        self.assertAlmostEqual(losses["bf16"], losses["fp32"], delta=0.05 * losses["fp32"])
        self.assertEqual(berth.torch.amp(model, optimizer).precision, "fp32")

    def test_why_is_said_in_chinese_too(self):
        model, before = network(), os.environ.get("LC_ALL")
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        try:
            for language, english in (("C.UTF-8", True), ("zh_CN.UTF-8", False)):
                os.environ["LC_ALL"] = language
                for precision in ("auto", "bf16"):
                    self.assertEqual(berth.torch.amp(model, optimizer, precision).why.isascii(), english)
                notes = berth.torch.quantize(model, "bf16").notes
                self.assertEqual([one.isascii() for one in notes], [english] * len(notes))
                self.assertTrue(notes)
        finally:
            os.environ.pop("LC_ALL") if before is None else os.environ.update(LC_ALL=before)

    def test_it_goes_with_a_split_step(self):
        data = (torch.randn(8, 64), torch.randn(8, 8))
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        mixed = berth.torch.amp(model, optimizer, "bf16")

        def loss(model, part):
            with mixed.autocast():
                return torch.nn.functional.mse_loss(model(part[0]).float(), part[1])
        self.assertEqual(berth.split_step(model, loss, optimizer, data, parts=2, scaler=mixed.scaler).parts, 2)

    def test_the_device_decides(self):
        for capability, hip, expected in (((9, 0), None, "bf16"), ((8, 0), None, "bf16"), ((7, 5), None, "fp16"), ((6, 1), None, "fp32"), ((7, 0), "6.0", "bf16")):
            fake = types.SimpleNamespace(cuda=types.SimpleNamespace(get_device_capability=lambda: capability), version=types.SimpleNamespace(hip=hip))
            self.assertEqual(precision._best(fake, "cuda")[0], expected)
        for device in ("xpu", "mps", "cpu"):
            self.assertEqual(precision._best(None, device)[0], "bf16" if device == "xpu" else "fp32")
        made = []
        new = types.SimpleNamespace(amp=types.SimpleNamespace(GradScaler=lambda device: made.append(device)))
        precision._scaler(new, "cuda")
        old = types.SimpleNamespace(cuda=types.SimpleNamespace(amp=types.SimpleNamespace(GradScaler=lambda: made.append("old"))))
        precision._scaler(old, "cuda")
        self.assertEqual(made, ["cuda", "old"])

    def test_bad_requests(self):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for bad, kind in ((lambda: berth.torch.amp(model, optimizer, "fp8"), berth.InvalidRequest), (lambda: berth.torch.amp(model, optimizer, "fp16"), berth.Unsupported),
                          (lambda: berth.torch.amp(torch.nn.ReLU(), optimizer), berth.InvalidRequest),
                          (lambda: berth.torch.amp(network().bfloat16(), optimizer, "bf16"), berth.InvalidRequest)):
            self.assertRaises(kind, bad)


class Ranks(unittest.TestCase):
    def test_one_process_has_the_model_as_it_is(self):
        model = network()
        with mock.patch.dict(os.environ):
            for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR"):
                os.environ.pop(name, None)
            self.assertIs(berth.torch.distribute(model), model)
            os.environ["WORLD_SIZE"] = "2"
            self.assertRaises(berth.InvalidRequest, berth.torch.distribute, model)
            os.environ["WORLD_SIZE"] = "two"
            self.assertRaises(berth.InvalidRequest, berth.torch.distribute, model)
        self.assertRaises(berth.InvalidRequest, berth.torch.distribute, lambda x: x)

    def test_two_ranks_have_one_model(self):
        from test_ranks import free_port
        code = ("import torch, berth; model = berth.torch.distribute(torch.nn.Linear(2, 1)); model(torch.ones(1, 2) * torch.distributed.get_rank()).sum().backward()\n"
                "print(type(model).__name__, model.module.weight.grad.tolist()); torch.distributed.barrier()")
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2",
                       "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        ranks = [subprocess.Popen([sys.executable, "-c", code], env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE,
                                  text=True) for rank in range(2)]
        self.assertEqual([one.communicate(timeout=60)[0] for one in ranks], ["DistributedDataParallel [[0.5, 0.5]]\n"] * 2)


class Tuning(unittest.TestCase):
    def test_what_wins_stays_and_nothing_is_trained(self):
        model = network()
        optimizer = torch.optim.Adam(model.parameters())
        before = [one.clone() for one in model.parameters()]
        data = torch.randn(16, 64)

        def step(model):
            optimizer.zero_grad()
            loss = model(data).square().mean()
            loss.backward()
            optimizer.step()
            return loss
        with contextlib.redirect_stderr(io.StringIO()) as said:
            found = berth.torch.tune(step, model=model, optimizer=optimizer, repeat=3, seconds=0.2)
        self.assertTrue(all(torch.equal(one, two) for one, two in zip(model.parameters(), before)))
        self.assertEqual([one.name for one in found], ["as it is", "cudnn.benchmark", "TF32 in products", "TF32 in convolutions", "channels_last", "compile"])
        self.assertIn("for NVIDIA GPUs", said.getvalue())
        self.assertEqual(found[0].drift, 0.0)

    def test_gradients_are_those_from_before_in_each_trial_and_afterwards(self):
        model, data, seen = network(), torch.randn(16, 64), []
        first, *others = model.parameters()
        first.grad = torch.ones_like(first)
        held = first.grad

        def step(model):
            seen.append((bool((first.grad == 1).all()), [one.grad for one in others]))
            loss = model(data).square().mean()
            loss.backward()
            return loss
        berth.torch.tune(step, model=model, repeat=2, seconds=0.05, report=False)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        berth.torch.tune(lambda: step(model), optimizer=optimizer, repeat=2, seconds=0.05, report=False)

        def failing():
            step(model)
            raise KeyError("of the step")
        self.assertRaises(KeyError, berth.torch.tune, failing, optimizer=optimizer, report=False)
        self.assertGreater(len(seen), 6)
        for kept, rest in [*seen, (bool((first.grad == 1).all()), [one.grad for one in others])]:
            self.assertEqual((kept, rest), (True, [None] * len(others)))
        self.assertIs(first.grad, held, "the same one, which others may look at")

    def test_a_switch_is_kept_by_speed_and_drift(self):
        from berth.torch import tuning
        state = {"on": False}

        def on():
            state["on"] = True

        def off():
            state["on"] = False
        switch = tuning._Switch("x", on, off)
        one = torch.tensor([1.0, 2.0])
        for took, result, kept, left in ((0.5, one, True, True), (0.99, one, False, False), (0.5, one * 1.1, False, False), (0.5, one * 1.001, True, True)):
            trial = tuning._tried(switch, lambda: (took, 0, result), 1.0, one, (1.03, 0.01))
            self.assertEqual((trial.kept, state["on"]), (kept, left))

        def fails(problem):
            raise problem
        self.assertEqual(tuning._tried(switch, lambda: fails(RuntimeError("CUDA out of memory. Tried to allocate")), 1.0, one, (1.03, 0.01)).note, "memory runs out with it")
        self.assertIn("no compiler", tuning._tried(switch, lambda: fails(RuntimeError("no compiler")), 1.0, one, (1.03, 0.01)).note)
        self.assertFalse(state["on"])
        self.assertRaises(berth.InvalidRequest, berth.torch.tune, 3)
        self.assertRaises(berth.InvalidRequest, berth.torch.tune, print, repeat=0)


class Smaller(unittest.TestCase):
    def test_int8_is_smaller_and_near(self):
        model, samples = network(), torch.randn(16, 64)
        if torch.backends.quantized.supported_engines in ([], ["none"]):
            self.assertRaises(berth.Unsupported, berth.torch.quantize, model)
            return
        said = berth.torch.quantize(model, samples=samples)
        self.assertLess(said.bytes_after, 0.5 * said.bytes_before)
        self.assertLess(said.drift, 0.05)
        self.assertIn("a call:", repr(said))
        self.assertTrue(model.training)
        self.assertIn("latency and drift", repr(berth.torch.quantize(model)))

    @unittest.skipUnless(importlib.util.find_spec("torchao"), "no torchao")
    def test_int8_is_made_by_torchao_where_it_is_installed(self):
        model = network()
        said = berth.torch.quantize(model, samples=torch.randn(16, 64))
        kinds = {type(one.weight).__module__.split(".")[0] for one in said.model.modules() if isinstance(one, torch.nn.Linear)}
        self.assertEqual(kinds, {"torchao"})
        self.assertLess(said.bytes_after, 0.5 * said.bytes_before)

    def test_torchao_is_asked_for_linear_layers_alone(self):
        with_torchao = types.ModuleType("torchao.quantization")
        asked = []
        with_torchao.Int8DynamicActivationInt8WeightConfig = lambda: "how"
        with_torchao.quantize_ = lambda model, how: asked.append(how)
        with mock.patch.dict(sys.modules, {"torchao": types.ModuleType("torchao"), "torchao.quantization": with_torchao}):
            berth.torch.quantize(torch.nn.Sequential(torch.nn.Linear(4, 4)))
            self.assertEqual(asked, ["how"])
            try:
                berth.torch.quantize(torch.nn.LSTM(4, 4))
            except berth.Unsupported:  # this PyTorch no longer has quantize_dynamic
                pass
            self.assertEqual(asked, ["how"])
            # Without quantize_dynamic, torchao quantizes the linear layers, and the recurrent layers stay unchanged.
            with mock.patch.object(torch.ao.quantization, "quantize_dynamic", None):
                berth.torch.quantize(torch.nn.ModuleList([torch.nn.LSTM(4, 4), torch.nn.Linear(4, 4)]))
        self.assertEqual(asked, ["how", "how"])

    def test_pytorchs_own_quantization_does_not_warn(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            try:
                berth.torch.quantize(torch.nn.LSTM(4, 4))
            except berth.Unsupported:  # this PyTorch has no quantize_dynamic, or no engine for it
                pass

    def test_each_layer_stays_in_its_own_mode(self):
        model, samples = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)), torch.randn(4, 8)
        model[1].eval()  # a frozen layer stays in eval mode
        for smaller in (lambda: berth.torch.quantize(model, "bf16", samples=samples), lambda: berth.torch.prune(model, 0.5, samples=samples)):
            said = smaller()
            for one in (model, said.model):
                self.assertEqual((one.training, one[0].training, one[1].training), (True, True, False))

    def test_halves_are_half(self):
        said = berth.torch.quantize(network(), "bf16", samples=torch.randn(16, 64))
        self.assertLess(said.bytes_after, 0.6 * said.bytes_before)
        self.assertLess(said.drift, 0.05)

    def test_masks_are_not_smaller(self):
        model, samples = network(), torch.randn(16, 64)
        said = berth.torch.prune(model, 0.5, samples=samples)
        self.assertEqual(said.zeros / said.parameters, 0.5)
        self.assertAlmostEqual(said.bytes_after, said.bytes_before, delta=0.01 * said.bytes_before)
        self.assertGreater(said.drift, 0)
        self.assertFalse(any("mask" in name for name, _ in said.model.named_buffers()))
        self.assertEqual(sum(int((one == 0).sum()) for one in model.parameters()), 0)

    def test_bad_requests(self):
        model = network()
        for bad, kind in ((lambda: berth.torch.quantize(model, "int3"), berth.InvalidRequest), (lambda: berth.torch.quantize(3), berth.InvalidRequest),
                          (lambda: berth.torch.quantize(torch.nn.Conv2d(1, 1, 1)), berth.Unsupported), (lambda: berth.torch.prune(torch.nn.ReLU(), 0.5), berth.Unsupported),
                          (lambda: berth.torch.quantize(model, "bf16", samples=[torch.randn(2, 64)]), berth.InvalidRequest),
                          (lambda: berth.torch.prune(model, 0.5, samples={"no_such": torch.randn(2, 64)}), berth.InvalidRequest),
                          *((lambda amount=amount: berth.torch.prune(model, amount), berth.InvalidRequest) for amount in (0, 1.0, -0.5, True, 3, "x"))):
            self.assertRaises(kind, bad)


if __name__ == "__main__":
    unittest.main()
