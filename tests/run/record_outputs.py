#!/usr/bin/env python3
"""Records what programs print when they end with an error, for src/run/failure_test.cpp. Each program runs in this interpreter; those whose
module is not installed are skipped, and their earlier recordings stay.

usage: record_outputs.py [PACKAGE…]     (writes recorded_outputs.json beside it)
"""
import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

FILE = pathlib.Path(__file__).with_name("recorded_outputs.json")
LIMIT = """
import resource
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), resource.RLIM_INFINITY))
"""

# (package, name, class of the try, program)
PROGRAMS = [
    ("python", "a large object", "out of memory", "bytearray(1 << 60)"),
    ("python", "no memory for a list", "out of memory", LIMIT + "[list(range(1 << 20)) for _ in range(1 << 10)]"),
    ("python", "endless recursion", "user error", "def f(): f()\nf()"),
    ("python", "words about memory", "user error", "raise ValueError('the last run ended with: CUDA out of memory. Tried to allocate 2.00 GiB')"),
    ("python", "an option about memory", "user error", "import argparse; argparse.ArgumentParser().parse_args(['--out-of-memory'])"),
    ("numpy", "a large array", "out of memory", "import numpy; numpy.ones((100000, 10000000))"),
    ("numpy", "a negative size", "user error", "import numpy; numpy.empty(-1)"),
    ("torch", "a large tensor", "out of memory", "import torch; torch.empty(1 << 50, dtype=torch.uint8)"),
    ("torch", "memory that runs out in a step", "out of memory",
     "import torch\nline = torch.nn.Linear(64, 4096)\n" + LIMIT + "line(torch.randn(1 << 16, 64)).relu().sum().backward()"),
    ("torch", "a worker of a data loader", "out of memory", """
        import torch
        class Data(torch.utils.data.Dataset):
            def __len__(self): return 4
            def __getitem__(self, at): return torch.empty(1 << 50, dtype=torch.uint8)
        if __name__ == "__main__":
            for one in torch.utils.data.DataLoader(Data(), num_workers=1): pass
     """),
    ("torch", "a batch that did not fit, and then a bug", "user error", """
        import torch
        try:
            torch.empty(1 << 50, dtype=torch.uint8)
        except RuntimeError as problem:
            print(problem)
        torch.ones(2) @ torch.ones(3)
     """),
    ("torch", "a bug in the handler", "user error", """
        import torch
        try:
            torch.empty(1 << 50, dtype=torch.uint8)
        except RuntimeError:
            nothing.retry()
     """),
    ("torch", "no GPU", "user error", "import torch; torch.ones(1).cuda()"),
    ("torch", "wrong shapes", "user error", "import torch; torch.nn.Linear(4, 4)(torch.ones(2, 3))"),
    ("torch", "a tensor of a negative size", "user error", "import torch; torch.empty(-1)"),
    ("jax", "a large array", "out of memory", "import jax.numpy as jnp; jnp.ones(1 << 46, dtype='uint8').block_until_ready()"),
    ("jax", "memory that runs out in a compiled function", "out of memory",
     "import jax, jax.numpy as jnp\njax.jit(lambda x: jnp.ones((x.shape[0], 1 << 42), dtype='uint8'))(jnp.ones(8)).block_until_ready()"),
    ("jax", "wrong shapes", "user error", "import jax.numpy as jnp; jnp.ones((2, 3)) @ jnp.ones((2, 3))"),
    ("jax", "no GPU", "user error", "import jax; jax.devices('gpu')"),
    ("tensorflow-cpu", "a large tensor", "out of memory", "import tensorflow as tf; tf.zeros([1 << 20, 1 << 26])"),
    ("tensorflow-cpu", "memory that runs out in a function", "out of memory",
     "import tensorflow as tf\n@tf.function\ndef f(x): return tf.zeros(tf.stack([tf.size(x) * 65536, 1 << 26])) + 1.0\nprint(f(tf.ones([16])))"),
    ("tensorflow-cpu", "wrong shapes", "user error", "import tensorflow as tf; tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))"),
    ("tensorflow-cpu", "no GPU", "user error",
     "import tensorflow as tf\ntf.config.set_soft_device_placement(False)\nwith tf.device('/GPU:0'): tf.ones([2])"),
    ("cupy-cuda12x", "no GPU", "user error", "import cupy; cupy.zeros(1)"),
    ("cupy-cuda12x", "a large array without a GPU", "user error", "import cupy; cupy.zeros(1 << 50)"),
    ("pyopencl", "a large buffer", "out of memory", """
        import pyopencl as cl
        context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
        cl.Buffer(context, cl.mem_flags.READ_WRITE, 1 << 50)
     """),
    ("pyopencl", "a program that does not compile", "user error", """
        import pyopencl as cl
        context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
        cl.Program(context, "kernel void f() { memory }").build()
     """),
    ("numba", "no GPU", "user error", "from numba import cuda; cuda.device_array(4)"),
]


def version_of(package):
    if package == "python":
        return sys.version.split()[0]
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def recorded(program):
    """What the program printed, without the folders of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "train.py")
        path.write_text(textwrap.dedent(program))
        done = subprocess.run([sys.executable, "-u", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=300)
        words = done.stdout.replace(folder + "/", "")
    if done.returncode == 0:
        return None
    words = re.sub(r"/[\w./-]*/(?=(?:site|dist)-packages/)", "/usr/lib/python3/", words)
    words = words.replace(sys.base_prefix, "/usr").replace(str(pathlib.Path.home()), "/home/user")
    return done.returncode, words[-6000:]


def main():
    kept = json.loads(FILE.read_text()) if FILE.exists() else []
    found = {(one["package"], one["version"], one["name"]): one for one in kept}
    for package, name, kind, program in PROGRAMS:
        version = version_of(package) if package in (sys.argv[1:] or [package]) else None
        told = recorded(program) if version else None
        print(package, version, name, "-" if told is None else told[1].strip().splitlines()[-1][:100], sep=" | ")
        if told:
            found[package, version, name] = {"package": package, "version": version, "name": name, "class": kind, "exit_code": told[0], "output": told[1]}
    FILE.write_text(json.dumps(list(found.values()), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
