#!/usr/bin/env python3
"""A C++ extension of PyTorch that runs a kernel of its own, in a job that has 256 MiB of an OpenCL device (PoCL: the CPU).

    python3 examples/17_torch_extension.py      (needs PyTorch with its C++ headers, a compiler, ninja, and OpenCL; no GPU)

It starts itself again with `berth run --devices N --memory 256MiB`. The extension's memory on the device counts as that of any program: what does
not fit is refused, and the extension's error is an exception in Python.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MIB = 1 << 20
INCLUDE = pathlib.Path(__file__).resolve().parent.parent / "include"  # that of an installed Berth is found without it
SOURCE = r"""
#include <torch/extension.h>
#include <berth/kernels.hpp>

torch::Tensor twice(const torch::Tensor& given) {
  static const berth::Compute device = berth::compute(berth::ComputeBackend::opencl);
  static const berth::KernelFunction kernel = device.kernel(R"(
    KERNEL void twice(GLOBAL const float* x, GLOBAL float* y, int n) {
      int i = GLOBAL_ID(0);
      if (i < n) y[i] = 2 * x[i];
    })", "twice");
  const torch::Tensor x = given.contiguous();
  torch::Tensor y = torch::empty_like(x);
  const std::size_t bytes = static_cast<std::size_t>(x.numel()) * sizeof(float);
  berth::Buffer from = device.buffer(bytes), into = device.buffer(bytes);
  from.write(x.data_ptr<float>(), bytes);
  kernel(static_cast<std::size_t>(x.numel()), from, into, static_cast<int>(x.numel()));
  into.read(y.data_ptr<float>(), bytes);
  device.trim();  // the next call may need another size
  return y;
}
"""


def start_in_a_job():
    seen = json.loads(subprocess.run(["berth", "ls", "--json", "--opencl"], stdout=subprocess.PIPE, check=True).stdout)
    devices = [device["index"] for device in seen["devices"] if device["kind"] == "opencl"]
    if not devices:
        print("no device that only OpenCL lists: install pocl-opencl-icd, or use --gpus on a machine with a GPU")
        return
    os.execvp("berth", ["berth", "run", "--devices", str(devices[0]), "--memory", "256MiB", "--report", "-", "--", sys.executable, *sys.argv])


def main():
    import torch
    from torch.utils.cpp_extension import load_inline

    with tempfile.TemporaryDirectory() as folder:
        paths = [str(path) for path in (INCLUDE, *map(pathlib.Path, os.environ.get("CPATH", "").split(":"))) if path.is_dir()]
        extension = load_inline("berth_example", SOURCE, functions=["twice"], extra_cflags=["-std=c++17", "-O1"], extra_include_paths=paths,
                                extra_ldflags=["-ldl"], build_directory=folder)
        x = torch.arange(20 * MIB, dtype=torch.float32)
        print(f"two buffers of 80 MiB fit: right {bool((extension.twice(x) == 2 * x).all())}")
        try:
            extension.twice(torch.ones(40 * MIB))
            print("two buffers of 160 MiB fit")
        except RuntimeError as problem:
            print("two buffers of 160 MiB do not:", str(problem).splitlines()[0])
        print("the extension goes on:", extension.twice(torch.ones(3)).tolist())


if __name__ == "__main__":
    main() if "BERTH_GUARD" in os.environ else start_in_a_job()
