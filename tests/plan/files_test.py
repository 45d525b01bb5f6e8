#!/usr/bin/env python3
"""`berth plan fit` on model files of the real writers: Debian's PyTorch, and safetensors, gguf and onnx from PyPI, where they are installed.
Files of a small decoder with known sizes, whole and damaged.

usage: files_test.py BERTH
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BERTH = ""
LAYERS, HIDDEN, KV, WIDE, VOCAB = 3, 64, 32, 160, 512
SHAPES = {"model.embed_tokens.weight": (VOCAB, HIDDEN), "lm_head.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,)}
for _layer in range(LAYERS):
    SHAPES |= {f"model.layers.{_layer}.{name}.weight": shape for name, shape in {
        "self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (KV, HIDDEN), "self_attn.v_proj": (KV, HIDDEN), "self_attn.o_proj": (HIDDEN, HIDDEN),
        "mlp.gate_proj": (WIDE, HIDDEN), "mlp.up_proj": (WIDE, HIDDEN), "mlp.down_proj": (HIDDEN, WIDE), "input_layernorm": (HIDDEN,),
        "post_attention_layernorm": (HIDDEN,)}.items()}
GGML_NAMES = {"model.embed_tokens": "token_embd", "lm_head": "output", "model.norm": "output_norm", "self_attn.q_proj": "attn_q",
              "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
              "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
              "model.layers": "blk"}


def product(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


PARAMS = sum(map(product, SHAPES.values()))
# Executed if a reader unpickles the file.
TRAP = "import os, sys\nclass Trap:\n    def __reduce__(self): return os.system, ('touch ' + sys.argv[2],)\n"


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, needs, code, *words):
        """Runs code in a Python that has these modules."""
        for python in filter(None, ("/usr/bin/python3", sys.executable, os.environ.get("BERTH_MODEL_PYTHON"))):
            if subprocess.run([python, "-c", f"import {needs}"], capture_output=True).returncode == 0:
                given = "import json, sys\nSHAPES = {k: tuple(v) for k, v in json.loads(sys.argv[1]).items()}\n"
                subprocess.run([python, "-c", given + code, json.dumps(SHAPES), *map(str, words)], check=True, cwd=self.folder, timeout=100)
                return
        self.skipTest(f"no Python here has {needs} (BERTH_MODEL_PYTHON names one)")

    def berth(self, *words):
        return subprocess.run([BERTH, "plan", "fit", *map(str, words)], capture_output=True, text=True, timeout=20, cwd=self.folder,
                              env={**os.environ, "LC_ALL": "C.UTF-8"})

    def fit(self, *words):
        done = self.berth(*words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check(self, name, weights, kv=True, params=PARAMS, **options):
        found = self.fit(name, *options.get("words", ()))
        self.assertEqual(found["params"], params)
        self.assertEqual(found["parts"]["weights_bytes"], weights)
        if kv:
            element = 4 if found["precision"] == "f32" else 2
            self.assertEqual(found["parts"]["kv_cache_bytes"], 2 * LAYERS * KV * 2048 * element)
        else:
            self.assertIsNone(found["parts"]["kv_cache_bytes"])
            self.assertIsNone(found["safe_bytes"])
        return found

    def check_each(self, names, weights, precision=None, **options):
        for name in names:
            with self.subTest(name):
                found = self.check(name, weights, **options)
                self.assertIn(precision, (None, found["precision"]))

    def refused(self, name, *ids):
        done = self.berth(name)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("hint: ", done.stderr)
        self.assertTrue(any(f"[{one}]" in done.stderr or one in done.stderr for one in ids), done.stderr)

    def refuse_every_part_of(self, path):
        whole = path.read_bytes()
        for length in (0, 1, 7, 20, len(whole) // 3, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:length])
            self.refused(path.name, "E1040", "E1041")

    def test_pytorch(self):
        state = "import torch\nstate = {k: torch.zeros(v, dtype=torch.bfloat16) for k, v in SHAPES.items()}\n"
        self.write("torch", state + "torch.save(state, 'new.pt')\n"
                   "torch.save(state, 'old.pth', _use_new_zipfile_serialization=False)\n"
                   "optimizer = {'state': {0: {'exp_avg': torch.zeros(999)}}}\n"
                   "torch.save({'epoch': 3, 'loss': 0.5, 'state_dict': state, 'optimizer': optimizer}, 'training.ckpt')\n"
                   "state['lm_head.weight'] = state['model.embed_tokens.weight']\ntorch.save(state, 'tied.bin')\n"
                   "module = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.BatchNorm1d(7))\ntorch.save(module, 'module.pt')\n"
                   "torch.save(module, 'old_module.pt', _use_new_zipfile_serialization=False)\n")
        self.check_each(("new.pt", "old.pth", "training.ckpt"), 2 * PARAMS, "bf16")
        shared = VOCAB * HIDDEN
        self.check("tied.bin", 2 * (PARAMS - shared), params=PARAMS - shared)
        # A module without a decoder's names: only what is certain is said. The batch norm has 28 numbers and a counter.
        self.check_each(("module.pt", "old_module.pt"), 4 * (42 + 28) + 8, kv=False, params=42 + 28)
        for name in ("new.pt", "old.pth"):
            self.refuse_every_part_of(self.folder / name)

    def test_a_pickle_is_never_executed(self):
        probe = self.folder / "probe"
        self.write("torch", "import torch\n" + TRAP + "torch.save({'a': Trap()}, 'new.pt')\n"
                   "torch.save({'a': Trap()}, 'old.pt', _use_new_zipfile_serialization=False)\n"
                   "torch.save({'a': Trap(), 'b': torch.zeros(3)}, 'mixed.pt')\n", probe)
        for name in ("new.pt", "old.pt"):
            self.refused(name, "E1044")
        self.check("mixed.pt", 12, kv=False, params=3)
        self.assertFalse(probe.exists())

    def test_safetensors_and_an_index(self):
        self.write("numpy, safetensors",
                   "import numpy\nfrom safetensors.numpy import save_file\n"
                   "state = {k: numpy.zeros(v, dtype=numpy.float16) for k, v in SHAPES.items()}\nsave_file(state, 'model.safetensors')\n"
                   "names = sorted(state)\nparts = {'1.safetensors': names[::2], '2.safetensors': names[1::2]}\n"
                   "for part, some in parts.items(): save_file({k: state[k] for k in some}, part)\n"
                   "index = {'metadata': {}, 'weight_map': {k: part for part, some in parts.items() for k in some}}\n"
                   "open('all.index.json', 'w').write(json.dumps(index))\n")
        self.check_each(("model.safetensors", "all.index.json", "."), 2 * PARAMS)
        self.assertEqual(self.fit("model.safetensors", "--precision", "fp32")["parts"]["weights_bytes"], 4 * PARAMS)
        # Full training in amp does not depend on the type in the file.
        self.assertEqual(self.fit("model.safetensors", "--task", "train")["parts"]["optimizer_bytes"], 8 * PARAMS)
        (self.folder / "2.safetensors").unlink()
        self.refused("all.index.json", "E1042")
        self.refuse_every_part_of(self.folder / "model.safetensors")

    def test_gguf(self):
        self.write("gguf", "import gguf, numpy\nnames = json.loads(sys.argv[2])\nwriter = gguf.GGUFWriter('m.gguf', 'llama')\n"
                   "writer.add_block_count(3)\nwriter.add_token_list(['a', 'bc'] * 500)\nwriter.add_custom_alignment(64)\n"
                   "for k, v in SHAPES.items():\n"
                   "    for old, new in names.items(): k = k.replace(old, new)\n"
                   "    kind = gguf.GGMLQuantizationType.Q8_0 if len(v) == 2 else None\n"
                   "    data = numpy.ones(v, dtype=numpy.float32)\n"
                   "    writer.add_tensor(k, data if kind is None else gguf.quants.quantize(data, kind), raw_dtype=kind)\n"
                   "writer.write_header_to_file()\nwriter.write_kv_data_to_file()\nwriter.write_tensors_to_file()\nwriter.close()\n",
                   json.dumps(GGML_NAMES))
        matrices = sum(product(shape) for shape in SHAPES.values() if len(shape) == 2)
        found = self.check("m.gguf", matrices // 32 * 34 + 4 * (PARAMS - matrices))
        self.assertEqual(found["precision"], "q8_0")
        whole = (self.folder / "m.gguf").read_bytes()
        self.refuse_every_part_of(self.folder / "m.gguf")
        (self.folder / "m.gguf").write_bytes(whole.replace(b"blk.1.attn_k.weight", b"blk.1.attn_k.weigh\xff"))
        self.assertEqual(self.berth("m.gguf").returncode, 0)  # bytes that are not UTF-8 are never printed as they are

    def test_onnx(self):
        self.write("onnx", "import onnx, numpy\nfrom onnx import helper, numpy_helper\n"
                   "state = [numpy_helper.from_array(numpy.zeros(v, dtype=numpy.float32), k) for k, v in SHAPES.items()]\n"
                   "one = helper.make_tensor_value_info('x', 1, [2])\n"
                   "constant = helper.make_node('Constant', [], ['c'], value=numpy_helper.from_array(numpy.zeros(8, dtype=numpy.float16)))\n"
                   "node = helper.make_node('Identity', ['x'], ['y'])\n"
                   "graph = helper.make_graph([constant, node], 'g', [one], [helper.make_tensor_value_info('y', 1, [2])], state)\n"
                   "model = helper.make_model(graph)\nonnx.save(model, 'm.onnx')\n"
                   "onnx.save(model, 'outside.onnx', save_as_external_data=True, location='weights', size_threshold=0)\n")
        self.check_each(("m.onnx", "outside.onnx"), 4 * PARAMS + 16, params=PARAMS + 8)
        self.refuse_every_part_of(self.folder / "m.onnx")

    def test_a_header_of_a_terabyte_and_things_that_are_no_files(self):
        (self.folder / "huge.safetensors").write_bytes((1 << 40).to_bytes(8, "little") + b'{"a":')
        self.refused("huge.safetensors", "E1041")
        with open(self.folder / "sparse.safetensors", "wb") as file:
            file.write((1 << 40).to_bytes(8, "little") + b'{"a":')
            file.truncate(1 << 42)
        done = self.berth("sparse.safetensors")
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("E1043", done.stderr)
        os.mkfifo(self.folder / "pipe.gguf")
        self.refused("pipe.gguf", "E1040")
        done = self.berth("missing.safetensors")
        self.assertEqual(done.returncode, 1)
        self.assertIn("missing.safetensors", done.stderr)

    def test_a_config_alone(self):
        (self.folder / "config.json").write_text(json.dumps({
            "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": WIDE, "num_attention_heads": 4, "num_key_value_heads": 2,
            "num_hidden_layers": LAYERS, "vocab_size": VOCAB, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}))
        for name in ("config.json", "."):
            found = self.fit(name)
            self.assertEqual((found["params"], found["parts"]["weights_bytes"]), (PARAMS, 2 * PARAMS))

    def test_what_is_certain_can_already_be_too_much(self):
        self.assertIsNone(self.fit("vit_huge_patch14_224.orig_in21k", "--gpu", "L4")["gpu"]["fits"])
        with open(self.folder / "large.safetensors", "wb") as file:
            header = json.dumps({"a": {"dtype": "F32", "shape": [10**10], "data_offsets": [0, 4 * 10**10]}}).encode()
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + 4 * 10**10)
        self.assertIs(self.fit("large.safetensors", "--gpu", "L4")["gpu"]["fits"], False)

    def test_for_names_the_model_too(self):
        def plan(*words, **more):
            return subprocess.run([BERTH, "plan", *words], text=True, stderr=subprocess.PIPE, **{"stdout": subprocess.PIPE} | more)

        self.assertEqual(plan("gpu", "--for", "Llama-3.1-8B").stdout, plan("gpu", "Llama-3.1-8B").stdout)
        for words in (("gpu", "Llama-3.1-8B", "--for", "gpt2"), ("gpu", "--params", "7B", "--for", "gpt2"), ("cost", "--gpu", "L4", "--for", "gpt2")):
            done = plan(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("E0974", done.stderr)
        with open("/dev/full", "w") as full:
            done = plan("gpu", "--for", "Llama-3.1-8B", stdout=full)
        self.assertIn("E0008", done.stderr)
        self.assertNotEqual(done.returncode, 0)


class Pages(unittest.TestCase):
    """What a person reads."""

    def plan(self, *words, **variables):
        return subprocess.run([BERTH, "plan", *words], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"} | variables).stdout

    def test_the_price_of_an_instance_is_not_that_of_a_gpu(self):
        document = json.loads(self.plan("cost", "--gpu", "H200", "--json"))["rent"]["on_demand"]
        whole, each = (f"{document['per_hour'] / count:.2f}" for count in (1, document["gpus"]))
        cost = self.plan("cost", "--gpu", "H200")
        self.assertRegex(cost, rf"(?m)^rent on demand +{whole} +{document['gpus']} +{each} ")
        self.assertIn(f"rent on demand: {document['provider']} {document['instance']}, {document['region']}, ", cost)
        self.assertIn(f"GPUs in the instance: {document['gpus']}, needed: 1; only whole instances", cost)
        self.assertRegex(self.plan("gpu", "Llama-3.1-8B"),
                         rf"(?m)^H200 .* {whole} +{document['gpus']} +{each}  {document['provider']} {document['instance']}  ")

    def test_a_narrow_screen_leaves_out_columns_and_no_part_of_a_name(self):
        narrow = self.plan("gpu", "Llama-3.1-8B", COLUMNS="60").splitlines()
        self.assertLessEqual(max(len(line) for line in narrow if "  " in line), 60)
        self.assertTrue(any(line.startswith("A100 SXM4 80GB ") for line in narrow))
        self.assertTrue(any(line.startswith("not shown: ") for line in narrow))
        self.assertNotIn("…", self.plan("gpu", "Llama-3.1-8B"))

    def test_the_answer_says_what_it_assumed(self):
        for words in (("fit",), ("gpu",)):
            self.assertIn("assumed: inference, batch 1, 2048 tokens, bf16; model Llama-3.1-8B", self.plan(*words, "Llama-3.1-8B"))
        page = self.plan("fit", "Qwen2.5-7B", "--gpu", "RTX 3060 12GB")
        self.assertRegex(page, r"  --layers (\d+)  .* removes \d+ of the model's 28 layers")
        self.assertIn("assumed: train, batch 4, 2048 tokens, amp, adamw", self.plan("fit", "Llama-3.1-8B", "--task", "train", "--batch", "4"))
        document = json.loads(self.plan("gpu", "Llama-3.1-8B", "--json"))
        self.assertEqual((document["task"], document["batch"], document["seq"], document["precision"]), ("inference", 1, 2048, "bf16"))


class Words(unittest.TestCase):
    def plan(self, *words):
        done = subprocess.run([BERTH, "plan", *words, "--json"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
        return json.loads(done.stdout or done.stderr)

    def test_a_detector_and_the_gpus_that_hold_it(self):
        words = ("--task", "train", "--precision", "fp32", "--optimizer", "sgd-momentum", "--batch", "2", "--gpus", "8")
        found = self.plan("fit", "Mask R-CNN R50-FPN", *words)
        self.assertEqual((found["model"], found["accuracy"]["cases"]), ("detectron2/mask_rcnn_R_50_FPN", 24))
        self.assertLess(abs(found["allocated_bytes"] / (3.4 * 2**30) - 1), 0.05)  # the published peak
        held = self.plan("gpu", "mask_rcnn_R_50_FPN_3x", *words)["gpus"]
        self.assertGreater(len(held), 20)
        self.assertEqual({one["most_tokens_per_second"] for one in held}, {None})

    def test_a_pruned_model(self):
        whole, half = self.plan("fit", "Llama-3.1-8B"), self.plan("fit", "Llama-3.1-8B", "--layers", "16")
        self.assertLess(half["params"], 0.6 * whole["params"])
        self.assertEqual(2 * half["parts"]["kv_cache_bytes"], whole["parts"]["kv_cache_bytes"])
        ways = self.plan("fit", "Qwen2.5-7B", "--gpu", "RTX 3060 12GB")["gpu"]["ways"]
        way, = [one for one in ways if one["options"].startswith("--layers")]
        self.assertEqual(self.plan("fit", "Qwen2.5-7B", *way["options"].split())["safe_bytes"], way["safe_bytes"])
        self.assertEqual(self.plan("fit", "--params", "7B", "--layers", "40")["params"], 7 * 10**9)
        for words in (("Qwen2.5-7B", "--layers", "99"), ("resnet18", "--layers", "2"), ("Qwen2.5-7B", "--layers", "-1")):
            self.assertEqual(self.plan("fit", *words)["error"]["id"], "E1066", words)

    def test_what_a_card_costs_a_month(self):
        cost = self.plan("cost", "--gpu", "L4", "--card-price", "3600", "--power-price", "0.5", "--hours", "24", "--load", "50", "--resale", "20")
        power = 72 / 1000 * cost["hours_per_month"] * 0.5 * 0.5
        self.assertAlmostEqual(cost["buy"]["power_per_month"], power)
        self.assertAlmostEqual(cost["buy"]["per_month"], 3600 * 0.8 / 36 + power)
        spot, lost = (self.plan("cost", "--gpu", "L4", *words)["rent"] for words in ((), ("--lost", "20")))
        self.assertAlmostEqual(lost["spot_per_month"], spot["spot_per_month"] / 0.8)
        self.assertEqual(lost["on_demand_per_month"], spot["on_demand_per_month"])
        self.assertEqual(self.plan("cost", "--gpu", "L4", "--lost", "100")["error"]["id"], "E0978")


if __name__ == "__main__":
    BERTH = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
