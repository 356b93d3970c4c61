"""The structure of nested values: the one place that knows which types are containers.

Plain Python throughout: Dynamo traces it when hooks run in compiled code.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from hookline.errors import PartError


def children(value: Any) -> list[tuple[str | int, Any]] | None:
    """Return the direct parts of a container with their keys, or None for a leaf.

    Containers are tuples, named tuples, torch's return types, lists, mappings, dataclasses, `ModelOutput` and
    `PackedSequence`. Everything else is a leaf.
    """
    if isinstance(value, Tensor) or value is None:
        return None
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, tuple):
        fields = _tuple_fields(value)
        return list(zip(fields, value, strict=True)) if fields else list(enumerate(value))
    if isinstance(value, list):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(name, getattr(value, name)) for name in _set_fields(value)]
    return None


def rebuild(value: Any, items: list[Any]) -> Any:
    """Return a container of the type of `value` with other children, in the order of `children(value)`."""
    if isinstance(value, tuple):
        return _tuple_of(value, items)
    if type(value) is list:
        return list(items)
    if type(value) is dict:
        return dict(zip(value, items, strict=True))
    if isinstance(value, list):
        new = copy.copy(value)
        new[:] = items
        return new
    if isinstance(value, Mapping):
        return _mapping_of(value, items)
    # A copy, without running its __init__: fields may be init=False, and checks have been passed. It may be frozen.
    new = copy.copy(value)
    for name, item in zip(_set_fields(value), items, strict=True):
        object.__setattr__(new, name, item)
    return new


def _tuple_fields(value: Any) -> tuple[str, ...]:
    """Return the names in a named tuple or in what e.g. `torch.max` returns; empty for other tuples."""
    if hasattr(value, "_fields"):
        return tuple(value._fields)
    if hasattr(type(value), "n_sequence_fields"):
        names: tuple[str, ...] = type(value).__match_args__
        return names if len(names) == len(value) else ()  # some of os.stat()'s have no name
    return ()


def _tuple_of(value: Any, items: list[Any]) -> Any:
    if type(value) is tuple:
        return tuple(items)
    # _make: the constructor of a named tuple's subclass, such as PackedSequence, may take something else.
    return type(value)._make(items) if hasattr(value, "_fields") else type(value)(items)


def _mapping_of(value: Any, items: list[Any]) -> Any:
    """Return a mapping with other values: a copy where that is known to be one, since constructors differ."""
    pairs = zip(list(value), items, strict=True)
    # Of other mappings copy.copy copies the attributes only, and would share the dict that they keep inside.
    if isinstance(value, dict) or hasattr(value, "__copy__"):
        new = copy.copy(value)
        for key, item in pairs:
            new[key] = item
        return new
    try:
        return type(value)(dict(pairs))
    except Exception as error:
        raise PartError(
            f"a {type(value).__name__} cannot be made anew with other values: {type(error).__name__}: {error}. "
            "Give its class a __copy__, or a constructor that takes a dict."
        ) from error


def _set_fields(value: Any) -> list[str]:
    """Return the names of a dataclass's fields, but for those that were never set."""
    return [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
