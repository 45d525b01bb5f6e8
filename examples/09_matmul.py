#!/usr/bin/env python3
"""Times a matrix product on the CPU and on the GPU. People often quote a factor of 50 to 100; this prints the measured one.

    python3 examples/09_matmul.py [--size N]      (10000 where there is a GPU, else 1500)
"""
import argparse
import time

import berth


def seconds(torch, device, size):
    """The shortest time of three products. The first product also starts the device and is not counted."""
    one, other = (torch.randn(size, size, device=device) for _ in range(2))
    least = float("inf")
    for turn in range(4):
        begun = time.perf_counter()
        product = one @ other
        float(product[0, 0])  # waits for the device, whatever its kind
        if turn:
            least = min(least, time.perf_counter() - begun)
    assert bool(torch.isfinite(product).all())
    return least


def main():
    parser = argparse.ArgumentParser(description="A matrix product on the CPU and on the GPU.")
    parser.add_argument("--size", type=int)
    arguments = parser.parse_args()
    with berth.lease() as lease:
        import torch  # only after the lease has determined the device
        gpu = lease.device("torch")
        size = arguments.size or (10000 if gpu.type != "cpu" else 1500)
        on_cpu = seconds(torch, torch.device("cpu"), size)
        print(f"CPU, {torch.get_num_threads()} threads: {size}² in {on_cpu:.3f} s, {2 * size**3 / on_cpu / 1e9:.0f} GFLOP/s")
        if gpu.type == "cpu":
            print("no GPU: nothing to compare with")
            return
        on_gpu = seconds(torch, gpu, size)
        print(f"{lease.devices[0]['name']}: {on_gpu:.4f} s, {2 * size**3 / on_gpu / 1e9:.0f} GFLOP/s")
        print(f"ratio {on_cpu / on_gpu:.0f} (often quoted: 50 to 100)")


if __name__ == "__main__":
    main()
