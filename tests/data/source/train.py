"""A training as tutorials show it, with two lines that do not do what they seem to do."""
import os

import torch
from torch import nn


def choose():
    # This was meant to keep the model on the CPU.
    if "cpu" in os.environ.get("WHERE", ""):
        # (it raises)
        torch.cuda.set_device('cpu')
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def steps(model, data, optimizer):
    for batch, target in data:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch), target)
        loss.backward()
        optimizer.step()


model = nn.Linear(8, 8)
device = choose()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

model.cuda()

# Too late.
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
steps(model, [], optimizer)
