"""Prepares a model for training in several ranks."""

from __future__ import annotations

import os
from typing import Any

from ..errors import InvalidRequest
from ..frameworks import needed
from ..language import text

__all__ = ["distribute"]


def distribute(model: Any, **options: Any) -> Any:
    """Moves the model to this process's device. If this process is one of several ranks, returns the model in DistributedDataParallel. If not, returns the
    model itself.

    Reads RANK, WORLD_SIZE and LOCAL_RANK, which torchrun, Slurm or `berth run --ranks` set. Does not use DataParallel, because that runs one process for
    all GPUs, copies the model in each step, and gathers outputs on the first GPU, which then runs out of memory first.

    Parameters
    ----------
    model : torch.nn.Module
    options
        Arguments for DistributedDataParallel, such as `find_unused_parameters` or `static_graph`.

    Returns
    -------
    torch.nn.Module
        The model to use from now on. It can be passed to `berth.split_step` and `berth.accumulate`, and has the same parameters as `model`.
    """
    torch = needed("torch", "torch.distribute")
    if not isinstance(model, torch.nn.Module):
        raise InvalidRequest(text("model: a {} is not a torch.nn.Module", type(model).__name__))
    ranks, local = _number("WORLD_SIZE", 1), _number("LOCAL_RANK", 0)
    has_gpu = torch.cuda.is_available()
    if has_gpu:
        local %= max(1, torch.cuda.device_count())  # a launcher may make only one GPU visible to each rank, so the index may be too large
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
        return model  # DistributedDataParallel refuses a model without trainable parameters
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=[local] if has_gpu else None, **options)


def _number(name: str, default: int) -> int:
    said = os.environ.get(name, str(default))
    if not said.isdigit():
        raise InvalidRequest(text("{}: {!r} is not a whole number", name, said), "E0104")
    return int(said)
