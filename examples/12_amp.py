#!/usr/bin/env python3
"""Compares mixed precision with fp32: speed and memory. People often quote +30 % speed and −40 % memory.

    python3 examples/12_amp.py [--precision auto|bf16|fp16|fp32] [--steps N]
"""
import argparse
import time

import torch

import berth


def train(device, precision, steps):
    """Returns (precision, steps per second, peak MiB or None, last loss)."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.ReLU(),
                                torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(512, 10)).to(device)
    mixed = berth.torch.amp(model, torch.optim.SGD(model.parameters(), 0.05), precision)
    size = (64, 3, 128, 128) if device.type == "cuda" else (4, 3, 32, 32)
    data, labels = torch.randn(size, device=device), torch.randint(0, 10, size[:1], device=device)
    begun = None
    for step in range(steps + 2):
        if step == 2:  # do not time the first two, which start the device and choose algorithms
            if device.type == "cuda":
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
            begun = time.perf_counter()
        with mixed.autocast():
            loss = torch.nn.functional.cross_entropy(model(data).float(), labels)
        mixed.backward(loss)
        mixed.step(clip_norm=1.0)
    if device.type == "cuda":
        torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else None
    return mixed.precision, steps / (time.perf_counter() - begun), peak, loss.item()


def main():
    parser = argparse.ArgumentParser(description="Mixed precision beside fp32.")
    parser.add_argument("--precision", default="auto", choices=("auto", "bf16", "fp16", "fp32"))
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    precision, speed, memory, loss = train(device, arguments.precision, arguments.steps)
    _, plain_speed, plain_memory, plain_loss = train(device, "fp32", arguments.steps)
    print(f"{precision} on {device.type}: {speed:.1f} steps/s, fp32 {plain_speed:.1f}: {speed / plain_speed - 1:+.0%} (often quoted: +30%)")
    if memory:
        print(f"memory: {memory:.0f} MiB, fp32 {plain_memory:.0f}: {memory / plain_memory - 1:+.0%} (often quoted: -40%)")
    print(f"done  precision={precision} loss={loss:.3f} fp32={plain_loss:.3f}")


if __name__ == "__main__":
    main()
