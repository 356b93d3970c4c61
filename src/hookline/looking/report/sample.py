"""What a report keeps of one tensor, to draw it: some of its values, and which ones they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Kind = Literal["maps", "matrix", "vector"]
Order = Literal["index", "energy", "variance"]


@dataclass(frozen=True)
class Detail:
    """How much of a tensor is kept.

    Attributes:
        cells: at most so many channels of a feature map.
        side: at most so many pixels along each side of a channel.
        values: at most so many values of the whole tensor.
    """

    cells: int
    side: int
    values: int


@dataclass(frozen=True)
class Sample:
    """Values of one tensor.

    Attributes:
        kind: "maps": channels that are pictures; "matrix": rows (tokens) and columns (features); "vector": one row.
        values: float32, shape (cells, height, width); the values themselves, none of them computed.
        channels: the index of each cell on the channel axis.
        step: every how-manieth row and column is kept.
        index: the index of a value in the tensor, where `c`, `y` and `x` stand for those of the picture.
        said: what was chosen and left out, for people to read.
    """

    kind: Kind
    values: Tensor
    channels: tuple[int, ...]
    step: tuple[int, int]
    index: tuple[int | str, ...]
    said: tuple[str, ...]


def sample(tensor: Tensor, detail: Detail, *, item: int = 0, order: Order = "index") -> Sample | None:
    """Return what is drawn of a tensor; None for one that has nothing to draw.

    Args:
        tensor: real values of any shape: (batch, channel, height, width), (batch, position, d_model),
            (batch, features); of more axes the first entry of each between channel and height is taken.
        detail: how much to keep.
        item: which of the batch.
        order: of the channels.
    """
    if tensor.is_complex() or tensor.is_meta or tensor.layout is not torch.strided or tensor.numel() < 2:
        return None
    index: list[int | str] = []
    said = []
    value = tensor.detach()
    if value.dim() > 1:
        if value.shape[0] > 1:
            said.append(f"number {item} of a batch of {value.shape[0]}")
        value, index = value[item], [item]
    if value.dim() > 3:
        between = value.dim() - 3
        for _ in range(between):
            value = value.select(1, 0)
        index += ["c", *[0] * between, "y", "x"]
        said.append(f"of the {between} axes between channel and height the first entry")
    else:
        index += ["c", "y", "x"][3 - value.dim() :]
    value = _as_float32(value, said)
    if value.dim() == 3 and value.shape[-2:] != (1, 1):
        return _maps(value, detail, order, tuple(index), said)
    if value.dim() == 3:  # one pixel each
        return _vector(value.flatten(), detail, tuple("x" if axis == "c" else 0 for axis in index), said)
    return _matrix(value, detail, index, said) if value.dim() == 2 else _vector(value, detail, tuple(index), said)


def _as_float32(value: Tensor, said: list[str]) -> Tensor:
    single = value.to(torch.float32)
    if value.dtype == torch.float64:
        lost = int((value.isfinite() & ~single.isfinite()).sum())
        if lost:
            said.append(f"{lost} finite values beyond 3.4e38 are drawn as infinite")
    return single


def _maps(value: Tensor, detail: Detail, order: Order, index: tuple[Any, ...], said: list[str]) -> Sample:
    channels, height, width = value.shape
    step = _map_step(height, width, detail)
    thin = value[:, ::step, ::step]
    keep = _map_cells(channels, thin[0].numel(), detail)
    chosen = ordered(value, order)[:keep]
    said.append(f"{keep} of {channels} channels, by {order}")
    if step > 1:
        said.append(f"every {_th(step)} row and column of {height} x {width}")
    return Sample("maps", thin[chosen].contiguous(), tuple(chosen.tolist()), (step, step), index, tuple(said))


def ordered(value: Tensor, order: Order) -> Tensor:
    """Return the channels of (channel, height, width) in that order; energy and variance the largest first."""
    if order == "index":
        return torch.arange(value.shape[0], device=value.device)
    finite = value.flatten(1).nan_to_num(0.0, 0.0, 0.0)
    score = finite.square().mean(1) if order == "energy" else finite.var(1, correction=0)
    return score.argsort(descending=True, stable=True)


def _matrix(value: Tensor, detail: Detail, index: list[Any], said: list[str]) -> Sample:
    rows, columns = value.shape
    keep = min(rows, detail.side * 2, detail.values)
    step = _column_step(columns, keep, detail)
    said.append(f"{keep} of {rows} rows")
    if step > 1:
        said.append(f"every {_th(step)} of {columns} columns")
    thin = value[None, :keep, ::step].contiguous()
    return Sample("matrix", thin, (0,), (1, step), tuple(index), tuple(said))


def _vector(value: Tensor, detail: Detail, index: tuple[Any, ...], said: list[str]) -> Sample:
    step = _value_step(len(value), detail)
    if step > 1:
        said.append(f"every {_th(step)} of {len(value)} values")
    return Sample("vector", value[None, None, ::step].contiguous(), (0,), (1, step), index, tuple(said))


def _th(step: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(step, f"{step}th")


def value_range(values: Tensor) -> tuple[float, float, str]:
    """Return the lowest and highest value that have a colour, and the rule that they are from.

    The 0.5 and 99.5 percentile of the finite values that are drawn, all cells together; symmetric about 0 where some
    value is negative.
    """
    finite = values[values.isfinite()]
    if not finite.numel():
        return 0.0, 0.0, "no finite value"
    smallest, largest = (end.item() for end in finite.aminmax())
    last = finite.numel() - 1
    low, high = (finite.kthvalue(round(last * share) + 1).values.item() for share in (0.005, 0.995))
    rule = "0.5 to 99.5 percentile of the values drawn"
    if low == high and smallest != largest:  # nearly all values are the same: the others would all be clipped
        low, high, rule = smallest, largest, "smallest to largest, since nearly all are the same"
    if smallest < 0:
        high = max(abs(low), abs(high))
        return -high, high, f"{rule}, symmetric about 0"
    return low, high, rule


def kept(shape: Sequence[int], detail: Detail) -> int:
    """Return how many values of a tensor of this shape are kept."""
    inner = list(shape[1:] if len(shape) > 1 else shape)
    if len(inner) > 2 and inner[-2:] != [1, 1]:
        height, width = inner[-2:]
        step = _map_step(height, width, detail)
        cell = -(-height // step) * -(-width // step)
        return _map_cells(inner[0], cell, detail) * cell
    if len(inner) == 2:
        rows = min(inner[0], detail.side * 2, detail.values)
        return rows * -(-inner[1] // _column_step(inner[1], rows, detail))
    length = inner[0] if inner else 1
    return -(-length // _value_step(length, detail))


def _map_step(height: int, width: int, detail: Detail) -> int:
    return max(1, -(-max(height, width) // detail.side))


def _map_cells(channels: int, cell: int, detail: Detail) -> int:
    return max(1, min(channels, detail.cells, detail.values // max(1, cell)))


def _column_step(columns: int, rows: int, detail: Detail) -> int:
    return max(1, -(-columns * rows // detail.values), -(-columns // _MOST_COLUMNS))


def _value_step(length: int, detail: Detail) -> int:
    return max(1, -(-length // min(_MOST_BARS, detail.values)))


# More than a screen has pixels for.
_MOST_COLUMNS = 1024
_MOST_BARS = 4096


def levels_for(shapes: Sequence[Sequence[int]], budget: int) -> list[Detail]:
    """Return how much of tensors of these shapes can be kept within a number of bytes, the most first.

    It is an estimate: how well values deflate is known when it is done.
    """
    return [level for level in _LEVELS if sum(kept(shape, level) for shape in shapes) * _BYTES_PER_VALUE <= budget]


# Three bytes a value, which deflate makes 2.2 of on features, and base64 four thirds of that.
_BYTES_PER_VALUE = 2.9
_LEVELS = (
    Detail(64, 128, 200_000),
    Detail(64, 112, 100_000),
    Detail(64, 64, 64_000),
    Detail(64, 56, 50_000),
    Detail(64, 56, 36_000),
    Detail(64, 56, 25_000),
    Detail(64, 40, 16_000),
    Detail(64, 28, 10_000),
    Detail(36, 28, 5_000),
    Detail(16, 16, 2_000),
    Detail(4, 12, 576),
)
