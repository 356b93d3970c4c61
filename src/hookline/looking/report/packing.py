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
    return _upper(flat).view(torch.float32).view(values.shape)


def packed(values: Tensor) -> str:
    """Return values as text that the page's script reads, `rounded`.

    The three bytes of each are stored in planes, highest first: signs and exponents, which lie together then, deflate
    best.
    """
    bits = _upper(values.detach().to("cpu", torch.float32).flatten().contiguous())
    planes = bits.view(torch.uint8).view(-1, 4)[:, [3, 2, 1]].t().contiguous()  # little-endian: the lowest byte first
    return base64.b64encode(zlib.compress(planes.numpy().tobytes(), 3)).decode()


def _upper(flat: Tensor) -> Tensor:
    """Return the bits of float32 values, rounded to the upper 24, as int32."""
    bits = flat.view(torch.int32)
    size = bits & 0x7FFFFFFF
    # Rounding up must not carry the largest numbers into infinity: they are cut off. Of a NaN the upper bits alone
    # could be those of infinity.
    special = torch.where(size > 0x7F800000, 0x7FC00000, bits & ~0xFF)
    return torch.where(size >= 0x7F7FFF80, special, (bits + 0x80) & ~0xFF).to(torch.int32)


def unpacked(text: str) -> Tensor:
    """Return the values of `packed`, as a vector of float32."""
    planes = torch.frombuffer(bytearray(zlib.decompress(base64.b64decode(text))), dtype=torch.uint8).view(3, -1)
    by_byte = torch.zeros(planes.shape[1], 4, dtype=torch.uint8)
    by_byte[:, 1:] = planes.flip(0).t()
    return by_byte.flatten().view(torch.float32)
