"""Sizes and shares as people write them: the same words as `berth run` takes."""

from __future__ import annotations

import re
from typing import Union

from .errors import InvalidRequest

_UNITS = {unit: 1024 ** power for power, letter in enumerate("KMGT", 1) for unit in (letter, letter + "iB")}
_UNITS.update({letter + "B": 1000 ** power for power, letter in enumerate("KMGT", 1)})
_UNITS["B"] = 1


def bytes_of(size: Union[int, str]) -> int:
    """Bytes of a size.

    Examples
    --------
    >>> bytes_of("8GiB")
    8589934592
    >>> bytes_of(4096)
    4096
    """
    if isinstance(size, int) and not isinstance(size, bool):
        number = size
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", size) if isinstance(size, str) else None
        if not found or found[2] not in _UNITS:
            raise InvalidRequest(f"memory: {size!r} is not a size", "E0101", "write a number with its unit, such as '8GiB' or '500MiB'")
        number = int(float(found[1]) * _UNITS[found[2]])
    if number <= 0:
        raise InvalidRequest("memory: no memory at all was asked for", "E0011", "berth.lease(gpus=0) is the CPU")
    return number


def permille_of(share: Union[float, str]) -> int:
    """Thousandths of a share.

    Examples
    --------
    >>> permille_of("30%"), permille_of(0.3)
    (300, 300)
    """
    try:
        part = float(share[:-1]) / 100 if isinstance(share, str) and share.endswith("%") else float(share)
    except (TypeError, ValueError):
        part = 0.0
    if not 0 < part <= 1:
        raise InvalidRequest(f"share: {share!r} is not a share of a device", "E0102", "write a part of the whole, such as '30%' or 0.3")
    return max(1, round(part * 1000))
