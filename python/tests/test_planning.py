"""berth.plan by name, size, file and module.

usage: test_planning.py BERTH LIBRARY
"""
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from on_a_machine import OnAMachine, main  # noqa: E402

import berth  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

GIB = 1 << 30


class Names(OnAMachine):
    machine = "workstation-4090"

    def test_a_name_a_size_and_a_gpu(self):
        code = """
            one = berth.plan("Llama-3.1-8B", gpu="RTX 4090")
            print(one.params, one.fits, one.gpu, one.parts["weights"] == 2 * one.params, one.ways)
            print(berth.plan("7B").params, berth.plan("350M", task="train").parts["optimizer"] == 8 * 350_000_000)
            small = berth.plan("Llama-3.1-8B", task="train", gpus=8, zero=3, batch=2, gpu="L40S")
            print(small.fits, small.data["zero"], all(count <= 48 << 30 for _, count in small.ways))
            print(berth.plan("Llama-3.1-8B", gpu="here").gpu)
            print(repr(one).splitlines()[-1])
            old, new = (berth.plan("Llama-3.1-8B", task="train", torch=version).parts for version in ("2.0.1", "2.15.0+cpu"))
            print(old["workspace"] == 2 * old["gradients"], new["workspace"] < old["workspace"], old["fragmentation"])
            print(one.parts["fragmentation"] == one.parts["kv_cache"] // 2, one.data["reserved_bytes"] - one.data["allocated_bytes"] == one.parts["fragmentation"])
            """
        said = self.prints(code).splitlines()
        self.assertEqual(said[0], "8030261248 True GeForce RTX 4090 True ()")
        self.assertEqual(said[1], "7000000000 True")
        self.assertTrue(said[2].endswith(" 3 True"), said[2])
        self.assertIn("4090", said[3])
        self.assertIn("it fits", said[4])
        self.assertEqual(said[5:], ["True True None", "True True"])

    def test_what_makes_no_sense_is_named(self):
        code = """
            for arguments in (dict(model="no-such-model"), dict(model=7), dict(model="Llama-3.1-8B", batch=-1), dict(model="Llama-3.1-8B", zero=3),
                              dict(model="/nonexistent.gguf"), dict(model="Llama-3.1-8B", task="dance"), dict(model="Llama-3.1-8B", gpu="A100"),
                              dict(model="Llama-3.1-8B", torch="newest")):
                try: print(berth.plan(**arguments))
                except berth.BerthError as problem: print(problem.id, bool(problem.hint))
            """
        self.assertEqual(self.prints(code).splitlines(),
                         ["E0970 True", "E1047 True", "E0104 True", "E1045 True", "E0111 True", "E0003 True", "E0972 True", "E1098 True"])


@unittest.skipUnless(torch, "needs PyTorch")
class Modules(OnAMachine):
    machine = "workstation-4090"
    decoder = """
        import torch
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.self_attn, self.mlp = torch.nn.Module(), torch.nn.Module()
                for name, out in (("q_proj", 64), ("k_proj", 32), ("v_proj", 32), ("o_proj", 64)):
                    setattr(self.self_attn, name, torch.nn.Linear(64, out, bias=False, device="meta"))
                self.mlp.gate_proj = torch.nn.Linear(64, 160, bias=False, device="meta")
                self.mlp.up_proj = torch.nn.Linear(64, 160, bias=False, device="meta")
                self.mlp.down_proj = torch.nn.Linear(160, 64, bias=False, device="meta")
        class Decoder(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embed_tokens = torch.nn.Embedding(512, 64, device="meta")
                self.layers = torch.nn.ModuleList(Block() for _ in range(3))
                self.lm_head = torch.nn.Linear(64, 512, bias=False, device="meta")
        """

    def test_a_decoder_on_the_meta_device(self):
        said = self.prints(self.decoder + """
        model = Decoder()
        one = berth.plan(model, batch=2, seq=100)
        print(one.params == sum(p.numel() for p in model.parameters()), one.parts["weights"] == 4 * one.params)
        print(one.parts["kv_cache"] == 2 * 3 * 32 * 2 * 100 * 4, one.fits)
        print(berth.plan(model.to(torch.bfloat16)).parts["weights"] == 2 * one.params)
        model.lm_head.weight = model.embed_tokens.weight
        print(berth.plan(model).params == one.params - 512 * 64)
        train = berth.plan(model, task="train", precision="fp32", gpu="RTX 4090")
        print(train.fits, train.parts["optimizer"] == 8 * (one.params - 512 * 64))
        """)
        self.assertEqual(said.splitlines(), ["True True", "True None", "True", "True", "True True"])

    def test_another_module_says_what_is_certain(self):
        said = self.prints("""
            import torch
            one = berth.plan(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)), task="train", gpu="RTX 4090")
            print(one.peak_bytes, one.safe_bytes, one.fits, one.parts["activations"], one.parts["gradients"] > 0, one.least_bytes > 0)
            print("not known" in repr(one))
            try: berth.plan(torch.nn.ReLU())
            except berth.InvalidRequest as problem: print(problem.id)
            huge = torch.nn.Linear(10**6, 10**5, device="meta")
            print(berth.plan(huge, gpu="RTX 4090").fits)
            """)
        self.assertEqual(said.splitlines(), ["None None None None True True", "True", "E1047", "False"])


if __name__ == "__main__":
    main()
