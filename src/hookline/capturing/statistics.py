"""Streaming statistics: what is kept of the values of a site is their count, mean, spread and range."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from hookline.capturing.moments import Moments, moments, no_moments
from hookline.errors import CallsError, CaptureError, HookTypeError

Axis: TypeAlias = "int | Literal['channel'] | None"


@dataclass(frozen=True, eq=False, repr=False)
class Stats:
    """Statistics of all values seen, one number a channel.

    Each tensor has shape (channels,), or () when the whole tensor was taken as one. With x_1 ... x_n the
    values of a channel that are *finite*:

        mean = sum_i x_i / n
        std  = sqrt(sum_i (x_i - mean)**2 / n)
        rms  = sqrt(sum_i x_i**2 / n)  computed as sqrt(std**2 + mean**2)

    `std` is that of the values seen: divided by n, not by n - 1, and 0 for one value. All are computed in
    float64, whatever the dtype of the values: `mean`, `std` and `rms` are within 1e-14 times the largest
    |x_i| of their exact value, and `min`, `max` and the counts are exact. Limits: float64 values beyond 1e150
    overflow when squared, as in numpy, and below 1e-150 they underflow; integers beyond 2**53 are rounded;
    Apple's mps devices have no float64, so there it is float32.

    Attributes:
        axis: the axis of the channels, or None for the whole tensor.
        count: int64, all values seen, finite or not.
        mean: float64, NaN where no value was finite; so are the four that follow.
        std: float64.
        rms: float64.
        min: float64.
        max: float64.
        zeros: int64, the values that are exactly 0.
        nonfinite: int64, the values that are NaN or infinite.
    """

    axis: int | None
    count: Tensor
    mean: Tensor
    std: Tensor
    rms: Tensor
    min: Tensor
    max: Tensor
    zeros: Tensor
    nonfinite: Tensor

    @property
    def finite(self) -> Tensor:
        """The number of finite values, int64: those that `mean`, `std`, `rms`, `min` and `max` are of."""
        return self.count - self.nonfinite

    @property
    def total(self) -> Stats:
        """The statistics of all channels together, each of shape ()."""
        if self.axis is None:
            return self
        none = self.finite == 0
        channels = Moments(
            finite=self.finite,
            mean=self.mean.masked_fill(none, 0.0),
            squares=(self.std.square() * self.finite).masked_fill(none, 0.0),
            low=self.min.masked_fill(none, float("inf")),
            high=self.max.masked_fill(none, -float("inf")),
            zeros=self.zeros,
            nonfinite=self.nonfinite,
        )
        return _stats(channels.pooled(), None)

    def to(self, device: torch.device | str) -> Stats:
        """Return the same statistics on another device."""
        return Stats(self.axis, **{name: tensor.to(device) for name, tensor in self._tensors().items()})

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and lists of numbers by name, for JSON or a table."""
        return {"axis": self.axis} | {name: tensor.tolist() for name, tensor in self._tensors().items()}

    def _tensors(self) -> dict[str, Tensor]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "axis"}

    def __repr__(self) -> str:
        total = self.total
        where = _kind(self.axis, self.count.numel())
        names = ("mean", "std", "rms", "min", "max")
        numbers = ", ".join(f"{name} {getattr(total, name).item():.4g}" for name in names)
        counts = f"{total.zeros.item():,} zeros, {total.nonfinite.item():,} not finite"
        return f"Stats({where}, {total.count.item():,} values: {numbers}, {counts})"


class StatsAccumulator:
    """Takes tensors one after the other, and keeps the statistics of all their values.

    `hookline.stats` is this class: `reduce=hookline.stats` and `reduce=hookline.stats(axis=1)` make one for
    each site of a capture. Its memory is seven numbers a channel. `update` leaves no graph behind and breaks
    none under `torch.compile(fullgraph=True)`. One accumulator takes values from one thread at a time;
    `merge` brings those of several threads or processes together.

    Args:
        axis: the axis of the channels, negative from the end; None for one number over the whole tensor;
            "channel" for axis 1 of a tensor with four axes or more (batch, channel, height, width), the last
            axis of one with two or three (batch, position, d_model), and the whole of one with fewer. For
            (batch, channel, time) say 1.

    Raises:
        HookTypeError: `axis` is none of these.
    """

    def __init__(self, *, axis: Axis = "channel") -> None:
        if not (axis is None or axis == "channel" or type(axis) is int):
            raise HookTypeError(f"axis is an int, None or 'channel', got {axis!r}: hookline.stats(axis=1).")
        self.axis = axis
        # One entry for each kind of value seen. A module that is called twice, such as a shared ReLU, may be
        # given another number of channels the second time; that must not end a run whose result nobody reads.
        self._seen: dict[tuple[int | None, int], Moments] = {}

    def fresh(self) -> StatsAccumulator:
        """Return an accumulator for the same axis that has seen nothing."""
        return StatsAccumulator(axis=self.axis)

    def update(self, value: Tensor) -> None:
        """Add the values of a tensor of any shape, real dtype and device.

        Raises:
            CaptureError: no tensor, a complex, sparse, nested, quantized or meta one, or one without the
            axis.
        """
        _check(value)
        axis = _axis(value, self.axis)
        self._add((axis, 1 if axis is None else value.shape[axis]), moments(value, axis))

    def merge(self, other: StatsAccumulator) -> None:
        """Add all that `other` has seen: the same as if `self` had been given those values too."""
        for kind, seen in other._seen.items():
            self._add(kind, seen)

    def results(self) -> tuple[Stats, ...]:
        """Return one `Stats` for each axis and number of channels seen, first seen first."""
        return tuple(_stats(seen, axis) for (axis, _channels), seen in self._seen.items())

    def result(self) -> Stats:
        """Return the statistics of all values so far; those of no values if there were none.

        Raises:
            CallsError: the values differ in their number of channels.
        """
        if len(self._seen) > 1:
            kinds = " and ".join(_kind(axis, channels) for axis, channels in self._seen)
            raise CallsError(
                f"the calls had {kinds}: there are no numbers per channel over all of them. "
                "Read .results(), one for each, or measure with reduce=hookline.stats(axis=None)."
            )
        return self.results()[0] if self._seen else _stats(no_moments(1, torch.device("cpu")), None)

    def _add(self, kind: tuple[int | None, int], new: Moments) -> None:
        self._seen[kind] = self._seen[kind].merged(new) if kind in self._seen else new

    def __repr__(self) -> str:
        results = ", ".join(map(repr, self.results()))
        return f"<StatsAccumulator axis={self.axis!r}: {results or 'no values yet'}>"


# A class in the role of a verb: hookline.stats(axis=1), as hookline.capture(...).
stats = StatsAccumulator


def _stats(seen: Moments, axis: int | None) -> Stats:
    none = seen.finite == 0
    variance = seen.squares / seen.finite.clamp(min=1)
    columns = {
        "count": seen.finite + seen.nonfinite,
        "mean": seen.mean.masked_fill(none, float("nan")),
        "std": variance.sqrt().masked_fill(none, float("nan")),
        "rms": variance.addcmul(seen.mean, seen.mean).sqrt().masked_fill(none, float("nan")),
        "min": seen.low.masked_fill(none, float("nan")),
        "max": seen.high.masked_fill(none, float("nan")),
        # Clones: the reader may write to a result, and the accumulator goes on counting.
        "zeros": seen.zeros.clone(),
        "nonfinite": seen.nonfinite.clone(),
    }
    if axis is None:
        columns = {name: column.squeeze(0) for name, column in columns.items()}  # ()
    return Stats(axis, **columns)


def _kind(axis: int | None, channels: int) -> str:
    return "whole tensors" if axis is None else f"{channels} channels on axis {axis}"


def _axis(value: Tensor, axis: Axis) -> int | None:
    if axis == "channel":
        return None if value.dim() < 2 else -1 if value.dim() < 4 else 1
    if axis is not None and not -value.dim() <= axis < value.dim():
        raise CaptureError(
            f"no axis {axis} in a tensor of shape {tuple(value.shape)}: "
            "name one that it has, or None for the whole tensor, as in hookline.stats(axis=None)."
        )
    return axis


def _check(value: Any) -> None:
    if not isinstance(value, Tensor):
        fix = "name the part to measure in the address, as in 'encoder:output.0'."
        raise CaptureError(f"statistics are of a tensor, not of a {type(value).__name__}: {fix}")
    if value.is_complex():
        raise CaptureError(f"a tensor of {value.dtype} has no smallest value: measure its .abs() or .real.")
    if value.is_meta:
        raise CaptureError("a tensor on the meta device has no values: move the model to a real device.")
    if value.is_nested or value.is_quantized or value.layout is not torch.strided:
        kind = "nested" if value.is_nested else "quantized" if value.is_quantized else str(value.layout)
        fix = "measure its .values(), .dequantize() or .to_dense()."
        raise CaptureError(f"statistics are of a dense tensor, and this one is {kind}: {fix}")
