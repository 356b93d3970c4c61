"""Matrices: tokens by features, tokens by layers, and attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hookline.errors import HookTypeError
from hookline.looking.figures.ranges import scale_of
from hookline.looking.figures.sheet import Sheet, Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Limits = tuple[float, float] | None
_LABELS = 90


def matrix(
    value: Tensor,
    title: str,
    said: list[str],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    limits: Limits,
    theme: Theme,
    masked: bool = False,
    wide: int = 900,
) -> Figure:
    """Return one matrix with the names of its rows and columns.

    Args:
        value: float32, shape (rows, columns).
        title: what it is.
        said: what was chosen before.
        rows: names, or empty for numbers.
        columns: likewise.
        limits: the range of the colours.
        theme: of the ground.
        masked: whether exact zeros are masked.
        wide: at most so many pixels.
    """
    height, width = value.shape
    scale, words = scale_of(value, limits, theme, masked=masked)
    factor = max(1, min(26, (wide - _LABELS) // width, 620 // height))
    down = max(factor, min(16, 620 // height))
    below = 14 + (5 * max(map(len, columns)) if columns else 6)  # the names stand upright
    said = [*said, *words, f"enlarged {down} times downwards and {factor} times across, nearest"]
    if masked:
        said.append("grey: exactly 0, which a softmax gives only where it is masked")
    sheet = Sheet(_LABELS + width * factor, height * down + below, title, said, theme)
    axes = sheet.image(_LABELS, 0, scale.colours(value), factor, down=down)
    _name(axes, rows, height, along="y", room=down)
    _name(axes, columns, width, along="x", room=factor)
    for row, column in (~value.isfinite()).nonzero().tolist() if factor >= 7 else ():
        axes.text(column, row, "x", color="white", size=6, ha="center", va="center")
    sheet.colour_bar(scale)
    return sheet.figure


def heads(layers: Sequence[tuple[str, Tensor]], title: str, said: list[str], *, limits: Limits, theme: Theme) -> Figure:
    """Return small pictures of attention: a row for each layer, a column for each head.

    Args:
        layers: the address and the weights of each, float32, shape (head, query, key).
        title: what it is.
        said: what was chosen before.
        limits: the range of the colours.
        theme: of the ground.
    """
    scale, words = scale_of(torch.cat([weights.flatten() for _, weights in layers]), limits, theme, masked=True)
    most = max(weights.shape[0] for _, weights in layers)
    side = max(max(weights.shape[1:]) for _, weights in layers)
    factor = max(1, min(96, 900 // most - 10) // side)
    step = side * factor + 10
    said = [*said, *words, f"a row for each of {len(layers)} layers, a column for each head; query down, key across"]
    said.append("entropy in nats, and the share that goes to the first token, means over the queries")
    said.append("grey: exactly 0, which a softmax gives only where it is masked")
    sheet = Sheet(most * step, len(layers) * (step + 26), title, said, theme)
    for row, (address, weights) in enumerate(layers):
        for head, part in enumerate(weights):
            entropy = torch.special.entr(part).sum(-1).mean().item()
            first = part[:, 0].mean().item()
            caption = f"{head}: {entropy:.2f}, {first:.0%}"
            if len(layers) > 1:
                caption = f"{'' if head else address}\n{caption}"
            sheet.image(head * step, row * (step + 26), scale.colours(part), factor, caption=caption)
    sheet.colour_bar(scale)
    return sheet.figure


def _name(axes: Axes, names: Sequence[str], count: int, *, along: str, room: int) -> None:
    axis = axes.yaxis if along == "y" else axes.xaxis
    if names and len(names) != count:
        raise HookTypeError(
            f"there are {len(names)} names (tokens= or layers) for {count} entries of the {along} axis."
        )
    step = max(1, -(-11 // room)) if names else max(1, count // 8)
    at = list(range(0, count, step))
    rotation = 90 if along == "x" and names else 0
    axis.set_ticks(at, [names[index] if names else str(index) for index in at], rotation=rotation)
