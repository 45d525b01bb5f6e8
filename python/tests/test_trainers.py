"""Tests Berth in training loops of other projects: Hugging Face's Trainer and Accelerate, Lightning, Keras. Skips projects that are not installed.

usage: test_trainers.py     (77: none of them is here)
"""
import contextlib
import copy
import functools
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest
import warnings
from unittest import mock

from skipping import skip

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def has(*names):
    return all(importlib.util.find_spec(name) is not None for name in names)


TRANSFORMERS, ACCELERATE = has("torch", "transformers", "accelerate"), has("torch", "accelerate")
LIGHTNING, KERAS = has("torch", "lightning"), has("keras", "tensorflow")
if not (TRANSFORMERS or ACCELERATE or LIGHTNING or KERAS):
    skip("none of transformers, accelerate, lightning and keras is installed; ./dev test --frameworks gets them")

import berth  # noqa: E402
import berth.integrations  # noqa: E402
from berth import readings  # noqa: E402

POWER = "berth/gpu0/power_milliwatts"
OOM = "CUDA out of memory. Tried to allocate 2.00 GiB"


class Seen(unittest.TestCase):
    """Base class of tests that use fake measurements of one GPU."""

    def setUp(self):
        gpu = types.SimpleNamespace(index=0, name="A card")
        some = [("memory_used_bytes", 3 * 2.0**30), ("memory_total_bytes", 8 * 2.0**30), ("utilization_percent", 50.0), ("power_milliwatts", 41000.0)]
        fake = mock.patch.object(readings, "read", lambda: [readings.Reading(gpu, name, value) for name, value in some])
        fake.start()
        self.addCleanup(fake.stop)
        self.said = io.StringIO()
        quiet = contextlib.redirect_stderr(self.said)
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)

    def assert_same(self, one, other, least=1e-5):
        import torch
        mine, theirs = (torch.cat([each.detach().flatten() for each in model.parameters()]) for model in (one, other))
        self.assertLess(float(torch.norm(mine - theirs) / theirs.norm()), least)


class Short:
    """Makes a model run out of memory if a batch has more than `rows` rows."""

    def __init__(self, model, rows):
        self.rows, self.failures, forward = rows, 0, model.forward

        @functools.wraps(forward)
        def limited(*args, **named):
            given = named.get("input_ids", args[0] if args else None)
            if model.training and self.rows and len(given) > self.rows:
                self.failures += 1
                raise RuntimeError(OOM)
            return forward(*args, **named)
        model.forward = limited


@unittest.skipUnless(TRANSFORMERS, "no transformers")
class Trainers(Seen):
    def trained(self, rows, attached=True, steps=3, model=None, data=None, prepare=None, **more):
        """Trains a model for some steps with batches of 8 rows. Memory runs out with more than `rows` rows. Returns the model, the trainer, and the result
        of attach()."""
        import torch
        import transformers
        transformers.logging.set_verbosity_error()
        model = copy.deepcopy(model if model is not None else self.gpt())
        short = Short(model, rows)
        with tempfile.TemporaryDirectory() as folder:
            settings = transformers.TrainingArguments(folder, max_steps=steps, per_device_train_batch_size=8, logging_steps=1, report_to=[], save_strategy="no",
                                                      disable_tqdm=True, seed=5, use_cpu=True, optim="sgd", learning_rate=0.5, lr_scheduler_type="constant",
                                                      max_grad_norm=0.0, **more)
            trainer = transformers.Trainer(model, settings, train_dataset=data if data is not None else self.rows(), data_collator=self.joined)
            if prepare is not None:
                prepare(trainer)
            given = berth.integrations.huggingface.attach(trainer) if attached else None
            with contextlib.redirect_stdout(io.StringIO()):
                trainer.train()
        del torch
        return model, trainer, given, short

    @staticmethod
    def joined(rows):
        import torch
        return {key: torch.stack([row[key] for row in rows]) for key in rows[0]}

    @staticmethod
    def rows():
        """Rows of tokens with very different amounts of padding."""
        import torch
        torch.manual_seed(1)
        made = []
        for at in range(48):
            words, length = torch.randint(2, 60, (12,)), 2 + at % 8 + (3 if at % 3 else 0)
            labels = words.clone()
            labels[length:] = -100
            made.append({"input_ids": words, "attention_mask": (torch.arange(12) < length).long(), "labels": labels})
        return made

    @staticmethod
    def gpt():
        import torch
        import transformers
        torch.manual_seed(2)
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=64, n_positions=16, resid_pdrop=0.0,
                                                                    embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0))

    @staticmethod
    def bert(labels, kind):
        import torch
        import transformers
        torch.manual_seed(3)
        return transformers.BertForSequenceClassification(transformers.BertConfig(
            num_hidden_layers=1, num_attention_heads=2, hidden_size=16, intermediate_size=16, vocab_size=64, max_position_embeddings=16, num_labels=labels,
            problem_type=kind, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))

    @classmethod
    def setUpClass(cls):
        import berth.integrations.huggingface  # noqa: F401

    def losses(self, trainer):
        return [row["loss"] for row in trainer.state.log_history if "loss" in row]

    def check_as_the_whole(self, **more):
        plain, reference, _, _ = self.trained(0, attached=False, **more)
        model, trainer, given, short = self.trained(3, **more)
        self.assertGreater(short.failures, 0)
        self.assertEqual(given.last.parts, 4)
        self.assert_same(model, plain)
        for mine, theirs in zip(self.losses(trainer), self.losses(reference)):
            self.assertAlmostEqual(mine, theirs, places=4)
        return trainer, given

    def test_a_language_model_with_padding(self):
        trainer, given = self.check_as_the_whole()
        self.assertEqual([row[POWER] for row in trainer.state.log_history if "loss" in row], [41000.0] * 3)
        self.assertIn("berth: steps: 3; time: ", self.said.getvalue())
        self.assertIn("tries without enough memory: 2; split steps: 3, into up to 4 parts", self.said.getvalue())
        self.assertIn("berth: GPU 0 (A card): memory up to 3.0 GiB of 8.0 GiB, 50 % busy on average, 41 W on average", self.said.getvalue())
        given.detach()
        self.assertFalse({"training_step", "compute_loss", "log"} & set(vars(trainer)))

    def test_gradients_of_several_batches(self):
        self.check_as_the_whole(gradient_accumulation_steps=2)

    def test_a_mean_over_labels_that_the_trainer_does_not_count(self):
        def older(trainer):
            trainer.model_accepts_loss_kwargs = False
        self.check_as_the_whole(prepare=older)
        self.check_as_the_whole(prepare=older, gradient_accumulation_steps=2)
        self.check_as_the_whole(prepare=older, label_smoothing_factor=0.1)

    def test_a_mean_that_takes_no_notice_of_the_trainers_count(self):
        import torch
        torch.manual_seed(4)
        data = [{"input_ids": row["input_ids"], "labels": torch.rand(())} for row in self.rows()]
        trainer, _ = self.check_as_the_whole(model=self.bert(1, "regression"), data=data)
        self.assertEqual(trainer.training_step._reduction, "mean")
        data = [{**row, "labels": torch.tensor(at % 3)} for at, row in enumerate(data)]
        trainer, _ = self.check_as_the_whole(model=self.bert(3, "single_label_classification"), data=data)

    def test_memory_that_is_enough_changes_nothing(self):
        plain, _, _, _ = self.trained(0, attached=False)
        model, _, given, _ = self.trained(0)
        self.assertEqual((given.last.parts, given.last.tries), (1, 1))
        self.assert_same(model, plain, 1e-7)

    def test_a_loss_over_the_batch_is_refused(self):
        def in_batch(trainer):
            trainer.compute_loss_func = lambda outputs, labels, num_items_in_batch=None: outputs.logits.flatten(1).std(0).mean()
        with self.assertRaises(berth.NotSplittable):
            self.trained(3, prepare=in_batch)

    def test_what_is_no_lack_of_memory_is_raised_and_leaves_no_gradients(self):
        def failing(trainer):
            def loss(*args, **named):
                raise ValueError("as it is")
            trainer.compute_loss = loss
        with self.assertRaisesRegex(ValueError, "as it is"):
            self.trained(0, prepare=failing)

    def test_requests(self):
        self.assertRaises(berth.InvalidRequest, berth.integrations.huggingface.attach, object())
        self.assertRaises(berth.InvalidRequest, self.trained, 0, prepare=berth.integrations.huggingface.attach)
        self.assertRaises(berth.Unsupported, berth.integrations.huggingface.attach,
                          types.SimpleNamespace(training_step=print, compute_loss=print, add_callback=print, args=types.SimpleNamespace(n_gpu=2)))


@unittest.skipUnless(ACCELERATE, "no accelerate")
class Accelerated(Seen):
    def test_gradients_of_several_batches(self):
        import accelerate
        import torch
        import berth.integrations.accelerate
        torch.manual_seed(0)
        first = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        x, y = torch.randn(32, 6), torch.randn(32, 1)
        found = []
        for limit in (0, 3):
            accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
            model = copy.deepcopy(first)
            loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
            model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1), loader)

            def loss_fn(model, part, limit=limit):
                if limit and len(part[0]) > limit and torch.is_grad_enabled():
                    raise RuntimeError(OOM)
                return torch.nn.functional.mse_loss(model(part[0]), part[1])
            for batch in loader:
                with accelerator.accumulate(model):
                    if limit:
                        done = berth.integrations.accelerate.backward(accelerator, model, loss_fn, batch, report=False)
                        self.assertEqual(done.parts, 4)
                    else:
                        accelerator.backward(loss_fn(model, batch))
                    optimizer.step()
                    optimizer.zero_grad()
            found.append(accelerator.unwrap_model(model))
        self.assert_same(*found)
        self.assertRaises(berth.InvalidRequest, berth.integrations.accelerate.backward, object(), found[0], loss_fn, batch)

    def test_two_ranks_of_which_one_runs_out(self):
        code = """
            import copy, sys, torch, accelerate, berth.integrations.accelerate as integration
            accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
            torch.manual_seed(0)
            first = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
            torch.manual_seed(7 + accelerator.process_index)
            batches = [(torch.randn(8, 6), torch.randn(8, 1)) for _ in range(4)]
            def loss_fn(model, part):
                if short and len(part[0]) > 3 and accelerator.process_index == 1 and torch.is_grad_enabled():
                    raise RuntimeError("CUDA out of memory")
                return torch.nn.functional.mse_loss(model(part[0]), part[1])
            found = []
            for short in (False, True):
                model = copy.deepcopy(first)
                model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
                for at, batch in enumerate(batches):
                    with accelerator.accumulate(model):
                        if short:
                            assert integration.backward(accelerator, model, loss_fn, batch, report=False).parts == 4
                        else:
                            accelerator.backward(loss_fn(model, batch))
                        optimizer.step()
                        optimizer.zero_grad()
                found.append([one.detach() for one in model.parameters()])
            accelerator.wait_for_everyone()
            accelerator.end_training()  # a rank that ends first would have the other one abort
            assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*found)), found
            """
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "ranks.py"
            path.write_text(textwrap.dedent(code))
            done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(path)], text=True, timeout=200,
                                  capture_output=True, env={**os.environ, "PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])


@unittest.skipUnless(LIGHTNING, "no lightning")
class Lightning(Seen):
    def fitted(self, training_step, automatic, **more):
        import lightning
        import torch
        import berth.integrations.lightning

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.layer, self.automatic_optimization = torch.nn.Linear(6, 1), automatic

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.1)
        Module.training_step = training_step
        torch.manual_seed(1)
        data = torch.utils.data.TensorDataset(torch.randn(24, 6), torch.randn(24, 1))
        module = Module()
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            trainer = lightning.Trainer(accelerator="cpu", max_epochs=1, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                                        log_every_n_steps=1, callbacks=[berth.integrations.lightning.callback()], default_root_dir=folder, **more)
            trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=8))
        return module

    @staticmethod
    def loss_fn(module, part):
        import torch
        return torch.nn.functional.mse_loss(module.layer(part[0]), part[1])

    def test_readings_and_a_step_that_fits(self):
        import torch
        from lightning.pytorch.loggers import CSVLogger
        loss_fn = self.loss_fn

        def short(module, part):
            if len(part[0]) > 3 and torch.is_grad_enabled():
                raise RuntimeError(OOM)
            return loss_fn(module, part)

        def by_hand(module, batch, index):
            optimizer = module.optimizers()
            optimizer.zero_grad()
            berth.integrations.lightning.backward(module, short, batch, report=False)
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            plain = self.fitted(lambda module, batch, index: loss_fn(module, batch), True, logger=CSVLogger(folder))
            logged = next(pathlib.Path(folder).rglob("metrics.csv")).read_text()
        self.assertIn(POWER, logged)
        self.assertIn("41000.0", logged)
        module = self.fitted(by_hand, False, logger=False)
        self.assert_same(module, plain)
        self.assertIn("berth: steps: 3; time: ", self.said.getvalue())
        self.assertIn("split steps: 3, into up to 4 parts", self.said.getvalue())

    def test_a_lack_of_memory_is_explained_and_raised(self):
        def full(module, batch, index):
            raise RuntimeError(OOM)
        with self.assertRaisesRegex(RuntimeError, "out of memory"):
            self.fitted(full, True, logger=False)
        self.assertIn("held for them", self.said.getvalue())
        self.assertIn("hint: berth.integrations.lightning.backward", self.said.getvalue())

    def test_automatic_optimization_is_refused(self):
        def wrong(module, batch, index):
            berth.integrations.lightning.backward(module, self.loss_fn, batch)
        with self.assertRaisesRegex(berth.InvalidRequest, "backward pass itself"):
            self.fitted(wrong, True, logger=False)


@unittest.skipUnless(KERAS, "no keras with TensorFlow")
class Keras(Seen):
    def test_readings_are_in_the_history(self):
        with mock.patch.dict(os.environ, {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}):
            import keras
        import numpy
        import berth.integrations.keras
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
        history = model.fit(numpy.zeros((16, 4)), numpy.zeros((16, 1)), epochs=2, batch_size=8, verbose=0, callbacks=[berth.integrations.keras.callback()])
        self.assertEqual(history.history[POWER], [41000.0, 41000.0])
        self.assertIn("berth: steps: 4; time: ", self.said.getvalue())


if __name__ == "__main__":
    unittest.main()
