"""Like train.py without its mistakes, and with lines that look wrong but are right."""
import multiprocessing
import os

os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import torch
from torch import nn

torch.backends.cudnn.benchmark = True


def steps(model, data, optimizer):
    total = torch.zeros((), device="cuda")
    for step, (batch, target) in enumerate(data):
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(batch), target)
        loss.backward()
        optimizer.step()
        total += loss.detach()
        if step % 50 == 0:
            print(total.item())
    return total.item()


def with_less(model, data, optimizer):
    failed = False
    try:
        steps(model, data, optimizer)
    except torch.cuda.OutOfMemoryError:
        failed = True
    if failed:
        torch.cuda.empty_cache()
        steps(model, data[::2], optimizer)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    torch.cuda.set_device(0)
    model = nn.Linear(8, 8).cuda()
    workers = len(os.sched_getaffinity(0))
    with_less(model, [], torch.optim.SGD(model.parameters(), lr=0.1))
