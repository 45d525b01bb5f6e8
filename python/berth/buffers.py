"""Buffers that forward passes write, such as running statistics. Their values are saved, and restored before a pass is repeated."""

from __future__ import annotations

import sys
from typing import Any, Iterable, List, Set, Tuple

__all__ = ["Buffers"]

_LARGE = 1 << 20  # buffers of more bytes are not copied, except those of normalisation layers; for these, only writes are detected


class Buffers:
    """The buffers of some models. Copies small buffers and those of normalisation layers. For other buffers, only detects whether they were written."""

    __slots__ = ("_kept", "_watched")

    def __init__(self, models: Iterable[Any], training_only: bool = False) -> None:
        norms = sys.modules["torch"].nn.modules.batchnorm._NormBase
        self._kept: List[Tuple[Any, Any]] = []
        self._watched: List[Tuple[str, Any, int]] = []
        seen: Set[int] = set()
        for model in models:
            for path, module in model.named_modules():
                if training_only and not module.training:
                    continue
                for name, buffer in module._buffers.items():
                    # PyTorch does not allow writes to inference tensors, so skip them
                    if buffer is None or id(buffer) in seen or buffer.is_inference():
                        continue
                    seen.add(id(buffer))
                    if isinstance(module, norms) or buffer.numel() * buffer.element_size() <= _LARGE:
                        self._kept.append((buffer, buffer.detach().clone()))
                    else:
                        self._watched.append((f"{path}.{name}" if path else name, buffer, buffer._version))

    def lost(self) -> List[str]:
        """The names of buffers that were written but not copied."""
        return [name for name, buffer, version in self._watched if buffer._version != version]

    def put_back(self) -> None:
        with sys.modules["torch"].no_grad():
            for buffer, before in self._kept:
                buffer.copy_(before)
