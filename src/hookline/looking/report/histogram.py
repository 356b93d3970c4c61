"""A histogram that keeps exact zeros and values that are not finite apart."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

BINS = 48


def histogram(value: Tensor) -> dict[str, Any] | None:
    """Return the counts of a tensor's values, the exact zeros and those that are not finite apart.

    Args:
        value: any shape, real.

    Returns:
        `low`, `high`: the smallest and largest finite value; `counts`: of the finite values other than 0 in equal bins
        between; `zeros`, `nan`, `positive_infinity`, `negative_infinity`: counts. None when there is no value.
    """
    flat = value.detach().flatten()
    if not flat.numel() or flat.is_complex() or flat.is_meta:
        return None
    flat = flat.to(torch.float32) if flat.dtype != torch.float64 else flat
    low, high = torch.aminmax(flat)
    # Their sum is finite only if all values are.
    finite = flat if bool(torch.isfinite(low + high)) else flat[flat.isfinite()]
    zeros = flat.numel() - int(torch.count_nonzero(flat))
    nan = int(flat.isnan().sum()) if finite is not flat else 0
    found: dict[str, Any] = {
        "zeros": zeros,
        "nan": nan,
        "positive_infinity": int((flat == float("inf")).sum()) if finite is not flat else 0,
        "negative_infinity": int((flat == float("-inf")).sum()) if finite is not flat else 0,
        "low": None,
        "high": None,
        "counts": [],
    }
    if not finite.numel():
        return found
    low, high = torch.aminmax(finite)
    return found | {"low": low.item(), "high": high.item(), "counts": _counts(finite, low.item(), high.item(), zeros)}


def _counts(finite: Tensor, low: float, high: float, zeros: int) -> list[int]:
    if low == high:
        return [0 if low == 0 else finite.numel(), *[0] * (BINS - 1)]
    # In parts, for histc counts in float32, which is exact up to 2**24.
    counts = torch.stack([_histc(part, low, high) for part in torch.split(finite, 2**23)]).sum(0)
    if zeros:  # they have a bar of their own
        counts -= zeros * _histc(finite.new_zeros(1), low, high)
    return [int(count) for count in counts.tolist()]


def _histc(values: Tensor, low: float, high: float) -> Tensor:
    return torch.histc(values, BINS, low, high).to(torch.int64)
