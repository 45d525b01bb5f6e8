"""Prepares a model for the ranks that were started."""

from __future__ import annotations

import os
from typing import Any

from ..errors import InvalidRequest
from ..frameworks import needed
from ..language import text

__all__ = ["distribute"]


def distribute(model: Any, **options: Any) -> Any:
    """Returns the model in DistributedDataParallel if this process is one of several ranks, otherwise the model itself. Either is on its
    device.

    The ranks are those that torchrun, Slurm or `berth run --ranks` set in RANK, WORLD_SIZE and LOCAL_RANK. DataParallel is not used: its one
    process has one interpreter for all GPUs, copies the model at each step, and gathers outputs on the first GPU, which then runs out of memory first.

    Parameters
    ----------
    model : torch.nn.Module
    options
        For DistributedDataParallel: `find_unused_parameters`, `static_graph`, …

    Returns
    -------
    torch.nn.Module
        `berth.split_step` and `berth.accumulate` take it; its parameters are those of `model`.
    """
    torch = needed("torch", "torch.distribute")
    if not isinstance(model, torch.nn.Module):
        raise InvalidRequest(text("model: a {} is not a torch.nn.Module", type(model).__name__))
    ranks, local = _number("WORLD_SIZE", 1), _number("LOCAL_RANK", 0)
    has_gpu = torch.cuda.is_available()
    if has_gpu:
        local %= max(1, torch.cuda.device_count())  # because a launcher may make only one GPU visible to each rank
        torch.cuda.set_device(local)
        model = model.to(f"cuda:{local}")
    distributed = torch.distributed
    if ranks <= 1 and not (distributed.is_available() and distributed.is_initialized()):
        return model
    if not distributed.is_initialized():
        if "MASTER_ADDR" not in os.environ:
            raise InvalidRequest(text("WORLD_SIZE is {}, but MASTER_ADDR is not set", ranks),
                                 hint=text("torchrun --nproc-per-node {} train.py; or unset WORLD_SIZE", ranks))
        distributed.init_process_group("nccl" if has_gpu else "gloo")
    if not any(one.requires_grad for one in model.parameters()):
        return model  # DistributedDataParallel refuses a model that has no gradients to exchange
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=[local] if has_gpu else None, **options)


def _number(name: str, default: int) -> int:
    said = os.environ.get(name, str(default))
    if not said.isdigit():
        raise InvalidRequest(text("{}: {!r} is not a whole number", name, said), "E0104")
    return int(said)
