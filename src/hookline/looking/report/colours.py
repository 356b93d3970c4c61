"""The colours of values: one map and one range for all cells of a picture; what has no place on the map is off it."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

import torch
from torch import Tensor

from hookline.errors import MissingExtraError

SEQUENTIAL = "viridis"
"""For values that are not negative."""
SIGNED_LIGHT = "RdBu_r"
"""For signed values on a light page: its middle, at 0, is as bright as the page."""
SIGNED_DARK = "berlin"
"""The same for a dark page."""
MAPS = (SEQUENTIAL, SIGNED_LIGHT, SIGNED_DARK)

NOT_FINITE = (255, 0, 168)
MASKED = (128, 128, 128)
"""Attention of exactly 0: a softmax gives that only where it is masked."""

BEYOND: dict[str, dict[str, tuple[int, int, int]]] = {
    SEQUENTIAL: {"under": (30, 0, 44), "over": (255, 250, 205)},
    SIGNED_LIGHT: {"under": (0, 20, 52), "over": (58, 0, 14)},
    SIGNED_DARK: {"under": (214, 226, 255), "over": (255, 222, 222)},
}
"""A little off the ends of each map, so that clipped values can be told from the largest ones."""


def for_page() -> dict[str, Any]:
    """Return the colours as the page's script takes them."""
    maps = {name: base64.b64encode(bytes(_map(name).flatten().tolist())).decode() for name in MAPS}
    return {"maps": maps, "beyond": BEYOND, "notFinite": NOT_FINITE, "masked": MASKED}


def coloured(
    values: Tensor, low: float, high: float, *, signed: bool, masked: bool = False, dark: bool = False
) -> Tensor:
    """Return the colours of values.

    Args:
        values: float32, any shape (...).
        low: the value with the first colour of the map.
        high: the value with the last one.
        signed: whether 0 is in the middle.
        masked: whether exact zeros are masked.
        dark: whether the page is.

    Returns:
        uint8, shape (..., 3).
    """
    name = (SIGNED_DARK if dark else SIGNED_LIGHT) if signed else SEQUENTIAL
    share = (values - low) / (high - low) if high > low else torch.full_like(values, 0.5 if signed else 0.0)
    entry = (share.nan_to_num(0.0) * 256).floor().clamp(0, 255).to(torch.int64)
    colours = _map(name)[entry]  # (..., 3)
    colours[values < low] = torch.tensor(BEYOND[name]["under"], dtype=torch.uint8)
    colours[values > high] = torch.tensor(BEYOND[name]["over"], dtype=torch.uint8)
    if masked:
        colours[values == 0] = torch.tensor(MASKED, dtype=torch.uint8)
    colours[~values.isfinite()] = torch.tensor(NOT_FINITE, dtype=torch.uint8)
    return colours


@cache
def _map(name: str) -> Tensor:
    """Return the entries of a map, uint8, shape (256, 3)."""
    try:
        from matplotlib import colormaps  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("a report needs matplotlib: pip install 'hookline[look]'.") from None
    return torch.tensor(colormaps[name](list(range(256)), bytes=True)[:, :3].tolist(), dtype=torch.uint8)
