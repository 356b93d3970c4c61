"""The index of an edit: which elements of a tensor it means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hookline.errors import EditError, HookTypeError

Index = tuple[Any, ...]


def checked_index(index: Any) -> Index:
    """Return the index as a tuple, with lists as tensors.

    Raises:
        HookTypeError: an entry is none of int, slice, `...`, None, list, bool or integer tensor.
    """
    return tuple(_checked(entry) for entry in (index if isinstance(index, tuple) else (index,)))


def _checked(entry: Any) -> Any:
    if entry is None or entry is Ellipsis or isinstance(entry, (int, slice)):
        return entry
    if isinstance(entry, (list, range)):
        entry = torch.tensor(list(entry))
    if isinstance(entry, Tensor) and entry.dtype in (torch.bool, torch.uint8, torch.int32, torch.int64):
        return entry
    raise HookTypeError(
        f"an index is made of ints, slices, ..., None, lists, and bool or integer tensors; got {entry!r:.80}."
    )


def selected(value: Tensor, index: Index) -> Tensor:
    """Return the elements that the index means.

    Raises:
        EditError: the index does not fit the shape.
    """
    try:
        return value[_on_device(index, value)]
    except IndexError as error:
        raise _unfit(value, index, error) from None


def written(value: Tensor, index: Index, new: Tensor | float) -> Tensor:
    """Return a copy of the value with other elements at the index.

    Raises:
        EditError: the index does not fit the shape.
    """
    copy = value.clone()
    try:
        copy[_on_device(index, value)] = new
    except IndexError as error:
        raise _unfit(value, index, error) from None
    return copy


def _unfit(value: Tensor, index: Index, error: Exception) -> EditError:
    return EditError(f"the index [{spelt(index)}] does not fit a value of shape {tuple(value.shape)}: {error}.")


def _on_device(index: Index, value: Tensor) -> Index:
    for entry in index:
        if isinstance(entry, Tensor):
            return tuple(entry.to(value.device) if isinstance(entry, Tensor) else entry for entry in index)
    return index


def spelt(index: Index) -> str:
    """Return the index as it is written, e.g. `":, 7"`."""
    return ", ".join(map(_spelt, index))


def _spelt(entry: Any) -> str:
    if entry is Ellipsis:
        return "..."
    if isinstance(entry, slice):
        ends = [("" if end is None else str(end)) for end in (entry.start, entry.stop)]
        return ":".join(ends) + (f":{entry.step}" if entry.step is not None else "")
    if isinstance(entry, Tensor):
        return str(entry.tolist()) if entry.numel() <= 8 else f"<{entry.dtype} tensor of shape {tuple(entry.shape)}>"
    return str(entry)


def are_disjoint(one: Index | None, other: Index | None) -> bool:
    """Return whether two indices surely mean different elements, whatever the shape."""
    if one is None or other is None:
        return False
    pairs = _beside(one, other)
    if Ellipsis in map(_kind, one) and Ellipsis in map(_kind, other):  # behind it axes are counted from the last
        pairs += _beside(one[::-1], other[::-1])
    return any(are_apart(a, b) for a, b in pairs)


def _kind(entry: Any) -> Any:
    return Ellipsis if entry is Ellipsis else None


def _beside(one: Sequence[Any], other: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the entries that mean the same axis, up to the first that makes that uncertain."""
    pairs = []
    for a, b in zip(one, other, strict=False):
        if any(entry is Ellipsis or entry is None or isinstance(entry, Tensor) for entry in (a, b)):
            break
        pairs.append((a, b))
    return pairs


def are_apart(a: int | slice, b: int | slice) -> bool:
    """Return whether two entries of an index surely mean different positions, whatever the length of the axis."""
    first, second = _span(a), _span(b)
    return first is not None and second is not None and (first[1] <= second[0] or second[1] <= first[0])


def _span(entry: Any) -> tuple[int, float] | None:
    """Return where an entry begins and ends, if that does not depend on the length of the axis."""
    if isinstance(entry, int):
        return (entry, entry + 1) if entry >= 0 else None
    if entry.step not in (None, 1) or (entry.start or 0) < 0 or (entry.stop is not None and entry.stop < 0):
        return None
    return entry.start or 0, float("inf") if entry.stop is None else entry.stop
