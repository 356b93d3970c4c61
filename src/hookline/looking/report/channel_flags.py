"""Flags of channels: those that carry nothing, or nothing of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class ChannelFlags:
    """What is wrong with the channels of one tensor; each channel is in one list at most.

    Attributes:
        channels: how many there are.
        values: how many values each has.
        inputs: how many inputs they are of: the size of the batch.
        nonfinite: channels with a NaN or an infinity.
        dead: channels whose values are all exactly 0.
        saturated: channels nearly all of whose values lie at a bound of the module, such as 6 of a ReLU6.
        constant: channels whose values are all the same, and not 0.
        equal: groups of channels that are the same, value by value.
    """

    channels: int
    values: int
    inputs: int
    nonfinite: tuple[int, ...] = ()
    dead: tuple[int, ...] = ()
    saturated: tuple[int, ...] = ()
    constant: tuple[int, ...] = ()
    equal: tuple[tuple[int, ...], ...] = ()

    def words(self) -> dict[int, str]:
        """Return for each flagged channel a word or two."""
        found = dict.fromkeys(self.constant, "constant")
        found |= dict.fromkeys(self.saturated, "saturated")
        found |= dict.fromkeys(self.dead, "dead")
        for group in self.equal:
            found |= dict.fromkeys(group[1:], f"= {group[0]}")
        return found


_SATURATED = 0.95
"""The share of a channel's values that lie at a bound."""
_AT_BOUND = 0.01
"""How near to a bound that is, as a share of the range between the two."""


def channel_flags(tensor: Tensor, module: nn.Module) -> ChannelFlags | None:
    """Return the flags of a tensor's channels, or None for one without channels, or with one value in each.

    Args:
        tensor: shape (batch, channel, height, width, ...) or (..., d_model), real floating point.
        module: what gave it: its bounds are what saturates.
    """
    if tensor.dim() < 2 or not tensor.is_floating_point() or tensor.is_meta or tensor.layout is not torch.strided:
        return None
    by_channel = tensor.detach().movedim(1 if tensor.dim() > 3 else -1, 0).flatten(1)  # (channels, values)
    channels, number = by_channel.shape
    if number < 2 or not channels:
        return None
    low, high = by_channel.amin(1), by_channel.amax(1)
    finite = (low + high).isfinite()
    alike = finite & (low == high)
    dead = alike & (low == 0)
    saturated = finite & ~dead & _saturated(by_channel, module)
    constant = alike & ~dead & ~saturated
    equal = _equal(by_channel, (finite & ~alike & ~saturated).nonzero().flatten().tolist(), low, high)
    return ChannelFlags(
        channels,
        number,
        tensor.shape[0],
        _numbers(~finite),
        _numbers(dead),
        _numbers(saturated),
        _numbers(constant),
        equal,
    )


def _numbers(mask: Tensor) -> tuple[int, ...]:
    return tuple(mask.nonzero().flatten().tolist())


def _saturated(by_channel: Tensor, module: nn.Module) -> Tensor:
    bounds = _bounds(module)
    if bounds is None:
        return torch.zeros(len(by_channel), dtype=torch.bool, device=by_channel.device)
    lowest, highest = bounds
    near = (highest - lowest) * _AT_BOUND
    at_bound = by_channel >= highest - near
    if not isinstance(module, nn.ReLU6):  # below, a rectifier is not saturated: it does not fire
        at_bound = at_bound | (by_channel <= lowest + near)
    return at_bound.float().mean(1) >= _SATURATED


def _bounds(module: nn.Module) -> tuple[float, float] | None:
    if isinstance(module, nn.Hardtanh):  # ReLU6 is one
        return float(module.min_val), float(module.max_val)
    if isinstance(module, (nn.Sigmoid, nn.Hardsigmoid)):
        return 0.0, 1.0
    if isinstance(module, nn.Tanh):
        return -1.0, 1.0
    return None


def _equal(by_channel: Tensor, among: Sequence[int], low: Tensor, high: Tensor) -> tuple[tuple[int, ...], ...]:
    """Return the groups of channels that are the same; only those with the same range are compared value by value."""
    alike: dict[tuple[float, float], list[list[int]]] = {}
    lows, highs = low.tolist(), high.tolist()
    for channel in among:
        groups = alike.setdefault((lows[channel], highs[channel]), [])
        for group in groups:
            if torch.equal(by_channel[group[0]], by_channel[channel]):
                group.append(channel)
                break
        else:
            groups.append([channel])
    return tuple(tuple(group) for groups in alike.values() for group in groups if len(group) > 1)
