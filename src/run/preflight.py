"""Checks that the ranks of a job reach each other, before the program starts: they meet, compare versions, and add numbers together.
Each rank prints one line of JSON. Berth runs it with the program's own Python (run/preflight.cpp)."""
import json
import os
import sys
import time
from datetime import timedelta


def end(state, **more):
    print(json.dumps({"state": state, **more}), flush=True)
    os._exit(1 if state == "failed" else 0)  # exit at once, without waiting for a slow peer


def fail(step, problem):
    end("failed", step=step, why=f"{type(problem).__name__}: {problem}"[:500])


try:
    import torch
    import torch.distributed as dist
except ImportError as problem:
    end("skipped", why=str(problem))
except Exception as problem:  # a missing library of PyTorch raises OSError, not ImportError
    fail("import", problem)
if not dist.is_available():
    end("skipped", why="torch.distributed")

step = "device"
try:
    limit = float(sys.argv[1])
    rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    backend = "nccl" if gpus and dist.is_nccl_available() else "gloo"
    device = f"cuda:{local % gpus}" if backend == "nccl" else "cpu"
    mine = {"torch": torch.__version__}
    if backend == "nccl":
        torch.cuda.set_device(device)
        mine["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    step = "meet"
    begun = time.monotonic()
    store, _, _ = next(dist.rendezvous("env://", timeout=timedelta(seconds=limit)))
    store.set_timeout(timedelta(seconds=limit))
    store = dist.PrefixStore("berth-preflight", store)
    store.set(f"versions{rank}", json.dumps(mine))
    others = [json.loads(store.get(f"versions{other}")) for other in range(world)]
    step = "versions"
    for other, theirs in enumerate(others):
        if theirs != mine:
            raise RuntimeError(f"rank {rank} has {mine}, rank {other} has {theirs}")
    step = "all-reduce"
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timedelta(seconds=limit))
    total = torch.ones(1 << 16, device=device)
    dist.all_reduce(total)
    if total[0].item() != world or total[-1].item() != world:
        raise RuntimeError(f"the sum of {world} ones is {total[0].item()}")
    seconds = time.monotonic() - begun
    dist.barrier()
except Exception as problem:
    fail(step, problem)
end("ok", backend=backend, seconds=round(seconds, 3), **mine)
