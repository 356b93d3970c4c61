"""Edits that overwrite each other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hookline.address import Target
from hookline.editing.indexing import are_apart, are_disjoint
from hookline.editing.plan import Entry
from hookline.errors import EditError


def check_conflicts(sites: Sequence[tuple[Entry, Target]]) -> None:
    """Raise when an edit overwrites elements that an earlier one has overwritten: that one would be without effect.

    Raises:
        EditError: it names the place and both edits.
    """
    earlier: dict[tuple[int, str | None, str | None, int | None, str], list[tuple[Entry, Target]]] = {}
    for entry, target in sites:
        if not entry.operation.overwrites:
            continue
        address = target.address
        place = (id(target.module), address.method, address.function, address.occurrence, address.side or "output")
        for other, its in earlier.setdefault(place, []):
            if _overlap(entry, target, other, its):
                raise EditError(
                    f"{target}: {other.operation} and then {entry.operation} overwrite the same elements, so that the "
                    "first would be without effect. Take one out, give them indices or rows apart, or say "
                    "allow_overlap=True."
                )
        earlier[place].append((entry, target))


def _overlap(one: Entry, target: Target, other: Entry, its: Target) -> bool:
    if _rows_disjoint(one.rows, other.rows):  # first: in a sweep there are many, and this tells all of them apart
        return False
    a, b = target.address.part, its.address.part
    shorter = min(len(a), len(b))
    if a[:shorter] != b[:shorter]:
        return False
    if len(a) == len(b) and are_disjoint(one.operation.index, other.operation.index):
        return False
    return one.calls is None or other.calls is None or bool(one.calls & other.calls)


def _rows_disjoint(one: slice | Tensor | None, other: slice | Tensor | None) -> bool:
    if one is None or other is None:
        return False
    if isinstance(one, slice) and isinstance(other, slice):
        return are_apart(one, other)
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        first, second = _numbers(one), _numbers(other)
        return min(first | second, default=0) >= 0 and not first & second
    rows, among = (one, other) if isinstance(other, slice) else (other, one)
    return all(row >= 0 and are_apart(row, among) for row in _numbers(rows))  # type: ignore[arg-type]


def _numbers(rows: Tensor) -> set[int]:
    if rows.dtype == torch.bool:
        rows = rows.nonzero().flatten()
    return set(rows.tolist())
