"""Parses numbers, sizes and shares as `berth run` takes them."""

from __future__ import annotations

import math
import operator
import os
import re
from typing import Any, Optional, Union

from .errors import InvalidRequest
from .language import text

_UNITS = {unit: 1024 ** power for power, letter in enumerate("KMGT", 1) for unit in (letter, letter + "iB")}
_UNITS.update({letter + "B": 1000 ** power for power, letter in enumerate("KMGT", 1)})
_UNITS["B"] = 1
_LEAST = 1 << 20  # smallest size of device memory: a user who writes "8" does not mean 8 bytes
_MOST = 9 * 10 ** 18  # the limit of the program `berth`


def whole(name: str, value: Any, least: int, most: Optional[int] = None) -> int:
    """Checks that a value is a whole number within limits, and returns it as an int. NumPy's whole numbers are accepted, too."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least or (most is not None and number > most):
        hint = f"memory={value!r}" if isinstance(value, str) and _size_in(value) else ""
        if most is not None:
            raise InvalidRequest(text("{}: {!r} is not a whole number from {} to {}", name, value, least, most), "E0104", hint)
        raise InvalidRequest(text("{}: {!r} is not a whole number of at least {}", name, value, least), "E0104", hint)
    return number


def word(name: str, value: str) -> str:
    """Checks that a text can be passed to a program, and returns it."""
    if "\0" in value:
        raise InvalidRequest(text("{}: {!r} contains a NUL character", name, value), "E0104")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:  # a lone surrogate cannot be encoded
        raise InvalidRequest(text("{}: {!r} is not text", name, value), "E0104") from None
    return value


def _size_in(text: str) -> float:
    """The number of bytes in a text such as "8GiB"; 0 if the text is not a size."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text)
    return float(found[1]) * _UNITS[found[2]] if found and found[2] in _UNITS else 0.0


def bytes_of(size: Union[int, float, str], name: str = "memory", least: int = 1) -> int:
    """Converts a size to a number of bytes.

    Examples
    --------
    >>> bytes_of("8GiB")
    8589934592
    >>> bytes_of(4096)
    4096
    """
    hint = text("write a number with its unit, such as '8GiB' or '500MiB'")
    if isinstance(size, str):
        found = re.fullmatch(r"\s*\d+(?:\.\d+)?\s*([A-Za-z]+)\s*", size)
        if not found or found[1] not in _UNITS:
            raise InvalidRequest(text("{}: {!r} is not a size", name, size), "E0101", hint)
        number = _size_in(size)
    else:
        exact: Any = int(size) if isinstance(size, float) and size.is_integer() else size
        try:
            number = operator.index(exact)
        except TypeError:
            raise InvalidRequest(text("{}: {!r} is not a size", name, size), "E0101", hint) from None
        if isinstance(size, bool):
            raise InvalidRequest(text("{}: {!r} is not a size", name, size), "E0101", hint)
        if 0 < number < least:
            raise InvalidRequest(text("{}: {} bytes is too small; was a unit such as GiB intended?", name, number), "E0101", f"{name}='{number}GiB'" if number < 1024 else hint)
    if number >= _MOST:
        raise InvalidRequest(text("{}: {!r} is not a size: it is too large", name, size), "E0101", hint)
    if number <= 0:
        raise InvalidRequest(text("{}: 0 bytes were requested", name), "E0011", text("berth.lease(gpus=0) leases the CPU"))
    return int(number)


def device_bytes(size: Union[int, float, str], name: str = "memory") -> int:
    """The bytes of a size of device memory. Refuses sizes below 1 MiB."""
    return bytes_of(size, name, _LEAST)


def permille_of(share: Union[float, str]) -> int:
    """Converts a share to thousandths.

    Examples
    --------
    >>> permille_of("30%"), permille_of(0.3)
    (300, 300)
    """
    try:
        part = float(share[:-1]) / 100 if isinstance(share, str) and share.endswith("%") else float(share)
    except (TypeError, ValueError):
        part = 0.0
    if isinstance(share, bool) or not 0 < part <= 1:
        raise InvalidRequest(text("share: {!r} is not a share of a device", share), "E0102", text("write a fraction, such as '30%' or 0.3"))
    return max(1, round(part * 1000))


def words_of(devices: Any) -> "list[str]":
    """The names of devices as a list. Accepts an index, a UUID, a PCI address, a sequence of these, or one text with commas."""
    if isinstance(devices, str):
        devices = devices.split(",")
    elif isinstance(devices, int):
        devices = [devices]
    try:
        named = list(devices)
    except TypeError:
        raise InvalidRequest(text("devices: {!r} names no devices", devices), "E0415", "devices=[0, 1], devices='GPU-1a2b'") from None
    words = []
    for one in named:
        try:
            said = one.strip() if isinstance(one, str) else str(operator.index(one))
        except TypeError:
            said = ""
        if not said or not said.isascii() or not said.isprintable() or isinstance(one, bool):
            raise InvalidRequest(text("devices: {!r} is not an index, uuid or PCI address", one), "E0415",
                                 "devices=[0, 1], devices='GPU-1a2b'")
        words.append(said)
    if not words:
        raise InvalidRequest(text("devices: the list is empty"), "E0415", text("berth.lease(gpus=0) leases the CPU"))
    return words


def number(name: str, value: Any, least: float = 0.0, above: bool = False) -> float:
    """Checks that a value is a number of at least `least`, or with `above=True` a larger one, and returns it."""
    known = not isinstance(value, (bool, str)) and _is_number(value)
    if known and (float(value) > least if above else float(value) >= least):
        return float(value)
    if above:
        raise InvalidRequest(text("{}: {!r} is not a number above {:g}", name, value, least), "E0104")
    raise InvalidRequest(text("{}: {!r} is not a number of at least {:g}", name, value, least), "E0104")


def part(name: str, value: Any) -> float:
    """Checks that a value is a number from 0 to 1, and returns it."""
    said = number(name, value)
    if said > 1:
        raise InvalidRequest(text("{}: {!r} is not a number from 0 to 1", name, value), "E0104")
    return said


def _is_number(value: Any) -> bool:
    try:
        return not math.isnan(float(value))
    except (TypeError, ValueError, OverflowError):
        return False
