#!/usr/bin/env python3
"""Trains with the largest batch that fits. When memory runs out, the function is called again with a smaller batch size.

    python3 examples/10_fit_batch.py [--start N] [--limit-mib N]

Without a GPU a limit of this process's memory takes its place, so that memory really runs out.
"""
import argparse
import resource

import torch

import berth

WIDE = 2048


def limit(mebibytes):
    """Limits this process to this much more memory than it uses now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (mebibytes << 20), resource.RLIM_INFINITY))


def main():
    parser = argparse.ArgumentParser(description="Train with the largest batch that fits.")
    parser.add_argument("--start", type=int, default=32768)
    parser.add_argument("--limit-mib", type=int, default=256)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    data, labels = torch.randn(2048, 64), torch.randn(2048, 1)
    first = torch.nn.Linear(64, 8)  # the first step loads libraries, which must not count as memory of a batch
    first(data).sum().backward()
    torch.optim.Adam(first.parameters()).step()
    if device.type == "cpu":
        limit(arguments.limit_mib)

    @berth.fit_batch(start=arguments.start)
    def train(batch_size):
        model = torch.nn.Sequential(torch.nn.Linear(64, WIDE), torch.nn.ReLU(), torch.nn.Linear(WIDE, 1)).to(device)
        optimizer = torch.optim.Adam(model.parameters())
        for step in range(6):
            items = torch.randint(0, len(data), (batch_size,))
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(data[items].to(device)), labels[items].to(device))
            loss.backward()
            optimizer.step()
        return loss.item()

    loss = train()
    print(f"done  device={device.type} batch={train.batch_size} loss={loss:.3f}")


if __name__ == "__main__":
    main()
