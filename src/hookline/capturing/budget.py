"""Sizes of values, as people write and read them."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from hookline.address import leaves
from hookline.errors import HookTypeError

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def bytes_of(size: int | str) -> int:
    """Return a size such as `"2 GiB"`, `"500 MB"` or `1_000_000` in bytes.

    Raises:
        HookTypeError: it is no such size.
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", size) if isinstance(size, str) else None
    if not found or found[2].lower() not in _UNITS:
        raise HookTypeError(f"expected a size such as '2 GiB', '500 MB' or a number of bytes, got {size!r}.")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def human(size: int) -> str:
    """Return a number of bytes as people read it, e.g. `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024  # type: ignore[assignment]
    return f"{size:.1f} TiB"


def bytes_in(value: Any) -> int:
    """Return the bytes of the tensors in a nested value; 0 for those that have no plain memory (sparse, nested)."""
    tensors = (leaf for _, leaf in leaves(value) if isinstance(leaf, Tensor))
    return sum(each.nbytes for each in tensors if each.layout is torch.strided and not each.is_nested)
