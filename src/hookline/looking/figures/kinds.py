"""Which picture fits a value."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from hookline.errors import HookTypeError

Kind = Literal["maps", "overlay", "cam", "gradient", "matrix", "tokens", "attention", "histogram", "depth", "bars"]
KINDS: tuple[str, ...] = get_args(Kind)


def check_kind(kind: str | None) -> None:
    """Raise `HookTypeError` for a kind that there is not."""
    if kind is not None and kind not in KINDS:
        raise HookTypeError(f"kind= is one of {', '.join(KINDS)}; got {kind!r}.")


def kind_of(value: Tensor) -> tuple[Kind, str]:
    """Return the kind that is drawn of a value when none is asked for, and why."""
    if is_attention(value):
        return "attention", "its rows are distributions: attention of shape (batch, head, query, key)"
    if value.dim() >= 4 and value.shape[-1] * value.shape[-2] > 1:
        return "maps", "four axes: (batch, channel, height, width)"
    if value.dim() == 3 and value.shape[1] > 1:
        return "matrix", "three axes: (batch, position, d_model)"
    if value.dim() in (1, 2) and 1 < value.shape[-1] <= 256:
        return "bars", "one vector for each of the batch"
    return "histogram", f"{value.dim()} axes, and no picture of places fits"


def is_attention(value: Tensor) -> bool:
    """Return whether a value is attention: not negative, and each row of (batch, head, query, key) adds up to 1."""
    if value.dim() != 4 or not value.is_floating_point() or value.shape[-1] < 2 or value.is_meta:
        return False
    single = value.float()
    if bool((single < 0).any()):
        return False
    sums = single.sum(-1)
    return bool(((sums - 1).abs() < 1e-2).all()) and torch.isfinite(sums).all().item() is True
