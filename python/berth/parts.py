"""A batch, whatever holds it: how many items it has, and some of them."""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from .errors import InvalidRequest
from .language import text
from .sizes import whole

__all__ = ["chunked", "length_of", "part_of", "positive"]

_CHANNELS = (1, 3, 4)


def positive(name: str, value: Any) -> int:
    return whole(name, value, 1)


def chunked(x: Any, size: int) -> Iterator[Any]:
    """Parts of so many items each, the last one with what is left: of a tensor or array along its first axis, of a sequence, or
    of a dict, dataclass, tuple or list of tensors, arrays or sequences that are equally long. None, switches, numbers and texts among them are
    in every part. What holds them stays what it is: transformers' BatchEncoding, a named tuple, a dataclass.

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
    """How many items a batch has."""
    return _ways(x, outermost=True)[0][0]


def part_of(x: Any, first: int, last: Optional[int], step: Optional[int] = None) -> Any:
    """The items from the first up to, and without, the last; with a step each so many-th."""
    return _part(x, length_of(x), slice(first, last, step), outermost=True)


def _shape(x: Any) -> Any:
    """Of a tensor or array; of what has none, or none of one kind, nothing."""
    try:
        return getattr(x, "shape", None)
    except Exception:  # PyTorch's nested tensors; a dict that gives its keys as attributes
        return None


def _is_shared(x: Any) -> bool:
    """It belongs to all items, and is in every part: a switch, a number, a text, nothing."""
    return x is None or isinstance(x, (bool, int, float, str, bytes)) or _shape(x) == ()


def _fields(x: Any) -> Optional[Dict[Any, Any]]:
    """Of what has names for what stands side by side in it; a TensorDict has a shape besides, and takes parts of itself."""
    if isinstance(x, collections.abc.Mapping):
        return None if hasattr(type(x), "shape") else {key: x[key] for key in x}
    if not dataclasses.is_dataclass(x) or isinstance(x, type):
        return None
    names = [field.name for field in dataclasses.fields(x)]
    if "shape" not in names and hasattr(type(x), "shape"):
        return None
    return {name: getattr(x, name) for name in names if hasattr(x, name)}


def _side_by_side(x: Any) -> bool:
    """A tuple or list that may be fields, and no list of items: tensors or arrays with what belongs to them; or in a tuple lists, or tuples
    that a loader has put together, each of one kind."""
    if not isinstance(x, (tuple, list)):
        return False
    if any(_shape(one) for one in x):
        return True
    return isinstance(x, tuple) and any(isinstance(one, list) or (isinstance(one, tuple) and _of_one_kind(one)) for one in x)


def _of_one_kind(x: Sequence[Any]) -> bool:
    """Tensors, or dicts."""
    return all(isinstance(one, collections.abc.Mapping) for one in x) or (all(_shape(one) for one in x) and _alike(x))


def _alike(x: Sequence[Any]) -> bool:
    """Tensors or arrays of one type and as many dimensions: what items of different sizes are."""
    return len({(len(_shape(one) or ()), str(getattr(one, "dtype", type(one)))) for one in x}) == 1


def _images(x: Sequence[Any]) -> bool:
    """Channels, height, width each: their first axis counts no items."""
    return _alike(x) and len(x[0].shape) == 3 and x[0].shape[0] in _CHANNELS


Way = Tuple[int, bool]


def _ways(x: Any, outermost: bool = False) -> List[Way]:
    """So many items it may have, and whether as fields side by side, the likeliest first. A list of tensors is either fields with as many
    items each, or items of which each is a tensor: what stands beside it tells which."""
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
    if outermost and isinstance(x, tuple):  # what a loader gives
        return as_fields or [(length, True) for length in _common(fields)]
    if not as_fields and not _alike(x):
        _common(fields)
    if outermost:
        few = bool(as_fields) and len(x) <= as_fields[0][0]
        return as_items if not as_fields or (_images(x) and not few and as_fields[0][0] > 1) else as_fields
    return as_items + as_fields if not as_fields or _images(x) else as_fields + as_items


def _check_sure(fields: Dict[Any, Any], lengths: List[int]) -> None:
    """Refuses tensors in a list that may be items or fields, where nothing beside them tells which. Images are items."""
    if len(set(lengths)) < 2:
        return
    for key, one in fields.items():
        if _side_by_side(one) and not _images(one):
            raise InvalidRequest(text("{!r} is {} tensors with {} rows each: whether an item is a tensor or a row, nothing beside them tells", key,
                                      len(one), next(shape for shape in map(_shape, one) if shape)[0]), "E0560",
                                 text("torch.stack(…) of them, with dim=1 where rows are items; or what has one entry for each item beside them"))


def _in_common(fields: Dict[Any, Any]) -> List[int]:
    """So many items all of them may have, as the first of them would rather."""
    each = [[length for length, _ in _ways(one)] for one in fields.values() if not _is_shared(one)]
    return [length for length in each[0] if all(length in other for other in each)] if each else [0]


def _common(fields: Dict[Any, Any]) -> List[int]:
    found = _in_common(fields)
    if not found:
        lengths = {key: _ways(one)[0][0] for key, one in fields.items() if not _is_shared(one)}
        raise InvalidRequest(text("the parts of the batch are not equally long: {}", lengths), "E0560")
    return found


def _length(x: Any) -> int:
    shape = _shape(x)
    if shape:
        return int(shape[0])  # also of a sparse matrix, which has no len()
    try:
        length = len(x)
    except (TypeError, RuntimeError):
        raise InvalidRequest(text("a {} has no length, so it cannot be split", type(x).__name__), "E0560",
                             text("make a list of it, or split what it yields")) from None
    if not hasattr(type(x), "__getitem__"):
        raise _no_slices(x)
    return length


def _no_slices(x: Any) -> InvalidRequest:
    return InvalidRequest(text("a {} has no items from here to there, so it cannot be split", type(x).__name__), "E0560",
                          text("make a list of it, or split what it yields"))


def _part(x: Any, length: int, which: slice, outermost: bool = False) -> Any:
    """Some of its items, of which it has so many."""
    def inside(one: Any) -> Any:
        return one if _is_shared(one) else _part(one, length, which)

    if not next(fields for found, fields in _ways(x, outermost) if found == length):
        try:
            return x[which]
        except (TypeError, NotImplementedError) as why:  # a deque, a sparse tensor
            raise _no_slices(x) from why
    named = _fields(x)
    if named is not None:
        return _like(x, {key: inside(one) for key, one in named.items()}, which)
    parts = [inside(one) for one in x]
    return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)  # a named tuple takes them one by one


def _like(x: Any, parts: Dict[Any, Any], which: slice) -> Any:
    """As x, with these parts in place of its own."""
    mapping = isinstance(x, collections.abc.Mapping)
    if type(x) is dict or (mapping and not isinstance(x, collections.abc.MutableMapping)):
        return parts
    new: Any = copy.copy(x)
    if not mapping:
        for name, one in parts.items():
            object.__setattr__(new, name, one)  # also of a frozen one
        return new
    for key, one in parts.items():
        new[key] = one
    if isinstance(getattr(new, "_encodings", None), list):  # transformers' BatchEncoding: what its tokenizer said of each item
        new._encodings = new._encodings[which]
    return new
