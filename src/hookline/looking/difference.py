"""The difference between two runs, module by module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from hookline.looking.layer_table import number
from hookline.looking.report.observation import Observation
from hookline.table import aligned


@dataclass(frozen=True)
class DifferenceRow:
    """How one tensor differs between run A and run B.

    Numbers are over the values that are finite in both; None when the shapes differ or there is no such value.

    Attributes:
        address: the address of the tensor.
        call: which call of its module, from 1.
        type: the class of its module.
        shape_a: its shape in A; None when A has no such tensor.
        shape_b: its shape in B.
        rms_a: the root of its mean square in A.
        rms_b: the same in B.
        largest: the largest absolute difference.
        relative: the norm of the difference over the norm in A; infinite when only that is 0.
        cosine: the cosine of the angle between the two; None when one of them is 0.
        equal: whether they are the same, bit for bit but for NaN, which equals NaN here.
    """

    address: str
    call: int
    type: str
    shape_a: tuple[int, ...] | None
    shape_b: tuple[int, ...] | None
    rms_a: float | None = None
    rms_b: float | None = None
    largest: float | None = None
    relative: float | None = None
    cosine: float | None = None
    equal: bool = False


_HEADER = ("address", "type", "shape", "rms A", "rms B", "largest", "relative", "cosine")


@dataclass(frozen=True)
class DifferenceTable:
    """The differences in execution order; prints as a table.

    Attributes:
        a: what run A was.
        b: what run B was.
        rows: one for each tensor of each call.
        first: the address of the first tensor to differ, in the order in which the modules ended; None if none does.
    """

    a: str
    b: str
    rows: tuple[DifferenceRow, ...]
    first: str | None

    @property
    def differing(self) -> tuple[DifferenceRow, ...]:
        """The rows that differ."""
        return tuple(row for row in self.rows if not row.equal)

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain Python, for JSON."""
        return {"a": self.a, "b": self.b, "first": self.first, "rows": [asdict(row) for row in self.rows]}

    def __str__(self) -> str:
        head = f"A: {self.a}\nB: {self.b}"
        if not self.rows:
            return f"{head}\nno tensor to compare."
        count = f"{len(self.differing)} of {len(self.rows)} tensors differ"
        first = f", the first is that of {self.first}" if self.first is not None else ""
        return f"{head}\n{aligned(_HEADER, [_cells(row) for row in self.rows])}\n{count}{first}."


def difference(a: Observation, b: Observation, names: tuple[str, str]) -> DifferenceTable:
    """Return how the tensors of two observed runs differ.

    Args:
        a: run A.
        b: run B.
        names: what the two are called.
    """
    ours, theirs = _tensors(a), _tensors(b)
    rows = []
    for key in (*ours, *(key for key in theirs if key not in ours)):
        (address, call), (kind, first), (other_kind, second) = key, ours.get(key, _NONE), theirs.get(key, _NONE)
        rows.append(_row(address, call, kind or other_kind, first, second))
    order = {path: position for position, path in enumerate(a.table.finished)}
    paths = {source.address: site.path for site in (*a.sites, *b.sites) for source in site.sources}
    unequal = [row.address for row in rows if not row.equal]
    first_path = min(unequal, key=lambda address: order.get(paths[address], len(order)), default=None)
    return DifferenceTable(*names, tuple(rows), first_path)


_NONE: tuple[str, Tensor | None] = ("", None)


def _tensors(seen: Observation) -> dict[tuple[str, int], tuple[str, Tensor | None]]:
    found: dict[tuple[str, int], tuple[str, Tensor | None]] = {}
    for site in seen.sites:
        for source in site.sources:
            call = 1
            while (source.address, call) in found:
                call += 1
            found[source.address, call] = (site.rows[0].type, source.tensor)
    return found


def _row(address: str, call: int, kind: str, a: Tensor | None, b: Tensor | None) -> DifferenceRow:
    shapes = None if a is None else tuple(a.shape), None if b is None else tuple(b.shape)
    if a is None or b is None or a.shape != b.shape or a.is_complex() or b.is_complex():
        return DifferenceRow(address, call, kind, *shapes)
    b = b.to(a.device)
    equal = bool(((a == b) | ((a != a) & (b != b))).all()) and a.dtype == b.dtype  # noqa: PLR0124 - NaN
    x, y = a.detach().to(torch.float64).flatten(), b.detach().to(torch.float64).flatten()
    both = x.isfinite() & y.isfinite()
    x, y = x[both], y[both]
    if not x.numel():
        return DifferenceRow(address, call, kind, *shapes, equal=equal)
    apart, size, other = (y - x).norm().item(), x.norm().item(), y.norm().item()
    return DifferenceRow(
        address,
        call,
        kind,
        *shapes,
        rms_a=size / x.numel() ** 0.5,
        rms_b=other / x.numel() ** 0.5,
        largest=(y - x).abs().max().item(),
        relative=apart / size if size else (0.0 if not apart else float("inf")),
        cosine=(x @ y).item() / (size * other) if size and other else None,
        equal=equal,
    )


def _cells(row: DifferenceRow) -> tuple[str, ...]:
    call = f" (call {row.call})" if row.call > 1 else ""
    shapes = list(dict.fromkeys("x".join(map(str, shape)) if shape is not None else "none" for shape in _shapes(row)))
    numbers: Sequence[float | None] = (row.rms_a, row.rms_b, row.largest, row.relative, row.cosine)
    shown = ["equal" if row.equal else number(row.relative)]
    return (
        row.address + call,
        row.type,
        " / ".join(shapes),
        *(number(value) for value in numbers[:3]),
        *shown,
        number(row.cosine),
    )


def _shapes(row: DifferenceRow) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    return row.shape_a, row.shape_b
