# `berth bench train` and `berth bench infer` run this program in the user's Python, one process per precision, so that the memory of each can be measured. argv
# contains a JSON document. The last line of output is one JSON document.
import importlib.util
import json
import os
import resource
import sys
import tempfile
import time

# The modules that each runtime needs besides PyTorch. ONNX Runtime reads the exported model. It also calls TensorRT.
RUNTIMES = {"pytorch": (), "onnxruntime": ("onnxruntime",), "tensorrt": ("onnxruntime", "tensorrt")}
WARM_UP, LEAST_RUNS, MOST_RUNS = 2, 5, 1000


class NotPossible(Exception):
    """Raised if a precision cannot run on this machine; the message says why."""


def resnet(torch, blocks, bottleneck):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inside, width, stride):
            super().__init__()
            out = width * 4 if bottleneck else width
            sizes = ((inside, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)) if bottleneck else (
                (inside, width, 3, stride), (width, width, 3, 1))
            layers = []
            for into, onto, kernel, step in sizes:
                layers += [nn.Conv2d(into, onto, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(onto), nn.ReLU()]
            self.path = nn.Sequential(*layers[:-1])
            self.side = nn.Sequential() if inside == out and stride == 1 else nn.Sequential(
                nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x):
            return torch.relu(self.path(x) + self.side(x))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for number in range(count):
            layers.append(Block(inside, width, 2 if stage and not number else 1))
            inside = width * 4 if bottleneck else width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


def mobilenet_v2(torch):
    nn = torch.nn

    def layer(into, onto, kernel=1, stride=1, groups=1, act=True):
        return [nn.Conv2d(into, onto, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(onto)] + [nn.ReLU6()] * act

    class Block(nn.Module):
        def __init__(self, into, onto, stride, widen):
            super().__init__()
            inner = into * widen
            self.adds = stride == 1 and into == onto
            self.path = nn.Sequential(*(layer(into, inner) if widen > 1 else []), *layer(inner, inner, 3, stride, inner),
                                      *layer(inner, onto, act=False))

        def forward(self, x):
            return x + self.path(x) if self.adds else self.path(x)

    layers, into = layer(3, 32, 3, 2), 32
    for widen, onto, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for number in range(count):
            layers.append(Block(into, onto, 1 if number else stride, widen))
            into = onto
    return nn.Sequential(*layers, *layer(320, 1280), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


def gpt2(torch, layers, width, heads, vocab=50257, context=1024):
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, tokens, _ = x.shape
            q, k, v = (one.view(batch, tokens, heads, -1).transpose(1, 2) for one in self.mix(self.before(x)).split(width, 2))
            if hasattr(functional, "scaled_dot_product_attention"):
                seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                mask = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
                seen = (q @ k.transpose(2, 3) / q.shape[3] ** 0.5).masked_fill(mask, float("-inf")).softmax(3) @ v
            x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
            return x + self.down(functional.gelu(self.up(self.after(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(vocab, width), nn.Embedding(context, width)
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(layers))), nn.LayerNorm(width)

        def forward(self, x):
            x = self.blocks(self.words(x) + self.places(torch.arange(x.shape[1], device=x.device)))
            return self.norm(x) @ self.words.weight.t()

    return Model()


# the name of a model: (function that builds it, image size or None, number of tokens or None, default batch size)
MODELS = {
    "resnet50": (lambda torch: resnet(torch, (3, 4, 6, 3), True), 224, None, 32),
    "resnet18": (lambda torch: resnet(torch, (2, 2, 2, 2), False), 224, None, 32),
    "mobilenet_v2": (mobilenet_v2, 224, None, 32),
    "gpt2": (lambda torch: gpt2(torch, 12, 768, 12), None, 512, 4),
    "gpt2-tiny": (lambda torch: gpt2(torch, 2, 64, 4, 1000, 128), None, 64, 8),
}


def data_for(torch, name, batch, device):
    _, side, tokens, _ = MODELS[name]
    torch.manual_seed(1)
    if side:
        return torch.randn(batch, 3, side, side, device=device), torch.randint(1000, (batch,), device=device)
    words = torch.randint(1000, (batch, tokens), device=device)
    return words, words.roll(-1, 1)


def timed(torch, device, once, seconds):
    """Runs the function for a warm-up and then repeatedly. Returns the seconds of each run. A GPU works asynchronously, so each run waits until the GPU has
    finished."""
    def wait():
        if device != "cpu":
            torch.cuda.synchronize()

    for _ in range(WARM_UP):
        once()
    wait()
    runs, begin = [], time.perf_counter()
    while len(runs) < MOST_RUNS and (len(runs) < LEAST_RUNS or time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        once()
        wait()
        runs.append(time.perf_counter() - start)
    return runs


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Memory:
    """Measures peak memory: on a GPU, the peak of PyTorch's allocator; on the CPU, the growth of this process."""

    def __init__(self, torch, device):
        self.torch, self.device, self.before = torch, device, resident()

    def peak(self):
        if self.device != "cpu":
            return self.torch.cuda.max_memory_allocated(), "allocated"
        return max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - self.before, 0), "resident"


def use_tf32(torch, device, wanted):
    if device == "cpu":
        if wanted:
            raise NotPossible("tf32 exists only on NVIDIA GPUs")
        return
    if wanted and torch.cuda.get_device_capability()[0] < 8:
        raise NotPossible("tf32 needs an NVIDIA GPU of compute capability 8.0")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = wanted


def train(torch, wish, device):
    use_tf32(torch, device, wish["precision"] == "tf32")
    torch.manual_seed(0)
    memory = Memory(torch, device)
    model = MODELS[wish["model"]][0](torch).to(device)
    inputs, targets = data_for(torch, wish["model"], wish["batch"], device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    amp = wish["precision"] == "amp"
    kind = torch.float16 if device != "cpu" and not torch.cuda.is_bf16_supported() else torch.bfloat16
    scaler = torch.cuda.amp.GradScaler() if amp and kind == torch.float16 else None
    losses = []

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.split(":")[0], dtype=kind, enabled=amp):
            out = model(inputs)
            loss = torch.nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]).float(), targets.reshape(-1))
        (scaler.scale(loss) if scaler else loss).backward()
        scaler.step(optimizer) if scaler else optimizer.step()
        if scaler:
            scaler.update()
        losses.append(loss.detach())

    runs = timed(torch, device, step, wish["seconds"])
    peak, metric = memory.peak()
    finite = bool(torch.isfinite(torch.stack(losses)).all())
    return {"runs": runs, "memory_bytes": peak, "memory_metric": metric, "params": sum(one.numel() for one in model.parameters()),
            "engine": "PyTorch " + torch.__version__, "finite": finite}


def in_int8(torch, model, device):
    """The model with 8-bit weights, and the name of the library that converted it."""
    try:
        from torchao.quantization import quantize_
        try:
            from torchao.quantization import Int8DynamicActivationInt8WeightConfig as config
        except ImportError:
            from torchao.quantization import int8_dynamic_activation_int8_weight as config
        quantize_(model, config())
        return model, "torchao"
    except ImportError:
        pass
    if device != "cpu":
        raise NotPossible("int8 on a GPU needs torchao: pip install torchao")
    linear = sum(one.weight.numel() for one in model.modules() if isinstance(one, torch.nn.Linear))
    whole = sum(one.numel() for one in model.parameters())
    if linear < whole / 2:
        raise NotPossible("PyTorch quantizes only linear layers by itself, and this model has few: pip install torchao")
    return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8), "PyTorch dynamic quantization"


def in_pytorch(torch, wish, device, model, inputs):
    """Returns four values: a function that runs the model, a function that returns its last output, the name of the library, and the bytes of the weights."""
    engine = "PyTorch " + torch.__version__
    if wish["precision"] in ("fp16", "bf16"):
        kind = torch.float16 if wish["precision"] == "fp16" else torch.bfloat16
        model = model.to(kind)
        inputs = inputs.to(kind) if inputs.is_floating_point() else inputs
    elif wish["precision"] == "int8":
        model, how = in_int8(torch, model, device)
        engine = how if how != "torchao" else f"{engine}, torchao"
    out = []

    def once():
        with torch.inference_mode():
            out[:] = [model(inputs)]

    weights = sum(one.numel() * one.element_size() for one in [*model.parameters(), *model.buffers()])
    return once, lambda: out[0], engine, weights if wish["precision"] != "int8" else None


def export(torch, model, inputs, path):
    # The newer exporter of PyTorch needs another package (onnxscript), so use the older exporter. PyTorch before 2.5 has only the older one.
    older = {"dynamo": False} if "dynamo" in torch.onnx.export.__code__.co_varnames else {}
    try:
        torch.onnx.export(model, (inputs,), path, input_names=["x"], output_names=["y"], opset_version=17, **older)
    except Exception as problem:  # PyTorch raises errors of many types, also when the package `onnx` is missing
        raise NotPossible(f"PyTorch cannot export the model: {type(problem).__name__}: {problem}".splitlines()[0][:300]) from problem


def quantize(path, has_images):
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic
        # On the CPU, integer convolutions support only unsigned weights.
        quantize_dynamic(path, path + ".int8", weight_type=QuantType.QUInt8 if has_images else QuantType.QInt8)
    except ImportError as problem:
        raise NotPossible(f"{problem}; int8 in ONNX Runtime needs the package onnx: pip install onnx") from problem
    except Exception as problem:  # an error of the package `onnx`, which may not support this version of NumPy
        raise NotPossible(f"ONNX Runtime cannot quantize the model: {type(problem).__name__}: {problem}".splitlines()[0][:300]) from problem
    return path + ".int8"


def provider_for(runtime, wish, device):
    """The execution provider that ONNX Runtime uses for the device, and the provider's options."""
    import onnxruntime
    precision = wish["precision"]
    if device == "cpu":
        if runtime == "tensorrt":
            raise NotPossible("TensorRT needs an NVIDIA GPU")
        if precision in ("fp16", "bf16"):
            raise NotPossible(f"ONNX Runtime has no {precision} on the CPU for most operators")
        return "CPUExecutionProvider", {}
    if precision in ("bf16", "int8"):
        raise NotPossible(f"{precision} on a GPU needs " + ("another export" if precision == "bf16" else "a calibration with your own data"))
    name = "TensorrtExecutionProvider" if runtime == "tensorrt" else "CUDAExecutionProvider"
    if name not in onnxruntime.get_available_providers():
        raise NotPossible(f"this ONNX Runtime has no {name}: pip install onnxruntime-gpu")
    return name, {"trt_fp16_enable": precision == "fp16"} if runtime == "tensorrt" else {}


def in_onnx_runtime(torch, wish, device, model, inputs):
    """Returns the same four values as in_pytorch()."""
    import onnxruntime
    provider, options = provider_for(wish["runtime"], wish, device)
    if wish["precision"] == "fp16" and wish["runtime"] != "tensorrt":
        model = model.half()
        inputs = inputs.half() if inputs.is_floating_point() else inputs
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        export(torch, model, inputs, path)
        if wish["precision"] == "int8":
            path = quantize(path, inputs.is_floating_point())
        weights = os.path.getsize(path)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = torch.get_num_threads()
        try:
            session = onnxruntime.InferenceSession(path, settings, providers=[(provider, options)])
        except Exception as problem:  # ONNX Runtime raises errors of many types
            raise NotPossible(f"ONNX Runtime cannot run the model: {problem}".splitlines()[0][:300]) from problem
    if session.get_providers()[0] != provider:
        raise NotPossible(f"ONNX Runtime could not start {provider}")
    binding, kind = session.io_binding(), device.split(":")[0]
    given = onnxruntime.OrtValue.ortvalue_from_numpy(inputs.cpu().numpy(), kind, 0)
    binding.bind_ortvalue_input("x", given)
    binding.bind_output("y", kind)

    def once():
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    engine = "ONNX Runtime " + onnxruntime.__version__ + (", TensorRT" if wish["runtime"] == "tensorrt" else "")
    return once, lambda: torch.from_numpy(binding.copy_outputs_to_cpu()[0]), engine, weights


def infer(torch, wish, device):
    use_tf32(torch, device, False)
    torch.manual_seed(0)
    model = MODELS[wish["model"]][0](torch).to(device).eval()
    inputs, _ = data_for(torch, wish["model"], wish["batch"], device)
    with torch.inference_mode():
        expected = model(inputs).float().cpu()
    memory = Memory(torch, device)
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    params = sum(one.numel() for one in model.parameters())
    is_pytorch = wish["runtime"] == "pytorch"
    once, output, engine, weights = (in_pytorch if is_pytorch else in_onnx_runtime)(torch, wish, device, model, inputs)
    runs = timed(torch, device, once, wish["seconds"])
    found = output().float().cpu()
    drift = float((found - expected).norm() / expected.norm())
    if device == "cpu":
        peak, metric = weights, "weights"
    else:  # PyTorch's allocator does not count the memory of other runtimes
        peak, metric = memory.peak() if is_pytorch else (None, None)
    return {"runs": runs, "memory_bytes": peak, "memory_metric": metric, "params": params, "engine": engine, "drift": drift,
            "finite": bool(torch.isfinite(found).all())}


def main():
    wish = json.loads(sys.argv[1])
    said = {}
    if not all(map(importlib.util.find_spec, RUNTIMES[wish["runtime"]])):
        print('\n{"not_installed": true}')
        return
    try:
        import torch
        device = "cpu" if wish["cpu"] or not torch.cuda.is_available() else "cuda"
        wish["batch"] = wish["batch"] or MODELS[wish["model"]][3]
        said = {"device": device, "device_name": torch.cuda.get_device_name() if device != "cpu" else "CPU", "batch": wish["batch"],
                "torch": torch.__version__, "threads": torch.get_num_threads()}
        said.update((train if wish["task"] == "train" else infer)(torch, wish, device))
    except NotPossible as problem:
        said["not_possible"] = str(problem)
    except ImportError as problem:
        said["missing"] = str(problem)
    except (RuntimeError, MemoryError) as problem:
        words = f"{type(problem).__name__}: {problem}".splitlines()[0][:300]
        said["not_possible" if "not implemented for '" in words else "failed"] = words
    print("\n" + json.dumps(said))


main()
