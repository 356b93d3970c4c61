"""The parts of a nested value, read and written by their keys."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from types import MemberDescriptorType
from typing import Any

import torch
from torch import Tensor

from hookline.address.containers import children, rebuild
from hookline.address.spelling import Part
from hookline.errors import PartError

_NONE = object()


def map_leaves(function: Callable[[Part, Any], Any], value: Any, part: Part = ()) -> Any:
    """Return `value` with `function(part, leaf)` in the place of each leaf.

    Containers in which nothing changed are the same objects as before. A container that lies inside itself is a leaf
    there.
    """
    return _mapped(function, value, part, ())


def leaves(value: Any, part: Part = ()) -> list[tuple[Part, Any]]:
    """Return each leaf of a nested value with the way to it."""
    found: list[tuple[Part, Any]] = []
    _collect(value, part, (), found)
    return found


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


def _mapped(function: Callable[[Part, Any], Any], value: Any, part: Part, above: tuple[Any, ...]) -> Any:
    inner = children(value)
    if inner is None or _is_among(value, above):
        return function(part, value)
    above = (*above, value)
    items = [_mapped(function, item, (*part, key), above) for key, item in inner]
    # Dynamo cannot compare some containers by identity; in compiled code it does not matter either.
    if not torch.compiler.is_compiling() and all(old is new for (_, old), new in zip(inner, items, strict=True)):
        return value
    return rebuild(value, items)


def _collect(value: Any, part: Part, above: tuple[Any, ...], found: list[tuple[Part, Any]]) -> None:
    inner = children(value)
    if inner is None or _is_among(value, above):
        found.append((part, value))
        return
    above = (*above, value)
    for key, item in inner:
        _collect(item, (*part, key), above, found)


def _is_among(value: Any, above: tuple[Any, ...]) -> bool:
    # Values are nested two or three deep, where a set of ids would cost more. Dynamo cannot compare tuples by identity.
    return bool(above) and not torch.compiler.is_compiling() and any(container is value for container in above)


def _write(value: Any, part: Part, new: Any, done: Part, address: str) -> Any:
    if not part:
        return new
    key, rest = part[0], part[1:]
    changed = _write(_step(value, key, done, address), rest, new, (*done, key), address)
    inner = children(value) or []
    position = _position(inner, key)
    if position is not None:
        return rebuild(value, [changed if index == position else item for index, (_, item) in enumerate(inner)])
    return _with_attribute(value, str(key), changed, address)


def _step(value: Any, key: str | int, done: Part, address: str) -> Any:
    inner = children(value)
    if inner is not None:
        position = _position(inner, key)
        if position is not None:
            return inner[position][1]
    if isinstance(key, str) and (data := _data(value, key)) is not _NONE:
        return data
    where = f"{address}: " if address else ""
    at = f" at {'.'.join(map(str, done))!r}" if done else ""
    raise PartError(f"{where}there is no part {key!r}{at}; the value there is {_described(value, inner)}.")


def _position(inner: list[tuple[str | int, Any]], key: str | int) -> int | None:
    """Return where `key` is among the children; an index counts them, as `ModelOutput` and named tuples have it."""
    for position, (name, _) in enumerate(inner):
        if type(name) is type(key) and name == key:
            return position
    if isinstance(key, int) and -len(inner) <= key < len(inner):
        return key % len(inner)
    return None


def _data(value: Any, name: str) -> Any:
    """Return what an object holds itself, in a slot or by a property; `_NONE` for methods, constants and tensors."""
    of_class = getattr(type(value), name, None)
    is_data = name in getattr(value, "__dict__", {}) or isinstance(of_class, (property, MemberDescriptorType))
    if not is_data or isinstance(value, Tensor):
        return _NONE
    data = getattr(value, name, _NONE)  # a slot may be empty
    return _NONE if callable(data) else data


def _with_attribute(value: Any, name: str, new: Any, address: str) -> Any:
    try:
        other = copy.copy(value)
        if isinstance(value, Mapping) and dataclasses.is_dataclass(value):
            other[name] = new  # a field of a ModelOutput that was None: it is a key from now on
        else:
            setattr(other, name, new)
    except (AttributeError, TypeError) as error:
        where = f"{address}: " if address else ""
        raise PartError(f"{where}{name!r} of a {type(value).__name__} can be read but not written: {error}.") from error
    return other


def _described(value: Any, inner: list[tuple[str | int, Any]] | None) -> str:
    if isinstance(value, Tensor):
        return f"a Tensor of shape {tuple(value.shape)}, which has no parts"
    if inner is None:
        names = [name for name in getattr(value, "__dict__", {}) if not name.startswith("_")]
        return f"of type {type(value).__name__}" + (f" with attributes: {', '.join(names)}" if names else "")
    if isinstance(value, (tuple, list)) and all(isinstance(key, int) for key, _ in inner):
        return f"a {type(value).__name__} of {len(inner)}"
    return f"of type {type(value).__name__} with keys: {', '.join(str(name) for name, _ in inner) or 'none'}"
