#!/usr/bin/env python3
"""Trains a small network on real data: 1,797 handwritten digits (UCI, 8 by 8 pixels).

    berth run -- python3 examples/05_train_digits.py [--epochs N] [--data digits.csv.gz]

It uses the GPU that Berth gave it. Without one it uses the CPU, with the number of threads that Berth set. It prints the
device and the accuracy. Exit code 1: the network did not learn. Exit code 2: PyTorch or the data is missing.
"""
import argparse
import csv
import gzip
import os
import pathlib
import sys
import time

DEBIAN = "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz"
DEBIAN_TORCH = pathlib.Path("/usr/lib/python3/dist-packages/torch")
GOOD_ENOUGH = 0.95


def give_up(what, command):
    print(f"error: {what}", file=sys.stderr)
    print(f"hint: {command}", file=sys.stderr)
    sys.exit(2)


def find_digits():
    """The data file that scikit-learn contains: of this Python, or else of Debian's package. Nothing is imported."""
    for folder in sys.path:
        file = pathlib.Path(folder or ".") / "sklearn/datasets/data/digits.csv.gz"
        if file.is_file():
            return file
    return DEBIAN if os.path.isfile(DEBIAN) else None


def load(torch, file):
    """Each line has 64 pixels from 0 to 16 and the digit. Every fifth line is kept for the test."""
    with gzip.open(file, "rt") as stream:
        rows = [[float(cell) for cell in row] for row in csv.reader(stream)]
    table = torch.tensor(rows)
    pixels, digits = table[:, :64] / 16.0, table[:, 64].long()
    aside = torch.arange(len(rows)) % 5 == 0
    return pixels[~aside], digits[~aside], pixels[aside], digits[aside]


def pick_device(torch):
    if torch.cuda.is_available():
        return torch.device("cuda"), torch.cuda.get_device_name(0)
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        return torch.device("xpu"), "Intel GPU"
    threads = torch.get_num_threads()
    return torch.device("cpu"), f"CPU, {threads} thread{'' if threads == 1 else 's'}"


def train(torch, network, data, epochs, say):
    pixels, digits, test_pixels, test_digits = data
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    loss_of = torch.nn.CrossEntropyLoss()
    accuracy = 0.0
    for epoch in range(1, epochs + 1):
        network.train()
        order = torch.randperm(len(pixels), device=pixels.device)
        for batch in order.split(64):
            optimizer.zero_grad()
            loss = loss_of(network(pixels[batch]), digits[batch])
            loss.backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            accuracy = (network(test_pixels).argmax(1) == test_digits).float().mean().item()
        if epoch % 5 == 0 or epoch == epochs:
            say(f"epoch {epoch:2d}/{epochs}  loss {loss.item():.4f}  test accuracy {accuracy:.2%}")
    return accuracy


def main():
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--data", help="digits.csv.gz, where scikit-learn is not installed")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        give_up("this Python has no PyTorch", f"/usr/bin/python3 {sys.argv[0]}" if DEBIAN_TORCH.is_dir() else
                "sudo apt install python3-torch   or   pip install torch")
    file = arguments.data or find_digits()
    if file is None:
        give_up("the digits are not here", "sudo apt install python3-sklearn   or   pip install scikit-learn")

    torch.manual_seed(0)
    device, name = pick_device(torch)
    print(f"PyTorch {torch.__version__} on {name}", flush=True)
    started = time.monotonic()
    data = [part.to(device) for part in load(torch, file)]
    network = torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 8, 8)),
        torch.nn.Conv2d(1, 32, 3, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Dropout(0.25),
        torch.nn.Linear(64 * 4 * 4, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10),
    ).to(device)
    accuracy = train(torch, network, data, arguments.epochs, lambda line: print(line, flush=True))
    print(f"done  device={device.type} epochs={arguments.epochs} accuracy={accuracy:.4f} "
          f"seconds={time.monotonic() - started:.1f}")
    if accuracy < GOOD_ENOUGH:
        print(f"error: {accuracy:.2%} on the test digits is less than {GOOD_ENOUGH:.0%}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
