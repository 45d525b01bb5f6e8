"""Counts the items of a batch and splits the batch into parts, for many kinds of containers."""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from .errors import InvalidRequest
from .language import text
from .sizes import whole

__all__ = ["chunked", "kinds_of", "length_of", "part_of", "positive"]

_CHANNELS = (1, 3, 4)


def positive(name: str, value: Any) -> int:
    return whole(name, value, 1)


def chunked(x: Any, size: int) -> Iterator[Any]:
    """Splits a batch into parts of `size` items. The last part may be smaller.

    The batch is a tensor or array (split along its first axis), a sequence, or a dict, dataclass, tuple or list of these, if all are equally long. None,
    bools, numbers and strings are copied to every part. Parts have the type of the batch, for example a named tuple or transformers' BatchEncoding.

    Raises
    ------
    InvalidRequest
        The batch has no length, or its fields differ in length.

    Examples
    --------
    >>> list(chunked([1, 2, 3, 4, 5], 2))
    [[1, 2], [3, 4], [5]]
    >>> list(chunked({"x": [1, 2, 3], "mode": "train"}, 2))
    [{'x': [1, 2], 'mode': 'train'}, {'x': [3], 'mode': 'train'}]
    """
    positive("size", size)
    length = length_of(x)
    return (part_of(x, at, at + size) for at in range(0, length, size))


def length_of(x: Any) -> int:
    """The number of items in a batch."""
    return _ways(x, outermost=True)[0][0]


def part_of(x: Any, first: int, last: Optional[int], step: Optional[int] = None) -> Any:
    """The items from `first` up to, but not including, `last`. With `step`, only every step-th of them."""
    return _part(x, length_of(x), slice(first, last, step), outermost=True)


def kinds_of(x: Any) -> Any:
    """Describes the padding of a batch: for each tensor of integers or bools, whether its smallest number is negative (a label of -100), zero (a mask, a
    padding token) or positive."""
    named = _fields(x)
    if named is not None:
        return tuple((key, kinds_of(one)) for key, one in named.items())
    if isinstance(x, (tuple, list)):
        return tuple(map(kinds_of, x[:8]))
    dtype = str(getattr(x, "dtype", ""))
    if not _shape(x) or not ("int" in dtype or "bool" in dtype):
        return None
    try:
        least = int(x.min())
    except Exception:  # the tensor is empty, or its type has no smallest number
        return None
    return (least > 0) - (least < 0)


def _shape(x: Any) -> Any:
    """The shape of a tensor or array; None for anything else."""
    try:
        return getattr(x, "shape", None)
    except Exception:  # a nested tensor of PyTorch, or a dict whose keys are attributes
        return None


def _is_shared(x: Any) -> bool:
    """Whether the value belongs to all items, and so to every part: a bool, a number, a string, None."""
    return x is None or isinstance(x, (bool, int, float, str, bytes)) or _shape(x) == ()


def _is_row_for_all(x: Any) -> bool:
    """Whether the value may be one row for all items, such as position ids of shape (1, T). If other fields have more than one row, every part gets it."""
    shape = _shape(x)
    return bool(shape) and len(shape) > 1 and shape[0] == 1


def _fields(x: Any) -> Optional[Dict[Any, Any]]:
    """The named fields of a dict or dataclass. None for a TensorDict, which has a shape and can be sliced itself."""
    if isinstance(x, collections.abc.Mapping):
        return None if hasattr(type(x), "shape") else {key: x[key] for key in x}
    if not dataclasses.is_dataclass(x) or isinstance(x, type):
        return None
    names = [field.name for field in dataclasses.fields(x)]
    if "shape" not in names and hasattr(type(x), "shape"):
        return None
    return {name: getattr(x, name) for name in names if hasattr(x, name)}


def _side_by_side(x: Any) -> bool:
    """Whether the members of a tuple or list may be the fields of a batch, and not its items. This is so if one member is a tensor or array. For a tuple, a
    member that is a list, or a tuple of equal things, suffices too."""
    if not isinstance(x, (tuple, list)):
        return False
    if any(_shape(one) for one in x):
        return True
    return isinstance(x, tuple) and any(isinstance(one, list) or (isinstance(one, tuple) and _of_one_kind(one)) for one in x)


def _of_one_kind(x: Sequence[Any]) -> bool:
    """Whether all members are dicts, or all are tensors of the same type and number of dimensions."""
    return all(isinstance(one, collections.abc.Mapping) for one in x) or (all(_shape(one) for one in x) and _alike(x))


def _alike(x: Sequence[Any]) -> bool:
    """Whether all members have the same type and number of dimensions. Their sizes may differ."""
    return len({(len(_shape(one) or ()), str(getattr(one, "dtype", type(one)))) for one in x}) == 1


def _images(x: Sequence[Any]) -> bool:
    """Whether all are images (channels, height, width), whose first axis is not the number of items."""
    return _alike(x) and len(x[0].shape) == 3 and x[0].shape[0] in _CHANNELS


Way = Tuple[int, bool]


def _ways(x: Any, outermost: bool = False) -> List[Way]:
    """The possible meanings of a batch, the likeliest first: its number of items, and whether its members are fields. The members of a list of
    tensors are either fields of equal length or items. Other fields of the batch decide.
    """
    named = _fields(x)
    if named is not None:
        lengths = _common(named)
        if outermost:
            _check_sure(named, lengths)
        return [(length, True) for length in lengths]
    if not _side_by_side(x):
        return [(_length(x), False)]
    fields = dict(enumerate(x))
    as_items, as_fields = [(len(x), False)], [(length, True) for length in _in_common(fields)]
    if outermost and isinstance(x, tuple):  # a loader returns a batch as a tuple of fields
        return as_fields or [(length, True) for length in _common(fields)]
    if not as_fields and not _alike(x):
        _common(fields)
    if outermost:
        few = bool(as_fields) and len(x) <= as_fields[0][0]
        return as_items if not as_fields or (_images(x) and not few and as_fields[0][0] > 1) else as_fields
    return as_items + as_fields if not as_fields or _images(x) else as_fields + as_items


def _check_sure(fields: Dict[Any, Any], lengths: List[int]) -> None:
    """Refuses a list of tensors if it is unclear whether its members are items or fields. Images are always items."""
    if len(set(lengths)) < 2:
        return
    for key, one in fields.items():
        if _side_by_side(one) and not _images(one):
            raise InvalidRequest(text("{!r} is {} tensors with {} rows each: it is not clear whether an item is a tensor or a row", key,
                                      len(one), next(shape for shape in map(_shape, one) if shape)[0]), "E0560",
                                 text("pass torch.stack(…) of them, with dim=1 if rows are items; or add a tensor with one entry for each item"))


def _in_common(fields: Dict[Any, Any]) -> List[int]:
    """The numbers of items that are possible for all fields, the likeliest for the first field first."""
    own = [one for one in fields.values() if not _is_shared(one)]
    some = [one for one in own if not _is_row_for_all(one)]
    each = [[length for length, _ in _ways(one)] for one in some or own]
    return [length for length in each[0] if all(length in other for other in each)] if each else [0]


def _common(fields: Dict[Any, Any]) -> List[int]:
    found = _in_common(fields)
    if not found:
        lengths = {key: _ways(one)[0][0] for key, one in fields.items() if not _is_shared(one) and not _is_row_for_all(one)}
        raise InvalidRequest(text("the parts of the batch are not equally long: {}", lengths), "E0560")
    return found


def _length(x: Any) -> int:
    shape = _shape(x)
    if shape:
        return int(shape[0])  # not len(), which a sparse matrix does not have
    try:
        length = len(x)
    except (TypeError, RuntimeError):
        raise InvalidRequest(text("a {} has no length, so it cannot be split", type(x).__name__), "E0560",
                             text("convert it to a list, or split the batches that it yields")) from None
    if not hasattr(type(x), "__getitem__"):
        raise _no_slices(x)
    return length


def _no_slices(x: Any) -> InvalidRequest:
    return InvalidRequest(text("a {} cannot be sliced, so it cannot be split", type(x).__name__), "E0560",
                          text("convert it to a list, or split the batches that it yields"))


def _part(x: Any, length: int, which: slice, outermost: bool = False) -> Any:
    """Returns the items that the slice `which` selects from a field with `length` items."""
    def inside(one: Any) -> Any:
        return one if _is_shared(one) or (length != 1 and _is_row_for_all(one)) else _part(one, length, which)

    if not next(fields for found, fields in _ways(x, outermost) if found == length):
        try:
            return x[which]
        except (TypeError, NotImplementedError) as why:  # for example, a deque and a sparse tensor do not support slices
            raise _no_slices(x) from why
    named = _fields(x)
    if named is not None:
        return _like(x, {key: inside(one) for key, one in named.items()}, which)
    parts = [inside(one) for one in x]
    return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)  # a named tuple takes its fields as separate arguments


def _like(x: Any, parts: Dict[Any, Any], which: slice) -> Any:
    """A copy of the container x with these parts as its contents."""
    mapping = isinstance(x, collections.abc.Mapping)
    if type(x) is dict or (mapping and not isinstance(x, collections.abc.MutableMapping)):
        return parts
    new: Any = copy.copy(x)
    if not mapping:
        for name, one in parts.items():
            object.__setattr__(new, name, one)  # this also works for a frozen dataclass
        return new
    for key, one in parts.items():
        new[key] = one
    # transformers' BatchEncoding also has a list with one tokenizer result for each item
    if isinstance(getattr(new, "_encodings", None), list):
        new._encodings = new._encodings[which]
    return new
