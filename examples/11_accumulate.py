#!/usr/bin/env python3
"""Trains on a batch in parts and gets the gradients of the whole batch. Each part is weighted by its number of tokens. A mean of the parts'
means would differ.

    python3 examples/11_accumulate.py
"""
import copy

import torch
import torch.nn.functional as F

import berth

PADDING = -100


def batch_of_unequal_lengths(size=16, longest=40, words=100):
    x = torch.randint(0, words, (size, longest))
    labels = x.roll(-1, 1)
    for at, length in enumerate(torch.randint(2, longest, (size,)).tolist()):
        labels[at, length:] = PADDING
    return {"x": x, "labels": labels}


def loss_fn(model, part):
    return F.cross_entropy(model(part["x"]).flatten(0, 1), part["labels"].flatten(), ignore_index=PADDING)


def count(part):
    return (part["labels"] != PADDING).sum()


def gradients(model):
    return torch.cat([one.grad.flatten() for one in model.parameters()])


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(100, 32), torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 100))
    batch = batch_of_unequal_lengths()
    whole, naive, split = (copy.deepcopy(model) for _ in range(3))
    loss_fn(whole, batch).backward()

    for part in berth.chunked(batch, 4):  # the usual mistake: the mean of means
        (loss_fn(naive, part) / 4).backward()
    optimizer = torch.optim.SGD(split.parameters(), 0.0)
    done = berth.split_step(split, loss_fn, optimizer, batch, parts=4, count=count)

    wanted = gradients(whole)
    for name, one in (("mean of means", naive), ("berth.split_step", split)):
        print(f"{name}: gradients differ by {float((gradients(one) - wanted).norm() / wanted.norm()):.1e} of their norm")
    print(f"done  parts={done.parts} items={done.items} loss={done.loss:.4f}")


if __name__ == "__main__":
    main()
