#!/usr/bin/env python3
"""Two ranks train one model. Only one of them runs out of memory; both continue with smaller parts and the same parameters.

    python3 examples/13_two_ranks.py
    torchrun --nproc-per-node 2 examples/13_two_ranks.py      (on GPUs)

Started without a launcher it starts its two ranks itself, on the CPU over gloo.
"""
import os
import socket
import subprocess
import sys

ITEMS = 24


def start_ranks():
    # The socket is bound but does not listen. So it reserves the port until rank 0 listens on it.
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = str(held.getsockname()[1])
    hidden = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}  # two ranks need two GPUs, otherwise they use the CPU
    environment = {**os.environ, **hidden, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([sys.executable, __file__], env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(2)]
    code = max(rank.wait() for rank in ranks)
    held.close()
    return code


def main():
    import torch

    import berth
    torch.manual_seed(0)
    model = berth.torch.distribute(torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)))
    rank, device = torch.distributed.get_rank(), next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    torch.manual_seed(rank + 1)
    data = torch.randn(ITEMS, 8, device=device)

    def loss_fn(model, part):
        inputs, labels = part
        if rank == 1 and len(inputs) > 8:  # simulates a rank whose GPU is also used by others
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB (as this example has it)")
        return torch.nn.functional.mse_loss(model(inputs), labels)

    for step in range(3):
        done = berth.split_step(model, loss_fn, optimizer, (data, data.sum(1, keepdim=True)), report=False)
        if rank == 0:
            print(f"step {step}: {done.parts} parts, {done.tries} tries, loss {done.loss:.4f}", flush=True)
    mine = torch.cat([one.detach().flatten() for one in model.parameters()])
    other = mine.clone()
    torch.distributed.broadcast(other, 0)
    same = bool(torch.equal(mine, other))
    print(f"rank {rank}: the same parameters as rank 0: {same}", flush=True)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main() if "RANK" in os.environ else start_ranks())
