"""The moments of a tensor, channel by channel, in a form in which two of them can be merged.

Within a block of values the mean is computed first, and the squares of the deviations from it are summed
second: two passes, over values that are in the processor's cache by then. Blocks, calls and batches are
merged by

    n = n_a + n_b,  delta = mean_b - mean_a
    mean = mean_a + delta * n_b / n
    squares = squares_a + squares_b + delta**2 * n_a * n_b / n

Sources: Chan, Golub, LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample
variances"; for n_b = 1 it is Welford 1962, "Note on a method for calculating corrected sums of squares and
products".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

# Values worked on at once. On a processor, what a block needs (5 MB at most) has to stay in its cache;
# elsewhere launching a kernel is what costs. A float32 counts ones exactly up to 2**24, which bounds the
# first.
_BLOCK = 2**18
_BLOCK_ON_ACCELERATOR = 2**22


class Moments(NamedTuple):
    """What is known of each channel. Each tensor has shape (channels,).

    Over the finite values: their number `finite` (int64), their `mean`, the sum `squares` of their squared
    deviations from it, the smallest `low` and the largest `high` (float64; inf and -inf when there is none).
    Over all values: the number of exact `zeros` and of `nonfinite` ones, NaN or infinite (int64).
    """

    finite: Tensor
    mean: Tensor
    squares: Tensor
    low: Tensor
    high: Tensor
    zeros: Tensor
    nonfinite: Tensor

    def merged(self, other: Moments) -> Moments:
        """Return the moments of the values of both, on the device of `self`."""
        same_device = other.mean.device == self.mean.device
        b = other if same_device else Moments(*(part.to(self.mean.device) for part in other))
        finite = self.finite + b.finite  # (channels,)
        # Via the dtype of the mean: torch divides two integers in float32, which is exact up to 2**24 only.
        share = b.finite.to(self.mean.dtype) / finite.clamp(min=1)
        delta = b.mean - self.mean
        return Moments(
            finite=finite,
            mean=torch.addcmul(self.mean, delta, share),
            squares=(self.squares + b.squares).addcmul_(delta.square(), share * self.finite),
            low=torch.minimum(self.low, b.low),
            high=torch.maximum(self.high, b.high),
            zeros=self.zeros + b.zeros,
            nonfinite=self.nonfinite + b.nonfinite,
        )

    def pooled(self) -> Moments:
        """Return the moments of all channels together, each of shape (1,)."""
        finite = self.finite.sum(0, keepdim=True)  # (1,)
        mean = (self.mean * (self.finite / finite.clamp(min=1).to(self.mean.dtype))).sum(0, keepdim=True)
        between = (self.mean - mean).square() * self.finite
        none = self.low.new_full((1,), math.inf)  # a smallest and a largest value, should there be no channel
        return Moments(
            finite=finite,
            mean=mean,
            squares=(self.squares + between).sum(0, keepdim=True),
            low=torch.cat([self.low, none]).amin(0, keepdim=True),
            high=torch.cat([self.high, -none]).amax(0, keepdim=True),
            zeros=self.zeros.sum(0, keepdim=True),
            nonfinite=self.nonfinite.sum(0, keepdim=True),
        )


def moments(value: Tensor, axis: int | None) -> Moments:
    """Return the moments of `value`, in one pass over memory and with no copy of it.

    Args:
        value: any shape, strides, real dtype and device; it is not changed.
        axis: the axis of the channels, or None to take the whole tensor as one channel.
    """
    # With an axis of size 1 in front there is always one to reduce over: torch takes "no axis" for "all".
    value = value.detach().unsqueeze(0)
    if axis is None:
        return _moments(value.unsqueeze(0), 0)
    return _moments(value, axis + 1 if axis >= 0 else value.dim() + axis)


def no_moments(channels: int, device: torch.device) -> Moments:
    """Return the moments of no values: merging with them changes nothing."""
    count = torch.zeros(channels, dtype=torch.int64, device=device)
    mean = torch.zeros(channels, dtype=_precise(device), device=device)
    low = torch.full_like(mean, math.inf)
    return Moments(finite=count, mean=mean, squares=mean, low=low, high=-low, zeros=count, nonfinite=count)


def _moments(value: Tensor, axis: int) -> Moments:
    if value.numel() == 0:
        return no_moments(value.shape[axis], value.device)
    if torch.compiler.is_compiling():  # a compiler fuses the passes, and would unroll the loop over blocks
        return _moments_of_any(value, axis)
    on_cpu = value.device.type == "cpu"
    block = _BLOCK if on_cpu else _BLOCK_ON_ACCELERATOR
    if value.numel() > block:
        return _moments_in_parts(value, axis, block)
    if on_cpu:
        return _moments_if_finite(value, axis) or _moments_of_any(value, axis)
    return _moments_of_any(value, axis)  # elsewhere the question "all finite?" would wait for the device


def _moments_in_parts(value: Tensor, axis: int, block: int) -> Moments:
    # Cut where the parts lie one after the other in memory, be the channels first or last or all transposed.
    cut = max((dim for dim, size in enumerate(value.shape) if size > 1), key=value.stride)
    size = max(1, value.shape[cut] * block // value.numel())
    parts = [_moments(part, axis) for part in torch.split(value, size, cut)]
    if cut == axis:
        return Moments(*(torch.cat(column) for column in zip(*parts, strict=True)))
    # Pairwise, as in the source: the rounding error grows with the logarithm of the number of parts.
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        parts = [a.merged(b) for a, b in pairs] + parts[len(parts) & ~1 :]
    return parts[0]


def _moments_if_finite(value: Tensor, axis: int) -> Moments | None:
    """Return the moments of a block on the processor, or None if it holds a value that is not finite."""
    dims = [dim for dim in range(value.dim()) if dim != axis]
    value = _workable(value)
    number = value.numel() // value.shape[axis]
    deviations = value.to(torch.float64, copy=True)  # a copy: it is written to below
    mean = deviations.sum(dims, keepdim=True).div_(number)  # (1, ..., channels, ..., 1)
    # One NaN or infinity among the values makes the sum NaN or infinite. So does an overflow, for which the
    # other way to compute has the same result, only later.
    if not math.isfinite(mean.sum().item()):
        return None
    squares = deviations.sub_(mean).square_().sum(dims)  # (channels,)
    # Ones and zeros as floats, since the sum over a boolean tensor takes three times as long.
    is_zero = torch.eq(value, 0, out=torch.empty_like(value, dtype=torch.float32))
    finite = torch.full(squares.shape, number, dtype=torch.int64)
    return Moments(
        finite=finite,
        mean=mean.flatten(),
        squares=squares,
        low=value.amin(dims).to(torch.float64),
        high=value.amax(dims).to(torch.float64),
        zeros=is_zero.sum(dims).to(torch.int64),
        nonfinite=torch.zeros_like(finite),
    )


def _moments_of_any(value: Tensor, axis: int) -> Moments:
    """Return the moments of a block with any values, NaN and infinite ones too; no branch depends on them."""
    dims = [dim for dim in range(value.dim()) if dim != axis]
    precise = _workable(value).to(_precise(value.device))
    is_finite = precise.isfinite()
    finite = is_finite.sum(dims, keepdim=True)  # (1, ..., channels, ..., 1)
    mean = precise.where(is_finite, 0.0).sum(dims, keepdim=True) / finite.clamp(min=1)
    squares = (precise - mean).where(is_finite, 0.0).square().sum(dims)  # (channels,)
    return Moments(
        finite=finite.flatten(),
        mean=mean.flatten(),
        squares=squares,
        low=precise.where(is_finite, math.inf).amin(dims),
        high=precise.where(is_finite, -math.inf).amax(dims),
        zeros=(precise == 0).sum(dims),
        nonfinite=(~is_finite).sum(dims),
    )


def _workable(value: Tensor) -> Tensor:
    """Return `value` in a float dtype that holds its values (integers to 2**53) and has every operation."""
    if value.dtype in {torch.float32, torch.float64}:
        return value
    return value.to(torch.float32 if value.is_floating_point() else _precise(value.device))


def _precise(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64  # Apple's devices have no float64
