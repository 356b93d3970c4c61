"""Values as text in a page: 24 bits each, deflated, base64."""

from __future__ import annotations

import base64
import zlib

import torch
from torch import Tensor


def rounded(values: Tensor) -> Tensor:
    """Return values rounded to the upper 24 bits of a float32, which is within 2**-16 of them relatively.

    Of the four digits that are shown the last one is right within 1. 0, infinities and NaN stay what they are, and so
    does what is rounded already.
    """
    flat = values.detach().to("cpu", torch.float32).flatten().contiguous()
    finite = flat.isfinite()
    bits = flat.where(finite, 0.0).view(torch.int32)
    # Rounding up must not carry the largest numbers into infinity: they are cut off instead.
    upper = torch.where((bits & 0x7FFFFFFF) >= 0x7F7FFF80, bits, bits + 0x80) & ~0xFF
    return torch.where(finite, upper.view(torch.float32), flat).view(values.shape)


def packed(values: Tensor) -> str:
    """Return values as text that the page's script reads, `rounded`.

    The three bytes of each are stored in planes, highest first: signs and exponents, which lie together then, deflate
    best.
    """
    bits = rounded(values).nan_to_num(nan=float("nan"), posinf=float("inf"), neginf=float("-inf")).flatten()
    by_byte = bits.view(torch.uint8).view(-1, 4)  # little-endian: the lowest byte first
    planes = by_byte[:, [3, 2, 1]].t().contiguous()
    return base64.b64encode(zlib.compress(planes.numpy().tobytes(), 3)).decode()


def unpacked(text: str) -> Tensor:
    """Return the values of `packed`, as a vector of float32."""
    planes = torch.frombuffer(bytearray(zlib.decompress(base64.b64decode(text))), dtype=torch.uint8).view(3, -1)
    by_byte = torch.zeros(planes.shape[1], 4, dtype=torch.uint8)
    by_byte[:, 1:] = planes.flip(0).t()
    return by_byte.flatten().view(torch.float32)
