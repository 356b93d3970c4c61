"""The layer table: what each module of a model gives for one input, in numbers."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from hookline.address import Address
from hookline.errors import ModelRunError
from hookline.intercept.hookable import check_module
from hookline.looking.layer_count import NeverCalled, Totals, never_called, owners, totals
from hookline.looking.untouched import untouched
from hookline.looking.watch import ModuleSeen, PartSeen, Watch
from hookline.table import aligned


@dataclass(frozen=True)
class LayerRow:
    """One tensor that one module gives, with the module's own numbers on its first row.

    A number that there is none of (the mean of no finite value, the channels of a vector) is None.

    Attributes:
        address: the address of the tensor.
        path: the path of the module.
        type: the name of the module's class.
        shape: the shape in the first call; None when the output holds no tensor.
        dtype: such as "float32".
        parameters: the numbers that the module itself owns, not those of the modules within; a parameter that an
            earlier row has counted (tied weights) is not counted again.
        tied: whether some of its parameters were counted in an earlier row.
        frozen: whether none of its own parameters wants a gradient: "yes", "no" or "part"; "" without any, and on
            the further rows of a module.
        mode: "train" or "eval".
        calls: how often it was called.
        mean: of all finite values, as are std, rms, min and max.
        std: divided by n, see `hookline.Stats`.
        rms: the root of the mean square.
        min: the smallest.
        max: the largest.
        zero: the share of values that are exactly 0, of all.
        nonfinite: the share of NaN and infinite values.
        dead: the share of channels all of whose values are exactly 0; None for a tensor without channels.
        channels: how many channels there are.
        time_s: seconds in all its calls, the modules within included; the time that looking took is taken off.
    """

    address: str
    path: str
    type: str
    shape: tuple[int, ...] | None
    dtype: str
    parameters: int
    tied: bool
    frozen: str
    mode: str
    calls: int
    mean: float | None
    std: float | None
    rms: float | None
    min: float | None
    max: float | None
    zero: float | None
    nonfinite: float | None
    dead: float | None
    channels: int | None
    time_s: float


_HEADER = (
    *("address", "type", "shape", "dtype", "params", "frozen", "mode", "mean", "std", "rms", "min", "max"),
    *("zero", "nonfinite", "dead", "ms"),
)


@dataclass(frozen=True)
class LayerTable:
    """The rows in execution order, a container before what it contains; prints as a table.

    Attributes:
        rows: one for each tensor that a module gives, a module without tensors has one too.
        uncalled: the modules that were not called, and why.
        totals: the sums over the model; `totals.parameters == sum(p.numel() for p in model.parameters())`.
        finished: the paths in the order in which the first calls ended.
        notes: what had to be left out.
    """

    rows: tuple[LayerRow, ...]
    uncalled: tuple[NeverCalled, ...]
    totals: Totals
    finished: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def only(self, paths: Collection[str]) -> LayerTable:
        """Return the table with the rows of some modules; the totals stay those of the model."""
        return replace(self, rows=tuple(row for row in self.rows if row.path in paths))

    def cells(self, *, columns: Sequence[str] = _HEADER) -> list[tuple[str, ...]]:
        """Return the rows as text, the columns that are asked for."""
        return [tuple(text for name, text in _cells(row).items() if name in columns) for row in self.rows]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the printed table."""
        return _HEADER

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain Python, for JSON."""
        return {
            "rows": [asdict(row) for row in self.rows],
            "uncalled": [asdict(each) for each in self.uncalled],
            "totals": asdict(self.totals),
            "notes": list(self.notes),
        }

    def to_csv(self) -> str:
        """Return the rows as comma-separated values with a header; shapes are written as `1x3x224x224`."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        rows = [asdict(row) for row in self.rows]
        writer.writerow(LayerRow.__dataclass_fields__)
        for row in rows:
            row["shape"] = "x".join(map(str, row["shape"])) if row["shape"] is not None else None
            writer.writerow(row.values())
        return out.getvalue()

    def footer(self) -> str:
        """Return the lines below the table: totals, modules that were not called, notes."""
        lines = [str(self.totals)]
        if self.uncalled:
            lines += [f"{len(self.uncalled)} not called:", *(f"  {each}" for each in self.uncalled)]
        return "\n".join([*lines, *self.notes])

    def text(self, *, columns: Sequence[str] = _HEADER) -> str:
        """Return the table as aligned text, the columns that are asked for."""
        header = [name for name in _HEADER if name in columns]
        return f"{aligned(header, self.cells(columns=columns))}\n{self.footer()}"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in _HEADER)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.cells()
        )
        foot = html.escape(self.footer())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><pre>{foot}</pre>"


def layer_table(model: nn.Module, *inputs: Any, **kwargs: Any) -> LayerTable:
    """Run `model(*inputs, **kwargs)` once, and return the layer table.

    The run is made without gradients and in the model's present mode; buffers and random numbers are as before
    afterwards. Compiled code is not used, since it does not stop at each module.

    Args:
        model: the model.
        inputs: its positional arguments.
        kwargs: its keyword arguments.

    Raises:
        ModelRunError: the model failed; the error has the table up to there.
        HookTypeError: `model` is no module.
    """
    check_module(model)
    watch = Watch(model)
    with torch.no_grad(), untouched(model), watch.on():
        run(watch, inputs, kwargs)
    return table_of(watch)


def run(watch: Watch, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run the watched model, and return its output.

    Raises:
        ModelRunError: the model failed; the message names the module and what it was given.
    """
    try:
        return watch.model(*inputs, **kwargs)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelRunError(f"{_where(watch.failed)}: {reason}", table_of(watch)) from error


def table_of(watch: Watch) -> LayerTable:
    """Return what has been seen so far as a table."""
    owned = owners(watch)
    rows = [row for seen in watch.seen.values() for row in _rows(seen, *owned[seen.path])]
    uncalled = never_called(watch, owned)
    notes = tuple(f"not seen, {path}: {why}" for path, why in watch.refused.items())
    total = totals(watch.model, uncalled, rows[0].time_s if rows else 0.0)
    return LayerTable(tuple(rows), uncalled, total, tuple(watch.finished), notes)


def _where(failed: ModuleSeen | None) -> str:
    if failed is None:
        return "the model could not be called with this input"
    name = type(failed.module).__name__
    place = f"the model itself ({name})" if failed.path == "." else f"{failed.path!r} ({name})"
    return f"{place} failed when given {', '.join(failed.inputs) or 'no tensor'}"


def _rows(seen: ModuleSeen, parameters: int, tied: bool) -> list[LayerRow]:
    parts: list[PartSeen | None] = [*seen.parts.values()] or [None]
    first = _row(seen, parts[0], parameters, tied)
    return [first, *(replace(_row(seen, part, 0, False), frozen="") for part in parts[1:])]


def _row(seen: ModuleSeen, part: PartSeen | None, parameters: int, tied: bool) -> LayerRow:
    where = Address(side="output", part=part.part) if part and part.part else Address()
    wants = {each.requires_grad for each in seen.module.parameters(recurse=False)}
    return LayerRow(
        address=str(where.at("" if seen.path == "." else seen.path)),
        path=seen.path,
        type=type(seen.module).__name__,
        shape=part.shape if part else None,
        dtype=str(part.dtype).removeprefix("torch.") if part else "",
        parameters=parameters,
        tied=tied,
        frozen="" if not wants else "part" if len(wants) == 2 else "no" if True in wants else "yes",
        mode="train" if seen.module.training else "eval",
        calls=seen.calls,
        **_numbers(part),
        time_s=seen.nanoseconds / 1e9,
    )


def _numbers(part: PartSeen | None) -> dict[str, Any]:
    names = ("mean", "std", "rms", "min", "max", "zero", "nonfinite", "dead", "channels")
    stats = part.stats.result() if part and part.stats else None
    if stats is None or not stats.total.count.item():
        return dict.fromkeys(names)
    total, count = stats.total, stats.total.count.item()
    some = bool(total.finite.item())
    numbers: dict[str, Any] = {name: getattr(total, name).item() if some else None for name in names[:5]}
    dead = (stats.zeros == stats.count).sum().item() / stats.count.numel() if stats.axis is not None else None
    shares = {"zero": total.zeros.item() / count, "nonfinite": total.nonfinite.item() / count, "dead": dead}
    return numbers | shares | {"channels": None if stats.axis is None else stats.count.numel()}


def _cells(row: LayerRow) -> dict[str, str]:
    return {
        "address": row.address,
        "type": row.type + (f" x {row.calls} calls" if row.calls > 1 else ""),
        "shape": "no tensor" if row.shape is None else "x".join(map(str, row.shape)) or "scalar",
        "dtype": row.dtype,
        "params": f"{row.parameters:,}" + ("  tied" if row.tied else "") if row.frozen else "",
        "frozen": row.frozen,
        "mode": row.mode,
        **{name: number(getattr(row, name)) for name in ("mean", "std", "rms", "min", "max")},
        **{name: percent(getattr(row, name)) for name in ("zero", "nonfinite", "dead")},
        "ms": f"{row.time_s * 1e3:.2f}",
    }


def number(value: float | None) -> str:
    """Return four significant digits; a dash for no number."""
    return "-" if value is None else f"{value:.4g}"


def percent(share: float | None) -> str:
    """Return a share in percent; only none at all is 0 %, and only all is 100 %."""
    if share is None:
        return "-"
    if 0 < share < 0.001:
        return "<0.1%"
    if 0.999 < share < 1:
        return ">99.9%"
    return f"{share:.0%}" if share in (0, 1) else f"{share:.1%}"
