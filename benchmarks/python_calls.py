#!/usr/bin/env python3
"""Measures the overhead of Berth's Python wrappers, of a hand-written `try`, and of accelerate and toma if they are installed. Prints rows
`name, berth, anchor, ratio` like bench.py. Candidates run alternately; values are the minimum of many runs.

usage: python_calls.py [--repeat N] [--berth BERTH --library LIBRARY] [--json FILE] [--with MODULE]…
"""
import argparse
import datetime
import importlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import timeit

import measuring

sys.path.insert(0, str(measuring.ROOT / "python"))
CALLS = 2000
IMPORTS = {**os.environ, "PYTHONPATH": str(measuring.ROOT / "python")}
OOM = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 24.00 GiB total capacity)"
SHORT = []  # if not empty, the calls behave as if memory was short
ABOUT_MEMORY = "memory format option is only supported by strided tensors"
LEASE = """
import sys, time, berth
with berth.lease(gpus=1): pass
times = []
for _ in range(60):
    before = time.perf_counter()
    with berth.lease(gpus=1): pass
    times.append(time.perf_counter() - before)
print(sorted(times)[30] * 1e6)
"""


def step(batch_size=32):
    return batch_size


def native(batch_size=32):
    """The loop that people write by hand."""
    try:
        return step(batch_size)
    except RuntimeError as problem:
        if "out of memory" not in str(problem):
            raise
        return step(batch_size // 2)


def measured(calls, repeat):
    """Returns {name: microseconds per call}. The candidates run alternately."""
    timers = {name: timeit.Timer(call) for name, call in calls.items()}
    least = {name: max(0.01, timer.timeit(1) * 1e6) for name, timer in timers.items()}
    for _ in range(repeat):
        for name, timer in timers.items():
            count = max(1, min(CALLS, int(10_000 / least[name])))  # 10 ms each
            least[name] = min(least[name], timer.timeit(count) / count * 1e6)
    return least


def optional(name):
    try:
        return importlib.import_module(name)
    except Exception as why:
        print(f"without {name}: {why}", file=sys.stderr)
        return None


def wrappers():
    import berth
    calls = {"native": native, "retry": berth.retry(step), "retry, generators left": berth.retry(step, same_random=False),
             "fit_batch": berth.fit_batch(start=32)(step)}
    memory = optional("accelerate.utils.memory")
    if memory:
        calls["accelerate"] = memory.find_executable_batch_size(lambda batch_size: batch_size, starting_batch_size=32)
    toma = optional("toma")
    if toma:
        calls["toma"] = toma.toma.batch(initial_batchsize=32)(lambda batchsize: batchsize)
    return calls


def questions():
    import berth
    from accelerate.utils.memory import should_reduce_batch_size as accelerates
    calls = {}
    for name, problem in (("is_oom, true", RuntimeError(OOM)), ("is_oom, another error", RuntimeError("shapes do not fit")),
                          ("is_oom, another type", ValueError("x")), ("is_oom, another error that tells of memory", RuntimeError(ABOUT_MEMORY)),
                          ("is_oom, another error of 1 MB", RuntimeError("frame\n" * 170_000))):
        calls[name] = lambda problem=problem: berth.is_oom(problem)
        calls["accelerate: " + name] = lambda problem=problem: accelerates(problem)
    return calls


def steps(torch, turns=15):
    """Returns {name: median microseconds} of a training step in two parts: by hand, by split_step, by split_step without `count` (which
    compares the losses each time), and by split_step after a try that ran out of memory."""
    import berth
    from berth import fitting
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 10))
    counts = (torch.rand(1024) < 0.8).float()  # random like non-padding tokens: the parts have different counts, so the comparison ends after the first step
    batch, optimizer = (torch.randn(1024, 512), torch.randn(1024, 10), counts), torch.optim.SGD(model.parameters(), 0.01)
    def loss(model, part):
        if SHORT and len(part[0]) > 512:  # fails before it computes anything, so that the failed try is not measured
            raise RuntimeError(OOM)
        return ((model(part[0]) - part[1]).square().mean(1) * part[2]).sum() / part[2].sum()

    def plain(model, part):
        return torch.nn.functional.mse_loss(model(part[0]), part[1])

    def items(part):
        return part[2].sum()

    def by_hand():
        optimizer.zero_grad(set_to_none=True)
        for part in zip(*(one.split(512) for one in batch)):
            (loss(model, part) * (items(part) / counts.sum())).backward()
        optimizer.step()

    def recovered():
        fitting._known[model].items = 0  # as on the first call; the loss is already known to be splittable
        SHORT.append(True)
        berth.split_step(model, loss, optimizer, batch, count=items, report=False)
        SHORT.clear()
    calls = {"by hand": by_hand, "split_step": lambda: berth.split_step(model, loss, optimizer, batch, parts=2, count=items), "recovered": recovered,
             "without a count": lambda: berth.split_step(model, plain, optimizer, batch[:2], parts=2)}
    times = {name: [] for name in calls}
    for turn in range(turns + 1):
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            if turn:
                times[name].append((time.perf_counter() - begun) * 1e6)
    return {name: statistics.median(some) for name, some in times.items()}


def row(name, berth, anchor_name, anchor):
    return {"name": name, "berth": berth, "anchor": anchor, "anchor_name": anchor_name, "ratio": berth / anchor, "unit": "µs"}


def rows(arguments):
    calls = wrappers()
    had = ", ".join(name for name in ("numpy", "torch") if name in sys.modules) or "no framework"
    found = measured(calls, arguments.repeat)
    for name in ("retry", "retry, generators left", "fit_batch"):
        yield row(f"{name} without an error, {had}", found[name] - found["native"], "goal", 2.0)
        for anchor in ("native", "accelerate", "toma"):
            if anchor in found and (anchor == "native" or name == "fit_batch"):
                yield row(f"{name}, whole call, {had}", found[name], anchor, found[anchor])
    try:
        asked = measured(questions(), arguments.repeat)
    except ImportError:
        import berth
        asked = measured({"is_oom, true": lambda: berth.is_oom(RuntimeError(OOM))}, arguments.repeat)
    for name in [name for name in asked if name.startswith("is_oom")]:
        yield row(name, asked[name], "goal", 100.0 if "1 MB" in name else 2.0)
        if "accelerate: " + name in asked:
            yield row(name, asked[name], "accelerate", asked["accelerate: " + name])
    if "torch" in sys.modules:
        took = steps(sys.modules["torch"])
        yield row("a step in two parts, split_step", took["split_step"], "by hand", took["by hand"])
        yield row("the same without a count, split_step", took["without a count"], "by hand", took["by hand"])
        yield row("the same, after memory ran out", took["recovered"], "split_step", took["split_step"])
        yield row("what recovery adds to the step", max(0.0, took["recovered"] - took["split_step"]), "goal: 5 %", 0.05 * took["split_step"])
    starts = measured({"import": lambda: subprocess.run([sys.executable, "-c", "import berth"], env=IMPORTS, check=True),
                       "nothing": lambda: subprocess.run([sys.executable, "-c", ""], env=IMPORTS, check=True)}, 10)
    yield row("import berth, above Python's own start", starts["import"] - starts["nothing"], "goal", 30000.0)
    if arguments.berth:
        environment = {**os.environ, "PYTHONPATH": str(measuring.ROOT / "python"), "BERTH_LIBRARY": os.path.abspath(arguments.library),
                       "BERTH_PROGRAM": os.path.abspath(arguments.berth)}
        done = subprocess.run([arguments.berth, "sim", "--machine", "workstation-4090", "--", sys.executable, "-c", LEASE], env=environment,
                              capture_output=True, text=True, check=True)
        yield row("with berth.lease(gpus=1): pass", float(done.stdout), "goal", 5000.0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=40)
    parser.add_argument("--berth", help="the program, for leases")
    parser.add_argument("--library", help="libberth.so beside it")
    parser.add_argument("--with", dest="modules", action="append", default=[], help="a framework to load first: its generators are kept too")
    parser.add_argument("--json", help="also into this file")
    arguments = parser.parse_args()
    for module in arguments.modules:
        importlib.import_module(module)
    found = []
    for entry in rows(arguments):
        found.append(entry)
        print(f"{entry['name']}, {entry['berth']:.2f} µs, {entry['anchor_name']} {entry['anchor']:.2f} µs, {entry['ratio']:.4f}", flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"time": datetime.datetime.now(datetime.timezone.utc).isoformat(),
                                                            "machine": measuring.machine(), "python": sys.version, "rows": found}, indent=1))


if __name__ == "__main__":
    main()
