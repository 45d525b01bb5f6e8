"""Tests two ranks with gloo, if only one of them runs out of memory. Both must continue with the same size and get the same parameters.

usage: test_ranks.py     (77: no PyTorch with torch.distributed here)
"""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest

from skipping import skip

HERE = pathlib.Path(__file__).resolve().parent
try:
    import torch
except ImportError:
    skip("this Python has no PyTorch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available() if hasattr(torch.distributed, "is_gloo_available") else \
        not torch.distributed.is_available():
    skip("this PyTorch has no torch.distributed over gloo")

HEAD = """
import os, sys, datetime, torch, berth
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=int(os.environ["RANK"]), world_size=2,
                        timeout=datetime.timedelta(seconds=240))
rank = dist.get_rank()
OOM = "CUDA out of memory. Tried to allocate 2.00 GiB"
torch.manual_seed(4)
inputs, labels = torch.randn(20, 6), torch.randn(20, 1)
share = slice(0, 13) if rank == 0 else slice(13, 20)     # unequal
batch = (inputs[share], labels[share])
def plain(model, part): return torch.nn.functional.mse_loss(model(part[0]), part[1])
def make():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
def close(one, two): return all(torch.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in zip(one.parameters(), two.parameters()))
alone = make()
optimizer = torch.optim.SGD(alone.parameters(), 0.1)
plain(alone, (inputs, labels)).backward(); optimizer.step()
"""
# With old versions of PyTorch, threads sometimes abort an interpreter that exits. So exit without cleanup, after the output is complete.
TAIL = """
dist.barrier()
sys.stdout.flush()
os._exit(0)
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


class Ranks(unittest.TestCase):
    def both(self, code):
        """Runs the code in two ranks, and returns the output of each."""
        folder = tempfile.TemporaryDirectory()  # ranks find each other through a file, because other tests may use the same ports
        self.addCleanup(folder.cleanup)
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "MEETING": folder.name + "/meeting", "WORLD_SIZE": "2",
                       "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        ranks = [subprocess.Popen([sys.executable, "-c", HEAD + textwrap.dedent(code) + TAIL], env={**environment, "RANK": str(rank)},
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(2)]
        try:
            said = [one.communicate(timeout=300) for one in ranks]
        finally:
            for one in ranks:
                one.kill()
        self.assertEqual([one.returncode for one in ranks], [0, 0], said[0][1] + said[1][1])
        return [out for out, _ in said]

    def test_one_rank_runs_out_and_both_split(self):
        for way in ("forward", "backward"):
            said = self.both(f"""
                class Fails(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x): return x.clone()
                    @staticmethod
                    def backward(ctx, g): raise RuntimeError(OOM)
                def loss(model, part):
                    out = plain(model, part)
                    if rank == 1 and len(part[0]) > 2:
                        if "{way}" == "forward": raise RuntimeError(OOM)
                        out = Fails.apply(out)
                    return out
                model = torch.nn.parallel.DistributedDataParallel(make())
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
                done = berth.split_step(model, loss, optimizer, batch, report=False)
                print(done.parts, done.tries, close(model.module, alone), round(done.loss, 6) == round(float(plain(make(), (inputs, labels))), 6))
                again = berth.split_step(model, loss, optimizer, batch, report=False)
                flat = torch.cat([p.detach().flatten() for p in model.parameters()])
                other = flat.clone(); dist.all_reduce(other)
                print(again.tries, torch.equal(other / 2, flat))
                """)
            # The 7 items of rank 1 go into 4 parts of at most 2. The next step keeps rank 1's part size, and rank 0 uses as many parts.
            self.assertEqual(said, ["4 3 True True\n1 True\n"] * 2, way)

    def test_buffers_are_those_of_the_first_rank(self):
        said = self.both("""
            class Masked(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.line = torch.nn.Linear(6, 1)
                    self.register_buffer('mask', torch.ones(3, dtype=torch.uint8)); self.register_buffer('count', torch.tensor(7))
                def forward(self, x): return self.line(x)
            model = torch.nn.parallel.DistributedDataParallel(Masked())
            if rank == 1: model.module.mask.zero_(); model.module.count.zero_()
            berth.split_step(model, plain, torch.optim.SGD(model.parameters(), 0.1), batch)
            print(model.module.mask.tolist(), int(model.module.count))
            """)
        self.assertEqual(said, ["[1, 1, 1] 7\n"] * 2)

    def test_a_rank_may_be_alone(self):
        said = self.both("""
            @berth.fit_batch(start=8, report=False, group=False)
            def size(batch_size):
                if batch_size > 4: raise RuntimeError(OOM)
                return batch_size
            print(size() if rank == 0 else None)
            """)
        self.assertEqual(said, ["4\n", "None\n"])

    def test_a_mean_of_each_ranks_own_is_what_ddp_has(self):
        said = self.both("""
            model = torch.nn.parallel.DistributedDataParallel(make()); other = torch.nn.parallel.DistributedDataParallel(make())
            plain(other, batch).backward()
            berth.split_step(model, plain, torch.optim.SGD(model.parameters(), 0.0), batch, parts=3, over="rank")
            print(all(torch.allclose(a.grad, b.grad, rtol=1e-5, atol=1e-7) for a, b in zip(model.parameters(), other.parameters())))
            """)
        self.assertEqual(said, ["True\n"] * 2)

    def test_a_loop_of_ones_own_exchanges_gradients_once(self):
        said = self.both("""
            model = torch.nn.parallel.DistributedDataParallel(make())
            times = []
            model.register_comm_hook(None, lambda state, bucket: (times.append(1), dist.all_reduce(bucket.buffer(), async_op=True).get_future()
                                     .then(lambda done: done.value()[0] / 2))[1])
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for part in berth.accumulate(batch, 3, model=model):
                with part: part.share(plain(model, part.data)).backward()
            optimizer.step()
            print(len(times), close(model.module, alone))
            """)
        self.assertEqual(said, ["1 True\n"] * 2)

    def test_a_rank_that_fails_otherwise_takes_the_others_along(self):
        said = self.both("""
            model = torch.nn.parallel.DistributedDataParallel(make())
            def loss(model, part):
                if rank == 1: raise KeyError("data")
                return plain(model, part)
            try: berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.1), batch)
            except Exception as problem: print(type(problem).__name__)
            """)
        self.assertEqual(said, ["RankFailed\n", "KeyError\n"])

    def test_what_fails_in_one_rank_alone_is_told_to_the_other(self):
        """One rank fails before the first agreement of the ranks, between two agreements, or after the last one."""
        said = self.both("""
            model = torch.nn.parallel.DistributedDataParallel(make())
            def fails(*_): raise KeyError("count")
            class Out(torch.optim.SGD):
                def step(self): raise RuntimeError(OOM)
            class Writes(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.line = torch.nn.Linear(6, 1); self.register_buffer("memory", torch.zeros(1 << 19))
                def forward(self, x):
                    if rank == 1: self.memory.add_(1)
                    return self.line(x)
            def short(model, part):
                out = plain(model, part)
                if len(part[0]) > 3 and torch.is_grad_enabled(): raise RuntimeError(OOM)
                return out
            plainly = torch.optim.SGD(model.parameters(), 0.1)
            bad = {"unequal": dict(batch=(batch[0], batch[1][:2])), "empty": dict(batch=(batch[0][:0], batch[1][:0])), "count": dict(count=fails),
                   "over": dict(over="x"), "parts": dict(parts=0), "clip": dict(clip_norm=-1), "optimizer": dict(optimizer=Out(model.parameters(), 0.1)),
                   "written": dict(model=torch.nn.parallel.DistributedDataParallel(Writes(), broadcast_buffers=False), loss_fn=short)}
            for name, options in bad.items():
                wish = dict(model=model, loss_fn=plain, optimizer=plainly, batch=batch, report=False)
                if rank == 1 or name == "written": wish.update(options)
                try: berth.split_step(**wish)
                except Exception as problem: print(name, type(problem).__name__)
            try: berth.accumulate(batch, 0 if rank == 1 else 2, model=model)
            except Exception as problem: print("accumulate", type(problem).__name__)
            def smaller(size):
                if rank == 1: raise KeyError(size)
                return size // 2
            @berth.fit_batch(start=8, reduce_batch_size_fn=smaller, report=False)
            def train(size): raise RuntimeError(OOM)
            try: train()
            except Exception as problem: print("fit", type(problem).__name__)
            print(berth.split_step(model, plain, plainly, batch).parts)
            """)
        names = ["unequal", "empty", "count", "over", "parts", "clip", "optimizer", "written", "accumulate", "fit"]
        kinds = ["InvalidRequest", "InvalidRequest", "KeyError", "InvalidRequest", "InvalidRequest", "InvalidRequest", "StepInterrupted",
                 "StepInterrupted", "InvalidRequest", "KeyError"]
        self.assertEqual([one.splitlines() for one in said], [[f"{name} RankFailed" for name in names] + ["1"],
                                                              [f"{name} {kind}" for name, kind in zip(names, kinds)] + ["1"]])

    def test_a_rank_is_told_that_another_has_not_stepped(self):
        said = self.both("""
            model = torch.nn.parallel.DistributedDataParallel(make())
            class Out(torch.optim.SGD):
                def step(self):
                    if rank == 1: raise RuntimeError(OOM)
                    super().step()
            try: berth.split_step(model, plain, Out(model.parameters(), 0.1), batch, report=False)
            except Exception as problem: print(type(problem).__name__, "parameters may differ between the ranks" in str(problem))
            """)
        self.assertEqual(said, ["RankFailed True\n", "StepInterrupted False\n"])

    def test_what_never_fits_ends_in_all_ranks(self):
        said = self.both("""
            model = torch.nn.parallel.DistributedDataParallel(make())
            def loss(model, part):
                if rank == 1: raise RuntimeError(OOM)
                return plain(model, part)
            try: berth.split_step(model, loss, torch.optim.SGD(model.parameters(), 0.1), batch, report=False)
            except Exception as problem: print(type(problem).__name__)
            """)
        self.assertEqual(said, ["DoesNotFit\n"] * 2)

    def test_a_batch_that_is_found_is_the_same_in_both(self):
        said = self.both("""
            sizes = []
            @berth.fit_batch(start=64, report=False)
            def train(batch_size):
                sizes.append(batch_size)
                if rank == 1 and batch_size > 20: raise RuntimeError(OOM)
                return batch_size
            print(train(), sizes, berth.find_batch(lambda size: (_ for _ in ()).throw(MemoryError()) if rank == 0 and size > 100 else None))
            """)
        self.assertEqual(said[0], said[1])
        self.assertTrue(said[0].startswith("16 [64, 32, 16] 9"), said[0])


if __name__ == "__main__":
    unittest.main()
