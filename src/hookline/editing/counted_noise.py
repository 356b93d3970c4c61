"""Normal noise that is a function of a seed alone."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_MASK = (1 << 40) - 1


def normal(like: Tensor, seed: int, stream: int) -> Tensor:
    """Return standard normal numbers in shape, dtype and device of `like`.

    Counted, not drawn: each element is a hash of its position, the seed and the stream (splitmix64: Steele, Lea and
    Flood, OOPSLA 2014), made normal by Box and Muller's transform (1958). So they are alike on every device and in
    compiled code, and no generator is touched.
    """
    count = like.numel()
    position = torch.arange(2 * count, device=like.device, dtype=torch.int64)
    start = (seed * 0x5851F42D4C957F2D + stream * 0x14057B7EF767814F) & ((1 << 63) - 1)
    bits = _mixed(position * -7046029254386353131 + start)  # 0x9E3779B97F4A7C15 as a signed number
    uniform = (((bits >> 24) & _MASK).to(torch.float32) + 0.5) / (1 << 40)  # (2 count,), between 0 and 1
    radius = torch.sqrt(-2 * torch.log(uniform[:count]))
    return (radius * torch.cos(2 * math.pi * uniform[count:])).to(like.dtype).reshape(like.shape)


def _mixed(bits: Tensor) -> Tensor:
    """Return splitmix64's mix of 64-bit integers, which torch multiplies modulo 2^64."""
    bits = (bits ^ ((bits >> 30) & ((1 << 34) - 1))) * -4658895280553007687  # 0xBF58476D1CE4E5B9
    bits = (bits ^ ((bits >> 27) & ((1 << 37) - 1))) * -7723592293110705685  # 0x94D049BB133111EB
    return bits ^ ((bits >> 31) & ((1 << 33) - 1))
