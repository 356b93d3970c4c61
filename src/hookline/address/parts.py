"""The parts of a nested value: the one place that knows containers."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from hookline.errors import PartError

Part = tuple[str | int, ...]

_DEEPEST = 100


def children(value: Any) -> list[tuple[str | int, Any]] | None:
    """Return the direct parts of a container with their keys, or None for a leaf.

    Containers are tuples, named tuples, lists, dicts and other mappings with string or integer keys, dataclasses,
    `ModelOutput` and `PackedSequence`. Everything else is a leaf.
    """
    if isinstance(value, Tensor) or value is None:
        return None
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        return list(zip(fields, value, strict=True)) if fields else list(enumerate(value))
    if isinstance(value, list):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(name, getattr(value, name)) for name in _fields(value) if hasattr(value, name)]
    return None


def rebuild(value: Any, items: list[Any]) -> Any:
    """Return a container of the type of `value` with other children, in the order of `children(value)`."""
    if isinstance(value, PackedSequence):  # its constructor takes the sorted batch sizes apart
        return type(value)(*items)
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return type(value)(*items)
        return tuple(items) if type(value) is tuple else type(value)(items)
    if type(value) is list:
        return list(items)
    if type(value) is dict:
        return dict(zip(value, items, strict=True))
    if isinstance(value, list):
        new = copy.copy(value)
        new[:] = items
        return new
    if isinstance(value, Mapping):
        return _with_items(value, items)
    return _with_fields(value, [key for key, _ in children(value) or []], items)


def map_leaves(function: Callable[[Part, Any], Any], value: Any, part: Part = ()) -> Any:
    """Return `value` with `function(part, leaf)` in the place of each leaf.

    Containers in which nothing changed are the same objects as before.
    """
    inner = children(value) if len(part) < _DEEPEST else None
    if inner is None:
        return function(part, value)
    items = [map_leaves(function, item, (*part, key)) for key, item in inner]
    # Dynamo cannot compare some containers by identity; in compiled code it does not matter either.
    if not torch.compiler.is_compiling() and all(old is new for (_, old), new in zip(inner, items, strict=True)):
        return value
    return rebuild(value, items)


def leaves(value: Any, part: Part = ()) -> list[tuple[Part, Any]]:
    """Return each leaf of a nested value with the way to it."""
    inner = children(value) if len(part) < _DEEPEST else None
    if inner is None:
        return [(part, value)]
    return [found for key, item in inner for found in leaves(item, (*part, key))]


def read(value: Any, part: Part, *, address: str = "") -> Any:
    """Return the part of `value` that lies at `part`.

    Raises:
        PartError: there is none; the message lists what there is.
    """
    for position, key in enumerate(part):
        value = _step(value, key, part[:position], address)
    return value


def write(value: Any, part: Part, new: Any, *, address: str = "") -> Any:
    """Return a copy of `value` with `new` at `part`; the containers on the way are copied, nothing else is.

    Raises:
        PartError: there is no such part; the message lists what there is.
    """
    return _write(value, part, new, (), address)


def _write(value: Any, part: Part, new: Any, done: Part, address: str) -> Any:
    if not part:
        return new
    key, rest = part[0], part[1:]
    changed = _write(_step(value, key, done, address), rest, new, (*done, key), address)
    inner = children(value) or []
    position = _position(inner, key)
    if position is None:
        other = copy.copy(value)
        setattr(other, str(key), changed)
        return other
    return rebuild(value, [changed if index == position else item for index, (_, item) in enumerate(inner)])


def _step(value: Any, key: str | int, done: Part, address: str) -> Any:
    inner = children(value)
    if inner is not None:
        position = _position(inner, key)
        if position is not None:
            return inner[position][1]
    if isinstance(key, str) and not isinstance(value, Tensor) and _has_attribute(value, key):
        return getattr(value, key)
    raise PartError(_no_part(value, inner, key, done, address))


def _position(inner: list[tuple[str | int, Any]], key: str | int) -> int | None:
    """Return where `key` is among the children; an index counts them, as `ModelOutput` and named tuples have it."""
    for position, (name, _) in enumerate(inner):
        if name == key and type(name) is type(key):
            return position
    if isinstance(key, int) and -len(inner) <= key < len(inner):
        return key % len(inner)
    return None


def _has_attribute(value: Any, name: str) -> bool:
    """Return whether an object holds, or a class defines as a property, what is asked for: data, no method."""
    return name in getattr(value, "__dict__", {}) or isinstance(getattr(type(value), name, None), property)


def _no_part(value: Any, inner: list[tuple[str | int, Any]] | None, key: str | int, done: Part, address: str) -> str:
    where = f"{address}: " if address else ""
    at = f" at {'.'.join(map(str, done))!r}" if done else ""
    return f"{where}there is no part {key!r}{at}; the value there is {_describe(value, inner)}."


def _describe(value: Any, inner: list[tuple[str | int, Any]] | None) -> str:
    if isinstance(value, Tensor):
        return f"a Tensor of shape {tuple(value.shape)}, which has no parts"
    if inner is None:
        names = list(getattr(value, "__dict__", {}))
        return f"of type {type(value).__name__}" + (f" with attributes: {', '.join(names)}" if names else "")
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return f"a {type(value).__name__} of {len(inner)}"
    return f"of type {type(value).__name__} with keys: {', '.join(str(name) for name, _ in inner) or 'none'}"


def _fields(value: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(value)]


def _with_items(value: Any, items: list[Any]) -> Any:
    """Return a copy of a mapping with other values; a copy, since constructors differ (defaultdict, ModelOutput)."""
    new = copy.copy(value)
    for key, item in zip(list(value), items, strict=True):
        new[key] = item
    return new


def _with_fields(value: Any, names: list[Any], items: list[Any]) -> Any:
    """Return a copy of a dataclass with other field values, without running its __init__; it may be frozen."""
    new = copy.copy(value)
    for name, item in zip(names, items, strict=True):
        object.__setattr__(new, name, item)
    return new
